//! Broken stores: each does one thing wrong that others have shipped, and the simulation has to find it.

use std::collections::HashMap;
use std::time::Duration;

use idem_core::answer::{Answer, Codec};
use idem_core::owner::Owner;
use idem_core::policy::OnCrash;
use idem_core::record::{RecordId, State};
use idem_core::store::{Claim, Claimed, Fenced, Release, Settle, Store as _, StoreError};

use crate::op::{Op, Said, now};
use crate::promise::Promise;
use crate::world::World;

/// One fault, in an otherwise honest world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// `release` asks for a record in flight, not for its owner.
    ReleaseWithoutOwner,
    /// `complete` asks for a record in flight, not for its owner.
    CompleteWithoutOwner,
    /// `renew` asks for a record in flight, not for its owner.
    RenewWithoutOwner,
    /// The fence is the attempt, which starts again when a released key is claimed anew.
    CounterForOwner,
    /// A claim writes over whatever is there.
    UpsertForInsert,
    /// A claim reads, and a little later writes whatever is there by then.
    GetThenSet,
    /// A claim writes no lease: at once it looks like an orphan.
    NoLease,
    /// A claim has no deadline.
    LeaseForever,
    /// The lease is the expiry of the record: what lapses is gone, binding and attempt with it.
    LeaseIsTtl,
    /// The sweeper removes what is live.
    SweepLive,
    /// The sweeper removes nothing.
    SweepNothing,
    /// `complete` writes over an answer that is there.
    CompletionOverwrites,
    /// What is stored is not what was answered.
    AnswerGarbled,
    /// A failed record is removed, its binding with it.
    FailureForgets,
    /// A claim given back unused takes the binding of earlier attempts with it.
    UndoForgetsEarlier,
    /// Who retries is not asked for its payload.
    MismatchSkipped,
    /// `on_crash = reject` is taken for `retry`.
    OnCrashIgnored,
    /// An unknown outcome is free to run again.
    UnknownIsFailed,
    /// An answer is gone before its time.
    TtlShort,
    /// An answer is there for longer than its time.
    TtlLong,
    /// The owner's own repeated claim is told that somebody holds the key.
    RepeatedClaimRefused,
    /// The owner's own repeated completion is told that it lost.
    RepeatedCompleteRefused,
    /// A take-over is told the attempt of the one before.
    TakeOverKeepsAttempt,
    /// The engine takes "in flight" for a grant.
    InFlightRuns,
    /// The engine takes "unknown" for a grant.
    UnknownRuns,
    /// The engine replays the answer of somebody else.
    OtherReplayed,
    /// The engine takes a completion for done that was never sent.
    CompletionForgotten,
    /// The engine tells a mismatch to whom it should tell "in flight".
    InFlightIsMismatch,
    /// Handlers may hang for ever.
    NoCeiling,
}

/// What a broken store remembers besides its records.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    claims: HashMap<Owner, (Claim, u32)>,
    holder: HashMap<RecordId, Owner>,
    saw_nothing: HashMap<Owner, bool>,
}

const AGES: Duration = Duration::from_hours(24 * 365);

impl Broken {
    pub(crate) const ALL: [Self; 29] = [
        Self::ReleaseWithoutOwner,
        Self::CompleteWithoutOwner,
        Self::RenewWithoutOwner,
        Self::CounterForOwner,
        Self::UpsertForInsert,
        Self::GetThenSet,
        Self::NoLease,
        Self::LeaseForever,
        Self::LeaseIsTtl,
        Self::SweepLive,
        Self::SweepNothing,
        Self::CompletionOverwrites,
        Self::AnswerGarbled,
        Self::FailureForgets,
        Self::UndoForgetsEarlier,
        Self::MismatchSkipped,
        Self::OnCrashIgnored,
        Self::UnknownIsFailed,
        Self::TtlShort,
        Self::TtlLong,
        Self::RepeatedClaimRefused,
        Self::RepeatedCompleteRefused,
        Self::TakeOverKeepsAttempt,
        Self::InFlightRuns,
        Self::UnknownRuns,
        Self::OtherReplayed,
        Self::CompletionForgotten,
        Self::InFlightIsMismatch,
        Self::NoCeiling,
    ];

    /// The promise that it was made to break; it may break others, too.
    pub(crate) fn breaks(self) -> Promise {
        match self {
            Self::ReleaseWithoutOwner
            | Self::CompleteWithoutOwner
            | Self::RenewWithoutOwner
            | Self::CounterForOwner
            | Self::CompletionOverwrites => Promise::StaleOwner,
            Self::GetThenSet | Self::NoLease | Self::SweepLive => Promise::OneLease,
            Self::UpsertForInsert | Self::TtlShort | Self::TtlLong => Promise::WholeTtl,
            Self::LeaseForever => Promise::NotForEver,
            Self::SweepNothing => Promise::Swept,
            Self::AnswerGarbled => Promise::OneAnswer,
            Self::FailureForgets | Self::UndoForgetsEarlier | Self::MismatchSkipped | Self::LeaseIsTtl => {
                Promise::Bound
            }
            Self::OnCrashIgnored | Self::UnknownIsFailed => Promise::RejectOnce,
            Self::RepeatedClaimRefused | Self::RepeatedCompleteRefused | Self::TakeOverKeepsAttempt => {
                Promise::Repeatable
            }
            Self::InFlightRuns | Self::UnknownRuns => Promise::OnlyGranted,
            Self::OtherReplayed => Promise::TrueReplay,
            Self::CompletionForgotten => Promise::AnswerStored,
            Self::InFlightIsMismatch => Promise::TrueRefusal,
            Self::NoCeiling => Promise::AllEnds,
        }
    }

