//! The witness: knows what each step of the store was and when, and draws its own conclusions.
//!
//! It never looks into a record, so that a broken store cannot talk it round.

use std::collections::HashMap;
use std::time::Duration;

use idem_core::policy::OnCrash;
use idem_core::store::{Fenced, Release, Retention};

use crate::promise::Promise;
use crate::trace::{CallId, Claimant, Reply};

/// What has to be stored for one key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Truth {
    Absent,
    Held { by: Claimant, attempt: u32, until: Duration, gone: Duration },
    Failed { attempt: u32, until: Duration },
    Answered { by: Option<Claimant>, answer: u64, until: Duration, refused_until: Duration },
    Unknown,
}

#[derive(Debug)]
struct Key {
    truth: Truth,
    payload: u32,
    /// Counts lifetimes: each begins with a claim that finds nothing.
    life: u32,
    /// How many handlers of this life began and have not said that they may run again.
    begun: u32,
    /// Every answer that was stored, from when until when.
    answers: Vec<(u64, Duration, Duration)>,
    /// Every payload that it was ever bound to.
    payloads: Vec<u32>,
}

/// How far a handler got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handler {
    Waits,
    Begun,
    Acted,
}

/// What is known of a call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) key: usize,
    pub(crate) payload: u32,
    pub(crate) process: u32,
    pub(crate) since: Duration,
    life: u32,
    attempt: u32,
    /// Its claim that was granted, and neither completed nor released since.
    stands: Option<Claimant>,
    handler: Handler,
    /// When its handler ended with an answer.
    answered: Option<Duration>,
    completed: bool,
}

#[derive(Debug)]
pub(crate) struct Witness {
    on_crash: OnCrash,
    ttl: Duration,
    keys: Vec<Key>,
    calls: HashMap<CallId, Call>,
    /// The first promise that was broken. What follows from there on is not worth looking at.
    broken: Option<(Promise, String)>,
}

impl Witness {
    pub(crate) fn new(keys: u32, on_crash: OnCrash, ttl: Duration) -> Self {
        let key = |_| Key {
            truth: Truth::Absent,
            payload: 0,
            life: 0,
            begun: 0,
            answers: Vec::new(),
            payloads: Vec::new(),
        };
        Self { on_crash, ttl, keys: (0..keys).map(key).collect(), calls: HashMap::new(), broken: None }
    }

    pub(crate) fn broken(&self) -> Option<&(Promise, String)> {
        self.broken.as_ref()
    }

    pub(crate) fn breaks(&mut self, promise: Promise, how: impl Into<String>) {
        self.broken.get_or_insert_with(|| (promise, how.into()));
    }

    fn holds(&mut self, promise: Promise, holds: bool, how: impl FnOnce() -> String) {
        if !holds {
            self.breaks(promise, how());
        }
    }

    pub(crate) fn calls(&mut self, call: CallId, process: u32, key: u32, payload: u32, now: Duration) {
        let call_truth = Call {
            key: key as usize,
            payload,
            process,
            since: now,
            life: 0,
            attempt: 0,
            stands: None,
            handler: Handler::Waits,
            answered: None,
            completed: false,
        };
        self.calls.insert(call, call_truth);
    }

    pub(crate) fn call(&self, call: CallId) -> &Call {
        &self.calls[&call]
    }

    /// What a record is by now.
    fn at(&self, key: usize, now: Duration) -> Truth {
        match self.keys[key].truth {
            Truth::Held { gone, .. } if gone <= now => Truth::Absent,
            Truth::Failed { until, .. } if until <= now => Truth::Absent,
            Truth::Answered { refused_until, .. } if refused_until <= now => Truth::Absent,
            truth => truth,
        }
    }

    /// What a claim has to be told.
    fn due(&self, claimant: Claimant, now: Duration) -> Reply {
        let Call { key, payload, .. } = *self.call(claimant.call);
        let truth = self.at(key, now);
        match truth {
            Truth::Absent => return Reply::Granted(1),
            Truth::Answered { until, .. } if until <= now => return Reply::Expired,
            _ if self.keys[key].payload != payload => return Reply::Mismatch,
            _ => {}
        }
        match truth {
            Truth::Held { by, attempt, .. } if by == claimant => Reply::Granted(attempt),
            Truth::Held { until, .. } if until > now => Reply::InFlight,
            Truth::Held { .. } if self.on_crash == OnCrash::Reject => Reply::Unknown,
            Truth::Held { attempt, .. } | Truth::Failed { attempt, .. } => Reply::Granted(attempt + 1),
            Truth::Answered { answer, .. } => Reply::Completed(answer),
            Truth::Unknown => Reply::Unknown,
            Truth::Absent => Reply::Granted(1),
        }
    }

