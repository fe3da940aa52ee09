//! Counts what is under way, so that new work can be refused and a shutdown can wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::sync::{AtomicUsize, Instant, Ordering, sleep};

/// Counts the runs and background writes of one engine.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    active: AtomicUsize,
    /// Those of them that are runs; counted only where there is a limit to them.
    running: AtomicUsize,
    idle: Notify,
}

/// One claim, run or background write; dropped when it has ended.
#[derive(Debug)]
pub(crate) struct Active {
    tracker: Arc<Tracker>,
    has_room: bool,
}

impl Tracker {
    /// Counts as under way, whatever the limit.
    pub(crate) fn enter(self: &Arc<Self>) -> Active {
        self.active.fetch_add(1, Ordering::AcqRel);
        Active { tracker: self.clone(), has_room: false }
    }

    /// Whether fewer than `limit` run.
    pub(crate) fn has_room(&self, limit: Option<usize>) -> bool {
        limit.is_none_or(|limit| self.running.load(Ordering::Acquire) < limit)
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

impl Active {
    /// Begins to run unless `limit` do.
    ///
    /// A claim alone takes no room: most of those that are refused are replays.
    pub(crate) fn take_room(&mut self, limit: Option<usize>) -> bool {
        let Some(limit) = limit else { return true };
        self.has_room = self
            .tracker
            .running
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |running| {
                (running < limit).then_some(running + 1)
            })
            .is_ok();
        self.has_room
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let Self { tracker, has_room } = self;
        if *has_room {
            tracker.running.fetch_sub(1, Ordering::AcqRel);
        }
        if tracker.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            tracker.idle.notify_waiters();
        }
    }
}
