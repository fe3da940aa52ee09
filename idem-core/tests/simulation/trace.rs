//! What happened in a simulation, in order, and its hash.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::store::Fenced;

/// Numbers a call; its owners are known by it.
pub(crate) type CallId = u32;

/// An owner, by its call: whoever was refused may claim again as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Claimant {
    pub(crate) call: CallId,
    pub(crate) turn: u32,
}

/// What a caller asks the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Claim,
    Complete,
    /// Of a claim under which nothing ran.
    Undo,
    KeepBinding,
    Unknown,
    Renew,
    LookUp,
}

/// What the store says; answers by the call that gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Granted(u32),
    InFlight,
    Completed(u64),
    Mismatch,
    Expired,
    Unknown,
    Fenced(Fenced),
    /// Of a look: whether there is a record.
    Seen(bool),
}

/// What a step goes through on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// It does not arrive, and somebody says so.
    Refused,
    /// It does not arrive, and nobody says so.
    Lost,
    /// It is taken, and the connection breaks.
    ReplyBroken,
    /// It is taken, and nobody hears of it.
    ReplyLost,
    /// It takes so many milliseconds to arrive.
    Slow(u32),
    /// It is taken at once, and its reply takes so many milliseconds.
    SlowReply(u32),
    /// It arrives so many milliseconds later, when its sender may have stopped waiting; the reply is lost.
    Late(u32),
    /// There is no room for it.
    Full,
}

/// What a caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Fresh(u64),
    FreshErr,
    Replayed(u64),
    Refused(ErrorKind),
    Panicked,
    /// Nothing: it went away, or its process died.
    Gone,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A caller asks, for a key and with a payload.
    Calls {
        call: CallId,
        process: u32,
        key: u32,
        payload: u32,
    },
    /// Something befalls the next step of a call.
    Befalls(Step, CallId, Fault),
    /// The store takes a step.
    Takes(Step, CallId, Reply),
    /// A handler begins, and which attempt it is told.
    Begins(CallId, u32),
    /// A handler has its effect.
    Acts(CallId),
    /// A handler ends.
    Ends(CallId),
    /// A caller goes away after so many polls.
    GoesAway(CallId, u32),
    Hears(CallId, Told),
    /// A process dies, with everything in it.
    Dies(u32),
    /// A process hears nothing of the store, or hears of it again.
    CutOff(u32, bool),
    /// The store's clock jumps ahead, in milliseconds.
    Jumps(u32),
    /// No process runs for so many milliseconds.
    Freezes(u32),
    Sweeps(u64),
    /// An operator forgets the record of a key, or gives it an answer.
    Forgets(u32),
    Settles(u32, u64),
    /// No faults from here on.
    Heals,
}

/// All that happened, with when it did.
#[derive(Debug, Default)]
pub(crate) struct Trace(Vec<(Duration, Event)>);

impl Trace {
    pub(crate) fn note(&mut self, at: Duration, event: Event) {
        self.0.push((at, event));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().map(|(_, event)| event)
    }

    /// The same for two simulations exactly if the same happened in both.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.to_string().hash(&mut hasher);
        hasher.finish()
    }
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(at, event)| writeln!(f, "{:>12.6} {event:?}", at.as_secs_f64()))
    }
}
