//! Entries: what a memory store keeps of one record, and the steps that a record can take.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::moment::Moment;
use crate::answer::Answer;
use crate::fingerprint::{Comparison, Fingerprint};
use crate::key::KeyHint;
use crate::operation::Operation;
use crate::owner::Owner;
use crate::record::{Record, RecordId, State};
use crate::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Settled};

/// One record. Whether it is absent by now is a question of `now`, not of its being here.
#[derive(Debug)]
pub(super) struct Entry {
    operation: Operation,
    hint: KeyHint,
    fingerprint: Fingerprint,
    attempt: u32,
    begun: Moment,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    InFlight(Hold),
    Failed {
        until: Moment,
    },
    Completed {
        /// Who completed it; `None` if an operator settled it.
        owner: Option<Owner>,
        answer: Answer,
        until: Moment,
        refused_until: Moment,
    },
    /// Completed, and rid of its answer; the key is still refused.
    Expired {
        until: Moment,
    },
    Unknown,
}

#[derive(Debug)]
struct Hold {
    owner: Owner,
    until: Moment,
    binding: Duration,
    on_crash: OnCrash,
    /// Made by the first waiter, and gone with the hold: nobody waits for any other state.
    waiters: Option<Arc<Notify>>,
}

impl Hold {
    fn new(claim: &Claim, now: Moment, waiters: Option<Arc<Notify>>) -> Self {
        Self {
            owner: claim.owner,
            until: now.after(claim.lease),
            binding: claim.binding,
            on_crash: claim.on_crash,
            waiters,
        }
    }

    fn gone_at(&self) -> Moment {
        match self.on_crash {
            OnCrash::Retry => self.until.after(self.binding),
            OnCrash::Reject => Moment::NEVER,
        }
    }
}

/// What became of an entry whose time was up.
pub(super) enum Leftover {
    /// Nothing: its time was not up.
    None,
    /// It is gone for every caller.
    Gone,
    /// Its key is still refused, but its answer can go.
    Answer(Answer),
}

impl Entry {
    /// A record at its first attempt.
    pub(super) fn begun(id: &RecordId, claim: &Claim, now: Moment) -> Self {
        Self {
            operation: id.operation().clone(),
            hint: *id.hint(),
            fingerprint: *claim.fingerprints.current(),
            attempt: 1,
            begun: now,
            phase: Phase::InFlight(Hold::new(claim, now, None)),
        }
    }

    /// Where the record stands; `None` if it is absent.
    pub(super) fn state(&self, now: Moment) -> Option<State> {
        match &self.phase {
            Phase::InFlight(hold) if !hold.until.is_over(now) => Some(State::InFlight),
            Phase::InFlight(hold) if hold.on_crash == OnCrash::Reject => Some(State::Unknown),
            Phase::InFlight(hold) => (!hold.gone_at().is_over(now)).then_some(State::Lapsed),
            Phase::Failed { until } => (!until.is_over(now)).then_some(State::Failed),
            Phase::Completed { until, .. } if !until.is_over(now) => Some(State::Completed),
            Phase::Completed { refused_until: until, .. } | Phase::Expired { until } => {
                (!until.is_over(now)).then_some(State::Expired)
            }
            Phase::Unknown => Some(State::Unknown),
        }
    }

    /// When there is next something to take out of the store.
    pub(super) fn due(&self) -> Moment {
        match &self.phase {
            Phase::InFlight(hold) => hold.gone_at(),
            Phase::Failed { until } | Phase::Completed { until, .. } | Phase::Expired { until } => *until,
            Phase::Unknown => Moment::NEVER,
        }
    }

    /// The size of the answer in bytes.
    pub(super) fn answer_len(&self) -> usize {
        match &self.phase {
            Phase::Completed { answer, .. } => answer.as_bytes().len(),
            _ => 0,
        }
    }

    /// Decides a claim of a record that is not absent.
    pub(super) fn claim(&mut self, state: State, claim: &Claim, now: Moment) -> Claimed {
        if state == State::Expired {
            return Claimed::Expired;
        }
        let rebinds = claim.rebind && state == State::Failed;
        if !rebinds {
            match claim.fingerprints.compare(&self.fingerprint) {
                Comparison::Same => {}
                Comparison::Different => return Claimed::Mismatch,
                Comparison::Incomparable => return Claimed::Incomparable,
            }
        }
        match &mut self.phase {
            Phase::InFlight(hold) => {
                if hold.owner != claim.owner {
                    match state {
                        State::InFlight => {
                            return Claimed::InFlight { lease_left: hold.until.since(now) };
                        }
                        State::Unknown => return Claimed::Unknown,
                        _ => self.attempt = self.attempt.saturating_add(1),
                    }
                }
                // Who waits for a take-over's predecessor waits for the take-over.
                *hold = Hold::new(claim, now, hold.waiters.take());
            }
            Phase::Failed { .. } => {
                self.attempt = self.attempt.saturating_add(1);
                self.phase = Phase::InFlight(Hold::new(claim, now, None));
                if rebinds {
                    self.fingerprint = *claim.fingerprints.current();
                }
            }
            Phase::Completed { answer, until, .. } => {
                return Claimed::Completed { answer: answer.clone(), expires_in: until.since(now) };
            }
            Phase::Expired { .. } => return Claimed::Expired,
            Phase::Unknown => return Claimed::Unknown,
        }
        Claimed::Granted { attempt: self.attempt }
    }

