//! What the store does, one atomic step at a time; honest unless told to be a mutant.

use crate::config::Config;
use crate::mutant::Mutant;
use crate::record::{Answer, OPERATOR, Op, Record, Reply, Ticks};

/// The rules of the store under one configuration.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The options and times.
    pub config: Config,
    /// The one thing that it does wrong, if any.
    pub mutant: Option<Mutant>,
}

impl Protocol {
    /// Says whether this mutant is at work.
    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Tells what a row is worth by the store's clock, swept or not.
    pub fn read(&self, record: Record) -> Record {
        match record {
            Record::InFlight { keep: Some(0), .. }
            | Record::Failed { keep: 0, .. }
            | Record::Completed { keep: 0, .. } => Record::Absent,
            Record::Completed { keep, .. } if keep <= self.config.tombstone => Record::Expired,
            other => other,
        }
    }

    /// Takes one step for a caller.
    pub fn step(&self, record: Record, op: Op) -> (Record, Reply) {
        match op {
            Op::Claim { owner, payload } => self.claim(record, owner, payload),
            Op::Insert { owner, payload } => self.insert(record, owner, payload),
            Op::Renew { owner, attempt } => self.renew(record, owner, attempt),
            Op::Complete { owner, attempt, payload } => self.complete(record, owner, attempt, payload),
            Op::Release { owner, attempt, how } => self.release(record, owner, attempt, how),
            Op::Inspect { .. } => match self.read(record) {
                Record::InFlight { attempt, .. } => (record, Reply::Seen { attempt }),
                _ => (record, Reply::Nothing),
            },
            Op::LookUp { payload, .. } => (record, self.look_up(record, payload)),
        }
    }

    /// Lets one tick of the store's clock go by.
    #[must_use]
    pub fn tick(record: Record) -> Record {
        let less = |left: Ticks| left.saturating_sub(1);
        match record {
            Record::InFlight { bound, owner, attempt, lease, keep } => {
                let (lease, keep) = (less(lease), keep.map(less));
                Record::InFlight { bound, owner, attempt, lease, keep }
            }
            Record::Failed { bound, attempt, keep } => Record::Failed { bound, attempt, keep: less(keep) },
            Record::Completed { bound, answer, owner, keep } => {
                Record::Completed { bound, answer, owner, keep: less(keep) }
            }
            Record::Absent | Record::Unknown { .. } | Record::Expired => record,
        }
    }

    /// Reclaims the row if it is worth nothing any more.
    #[must_use]
    pub fn sweep(&self, record: Record) -> Record {
        let read = self.read(record);
        let too_eager = match read {
            Record::InFlight { lease: 0, .. } => self.is(Mutant::SweepLapsed) || self.is(Mutant::SweepLive),
            Record::InFlight { .. } | Record::Failed { .. } => self.is(Mutant::SweepLive),
            Record::Expired => self.is(Mutant::TombstoneSwept),
            _ => false,
        };
        if too_eager || read == Record::Absent { Record::Absent } else { record }
    }

    /// Lets an operator give an answer to what has none; `None` if that is refused.
    pub fn settle(&self, record: Record) -> Option<Record> {
        let (Record::Unknown { bound, .. }
        | Record::Failed { bound, .. }
        | Record::InFlight { bound, lease: 0, .. }) = self.read(record)
        else {
            return None;
        };
        let answer = Answer { by: OPERATOR, to: bound };
        let keep = self.retention();
        Some(Record::Completed { bound, answer, owner: OPERATOR, keep })
    }

    /// How long a completed row is kept, its tombstone included.
    pub(crate) fn retention(&self) -> Ticks {
        self.config.ttl + self.config.tombstone
    }

    /// How long a row in flight is kept.
    pub(crate) fn in_flight_keep(&self) -> Option<Ticks> {
        if self.is(Mutant::LeaseIsTtl) {
            Some(self.config.lease)
        } else if self.config.rejects() && !self.is(Mutant::UnknownExpires) {
            None
        } else {
            Some(self.config.lease + self.config.ttl)
        }
    }
}
