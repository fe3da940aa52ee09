//! The nemesis: which faults there are, in which order and for how long; all of it follows from the seed.

mod of_services;
mod of_store;

pub use of_services::break_services;
pub use of_store::break_store;

use std::time::Duration;

use crate::dice::Dice;

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SIGKILL, and a new start later.
    Kill,
    /// SIGSTOP, and SIGCONT later.
    Pause,
    /// An end in good order, and a new start at once.
    Restart,
    /// Another server takes over, while all run.
    Failover,
    /// Connections break, and there are no others.
    Cut,
    /// Connections carry nothing for a while.
    Hold,
    /// Everything takes so much longer.
    Slow,
    /// Steps are taken, and nobody hears of it.
    Lose,
    /// Another has the only lock.
    Lock,
}

impl Kind {
    /// What is done to processes of the service.
    pub const OF_SERVICES: [Self; 3] = [Self::Kill, Self::Pause, Self::Restart];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Restart => "restart",
            Self::Failover => "failover",
            Self::Cut => "cut",
            Self::Hold => "hold",
            Self::Slow => "slow",
            Self::Lose => "lose",
            Self::Lock => "lock",
        }
    }
}

/// One fault that is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// How long nothing is broken before.
    pub quiet: Duration,
    /// What is done.
    pub kind: Kind,
    /// How long it lasts.
    pub lasts: Duration,
    /// A number that the kind makes something of, such as which process it is done to.
    pub pick: u64,
}

/// The faults of one seed in their order, without end. Each kind comes once before any comes again.
#[derive(Debug, Clone)]
pub struct Schedule {
    dice: Dice,
    kinds: Vec<Kind>,
    left: Vec<Kind>,
}

impl Schedule {
    /// The faults of a seed; schedules in other lanes have others.
    pub fn new(seed: u64, lane: u64, kinds: &[Kind]) -> Self {
        Self { dice: Dice::new(seed, lane), kinds: kinds.to_vec(), left: Vec::new() }
    }
}

impl Iterator for Schedule {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.dice.shuffle(&mut self.left);
        }
        let kind = self.left.pop()?;
        let quiet = self.dice.between(500, 2_500);
        // Some end before a lease of a second does, some after.
        let lasts =
            if self.dice.chance(50) { self.dice.between(100, 900) } else { self.dice.between(900, 3_500) };
        Some(Planned { quiet, kind, lasts, pick: self.dice.roll() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_breaks_the_same_things_at_the_same_times() {
        let plan = |seed| Schedule::new(seed, 1, &Kind::OF_SERVICES).take(50).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn each_kind_comes_before_any_comes_again() {
        let kinds = [Kind::Kill, Kind::Pause, Kind::Cut, Kind::Slow];
        let plan: Vec<_> = Schedule::new(3, 1, &kinds).take(40).map(|planned| planned.kind).collect();
        for round in plan.chunks(4) {
            assert!(kinds.iter().all(|kind| round.contains(kind)), "{round:?}");
        }
    }
}
