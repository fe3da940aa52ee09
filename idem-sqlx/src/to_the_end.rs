//! Steps that must not be cut off in the middle.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that goes on in a task of its own if it is dropped before its end.
///
/// sqlx counts a transaction as begun when the server has said so. If `begin` is dropped before, the connection goes back to
/// its pool in a transaction that nobody knows of, and whatever its next user writes is never committed.
pub(crate) struct ToTheEnd<F: Future + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future + Send + 'static> ToTheEnd<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future + Send + 'static> Future for ToTheEnd<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out while it is polled: a panic drops it here.
        let mut future = self.0.take().expect("it is polled until it is ready");
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Some(future);
        }
        polled
    }
}

impl<F: Future + Send + 'static> Drop for ToTheEnd<F> {
    fn drop(&mut self) {
        if let (Some(future), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move { drop(future.await) });
        }
    }
}

impl<F: Future + Send + 'static> fmt::Debug for ToTheEnd<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToTheEnd")
    }
}