    pub(crate) fn claimed(&mut self, claimant: Claimant, lease: Duration, now: Duration, told: Reply) {
        let due = self.due(claimant, now);
        if told != due {
            let holder = self.attempt_of_holder(claimant, now).is_some();
            let promise = match (due, told) {
                (Reply::InFlight, Reply::Granted(_)) => Promise::OneLease,
                (Reply::Mismatch, _) | (_, Reply::Mismatch) => Promise::Bound,
                (Reply::Completed(_), Reply::Completed(_)) => Promise::OneAnswer,
                (Reply::Unknown, Reply::Granted(_)) => Promise::RejectOnce,
                (Reply::Completed(_) | Reply::Expired, _) | (_, Reply::Completed(_) | Reply::Expired) => {
                    Promise::WholeTtl
                }
                (Reply::Granted(_), Reply::InFlight) if !holder => Promise::NotForEver,
                _ => Promise::Repeatable,
            };
            return self.breaks(promise, format!("a claim is told {told:?}, not {due:?}"));
        }
        let Reply::Granted(attempt) = told else { return };
        let Call { key, payload, .. } = *self.call(claimant.call);
        if self.at(key, now) == Truth::Absent {
            let key = &mut self.keys[key];
            (key.life, key.begun, key.payload) = (key.life + 1, 0, payload);
            key.payloads.push(payload);
        }
        let life = self.keys[key].life;
        self.keys[key].truth = self.held(claimant, attempt, lease, now);
        // What comes late for an earlier owner says nothing of a later one.
        if let Some(call) = self.calls.get_mut(&claimant.call)
            && call.stands.is_none_or(|stands| stands.turn <= claimant.turn)
        {
            (call.life, call.attempt, call.stands) = (life, attempt, Some(claimant));
        }
    }

    fn held(&self, by: Claimant, attempt: u32, lease: Duration, now: Duration) -> Truth {
        let until = now + lease;
        let gone = if self.on_crash == OnCrash::Reject { Duration::MAX } else { until + self.ttl };
        Truth::Held { by, attempt, until, gone }
    }

    fn attempt_of_holder(&self, claimant: Claimant, now: Duration) -> Option<u32> {
        match self.at(self.call(claimant.call).key, now) {
            Truth::Held { by, attempt, .. } if by == claimant => Some(attempt),
            _ => None,
        }
    }

    /// Whether a fenced step was answered as it had to be, and took place.
    fn fenced(&mut self, Claimant { call, .. }: Claimant, due: bool, told: Fenced, changed: bool) -> bool {
        let held = told == Fenced::Held;
        self.holds(Promise::StaleOwner, due || !held, || {
            format!("{call} holds nothing, and is told otherwise")
        });
        self.holds(Promise::StaleOwner, held || !changed, || {
            format!("{call} is told lost, and changed a record")
        });
        self.holds(Promise::Repeatable, !due || held, || format!("{call} holds the key, and is told lost"));
        due && held
    }

    pub(crate) fn completed(
        &mut self,
        claimant: Claimant,
        answer: u64,
        retention: Retention,
        now: Duration,
        told: Fenced,
        changed: bool,
    ) {
        let key = self.call(claimant.call).key;
        let holds = self.attempt_of_holder(claimant, now).is_some();
        let repeats = matches!(
            self.at(key, now),
            Truth::Answered { by: Some(by), until, .. } if by == claimant && until > now
        );
        if self.fenced(claimant, holds || repeats, told, changed) && holds {
            self.answered(key, Some(claimant), answer, retention, now);
            if let Some(call) = self.calls.get_mut(&claimant.call) {
                (call.stands, call.completed) = (None, true);
            }
        }
    }

    fn answered(
        &mut self,
        key: usize,
        by: Option<Claimant>,
        answer: u64,
        retention: Retention,
        now: Duration,
    ) {
        let until = now + retention.ttl;
        let refused_until = until + retention.tombstone_ttl.unwrap_or_default();
        self.keys[key].truth = Truth::Answered { by, answer, until, refused_until };
        self.keys[key].answers.push((answer, now, until));
    }

    pub(crate) fn released(
        &mut self,
        claimant: Claimant,
        how: Release,
        now: Duration,
        told: Fenced,
        changed: bool,
    ) {
        let holder = self.attempt_of_holder(claimant, now);
        if let (true, Some(attempt)) = (self.fenced(claimant, holder.is_some(), told, changed), holder) {
            let key = self.call(claimant.call).key;
            self.keys[key].truth = match how {
                Release::Undo(_) if attempt == 1 => Truth::Absent,
                Release::Undo(span) | Release::KeepBinding(span) => {
                    Truth::Failed { attempt, until: now + span }
                }
                Release::Unknown => Truth::Unknown,
            };
            if let Some(call) = self.calls.get_mut(&claimant.call) {
                call.stands.take_if(|stands| *stands == claimant);
            }
        }
    }

