//! What really happened, written down by somebody who does not look into the record.
//!
//! The properties compare the store with this. It knows who was told what and which clock ran
//! how far, and draws its own conclusions, so that a mutant cannot talk it round.

use crate::config::{Config, OnCrash};
use crate::record::{Answer, OPERATOR, Op, Owner, Payload, Release, Reply, Ticks};

/// One time that a handler had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Effect {
    /// The attempt it was told.
    pub attempt: u8,
    /// What had been asked for.
    pub payload: Payload,
    /// The claim under which it ran.
    pub owner: Owner,
}

/// What really happened in this life of the record.
///
/// A life begins with a claim that finds the key unbound, and lasts until the next such claim.
/// Effects of holders from an earlier life are theirs, and not counted here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Truth {
    /// Counts lives.
    pub life: u8,
    /// What this life is for.
    pub payload: Payload,
    /// What is left of the binding: `None` if unbound, `Some(None)` until settled.
    pub binding: Option<Option<Ticks>>,
    /// Who was granted the key last, and has neither ended its claim nor been overruled.
    pub holder: Option<Owner>,
    /// How many claims were granted.
    pub grants: u8,
    /// Who may believe to hold the key, and for how long.
    pub leases: Vec<(Owner, Ticks)>,
    /// For how many ticks the present holder has had a live lease.
    pub held: Ticks,
    /// The first answer, and what is left of its retention, tombstone included.
    pub answer: Option<(Answer, Ticks)>,
    /// What handlers did.
    pub effects: Vec<Effect>,
    /// Whose lease has lapsed at some time, a bit each.
    lapsed: u8,
    /// Whose handler failed with leave to run again, or was never started, a bit each.
    excused: u8,
    /// A step by somebody who is not the holder changed the record, or was told `Held`.
    pub stale_step: bool,
    /// Somebody who holds the key, or completed it, was told otherwise.
    pub refused_repeat: bool,
    /// Somebody was given an answer that is not the stored one, or not to his question.
    pub false_replay: bool,
}

impl Truth {
    /// Says whether this owner's lease lapsed at some time.
    pub fn has_lapsed(&self, owner: Owner) -> bool {
        self.lapsed & bit(owner) != 0
    }

    /// Says whether this owner's handler failed with leave to run again, or was never started.
    pub fn is_excused(&self, owner: Owner) -> bool {
        self.excused & bit(owner) != 0
    }

    /// Notes that a handler failed with leave to run again, or was never started.
    pub fn excuse(&mut self, owner: Owner) {
        self.excused |= bit(owner);
    }

    /// Gives the marks of the listed owners to their places in the list, and drops the others.
    pub(crate) fn rename_marks(&mut self, owners: &[Owner]) {
        let renamed = |marks: u8| {
            let marked = |(place, owner): (usize, &Owner)| u8::from(marks & bit(*owner) != 0) << place;
            owners.iter().enumerate().map(marked).fold(0, |all, one| all | one)
        };
        (self.lapsed, self.excused) = (renamed(self.lapsed), renamed(self.excused));
    }

    /// Notes a handler's effect.
    pub fn acted(&mut self, life: u8, effect: Effect) {
        if life == self.life {
            self.effects.push(effect);
            self.effects.sort_unstable();
        }
    }

    /// Notes a step of the store.
    pub fn observe(&mut self, config: &Config, op: Op, reply: Reply, changed: bool) {
        match op {
            Op::Claim { owner, payload } | Op::Insert { owner, payload } => {
                self.observe_claim(config, owner, payload, reply);
            }
            Op::Inspect { .. } => {}
            Op::LookUp { payload, .. } => self.observe_replay(payload, reply, config),
            Op::Renew { owner, .. } => {
                self.observe_fence(owner, reply, changed, false);
                if reply == Reply::Held {
                    self.lease(config, owner);
                }
            }
            Op::Complete { owner, payload, .. } => {
                let repeats = self.live_answer(config).is_some_and(|answer| answer.by == owner);
                self.observe_fence(owner, reply, changed, repeats);
                if reply == Reply::Held {
                    self.leases.retain(|(other, _)| *other != owner);
                    if self.holder == Some(owner) {
                        self.answered(config, Answer { by: owner, to: payload });
                    }
                }
            }
            Op::Release { owner, how, .. } => {
                self.observe_fence(owner, reply, changed, false);
                if reply == Reply::Held {
                    self.leases.retain(|(other, _)| *other != owner);
                    if self.holder == Some(owner) {
                        self.released(config, how);
                    }
                }
            }
        }
    }

