//! What befalls the whole world: processes die, freeze and are cut off, clocks jump, operators and sweepers come by.

use std::sync::Arc;
use std::time::Duration;

use idem_core::answer::{Answer, Codec};
use idem_core::engine::Idempotency;
use idem_core::store::{Retention, Settle, Settled, Store as _};

use crate::broken::Broken;
use crate::client::Engines;
use crate::line::Line;
use crate::op::now;
use crate::trace::Event;
use crate::world::World;

/// Answers of operators are numbered from here on.
const OPERATORS: u64 = 1 << 32;

/// An engine of a process of its own.
pub(crate) fn engine(world: &Arc<World>, process: u32) -> Idempotency {
    let plan = &world.plan;
    let ceiling =
        if world.broken == Some(Broken::NoCeiling) { Duration::from_hours(9999) } else { plan.max_run };
    Idempotency::builder(Line { world: world.clone(), process })
        .ttl(plan.ttl)
        .max_run(ceiling)
        .store_timeout(plan.store_timeout)
        .build()
        .expect("a plan has no fault")
}

/// Starts a process.
pub(crate) fn start(world: &Arc<World>, engines: &Engines) -> u32 {
    let process = world.start_process();
    engines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(engine(world, process));
    process
}

pub(crate) async fn nemesis(world: Arc<World>, engines: Engines) {
    for blow in 0..world.plan.blows {
        let (rests, kind, key, span) = world.dice(|plan, dice| {
            let rests = dice.span(Duration::ZERO, plan.spread);
            let kind = if plan.operator { dice.below(8) } else { dice.below(6) };
            (rests, kind, dice.below(plan.keys), plan.pause(dice))
        });
        tokio::time::sleep(rests).await;
        let span_ms = span.as_millis() as u32;
        match kind {
            0 => {
                world.note(Event::Jumps(span_ms));
                world.clock.jump(span);
            }
            1 => {
                world.note(Event::Freezes(span_ms));
                tokio::time::advance(span).await;
            }
            2 => {
                let victim = world.any_process();
                if !world.process(victim).dead {
                    start(&world, &engines);
                    world.kill(victim);
                }
            }
            3 => {
                let victim = world.any_process();
                world.cut_off(victim, true);
                tokio::time::sleep(span).await;
                world.cut_off(victim, false);
            }
            4 | 5 => {
                world.sweep(10).await;
            }
            6 => world.operate(key, None),
            _ => world.operate(key, Some(OPERATORS + u64::from(blow))),
        }
    }
}

impl World {
    fn any_process(&self) -> u32 {
        let processes = self.processes();
        self.dice(|_, dice| dice.below(processes))
    }

    /// Forgets a record, or gives it an answer.
    pub(crate) fn operate(&self, key: u32, answer: Option<u64>) {
        let Some(id) = Self::id_of(key) else { return };
        let retention = Retention { ttl: self.plan.ttl, tombstone_ttl: self.plan.tombstone };
        let how = match answer.map(|answer| Answer::json(Codec::JsonOk, &answer)) {
            Some(Ok(answer)) => Settle::Complete { answer, retention },
            _ => Settle::Forget,
        };
        let Ok(settled) = now(self.store.settle(&id, &how)) else { return };
        match answer {
            None => self.tell(Event::Forgets(key), |witness, _| witness.forgotten(key as usize)),
            Some(answer) => self.tell(Event::Settles(key, answer), |witness, now| {
                witness.settled(key as usize, answer, retention, now, settled == Settled::Done);
            }),
        }
    }

    pub(crate) async fn sweep(&self, limit: u32) -> u64 {
        if self.broken == Some(Broken::SweepLive) {
            for id in (0..self.plan.keys).filter_map(Self::id_of) {
                let _ = now(self.store.settle(&id, &Settle::Forget));
            }
        }
        if self.broken == Some(Broken::SweepNothing) {
            return 0;
        }
        let swept = self.store.sweep(limit).await.unwrap_or_default();
        self.note(Event::Sweeps(swept));
        swept
    }
}
