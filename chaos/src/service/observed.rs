//! Observed stores: steps that take long are written down, so that what came of them is explained.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem::core::answer::Answer;
use idem::core::owner::Owner;
use idem::core::record::{Record, RecordId};
use idem::core::store::{Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError};

use super::ServiceOptions;
use crate::clock::{MILLI, Micros, now};
use crate::history::{Fault, Target};
use crate::journal::{Entry, Journal};

/// A store as it is.
#[derive(Debug)]
pub(super) struct Observed<S> {
    store: S,
    long: Micros,
    target: Target,
    journal: Arc<Journal>,
}

impl<S> Observed<S> {
    pub(super) fn new(store: S, options: &ServiceOptions, journal: Arc<Journal>) -> Self {
        // The rest of the lease is left to those who try again.
        let long = options.lease_ms * MILLI / 3;
        Self { store, long, target: Target::Process(options.process), journal }
    }

    async fn step<T>(&self, step: impl Future<Output = T>) -> T {
        // Also when it is given up: then the guard is dropped.
        let _watch = Watch { begun: now(), of: self };
        step.await
    }
}

struct Watch<'a, S> {
    begun: Micros,
    of: &'a Observed<S>,
}

impl<S> Drop for Watch<'_, S> {
    fn drop(&mut self) {
        let (begun, healed) = (self.begun, now());
        if healed - begun > self.of.long {
            let kind = Fault::STALL.to_owned();
            let target = self.of.target;
            self.of.journal.add(&Entry::Stall(Fault { kind, target, begun, healed, forgets: false }));
        }
    }
}

#[async_trait]
impl<S: Store> Store for Observed<S> {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        self.step(self.store.claim(id, claim)).await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        self.step(self.store.complete(id, owner, answer, retention)).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.step(self.store.release(id, owner, how)).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        self.step(self.store.renew(id, owner, lease)).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        self.store.changed(id, at_most).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.store.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.step(self.store.look_up(id)).await
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.store.settle(id, how).await
    }
}
