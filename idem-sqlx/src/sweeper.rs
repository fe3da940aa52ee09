//! Sweepers: tasks that delete what has expired.
//!
//! With the feature `metrics` each round of a sweeper is told: counters `idem_swept_records_total` and
//! `idem_sweep_failures_total`, histogram `idem_sweep_seconds`.

use std::sync::Arc;
use std::time::Duration;

use idem_core::store::Store;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::waiters::jittered;

/// How many records a sweeper asks to be deleted at a time.
const BATCH: u32 = 1_000;

/// A task that deletes expired records every now and then, until it is stopped or dropped.
///
/// Any number of them may run, in any number of processes. A sweep that fails is logged, and tried again at the next
/// interval.
#[derive(Debug)]
#[must_use = "a sweeper stops when it is dropped"]
pub struct Sweeper {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Sweeper {
    /// Starts a sweeper on the current tokio runtime.
    ///
    /// Its pauses are half to three halves of `interval`, so that many processes do not sweep at once.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(store: impl Store, interval: Duration) -> Self {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            // A zero interval would leave nothing to the others.
            let interval = interval.max(Duration::from_millis(1));
            while timeout(jittered(interval.min(Duration::MAX / 4)), stopped.notified()).await.is_err() {
                sweep_all(&store).await;
            }
        });
        Self { stop, task }
    }

    /// Stops the sweeper and waits until the batch in progress is done.
    pub async fn stop(mut self) {
        self.stop.notify_one();
        // It ends by itself, unless its runtime has ended before.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sweeps batch by batch, and lets others write in between.
async fn sweep_all(store: &impl Store) {
    #[cfg(feature = "metrics")]
    let begun = std::time::Instant::now();
    loop {
        match store.sweep(BATCH).await {
            Ok(deleted) => {
                #[cfg(feature = "metrics")]
                metrics::counter!("idem_swept_records_total").increment(deleted);
                if deleted < u64::from(BATCH) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, source, "could not sweep expired idempotency records");
                #[cfg(feature = "metrics")]
                metrics::counter!("idem_sweep_failures_total").increment(1);
                break;
            }
        }
    }
    #[cfg(feature = "metrics")]
    metrics::histogram!("idem_sweep_seconds").record(begun.elapsed());
}