    pub(crate) fn renewed(
        &mut self,
        claimant: Claimant,
        lease: Duration,
        now: Duration,
        told: Fenced,
        changed: bool,
    ) {
        let holder = self.attempt_of_holder(claimant, now);
        if let (true, Some(attempt)) = (self.fenced(claimant, holder.is_some(), told, changed), holder) {
            let key = self.call(claimant.call).key;
            self.keys[key].truth = self.held(claimant, attempt, lease, now);
        }
    }

    pub(crate) fn forgotten(&mut self, key: usize) {
        self.keys[key].truth = Truth::Absent;
    }

    pub(crate) fn settled(
        &mut self,
        key: usize,
        answer: u64,
        retention: Retention,
        now: Duration,
        done: bool,
    ) {
        let due = match self.at(key, now) {
            Truth::Held { until, .. } => until <= now,
            Truth::Failed { .. } | Truth::Unknown => true,
            Truth::Absent | Truth::Answered { .. } => false,
        };
        self.holds(Promise::OneAnswer, due == done, || format!("settled: {done}, to be settled: {due}"));
        if due && done {
            self.answered(key, None, answer, retention, now);
        }
    }

    pub(crate) fn begins(&mut self, call: CallId, attempt: u32) {
        let Call { key, life, attempt: granted, stands, handler, .. } = *self.call(call);
        self.holds(
            Promise::OnlyGranted,
            stands.is_some() && handler == Handler::Waits && granted == attempt,
            || {
                format!(
                    "{call} runs as attempt {attempt}; granted: {}, as {granted}; before: {handler:?}",
                    stands.is_some()
                )
            },
        );
        if self.keys[key].life == life {
            self.keys[key].begun += 1;
            let once = self.on_crash == OnCrash::Retry || self.keys[key].begun == 1;
            self.holds(Promise::RejectOnce, once, || format!("{call} runs what may have run before"));
        }
        if let Some(call) = self.calls.get_mut(&call) {
            call.handler = Handler::Begun;
        }
    }

    pub(crate) fn acts(&mut self, call: CallId) {
        let Call { stands, handler, .. } = *self.call(call);
        self.holds(Promise::OnlyGranted, stands.is_some() && handler == Handler::Begun, || {
            format!("{call} acts though its claim was given back, or twice")
        });
        if let Some(call) = self.calls.get_mut(&call) {
            call.handler = Handler::Acted;
        }
    }

    /// A handler says that it may run again.
    pub(crate) fn excuses(&mut self, call: CallId) {
        let Call { key, life, .. } = *self.call(call);
        if self.keys[key].life == life {
            self.keys[key].begun -= 1;
        }
    }

    pub(crate) fn answers(&mut self, call: CallId, now: Duration) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.answered = Some(now);
        }
    }

    /// A caller is told an answer that was stored before.
    pub(crate) fn replays(&mut self, call: CallId, answer: u64, now: Duration) {
        let Call { key, since, .. } = *self.call(call);
        let stored = self.keys[key].answers.iter();
        let stored =
            stored.clone().any(|(known, from, until)| *known == answer && *from <= now && *until > since);
        self.holds(Promise::TrueReplay, stored, || format!("{call} is told {answer}, which is not stored"));
    }

    /// Whether the key was ever bound to a payload that this call does not have.
    pub(crate) fn was_bound_to_another(&self, call: CallId) -> bool {
        let Call { key, payload, .. } = *self.call(call);
        self.keys[key].payloads.iter().any(|bound| *bound != payload)
    }

    pub(crate) fn has_answer(&self, call: CallId, answer: u64) -> bool {
        self.keys[self.call(call).key].answers.iter().any(|(known, ..)| *known == answer)
    }

    /// What the key is bound to.
    pub(crate) fn payload_of(&self, key: usize) -> u32 {
        self.keys[key].payload
    }

    /// After the last fault, and when nothing is under way any more: answers of handlers that were not overtaken.
    pub(crate) fn are_stored(&mut self, now: Duration, since: impl Fn(u32) -> Option<Duration>) {
        let lost = self.calls.iter().filter(|(number, call)| {
            let holds = matches!(self.at(call.key, now), Truth::Held { by, .. } if by.call == **number);
            let late = since(call.process);
            holds && !call.completed && call.answered.zip(late).is_some_and(|(at, from)| at >= from)
        });
        if let Some(number) = lost.map(|(number, _)| *number).min() {
            self.breaks(Promise::AnswerStored, format!("{number} answered, and its answer was never stored"));
        }
    }
}
