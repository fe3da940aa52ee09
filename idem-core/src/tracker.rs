//! Counts what is under way, so that new work can be refused and a shutdown can wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::sync::{AtomicUsize, Instant, Ordering, sleep};

/// Counts the runs and background writes of one engine.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    active: AtomicUsize,
    idle: Notify,
}

/// One run or background write; dropped when it has ended.
#[derive(Debug)]
pub(crate) struct Active(Arc<Tracker>);

impl Tracker {
    /// Enters unless `limit` are under way.
    pub(crate) fn enter(self: &Arc<Self>, limit: Option<usize>) -> Option<Active> {
        let limit = limit.unwrap_or(usize::MAX);
        self.active
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |active| {
                (active < limit).then_some(active + 1)
            })
            .ok()
            .map(|_| Active(self.clone()))
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }

    /// Waits until nothing is under way, at most so long; tells how many still are.
    pub(crate) async fn drained(&self, at_most: Duration) -> usize {
        let deadline = Instant::now() + at_most.min(Duration::from_hours(24 * 365));
        loop {
            let idle = self.idle.notified();
            let mut idle = std::pin::pin!(idle);
            idle.as_mut().enable();
            let active = self.active();
            let now = Instant::now();
            if active == 0 || now >= deadline {
                return active;
            }
            futures_util::future::select(idle, Box::pin(sleep(deadline - now))).await;
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if self.0.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