    /// Lets time pass between the halves of a step that should be one.
    pub(crate) async fn dawdle(self, world: &World, id: &RecordId, op: &Op) {
        if let (Self::GetThenSet, Op::Claim(claim)) = (self, op) {
            let nothing = matches!(world.honest(id, &Op::LookUp), Ok(Said::Record(None)));
            world.state().memory.saw_nothing.insert(claim.owner, nothing);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Takes a step wrongly; `None` if it takes this one as it should.
    pub(crate) fn act(self, world: &World, id: &RecordId, op: &Op) -> Option<Result<Said, StoreError>> {
        match op {
            Op::Claim(claim) => Some(self.claim(world, id, claim)),
            Op::Complete(owner, answer, retention) => {
                let mut retention = *retention;
                match self {
                    Self::TtlShort => retention.ttl /= 2,
                    Self::TtlLong => retention.ttl *= 2,
                    _ => {}
                }
                let answer = match self {
                    Self::AnswerGarbled => Answer::json(Codec::JsonOk, &0).ok()?,
                    _ => answer.clone(),
                };
                let completed = state(world, id) == Some(State::Completed);
                if completed && self == Self::RepeatedCompleteRefused {
                    return Some(Ok(Said::Fenced(Fenced::Lost)));
                }
                if completed && self == Self::CompletionOverwrites {
                    let (claim, _) = world.state().memory.claims.get(owner).cloned()?;
                    forget(world, id);
                    world.honest(id, &Op::Claim(claim)).ok()?;
                }
                let owner = self.who(Self::CompleteWithoutOwner, world, id, *owner);
                Some(world.honest(id, &Op::Complete(owner, answer, retention)))
            }
            Op::Release(owner, how) => {
                let owner = self.who(Self::ReleaseWithoutOwner, world, id, *owner);
                let how = match (self, *how) {
                    (Self::UnknownIsFailed, Release::Unknown) => Release::KeepBinding(AGES),
                    (_, how) => how,
                };
                let said = world.honest(id, &Op::Release(owner, how));
                let forgets = match how {
                    Release::Undo(_) => self == Self::UndoForgetsEarlier,
                    Release::KeepBinding(_) => self == Self::FailureForgets,
                    Release::Unknown => false,
                };
                if forgets && matches!(said, Ok(Said::Fenced(Fenced::Held))) {
                    forget(world, id);
                }
                Some(said)
            }
            Op::Renew(owner, lease) => {
                let owner = self.who(Self::RenewWithoutOwner, world, id, *owner);
                let lease = if self == Self::LeaseForever { AGES } else { *lease };
                Some(world.honest(id, &Op::Renew(owner, lease)))
            }
            Op::LookUp => None,
        }
    }

    fn claim(self, world: &World, id: &RecordId, claim: &Claim) -> Result<Said, StoreError> {
        let mut asked = claim.clone();
        match self {
            Self::NoLease => asked.lease = Duration::ZERO,
            Self::LeaseForever => asked.lease = AGES,
            Self::LeaseIsTtl => asked.binding = Duration::ZERO,
            Self::OnCrashIgnored => asked.on_crash = OnCrash::Retry,
            Self::MismatchSkipped => asked.rebind = true,
            _ => {}
        }
        let holder = world.state().memory.holder.get(id).copied();
        let forgets = match self {
            Self::UpsertForInsert => holder != Some(claim.owner),
            Self::GetThenSet => world.state().memory.saw_nothing.get(&claim.owner) == Some(&true),
            _ => false,
        };
        if forgets {
            forget(world, id);
        }
        let in_flight = state(world, id) == Some(State::InFlight);
        if self == Self::RepeatedClaimRefused && in_flight && holder == Some(claim.owner) {
            return Ok(Said::Claimed(Claimed::InFlight { lease_left: claim.lease }));
        }
        let mut said = world.honest(id, &Op::Claim(asked))?;
        if let Said::Claimed(Claimed::Granted { attempt }) = &mut said {
            let memory = &mut world.state().memory;
            memory.claims.insert(claim.owner, (claim.clone(), *attempt));
            memory.holder.insert(id.clone(), claim.owner);
            if self == Self::TakeOverKeepsAttempt {
                *attempt = 1;
            }
        }
        Ok(said)
    }

    /// Whom the fence takes this owner for.
    fn who(self, lax: Self, world: &World, id: &RecordId, owner: Owner) -> Owner {
        let memory = &world.state().memory;
        let Some(holder) = memory.holder.get(id) else { return owner };
        let attempt = |owner| memory.claims.get(owner).map(|(_, attempt)| *attempt);
        let same_attempt = self == Self::CounterForOwner && attempt(&owner) == attempt(holder);
        if self == lax || same_attempt { *holder } else { owner }
    }

    /// What the engine is told of a claim.
    pub(crate) fn lie(self, claimed: Claimed) -> Claimed {
        match (self, claimed) {
            (Self::InFlightRuns, Claimed::InFlight { .. }) | (Self::UnknownRuns, Claimed::Unknown) => {
                Claimed::Granted { attempt: 1 }
            }
            (Self::InFlightIsMismatch, Claimed::InFlight { .. }) => Claimed::Mismatch,
            (Self::OtherReplayed, Claimed::Completed { answer, expires_in }) => {
                let answer = Answer::json(Codec::JsonOk, &0).unwrap_or(answer);
                Claimed::Completed { answer, expires_in }
            }
            (_, claimed) => claimed,
        }
    }
}

fn state(world: &World, id: &RecordId) -> Option<State> {
    match world.honest(id, &Op::LookUp) {
        Ok(Said::Record(record)) => record.map(|record| record.state),
        _ => None,
    }
}

fn forget(world: &World, id: &RecordId) {
    let _ = now(world.store.settle(id, &Settle::Forget));
}
