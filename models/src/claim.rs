//! How the store answers a claim, and a look-up, which claims nothing.

use crate::config::OnCrash;
use crate::mutant::Mutant;
use crate::protocol::Protocol;
use crate::record::{Owner, Payload, Record, Reply};

impl Protocol {
    /// Decides in this order: expiry, payload, state.
    pub(crate) fn claim(&self, record: Record, owner: Owner, payload: Payload) -> (Record, Reply) {
        let grant = self.grant(owner, payload);
        match self.read(record) {
            Record::Absent => grant(record, 1),
            Record::Expired => (record, Reply::Expired),
            Record::InFlight { .. } => self.claim_in_flight(record, owner, payload),
            Record::Failed { bound, attempt, .. }
                if bound == payload || self.is(Mutant::TakeOverSkipsMismatch) =>
            {
                grant(record, attempt + 1)
            }
            Record::Completed { bound, answer, owner, .. } if bound == payload => {
                let keep = self.retention();
                let extended = Record::Completed { bound, answer, owner, keep };
                let extends = self.is(Mutant::ReplayExtends);
                (if extends { extended } else { record }, Reply::Completed(answer))
            }
            Record::Unknown { bound, .. } if bound == payload => (record, Reply::Abandoned),
            Record::Failed { .. } | Record::Completed { .. } | Record::Unknown { .. } => {
                (record, Reply::Mismatch)
            }
        }
    }

    fn claim_in_flight(&self, record: Record, owner: Owner, payload: Payload) -> (Record, Reply) {
        let Record::InFlight { bound, owner: holder, attempt, lease, .. } = record else {
            return (record, Reply::Nothing);
        };
        let grant = self.grant(owner, payload);
        let lapsed = lease == 0;
        if self.is(Mutant::InFlightBeforeMismatch) && holder != owner && !lapsed {
            return (record, Reply::InFlight);
        }
        if bound != payload && !(lapsed && self.is(Mutant::TakeOverSkipsMismatch)) {
            return (record, Reply::Mismatch);
        }
        if holder == owner && !self.is(Mutant::RepeatedClaimRefused) {
            return grant(record, attempt);
        }
        if !lapsed || self.is(Mutant::LeaseForever) {
            return (record, Reply::InFlight);
        }
        match self.config.on_crash {
            _ if self.is(Mutant::OnCrashIgnored) => grant(record, attempt + 1),
            OnCrash::Retry if self.is(Mutant::TakeOverKeepsAttempt) => grant(record, attempt),
            OnCrash::Retry => grant(record, attempt + 1),
            OnCrash::Reject => (record, Reply::Abandoned),
            OnCrash::RejectForGood => (Record::Unknown { bound, attempt }, Reply::Abandoned),
        }
    }

    /// Makes what a grant writes and says.
    fn grant(&self, owner: Owner, payload: Payload) -> impl Fn(Record, u8) -> (Record, Reply) {
        let lease = if self.is(Mutant::NoLease) { 0 } else { self.config.lease };
        let keep = self.in_flight_keep();
        let reads_first = self.is(Mutant::GetThenSet);
        move |found, attempt| {
            if reads_first {
                return (found, Reply::Nothing);
            }
            let record = Record::InFlight { bound: payload, owner, attempt, lease, keep };
            (record, Reply::Granted { attempt })
        }
    }

    /// The second half of a claim that should have been one step.
    pub(crate) fn insert(&self, record: Record, owner: Owner, payload: Payload) -> (Record, Reply) {
        let honest = Self { mutant: None, ..self.clone() };
        if self.is(Mutant::GetThenSet) {
            return honest.grant(owner, payload)(record, 1);
        }
        match self.read(record) {
            Record::Absent => (record, Reply::Granted { attempt: 1 }),
            _ => honest.claim(record, owner, payload),
        }
    }

    pub(crate) fn look_up(&self, record: Record, payload: Payload) -> Reply {
        let told = |bound: Payload, reply| {
            let skips = self.is(Mutant::LookUpSkipsMismatch);
            if bound == payload || skips { reply } else { Reply::Mismatch }
        };
        match self.read(record) {
            Record::Absent => Reply::Nothing,
            Record::Expired => Reply::Expired,
            Record::InFlight { bound, .. } => told(bound, Reply::InFlight),
            Record::Failed { bound, .. } => told(bound, Reply::Nothing),
            Record::Completed { bound, answer, .. } => told(bound, Reply::Completed(answer)),
            Record::Unknown { bound, .. } => told(bound, Reply::Abandoned),
        }
    }
}
