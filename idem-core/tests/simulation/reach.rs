//! What must come about: a promise about something that never happens is worth nothing.

use std::collections::BTreeMap;
use std::fmt;

use idem_core::error::ErrorKind;
use idem_core::store::Fenced;

use crate::trace::{Event, Fault, Reply, Step, Told, Trace};

/// Everything that has to be seen in many worlds.
const ALL: [&str; 34] = [
    "a first claim",
    "a take-over or retry",
    "in flight",
    "a mismatch",
    "a replay",
    "an expired key refused",
    "an unknown outcome",
    "a completion",
    "a completion fenced off",
    "a claim given back",
    "a failure that stays bound",
    "a run whose outcome is unknown",
    "a release fenced off",
    "a renewal",
    "a renewal fenced off",
    "a zombie's look",
    "a step refused",
    "a step lost",
    "a reply broken",
    "a reply lost",
    "a slow step",
    "a slow reply",
    "a late step",
    "a full store",
    "a caller that goes away",
    "a panic",
    "a run aborted",
    "a lease lost",
    "an answer that could not be kept",
    "a process that dies",
    "a process cut off",
    "a clock that jumps",
    "a process that freezes",
    "an operator",
];

/// How often each thing came about.
#[derive(Debug, Default)]
pub(crate) struct Reach(BTreeMap<&'static str, u64>);

impl Reach {
    pub(crate) fn see(&mut self, trace: &Trace) {
        for what in trace.events().filter_map(what) {
            *self.0.entry(what).or_default() += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    pub(crate) fn missed(&self) -> Vec<&'static str> {
        ALL.into_iter().filter(|what| !self.0.contains_key(what)).collect()
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>10} {what}"))
    }
}

fn what(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Takes(step, _, reply) => return taken(*step, *reply),
        Event::Befalls(_, _, fault) => match fault {
            Fault::Refused => "a step refused",
            Fault::Lost => "a step lost",
            Fault::ReplyBroken => "a reply broken",
            Fault::ReplyLost => "a reply lost",
            Fault::Slow(_) => "a slow step",
            Fault::SlowReply(_) => "a slow reply",
            Fault::Late(_) => "a late step",
            Fault::Full => "a full store",
        },
        Event::GoesAway(..) => "a caller that goes away",
        Event::Hears(_, Told::Panicked) => "a panic",
        Event::Hears(_, Told::Refused(ErrorKind::Aborted)) => "a run aborted",
        Event::Hears(_, Told::Refused(ErrorKind::LeaseLost)) => "a lease lost",
        Event::Hears(_, Told::Refused(ErrorKind::AnswerUnavailable)) => "an answer that could not be kept",
        Event::Dies(_) => "a process that dies",
        Event::CutOff(_, true) => "a process cut off",
        Event::Jumps(_) => "a clock that jumps",
        Event::Freezes(_) => "a process that freezes",
        Event::Forgets(_) | Event::Settles(..) => "an operator",
        _ => return None,
    })
}

fn taken(step: Step, reply: Reply) -> Option<&'static str> {
    Some(match (step, reply) {
        (Step::Claim, Reply::Granted(1)) => "a first claim",
        (Step::Claim, Reply::Granted(_)) => "a take-over or retry",
        (Step::Claim, Reply::InFlight) => "in flight",
        (Step::Claim, Reply::Mismatch) => "a mismatch",
        (Step::Claim, Reply::Completed(_)) => "a replay",
        (Step::Claim, Reply::Expired) => "an expired key refused",
        (Step::Claim, Reply::Unknown) => "an unknown outcome",
        (Step::Complete, Reply::Fenced(Fenced::Held)) => "a completion",
        (Step::Complete, _) => "a completion fenced off",
        (Step::Undo, Reply::Fenced(Fenced::Held)) => "a claim given back",
        (Step::KeepBinding, Reply::Fenced(Fenced::Held)) => "a failure that stays bound",
        (Step::Unknown, Reply::Fenced(Fenced::Held)) => "a run whose outcome is unknown",
        (Step::Undo | Step::KeepBinding | Step::Unknown, _) => "a release fenced off",
        (Step::Renew, Reply::Fenced(Fenced::Held)) => "a renewal",
        (Step::Renew, _) => "a renewal fenced off",
        (Step::LookUp, _) => "a zombie's look",
        (Step::Claim, _) => return None,
    })
}
