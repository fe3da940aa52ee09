//! The whole world at one moment, and when two of them are as good as one.

use std::hash::{Hash, Hasher};

use crate::caller::{Caller, Step};
use crate::record::{Answer, Op, Owner, Payload, Record, Ticks};
use crate::truth::Truth;

/// The whole world at one moment.
///
/// It hashes as any other world that differs only in what owners and payloads are called, in
/// the order of its callers, or in what nobody can find out any more: the checker follows one
/// of them. Counterexamples show worlds as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// What the store keeps.
    pub record: Record,
    /// The requests under way.
    pub callers: Vec<Caller>,
    /// Messages whose sender waits no longer: each arrives at some time, or never.
    pub strays: Vec<Op>,
    /// How many requests were made.
    pub started: u8,
    /// How far the clock may still run.
    pub ticks: Ticks,
    /// How many messages may still go astray.
    pub losses: u8,
    /// How often the operator may still act.
    pub operator: u8,
    /// What really happened.
    pub truth: Truth,
}

impl World {
    /// Finds a caller by its owner.
    pub fn caller(&self, owner: Owner) -> Option<&Caller> {
        self.callers.iter().find(|caller| caller.owner == owner)
    }

    /// Takes a caller out.
    pub fn remove(&mut self, owner: Owner) -> Option<Caller> {
        let at = self.callers.iter().position(|caller| caller.owner == owner)?;
        Some(self.callers.remove(at))
    }

    /// Puts a caller in, in order of its request.
    pub fn insert(&mut self, caller: Caller) {
        let at = self.callers.partition_point(|other| other.owner < caller.owner);
        self.callers.insert(at, caller);
    }

    /// Renames everybody by order of appearance, and drops what makes no difference.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut world = self.clone();
        let mut names = Names::default();
        world.record = names.record(world.record);
        names.truth(&mut world.truth);
        for caller in &mut world.callers {
            let may_act = matches!(caller.step, Step::Running { acted: false, .. });
            caller.life = u8::from(may_act && caller.life == world.truth.life);
        }
        world.callers.sort_unstable();
        for caller in &mut world.callers {
            (caller.owner, caller.payload) = (names.owner(caller.owner), names.payload(caller.payload));
        }
        world.callers.sort_unstable();
        for op in &mut world.strays {
            *op = names.op(*op);
        }
        world.strays.sort_unstable();
        world.truth.life = 1;
        world.truth.rename_marks(&names.owners);
        world
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { record, callers, strays, started, ticks, losses, operator, truth } = self.canonical();
        (record, callers, strays, started, ticks, losses, operator, truth).hash(state);
    }
}

/// New names for owners and payloads, in the order in which they were asked for.
#[derive(Default)]
struct Names {
    owners: Vec<Owner>,
    payloads: Vec<Payload>,
}

impl Names {
    fn owner(&mut self, owner: Owner) -> Owner {
        if owner == crate::record::OPERATOR { owner } else { place(&mut self.owners, owner) }
    }

    fn payload(&mut self, payload: Payload) -> Payload {
        place(&mut self.payloads, payload)
    }

    fn answer(&mut self, answer: Answer) -> Answer {
        Answer { by: self.owner(answer.by), to: self.payload(answer.to) }
    }

    fn record(&mut self, mut record: Record) -> Record {
        match &mut record {
            Record::InFlight { bound, owner, .. } => {
                (*bound, *owner) = (self.payload(*bound), self.owner(*owner));
            }
            Record::Completed { bound, answer, owner, .. } => {
                (*bound, *owner) = (self.payload(*bound), self.owner(*owner));
                *answer = self.answer(*answer);
            }
            Record::Failed { bound, .. } | Record::Unknown { bound, .. } => {
                *bound = self.payload(*bound);
            }
            Record::Absent | Record::Expired => {}
        }
        record
    }

    fn truth(&mut self, truth: &mut Truth) {
        if truth.grants > 0 {
            truth.payload = self.payload(truth.payload);
        }
        truth.holder = truth.holder.map(|holder| self.owner(holder));
        if let Some((answer, _)) = &mut truth.answer {
            *answer = self.answer(*answer);
        }
        for (owner, _) in &mut truth.leases {
            *owner = self.owner(*owner);
        }
        for effect in &mut truth.effects {
            effect.owner = self.owner(effect.owner);
            effect.payload = self.payload(effect.payload);
        }
        truth.leases.sort_unstable();
        truth.effects.sort_unstable();
    }

    fn op(&mut self, mut op: Op) -> Op {
        match &mut op {
            Op::Claim { owner, payload }
            | Op::Insert { owner, payload }
            | Op::Complete { owner, payload, .. }
            | Op::LookUp { owner, payload } => {
                (*owner, *payload) = (self.owner(*owner), self.payload(*payload));
            }
            Op::Renew { owner, .. } | Op::Release { owner, .. } | Op::Inspect { owner } => {
                *owner = self.owner(*owner);
            }
        }
        op
    }
}

fn place(seen: &mut Vec<u8>, name: u8) -> u8 {
    let at = seen.iter().position(|other| *other == name).unwrap_or_else(|| {
        seen.push(name);
        seen.len() - 1
    });
    at as u8
}