    fn hold_of(&mut self, owner: Owner) -> Option<&mut Hold> {
        match &mut self.phase {
            Phase::InFlight(hold) if hold.owner == owner => Some(hold),
            _ => None,
        }
    }

    pub(super) fn complete(
        &mut self,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
        now: Moment,
    ) -> Fenced {
        match &self.phase {
            Phase::Completed { owner: Some(by), until, .. } if *by == owner && !until.is_over(now) => {
                return Fenced::Held;
            }
            Phase::InFlight(hold) if hold.owner == owner => {}
            _ => return Fenced::Lost,
        }
        self.store(Some(owner), answer, retention, now);
        Fenced::Held
    }

    fn store(&mut self, owner: Option<Owner>, answer: &Answer, retention: Retention, now: Moment) {
        self.wake();
        let until = now.after(retention.ttl);
        let refused_until = retention.tombstone_ttl.map_or(until, |span| until.after(span));
        self.phase = Phase::Completed { owner, answer: answer.clone(), until, refused_until };
    }

    /// Ends the lease; an entry that is then [undone](Self::is_undone) is left to the caller, who holds it.
    pub(super) fn release(&mut self, owner: Owner, how: Release, now: Moment) -> Fenced {
        if self.hold_of(owner).is_none() {
            return Fenced::Lost;
        }
        self.wake();
        match how {
            Release::Undo(span) | Release::KeepBinding(span) => {
                self.phase = Phase::Failed { until: now.after(span) }
            }
            Release::Unknown => self.phase = Phase::Unknown,
        }
        Fenced::Held
    }

    /// Whether releasing it so leaves nothing: no attempt but the one that is undone was ever granted.
    pub(super) fn is_undone(&self, how: Release) -> bool {
        matches!(how, Release::Undo(_)) && self.attempt == 1
    }

    pub(super) fn renew(&mut self, owner: Owner, lease: Duration, now: Moment) -> Fenced {
        let Some(hold) = self.hold_of(owner) else { return Fenced::Lost };
        hold.until = now.after(lease);
        Fenced::Held
    }

    /// Settles the record with an answer.
    pub(super) fn settle(&mut self, answer: &Answer, retention: Retention, now: Moment) -> Settled {
        match self.state(now) {
            None => Settled::Absent,
            Some(State::Unknown | State::Failed | State::Lapsed) => {
                self.store(None, answer, retention, now);
                Settled::Done
            }
            Some(State::InFlight | State::Completed | State::Expired) => Settled::Refused,
        }
    }

    /// Takes out what is of no use any more.
    pub(super) fn expire(&mut self, now: Moment) -> Leftover {
        match self.state(now) {
            None => Leftover::Gone,
            Some(State::Expired) => {
                let Phase::Completed { refused_until: until, .. } = self.phase else {
                    return Leftover::None;
                };
                match std::mem::replace(&mut self.phase, Phase::Expired { until }) {
                    Phase::Completed { answer, .. } => Leftover::Answer(answer),
                    _ => Leftover::None,
                }
            }
            Some(_) => Leftover::None,
        }
    }

    /// Waits for the holder, whose lease lasts so long; `None` unless the record is in flight.
    pub(super) fn wait(&mut self, now: Moment) -> Option<(OwnedNotified, Duration)> {
        match &mut self.phase {
            Phase::InFlight(hold) if !hold.until.is_over(now) => {
                let waiters = Arc::clone(hold.waiters.get_or_insert_default());
                Some((waiters.notified_owned(), hold.until.since(now)))
            }
            _ => None,
        }
    }

    /// Wakes who waits for the holder.
    pub(super) fn wake(&self) {
        if let Phase::InFlight(Hold { waiters: Some(waiters), .. }) = &self.phase {
            waiters.notify_waiters();
        }
    }

    pub(super) fn look_up(&self, now: Moment) -> Option<Record> {
        let state = self.state(now)?;
        let ends = match &self.phase {
            Phase::InFlight(hold) if hold.on_crash == OnCrash::Retry => Some(hold.gone_at()),
            Phase::Completed { refused_until, .. } if state == State::Expired => Some(*refused_until),
            Phase::Completed { until, .. } | Phase::Failed { until } | Phase::Expired { until } => {
                Some(*until)
            }
            Phase::InFlight(_) | Phase::Unknown => None,
        };
        Some(Record {
            state,
            operation: self.operation.as_str().to_owned(),
            hint: self.hint,
            fingerprint: self.fingerprint,
            attempt: self.attempt,
            age: now.since(self.begun),
            lease_left: match &self.phase {
                Phase::InFlight(hold) if state == State::InFlight => Some(hold.until.since(now)),
                _ => None,
            },
            expires_in: ends.map(|end| end.since(now)),
            answer: match &self.phase {
                Phase::Completed { answer, .. } if state == State::Completed => Some(answer.clone()),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_within_the_memory_that_a_record_is_said_to_cost() {
        assert!(size_of::<Entry>() <= 184, "{} bytes", size_of::<Entry>());
    }
}
