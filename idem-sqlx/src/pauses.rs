//! Pauses before something is tried again that met another transaction.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::waiters::jittered;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// Pauses, each longer than the one before.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    count: u32,
    since: Instant,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: SHORTEST, count: 0, since: Instant::now() }
    }
}

impl Pauses {
    pub(crate) async fn pause(&mut self) {
        sleep(jittered(self.next)).await;
        self.count += 1;
        self.next = (self.next * 2).min(LONGEST);
    }

    /// How many there have been.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How long ago it was first tried.
    pub(crate) fn spent(&self) -> Duration {
        self.since.elapsed()
    }
}
