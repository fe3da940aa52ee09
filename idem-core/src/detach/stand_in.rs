//! What stands for work that cannot leave its thread, where a task that can be sent is asked for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::Task;

type Work = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    /// The work of this thread whose stand-ins are on their way.
    static WORK: RefCell<HashMap<u64, Work>> = RefCell::default();
}

/// Numbers of all threads, so that none is mistaken for that of another.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Leaves the work with its thread, and makes what polls it there: hooks wrap that.
pub(super) fn stand_in(work: impl Future<Output = ()> + 'static) -> Task {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    WORK.with_borrow_mut(|kept| kept.insert(number, Box::pin(work)));
    Box::pin(StandIn(number))
}

struct StandIn(u64);

impl StandIn {
    fn take(&self) -> Option<Work> {
        // A thread that ends has dropped it already.
        WORK.try_with(|kept| kept.borrow_mut().remove(&self.0)).ok().flatten()
    }
}

impl Future for StandIn {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Taken out while it is polled, since it may make others or end by a panic.
        let Some(mut work) = self.take() else {
            tracing::error!("work that cannot leave its thread was taken to another, and does not go on");
            return Poll::Ready(());
        };
        let ended = work.as_mut().poll(cx);
        if ended.is_pending() {
            WORK.with_borrow_mut(|kept| kept.insert(self.0, work));
        }
        ended
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        drop(self.take());
    }
}
