//! Rows: a record as the database holds it, and what a claim may do with it.

use idem_core::answer::Answer;
use idem_core::fingerprint::{Comparison, Fingerprint};
use idem_core::key::KeyHint;
use idem_core::owner::Owner;
use idem_core::record::{Record, State};
use idem_core::store::{Claim, Claimed, OnCrash};

use crate::span::{self, NEVER};

/// A record that is not gone, with the database's now. Times are microseconds.
#[derive(Debug, Clone)]
pub struct Row {
    pub(crate) operation: String,
    pub(crate) hint: KeyHint,
    pub(crate) phase: Phase,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) owner: Owner,
    pub(crate) attempt: u32,
    pub(crate) on_crash: OnCrash,
    pub(crate) created_at: i64,
    pub(crate) lease_until: i64,
    pub(crate) expires_at: i64,
    pub(crate) gone_at: i64,
    /// Read only where it is asked for.
    pub(crate) answer: Option<Answer>,
    pub(crate) now: i64,
}

/// The part of a state that is written; the rest is a matter of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    InFlight,
    Failed,
    Completed,
    Unknown,
}

impl Phase {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) fn from_str(text: &str) -> Option<Self> {
        [Self::InFlight, Self::Failed, Self::Completed, Self::Unknown]
            .into_iter()
            .find(|p| p.as_str() == text)
    }
}

/// What a claim may do with a row.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// Nothing; this is its answer.
    Refused(Claimed),
    /// Take it over, if it is still as it was found.
    Free { attempt: u32, fingerprint: Fingerprint },
    /// Nothing: it is completed, and its answer is not there.
    Unreadable,
}

impl Row {
    /// Where the record stands.
    pub(crate) fn state(&self) -> State {
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
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state(), State::Failed | State::Lapsed)
    }

    /// Decides a claim, in the order of the contract: expiry, fingerprint, state.
    pub(crate) fn judge(&self, claim: &Claim) -> Judgement {
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
    pub(crate) fn into_record(self) -> Record {
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
