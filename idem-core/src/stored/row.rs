//! Rows: a record as a store's server holds it, and what a claim may do with it.

use crate::answer::Answer;
use crate::fingerprint::{Comparison, Fingerprint};
use crate::key::KeyHint;
use crate::owner::Owner;
use crate::record::{Record, State};
use crate::store::{Claim, Claimed, OnCrash};

use super::span::{self, NEVER};

/// A record that is not gone, with the server's now. Times are microseconds, and [`NEVER`] is the end of what does not end.
#[derive(Debug, Clone)]
pub struct Row {
    /// The operation, in clear.
    pub operation: String,
    /// The first characters of the key.
    pub hint: KeyHint,
    /// The part of its state that is written.
    pub phase: Phase,
    /// What it is bound to.
    pub fingerprint: Fingerprint,
    /// Who claimed it last; nobody that there is, if an operator settled it.
    pub owner: Owner,
    /// How many times the work was begun.
    pub attempt: u32,
    /// What its last holder said is to happen if it crashes.
    pub on_crash: OnCrash,
    /// When the first attempt was granted.
    pub created_at: i64,
    /// When the lease ends; of no meaning unless in flight.
    pub lease_until: i64,
    /// When it is no longer replayed, or free and unbound.
    pub expires_at: i64,
    /// When it is absent; later than its expiry if it then is refused for a while.
    pub gone_at: i64,
    /// Read only where it is asked for.
    pub answer: Option<Answer>,
    /// The time of the server when it was read.
    pub now: i64,
}

/// The part of a state that is written; the rest is a matter of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Claimed: in flight, or lapsed, or unknown once that.
    InFlight,
    /// Failed, and free.
    Failed,
    /// Completed: replayed, or refused once its expiry is over.
    Completed,
    /// Of unknown outcome.
    Unknown,
}

impl Phase {
    /// Its name where it is written as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::Unknown => "unknown",
        }
    }

    /// The phase of that name.
    pub fn from_name(text: &str) -> Option<Self> {
        [Self::InFlight, Self::Failed, Self::Completed, Self::Unknown]
            .into_iter()
            .find(|p| p.as_str() == text)
    }
}

/// What a claim may do with a row.
#[derive(Debug)]
pub enum Judgement {
    /// Nothing; this is its answer.
    Refused(Claimed),
    /// Take it over, if it is still as it was found.
    Free {
        /// Which attempt it then is.
        attempt: u32,
        /// What the record is bound to then.
        fingerprint: Fingerprint,
    },
    /// Nothing: it is completed, and its answer is not there.
    Unreadable,
}

impl Row {
    /// Where the record stands.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::InFlight if self.lease_until > self.now => State::InFlight,
            Phase::InFlight if self.on_crash == OnCrash::Reject => State::Unknown,
            Phase::InFlight => State::Lapsed,
            Phase::Failed => State::Failed,
            Phase::Completed if self.expires_at > self.now => State::Completed,
            Phase::Completed => State::Expired,
            Phase::Unknown => State::Unknown,
        }
    }

    /// Whether a claim may be granted it.
    pub fn is_free(&self) -> bool {
        matches!(self.state(), State::Failed | State::Lapsed)
    }

    /// Decides a claim, in the order of the contract: expiry, fingerprint, state.
    pub fn judge(&self, claim: &Claim) -> Judgement {
        let state = self.state();
        if state == State::Expired {
            return Judgement::Refused(Claimed::Expired);
        }
        let rebinds = claim.rebind && state == State::Failed;
        if !rebinds {
            match claim.fingerprints.compare(&self.fingerprint) {
                Comparison::Same => {}
                Comparison::Different => return Judgement::Refused(Claimed::Mismatch),
                Comparison::Incomparable => return Judgement::Refused(Claimed::Incomparable),
            }
        }
        let holds = self.phase == Phase::InFlight && self.owner == claim.owner;
        let next = self.attempt.saturating_add(1);
        match state {
            // A claim whose acknowledgement was lost, made again.
            _ if holds => Judgement::Free { attempt: self.attempt, fingerprint: self.fingerprint },
            State::InFlight => {
                Judgement::Refused(Claimed::InFlight { lease_left: span::left(self.now, self.lease_until) })
            }
            State::Lapsed => Judgement::Free { attempt: next, fingerprint: self.fingerprint },
            State::Failed => {
                let fingerprint = if rebinds { *claim.fingerprints.current() } else { self.fingerprint };
                Judgement::Free { attempt: next, fingerprint }
            }
            State::Completed => match &self.answer {
                Some(answer) => Judgement::Refused(Claimed::Completed {
                    answer: answer.clone(),
                    expires_in: span::left(self.now, self.expires_at),
                }),
                None => Judgement::Unreadable,
            },
            _ => Judgement::Refused(Claimed::Unknown),
        }
    }

    /// The record as the contract shows it.
    pub fn into_record(self) -> Record {
        let state = self.state();
        let ends = if state == State::Expired { self.gone_at } else { self.expires_at };
        let left = |end: i64| (end != NEVER).then(|| span::left(self.now, end));
        Record {
            state,
            operation: self.operation,
            hint: self.hint,
            fingerprint: self.fingerprint,
            attempt: self.attempt,
            age: span::between(self.created_at, self.now),
            lease_left: (state == State::InFlight).then(|| span::left(self.now, self.lease_until)),
            expires_in: left(ends),
            answer: if state == State::Completed { self.answer } else { None },
        }
    }
}
