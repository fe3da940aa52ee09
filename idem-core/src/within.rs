//! A time limit that costs nothing for steps that are ready at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::store::{StoreError, StoreErrorKind};
use crate::sync::sleep;

/// Takes a step of the store, and gives it up after `limit`. The timer is made only if the step is not ready at once.
pub(crate) fn within<T, F>(limit: Duration, step: F) -> Within<F>
where
    F: Future<Output = Result<T, StoreError>>,
{
    Within { step, limit, timer: None }
}

pin_project! {
    pub(crate) struct Within<F> {
        #[pin]
        step: F,
        limit: Duration,
        timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    }
}

impl<T, F> Future for Within<F>
where
    F: Future<Output = Result<T, StoreError>>,
{
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(result) = this.step.poll(cx) {
            return Poll::Ready(result);
        }
        let limit = *this.limit;
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(StoreError::new(StoreErrorKind::TimedOut)))
    }
}