    fn observe_claim(&mut self, config: &Config, owner: Owner, payload: Payload, reply: Reply) {
        let repeats = self.holder == Some(owner);
        if let Reply::Granted { .. } = reply {
            if self.binding.is_none() {
                *self = Self {
                    life: self.life + 1,
                    payload,
                    leases: std::mem::take(&mut self.leases),
                    stale_step: self.stale_step,
                    refused_repeat: self.refused_repeat,
                    false_replay: self.false_replay,
                    ..Self::default()
                };
            }
            if !repeats {
                self.grants += 1;
                self.held = 0;
            }
            self.holder = Some(owner);
            self.lease(config, owner);
        } else {
            self.refused_repeat |= repeats && reply != Reply::Nothing;
            if reply == Reply::Abandoned && config.on_crash == OnCrash::RejectForGood {
                self.holder = None;
            }
        }
        self.observe_replay(payload, reply, config);
    }

    fn observe_replay(&mut self, payload: Payload, reply: Reply, config: &Config) {
        if let Reply::Completed(answer) = reply {
            let stored = self.live_answer(config) == Some(answer);
            self.false_replay |= !stored || answer.to != payload;
        }
    }

    fn observe_fence(&mut self, owner: Owner, reply: Reply, changed: bool, repeats: bool) {
        let holds = self.holder == Some(owner);
        self.stale_step |= !holds && (changed || (reply == Reply::Held && !repeats));
        self.refused_repeat |= (holds || repeats) && reply == Reply::Lost;
    }

    fn lease(&mut self, config: &Config, owner: Owner) {
        self.leases.retain(|(other, _)| *other != owner);
        self.leases.push((owner, config.lease));
        self.leases.sort_unstable();
        if self.holder == Some(owner) {
            let keep = config.lease + config.ttl;
            self.binding = Some((!config.rejects()).then_some(keep));
        }
    }

    fn answered(&mut self, config: &Config, answer: Answer) {
        self.holder = None;
        self.held = 0;
        self.answer = Some((answer, config.ttl + config.tombstone));
        self.binding = Some(Some(config.ttl));
    }

    fn released(&mut self, config: &Config, how: Release) {
        self.holder = None;
        self.held = 0;
        self.binding = match how {
            Release::Forget if self.grants == 1 => None,
            Release::Forget | Release::KeepBinding => Some(Some(config.ttl)),
            Release::Unknown => Some(None),
        };
    }

    /// Notes that an operator gave an answer.
    pub fn settled(&mut self, config: &Config) {
        self.leases.clear();
        self.answered(config, Answer { by: OPERATOR, to: self.payload });
    }

    /// Notes that an operator forgot the record.
    pub fn forgotten(&mut self) {
        self.leases.clear();
        self.holder = None;
        self.held = 0;
        self.answer = None;
        self.binding = None;
    }

    /// Lets one tick of the store's clock go by.
    pub fn tick(&mut self) {
        let live = |owner| self.leases.iter().any(|(other, _)| *other == owner);
        self.held += Ticks::from(self.holder.is_some_and(live));
        for (owner, left) in &mut self.leases {
            *left -= 1;
            if *left == 0 {
                self.lapsed |= bit(*owner);
            }
        }
        self.leases.retain(|(_, left)| *left > 0);
        if let Some(Some(left)) = &mut self.binding {
            *left -= 1;
            if *left == 0 {
                self.binding = None;
                self.holder = None;
                self.held = 0;
            }
        }
        if let Some((_, left)) = &mut self.answer {
            *left -= 1;
            if *left == 0 {
                self.answer = None;
            }
        }
    }

    /// Tells the answer that is to be replayed now.
    pub fn live_answer(&self, config: &Config) -> Option<Answer> {
        self.answer.filter(|(_, left)| *left > config.tombstone).map(|(answer, _)| answer)
    }

    /// Tells what a claim for this payload must be told, as far as an answer decides it.
    pub fn due(&self, config: &Config, payload: Payload) -> Option<Reply> {
        let (answer, left) = self.answer?;
        Some(match left {
            left if left <= config.tombstone => Reply::Expired,
            _ if answer.to == payload => Reply::Completed(answer),
            _ => Reply::Mismatch,
        })
    }
}

fn bit(owner: Owner) -> u8 {
    1_u8.checked_shl(u32::from(owner)).unwrap_or(0)
}
