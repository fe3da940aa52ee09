//! How to make a memory store.

use std::sync::Arc;

use super::MemoryStore;
use super::table::Table;
use crate::clock::{Clock, SystemClock};

/// Makes a [`MemoryStore`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct MemoryStoreBuilder {
    max_records: usize,
    max_bytes: Option<usize>,
    shards: usize,
    clock: Option<Arc<dyn Clock>>,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self { max_records: 1_000_000, max_bytes: None, shards: 4096, clock: None }
    }
}

impl MemoryStoreBuilder {
    /// Sets how many records it holds at most; a new key beyond that is refused. Default = 1,000,000.
    pub fn max_records(mut self, records: usize) -> Self {
        self.max_records = records;
        self
    }

    /// Sets from how many bytes on new keys are refused, at 288 bytes a record and the size of its answer.
    ///
    /// Work that was begun is always completed, so the bound can be exceeded by the answers of what is in flight.
    /// Default = none.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets how many locks the records are spread over, rounded up to a power of two; at most 65,536. Default = 4,096.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards.clamp(1, 65_536).next_power_of_two();
        self
    }

    /// Sets the clock that leases and expiries are measured with. Default = [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Makes the store, empty.
    pub fn build(self) -> MemoryStore {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        MemoryStore(Arc::new(Table::new(self.shards, self.max_records, self.max_bytes, clock)))
    }
}
