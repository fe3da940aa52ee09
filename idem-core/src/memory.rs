//! The store that keeps its records in this process.

mod builder;
mod entry;
mod moment;
mod shard;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select;

pub use builder::MemoryStoreBuilder;
use entry::Entry;
use table::Table;

use crate::answer::Answer;
use crate::owner::Owner;
use crate::record::{Record, RecordId};
use crate::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use crate::sync::sleep;

/// Keeps its records in the memory of this process: for tests, for a single instance, and where a restart may forget.
///
/// It is bounded: full of live records, it refuses new keys with [`StoreErrorKind::Full`] while those it holds still
/// answer. A live record is never evicted. Expired ones make room by themselves, a few at each visit, so that nothing
/// needs to [`sweep`](Store::sweep) it; sweeping gives memory back while no new keys come. A record costs about 290 bytes
/// besides its answer.
#[derive(Clone)]
pub struct MemoryStore(Arc<Table>);

/// How many shards a sweep looks through before it lets other tasks run.
const VISITS_A_TURN: u32 = 32;

impl MemoryStore {
    /// Makes an empty store for at most a million records.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts with the defaults of [`MemoryStore::new`].
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// How many records it holds, expired ones that are not taken out yet included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds no record at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("records", &self.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        loop {
            if let Some(claimed) = self.0.claim(id, claim) {
                return Ok(claimed);
            }
            if !self.0.make_room() {
                return Err(StoreError::new(StoreErrorKind::Full));
            }
        }
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        Ok(self.0.step(id, Fenced::Lost, |entry, now| entry.complete(owner, answer, retention, now)))
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        let mut fenced = Fenced::Lost;
        self.0.forget(id, |entry, now| {
            fenced = entry.release(owner, how, now);
            fenced == Fenced::Held && entry.is_undone(how)
        });
        Ok(fenced)
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        Ok(self.0.step(id, Fenced::Lost, |entry, now| entry.renew(owner, lease, now)))
    }

    /// Returns at once unless the record is in flight; then as soon as its holder completes or releases it, or when
    /// the lease would lapse.
    async fn changed(&self, id: &RecordId, at_most: Duration) {
        // Made under the lock, so that no wake-up comes between the look at the record and the wait.
        if let Some((woken, lease_left)) = self.0.step(id, None, Entry::wait) {
            select(pin!(woken), pin!(sleep(at_most.min(lease_left)))).await;
        }
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = limit as usize;
        let mut walk = self.0.walk();
        let (mut swept, mut visits) = (0, 0);
        while swept < limit {
            let Some(expired) = self.0.expire_next(&mut walk, limit - swept) else { break };
            swept += expired.records();
            drop(expired);
            visits += 1;
            if visits % VISITS_A_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(swept as u64)
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        Ok(self.0.look_up(id))
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        let Settle::Complete { answer, retention } = how else {
            let forgotten = self.0.forget(id, |entry, _| {
                entry.wake();
                true
            });
            return Ok(if forgotten { Settled::Done } else { Settled::Absent });
        };
        Ok(self.0.step(id, Settled::Absent, |entry, now| entry.settle(answer, *retention, now)))
    }
}
