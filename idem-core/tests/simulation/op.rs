//! One step of the store: taken as it should be, or by a broken store, and told to the witness.

use std::time::Duration;

use futures_util::FutureExt as _;
use idem_core::answer::{Answer, AnswerKind};
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId};
use idem_core::store::{Claim, Claimed, Fenced, Release, Retention, Store as _, StoreError};

use crate::trace::{CallId, Claimant, Event, Reply, Step};
use crate::world::World;

/// What is asked of the store.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Claim(Claim),
    Complete(Owner, Answer, Retention),
    Release(Owner, Release),
    Renew(Owner, Duration),
    LookUp,
}

/// What it says.
#[derive(Debug)]
pub(crate) enum Said {
    Claimed(Claimed),
    Fenced(Fenced),
    Record(Option<Record>),
}

/// An answer that says only that the work is done.
pub(crate) const TOMBSTONE: u64 = 1 << 40;
/// Not an answer that was ever given.
const GARBLED: u64 = 1 << 41;

/// An answer by its number.
pub(crate) fn number(answer: &Answer) -> u64 {
    match answer.open() {
        Ok((AnswerKind::Tombstone, ..)) => TOMBSTONE,
        Ok((AnswerKind::Full, _, bytes)) => serde_json::from_slice(&bytes).unwrap_or(GARBLED),
        Err(_) => GARBLED,
    }
}

impl Op {
    pub(crate) fn step(&self) -> Step {
        match self {
            Self::Claim(_) => Step::Claim,
            Self::Complete(..) => Step::Complete,
            Self::Release(_, Release::Undo(_)) => Step::Undo,
            Self::Release(_, Release::KeepBinding(_)) => Step::KeepBinding,
            Self::Release(_, Release::Unknown) => Step::Unknown,
            Self::Renew(..) => Step::Renew,
            Self::LookUp => Step::LookUp,
        }
    }

    fn is_fenced(&self) -> bool {
        matches!(self, Self::Complete(..) | Self::Release(..) | Self::Renew(..))
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        match self {
            Self::Claim(claim) => Some(claim.owner),
            Self::Complete(owner, ..) | Self::Release(owner, _) | Self::Renew(owner, _) => Some(*owner),
            Self::LookUp => None,
        }
    }
}

/// Marks a claim with its call: in nanoseconds of its lease, which nothing else uses.
pub(crate) fn marked(lease: Duration, call: CallId) -> Duration {
    lease + Duration::from_nanos(u64::from(call))
}

fn call_of(claim: &Claim) -> CallId {
    claim.lease.subsec_nanos() % 1_000_000
}

impl World {
    /// Whose step it is; nobody's for a look, which has no owner.
    pub(crate) fn claimant(&self, op: &Op) -> Claimant {
        let mut state = self.state();
        let owners = &mut state.owners;
        let Some(owner) = op.owner() else { return Claimant::default() };
        if let (Op::Claim(claim), None) = (op, owners.get(&owner)) {
            let call = call_of(claim);
            let turn = owners.values().filter(|known| known.call == call).count() as u32;
            owners.insert(owner, Claimant { call, turn });
        }
        owners.get(&owner).copied().unwrap_or_default()
    }

    /// Takes a step: at once, since the store is in memory, and at one moment of its clock.
    pub(crate) fn take(&self, id: &RecordId, op: &Op) -> Result<Said, StoreError> {
        let by = self.claimant(op);
        let before = op.is_fenced().then(|| self.sight(id));
        let said = self.act(id, op)?;
        let changed = before.is_some_and(|before| before != self.sight(id));
        let reply = reply(&said);
        self.tell(Event::Takes(op.step(), by.call, reply), |witness, now| match (op, reply) {
            (Op::Claim(claim), told) => witness.claimed(by, claim.lease, now, told),
            (Op::Complete(_, answer, retention), Reply::Fenced(told)) => {
                witness.completed(by, number(answer), *retention, now, told, changed);
            }
            (Op::Release(_, how), Reply::Fenced(told)) => witness.released(by, *how, now, told, changed),
            (Op::Renew(_, lease), Reply::Fenced(told)) => witness.renewed(by, *lease, now, told, changed),
            _ => {}
        });
        Ok(said)
    }

    fn act(&self, id: &RecordId, op: &Op) -> Result<Said, StoreError> {
        if let Some(broken) = self.broken
            && let Some(said) = broken.act(self, id, op)
        {
            return said;
        }
        self.honest(id, op)
    }

    /// What the memory store makes of it.
    pub(crate) fn honest(&self, id: &RecordId, op: &Op) -> Result<Said, StoreError> {
        let store = &self.store;
        match op {
            Op::Claim(claim) => now(store.claim(id, claim)).map(Said::Claimed),
            Op::Complete(owner, answer, retention) => {
                now(store.complete(id, *owner, answer, *retention)).map(Said::Fenced)
            }
            Op::Release(owner, how) => now(store.release(id, *owner, *how)).map(Said::Fenced),
            Op::Renew(owner, lease) => now(store.renew(id, *owner, *lease)).map(Said::Fenced),
            Op::LookUp => now(store.look_up(id)).map(Said::Record),
        }
    }

    /// All that can be seen of a record.
    fn sight(&self, id: &RecordId) -> Option<impl PartialEq + use<>> {
        let record = now(self.store.look_up(id)).ok().flatten()?;
        Some((record.state, record.attempt, record.lease_left, record.expires_in, record.answer))
    }
}

/// The result of a step that does not wait.
pub(crate) fn now<T>(step: impl Future<Output = T>) -> T {
    step.now_or_never().expect("a store in memory has nothing to wait for")
}

fn reply(said: &Said) -> Reply {
    match said {
        Said::Claimed(Claimed::Granted { attempt }) => Reply::Granted(*attempt),
        Said::Claimed(Claimed::InFlight { .. }) => Reply::InFlight,
        Said::Claimed(Claimed::Completed { answer, .. }) => Reply::Completed(number(answer)),
        Said::Claimed(Claimed::Mismatch | Claimed::Incomparable) => Reply::Mismatch,
        Said::Claimed(Claimed::Expired) => Reply::Expired,
        Said::Claimed(Claimed::Unknown) => Reply::Unknown,
        Said::Fenced(fenced) => Reply::Fenced(*fenced),
        Said::Record(record) => Reply::Seen(record.is_some()),
    }
}
