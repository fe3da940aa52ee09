//! An answer that the store does not take at first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::clock::{ManualClock, advance};
use idem_core::engine::Idempotency;
use idem_core::error::ErrorKind;
use idem_core::memory::MemoryStore;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use shuttle::future::yield_now;

use crate::{call, explore, idle, store};

/// A memory store that takes no answer before it has seen a renewal.
#[derive(Debug)]
struct Away {
    store: MemoryStore,
    renewed: AtomicBool,
}

#[async_trait]
impl Store for Away {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        self.store.claim(id, claim).await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        if !self.renewed.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Unavailable));
        }
        self.store.complete(id, owner, answer, retention).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.store.release(id, owner, how).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        let fenced = self.store.renew(id, owner, lease).await;
        self.renewed.store(true, Ordering::SeqCst);
        fenced
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        self.store.changed(id, at_most).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.store.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.store.look_up(id).await
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.store.settle(id, how).await
    }
}

#[test]
fn an_answer_that_waits_is_renewed_though_its_lease_may_be_over_by_then() {
    for pauses in 0..3 {
        explore(move || async move {
            let away = Away { store: store(ManualClock::new()), renewed: AtomicBool::new(false) };
            let engine = Idempotency::new(away);
            let outcome = call(&engine)
                .run(move |_| async move {
                    if pauses > 0 {
                        yield_now().await;
                    }
                    advance(Duration::from_secs(31));
                    if pauses > 1 {
                        yield_now().await;
                    }
                    Ok::<_, String>(1)
                })
                .await;
            match outcome {
                Ok(outcome) => assert_eq!(outcome.into_inner(), Ok(1)),
                // It noticed in time.
                Err(error) => assert!(pauses > 0 && error.kind() == ErrorKind::InFlight, "{error}"),
            }
            idle(&engine).await;
        });
    }
}
