//! Late: an idem that waits for longer than a lease where nothing is slow, for the checker to find.

use std::time::Duration;

use async_trait::async_trait;
use idem::core::answer::Answer;
use idem::core::owner::Owner;
use idem::core::record::{Record, RecordId};
use idem::core::store::{Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError};
use tokio::time::sleep;

/// A store that is told late of what its holders want.
#[derive(Debug)]
pub(super) struct Late<S> {
    pub(super) store: S,
    pub(super) by: Duration,
}

#[async_trait]
impl<S: Store> Store for Late<S> {
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
        sleep(self.by).await;
        self.store.complete(id, owner, answer, retention).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.store.release(id, owner, how).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        sleep(self.by).await;
        self.store.renew(id, owner, lease).await
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
