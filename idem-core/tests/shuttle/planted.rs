//! Races that were planted, and have to be found: a scheduler that finds nothing promises nothing.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::clock::ManualClock;
use idem_core::engine::Idempotency;
use idem_core::memory::MemoryStore;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId};
use idem_core::store::{Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError};
use shuttle::future::{spawn, yield_now};

use crate::{call, explore, store};

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Race {
    /// A claim looks whether there is a record, and writes one if there was none.
    LookThenWrite,
    /// A completion looks whether its owner still holds the record, and writes if it did.
    FenceThenWrite,
    /// None.
    Nothing,
}

/// A memory store whose steps are not atomic.
#[derive(Debug)]
struct Racy(MemoryStore, Race);

#[async_trait]
impl Store for Racy {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        if self.1 == Race::LookThenWrite && self.0.look_up(id).await?.is_none() {
            yield_now().await;
            self.0.settle(id, &Settle::Forget).await?;
        }
        self.0.claim(id, claim).await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        if self.1 == Race::FenceThenWrite {
            // Over at once, so that it can be settled.
            if self.0.renew(id, owner, Duration::ZERO).await? == Fenced::Lost {
                return Ok(Fenced::Lost);
            }
            yield_now().await;
            let how = Settle::Complete { answer: answer.clone(), retention };
            self.0.settle(id, &how).await?;
            return Ok(Fenced::Held);
        }
        self.0.complete(id, owner, answer, retention).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.0.release(id, owner, how).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        self.0.renew(id, owner, lease).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        self.0.changed(id, at_most).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.0.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.0.look_up(id).await
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.0.settle(id, how).await
    }
}

/// Two callers race; whoever is told an answer is told the one that is stored, and that was made once.
async fn race(race: Race) {
    let engine = Idempotency::new(Racy(store(ManualClock::new()), race));
    let effects = Arc::new(AtomicUsize::new(0));
    let racers: Vec<_> = (0..2)
        .map(|_| {
            let (call, effects) = (call(&engine), effects.clone());
            spawn(async move {
                call.run(move |_| async move { Ok::<_, String>(effects.fetch_add(1, Ordering::SeqCst)) })
                    .await
            })
        })
        .collect();
    for racer in racers {
        let told = racer.await.unwrap().map(idem_core::outcome::Outcome::into_inner);
        assert!(told.is_err() || matches!(told, Ok(Ok(0))), "{told:?}");
    }
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

#[test]
fn a_claim_in_two_steps_is_found() {
    assert!(catch_unwind(|| explore(|| race(Race::LookThenWrite))).is_err());
}

#[test]
fn a_completion_in_two_steps_is_found() {
    assert!(catch_unwind(|| explore(|| race(Race::FenceThenWrite))).is_err());
}

#[test]
fn the_same_in_one_step_passes() {
    explore(|| race(Race::Nothing));
}
