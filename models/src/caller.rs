//! What the engine does for one request: claim, run, complete or release.

use crate::config::Config;
use crate::mutant::Mutant;
use crate::protocol::Protocol;
use crate::record::{Op, Owner, Payload, Release, Reply};

/// One request on its way through the engine.
///
/// It comes to be with its first claim. One that is never chosen again is paused; one that
/// crashes is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    /// Where it stands.
    pub step: Step,
    /// How often it may still renew.
    pub renewals: u8,
    /// In which life of the record it was granted the key; bookkeeping, not known to the engine.
    pub life: u8,
    /// What it asks for.
    pub payload: Payload,
    /// Its token.
    pub owner: Owner,
}

/// Where a caller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// About to claim for the first time.
    New,
    /// A claim was sent and nothing came back.
    InDoubt,
    /// Between the two halves of a claim; mutants only.
    Inserting,
    /// Was granted the key.
    Running {
        /// As it was granted.
        attempt: u8,
        /// The handler had its effect.
        acted: bool,
    },
    /// A completion was sent and nothing came back.
    Completing {
        /// As it was granted.
        attempt: u8,
    },
    /// A release was sent and nothing came back.
    Releasing {
        /// As it was granted; 0 if that was never heard.
        attempt: u8,
        /// With what left behind.
        how: Release,
    },
    /// Was told that it had lost the key, and wants to know what the record says.
    Outrun,
}

impl Caller {
    /// Begins a request.
    pub fn new(owner: Owner, payload: Payload, config: &Config) -> Self {
        Self { step: Step::New, renewals: config.renewals, life: 0, payload, owner }
    }

    /// Lists what it may ask of the store next.
    ///
    /// A handler that fails is one that releases, a claim given up one that is released.
    pub fn asks(&self, protocol: &Protocol, ops: &mut Vec<Op>) {
        let Self { owner, payload, .. } = *self;
        let claim = Op::Claim { owner, payload };
        let release = |attempt, how| Op::Release { owner, attempt, how };
        match self.step {
            Step::New => ops.push(claim),
            Step::InDoubt if protocol.is(Mutant::UndoDecidedByLook) => {
                ops.extend([claim, Op::Inspect { owner }]);
            }
            Step::InDoubt => ops.extend([claim, release(0, Release::Forget)]),
            Step::Inserting => ops.push(Op::Insert { owner, payload }),
            Step::Running { attempt, acted } => {
                if acted {
                    ops.push(Op::Complete { owner, attempt, payload });
                } else if attempt == 1 || !protocol.is(Mutant::UndoDecidedByLook) {
                    ops.push(release(attempt, Release::Forget));
                }
                ops.push(release(attempt, Release::KeepBinding));
                if protocol.config.rejects() {
                    ops.push(release(attempt, Release::Unknown));
                }
            }
            Step::Completing { attempt } => ops.push(Op::Complete { owner, attempt, payload }),
            Step::Releasing { attempt, how } => ops.push(release(attempt, how)),
            Step::Outrun => ops.push(Op::LookUp { owner, payload }),
        }
        if let Step::Running { attempt, .. } | Step::Completing { attempt } = self.step
            && self.renewals > 0
        {
            ops.push(Op::Renew { owner, attempt });
        }
    }

    /// Says whether this release is a handler's own failure, or a claim given up: either way
    /// others may run.
    pub fn lets_others_run(&self, op: Op) -> bool {
        match op {
            Op::Release { how, .. } => {
                how != Release::Unknown && !matches!(self.step, Step::Releasing { .. })
            }
            _ => false,
        }
    }

    /// Goes on after a reply; `None` once it has nothing more to do.
    pub fn hears(mut self, op: Op, reply: Reply, protocol: &Protocol) -> Option<Self> {
        match (op, reply) {
            (Op::Claim { .. } | Op::Insert { .. }, Reply::Granted { attempt }) => {
                self.step = Step::Running { attempt, acted: false };
            }
            (Op::Claim { .. }, Reply::Nothing) => self.step = Step::Inserting,
            (Op::Claim { .. }, Reply::InFlight) if protocol.is(Mutant::RunUnclaimed) => {
                self.step = Step::Inserting;
            }
            (Op::Inspect { .. }, Reply::Seen { attempt }) => {
                let how = if attempt == 1 { Release::Forget } else { Release::KeepBinding };
                self.step = Step::Releasing { attempt: 0, how };
            }
            (Op::Renew { .. }, Reply::Held) => self.spends_renewal(protocol),
            (Op::Renew { .. } | Op::Complete { .. }, Reply::Lost) => self.step = Step::Outrun,
            _ => return None,
        }
        Some(self)
    }

    /// Goes on after a reply that did not come.
    #[must_use]
    pub fn waits_in_vain(mut self, op: Op, protocol: &Protocol) -> Self {
        match op {
            Op::Claim { .. } => self.step = Step::InDoubt,
            Op::Renew { .. } => self.spends_renewal(protocol),
            Op::Complete { attempt, .. } if protocol.is(Mutant::FailedWriteReleases) => {
                self.step = Step::Releasing { attempt, how: Release::KeepBinding };
            }
            Op::Complete { attempt, .. } => self.step = Step::Completing { attempt },
            Op::Release { attempt, how, .. } => self.step = Step::Releasing { attempt, how },
            Op::Insert { .. } | Op::Inspect { .. } | Op::LookUp { .. } => {}
        }
        self
    }

    fn spends_renewal(&mut self, protocol: &Protocol) {
        if !protocol.is(Mutant::RenewForever) {
            self.renewals -= 1;
        }
    }
}
