//! The line from a process to the store: what goes over it may be late, or lost, or its reply.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use tokio::time::sleep;

use crate::broken::Broken;
use crate::op::{Op, Said};
use crate::trace::{Event, Fault, Step};
use crate::world::World;

/// The store as one process sees it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) world: Arc<World>,
    pub(crate) process: u32,
}

fn ms(span: u32) -> Duration {
    Duration::from_millis(u64::from(span))
}

impl Line {
    /// What befalls the next step.
    fn fault(&self, step: Step) -> Option<Fault> {
        let cut_off = self.world.process(self.process).cut_off;
        let mut state = self.world.state();
        let state = &mut *state;
        let plan = &self.world.plan;
        if cut_off {
            return Some(if state.dice.percent(50) { Fault::Lost } else { Fault::Refused });
        }
        if state.healed || !state.dice.percent(plan.troubled) {
            return None;
        }
        let span = plan.pause(&mut state.dice).as_millis() as u32;
        let kind = state.dice.below(8);
        if plan.faults & (1 << kind) == 0 {
            return None;
        }
        match kind {
            0 => Some(Fault::Refused),
            1 => Some(Fault::Lost),
            2 => Some(Fault::ReplyBroken),
            3 => Some(Fault::ReplyLost),
            4 => Some(Fault::Slow(span)),
            5 => Some(Fault::SlowReply(span)),
            6 => Some(Fault::Late(span)),
            _ => matches!(step, Step::Claim | Step::Complete).then_some(Fault::Full),
        }
    }

    /// A message takes no time, or a little.
    async fn travels(&self) {
        let takes = self.world.dice(|_, dice| if dice.percent(60) { 0 } else { dice.within(1, 3) });
        if takes > 0 {
            sleep(ms(takes)).await;
        }
    }

    async fn send(&self, id: &RecordId, op: Op) -> Result<Said, StoreError> {
        let world = &self.world;
        world.lives(self.process).await;
        let (step, call) = (op.step(), world.claimant(&op).call);
        let fault = self.fault(step);
        if let Some(fault) = fault {
            world.note(Event::Befalls(step, call, fault));
        }
        let said = match fault {
            None => {
                self.travels().await;
                if let Some(broken) = world.broken {
                    broken.dawdle(world, id, &op).await;
                }
                let said = world.take(id, &op);
                self.travels().await;
                said
            }
            Some(Fault::Refused) => Err(StoreError::new(StoreErrorKind::Unavailable)),
            Some(Fault::Full) => Err(StoreError::new(StoreErrorKind::Full)),
            Some(Fault::ReplyBroken) => {
                world.take(id, &op)?;
                Err(StoreError::new(StoreErrorKind::Unavailable))
            }
            Some(Fault::Lost) => std::future::pending().await,
            Some(Fault::ReplyLost) => {
                world.take(id, &op)?;
                std::future::pending().await
            }
            Some(Fault::Slow(span)) => {
                sleep(ms(span)).await;
                world.take(id, &op)
            }
            Some(Fault::SlowReply(span)) => {
                let said = world.take(id, &op);
                sleep(ms(span)).await;
                said
            }
            Some(Fault::Late(span)) => {
                let (late, id) = (world.clone(), id.clone());
                tokio::spawn(async move {
                    sleep(ms(span)).await;
                    let _ = late.take(&id, &op);
                });
                if span % 2 == 0 {
                    std::future::pending::<()>().await;
                }
                Err(StoreError::new(StoreErrorKind::Unavailable))
            }
        };
        world.lives(self.process).await;
        said
    }

    async fn fenced(&self, id: &RecordId, op: Op) -> Result<Fenced, StoreError> {
        match self.send(id, op).await? {
            Said::Fenced(fenced) => Ok(fenced),
            other => unreachable!("{other:?}"),
        }
    }
}

#[async_trait]
impl Store for Line {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        match self.send(id, Op::Claim(claim.clone())).await? {
            Said::Claimed(claimed) => Ok(match self.world.broken {
                Some(broken) => broken.lie(claimed),
                None => claimed,
            }),
            other => unreachable!("{other:?}"),
        }
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        if self.world.broken == Some(Broken::CompletionForgotten) {
            return Ok(Fenced::Held);
        }
        self.fenced(id, Op::Complete(owner, answer.clone(), retention)).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.fenced(id, Op::Release(owner, how)).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        self.fenced(id, Op::Renew(owner, lease)).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        self.world.store.changed(id, at_most).await;
        self.world.lives(self.process).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        Ok(self.world.sweep(limit).await)
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        match self.send(id, Op::LookUp).await? {
            Said::Record(record) => Ok(record),
            other => unreachable!("{other:?}"),
        }
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.world.store.settle(id, how).await
    }
}
