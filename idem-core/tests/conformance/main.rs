//! The store contract, tried on the memory store; and the suite itself, tried on stores that break the contract.
#![cfg(all(feature = "conformance", feature = "memory"))]

mod faults;
mod faulty;

use std::sync::Arc;
use std::time::Duration;

use idem_core::clock::ManualClock;
use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_core::memory::MemoryStore;
use idem_core::store::Store;

/// Time stands still unless a case lets it pass: spans end exactly when they should.
#[derive(Default)]
struct Wound(ManualClock);

impl Subject for Wound {
    type Store = MemoryStore;

    async fn fresh(&self) -> MemoryStore {
        MemoryStore::builder().clock(self.0.clone()).build()
    }

    async fn pass(&self, span: Duration) {
        self.0.advance(span);
    }

    async fn held(&self, store: &MemoryStore) -> Option<u64> {
        Some(store.len() as u64)
    }
}

/// Time passes by itself, as for any store that has a clock of its own.
struct Running;

impl Subject for Running {
    type Store = MemoryStore;

    async fn fresh(&self) -> MemoryStore {
        MemoryStore::new()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn held(&self, store: &MemoryStore) -> Option<u64> {
        Some(store.len() as u64)
    }
}

/// One shard: all records are neighbours.
#[derive(Default)]
struct Crowded(ManualClock);

impl Subject for Crowded {
    type Store = MemoryStore;

    async fn fresh(&self) -> MemoryStore {
        MemoryStore::builder().shards(1).max_bytes(usize::MAX).clock(self.0.clone()).build()
    }

    async fn pass(&self, span: Duration) {
        self.0.advance(span);
    }
}

/// The store behind a pointer, as the engine holds it.
#[derive(Default)]
struct Dyn(ManualClock);

impl Subject for Dyn {
    type Store = Arc<dyn Store>;

    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::builder().clock(self.0.clone()).build())
    }

    async fn pass(&self, span: Duration) {
        self.0.advance(span);
    }
}

conformance_tests!(mod wound, Wound::default());
conformance_tests!(mod running, Running);
conformance_tests!(mod crowded, Crowded::default());
conformance_tests!(mod dynamic, Dyn::default());
