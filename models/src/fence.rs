//! What the store lets only the holder do: renew, complete, release.

use crate::mutant::Mutant;
use crate::protocol::Protocol;
use crate::record::{Answer, Owner, Payload, Record, Release, Reply};

impl Protocol {
    /// Says whether the fence lets this owner pass at a record in flight.
    fn holds(&self, lax: Mutant, holder: (Owner, u8), asks: (Owner, u8)) -> bool {
        if self.is(Mutant::CounterForOwner) {
            return holder.1 == asks.1;
        }
        holder.0 == asks.0 || self.is(lax)
    }

    /// Tells what the fence looks at.
    fn fenced(&self, record: Record) -> Record {
        if self.is(Mutant::FenceIgnoresExpiry) { record } else { self.read(record) }
    }

    pub(crate) fn renew(&self, record: Record, owner: Owner, tried: u8) -> (Record, Reply) {
        match self.fenced(record) {
            Record::InFlight { bound, owner: holder, attempt, .. }
                if self.holds(Mutant::RenewWithoutOwner, (holder, attempt), (owner, tried)) =>
            {
                let (lease, keep) = (self.config.lease, self.in_flight_keep());
                let renewed = Record::InFlight { bound, owner: holder, attempt, lease, keep };
                (renewed, Reply::Held)
            }
            Record::Completed { bound, answer, owner: author, .. }
                if author == owner && self.is(Mutant::RenewAnswered) =>
            {
                let keep = self.retention() + self.config.lease;
                (Record::Completed { bound, answer, owner, keep }, Reply::Held)
            }
            _ => (record, Reply::Lost),
        }
    }

    pub(crate) fn complete(
        &self,
        record: Record,
        owner: Owner,
        tried: u8,
        payload: Payload,
    ) -> (Record, Reply) {
        let answer = Answer { by: owner, to: payload };
        let mut keep = self.retention();
        match self.fenced(record) {
            Record::InFlight { bound, owner: holder, attempt, keep: left, .. }
                if self.holds(Mutant::CompleteWithoutOwner, (holder, attempt), (owner, tried)) =>
            {
                if self.is(Mutant::TtlFromClaim) {
                    keep = left.map_or(keep, |left| left.saturating_sub(self.config.lease));
                }
                (Record::Completed { bound, answer, owner, keep }, Reply::Held)
            }
            Record::Completed { bound, .. } if self.is(Mutant::CompletionOverwrites) => {
                (Record::Completed { bound, answer, owner, keep }, Reply::Held)
            }
            Record::Completed { owner: author, .. }
                if author == owner && !self.is(Mutant::RepeatedCompleteRefused) =>
            {
                (record, Reply::Held)
            }
            _ => (record, Reply::Lost),
        }
    }

    pub(crate) fn release(&self, record: Record, owner: Owner, tried: u8, how: Release) -> (Record, Reply) {
        let Record::InFlight { bound, owner: holder, attempt, .. } = self.fenced(record) else {
            return (record, Reply::Lost);
        };
        if !self.holds(Mutant::ReleaseWithoutOwner, (holder, attempt), (owner, tried)) {
            return (record, Reply::Lost);
        }
        let failed = Record::Failed { bound, attempt, keep: self.config.ttl };
        let left = match how {
            Release::KeepBinding if self.is(Mutant::FailureForgets) => Record::Absent,
            Release::Unknown => Record::Unknown { bound, attempt },
            Release::Forget if attempt == 1 => Record::Absent,
            Release::Forget if self.is(Mutant::UndoForgetsEarlier) || self.is(Mutant::UndoDecidedByLook) => {
                Record::Absent
            }
            // Forgotten or not, earlier attempts may have run: what they bound stays bound.
            Release::KeepBinding | Release::Forget => failed,
        };
        (left, Reply::Held)
    }
}
