//! A time limit that costs nothing for steps that are ready at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::store::{StoreError, StoreErrorKind};
use crate::sync::sleep;

/// Takes a step of the store, and gives it up after `limit`. The timer is made only if the step is not ready at once.
///
/// The limit is counted in quarters. A process that stood still, paused or on a machine that slept, finds its timers
/// run out although the step had no time: that costs one quarter, and the step still has the others.
pub(crate) fn within<T, F>(limit: Duration, step: F) -> Within<F>
where
    F: Future<Output = Result<T, StoreError>>,
{
    const QUARTERS: u32 = 4;
    Within { step, part: limit / QUARTERS, parts: QUARTERS, timer: None }
}

/// As [`within`], by the wall clock: for the caller's own work, which may not go on long after it was given up.
pub(crate) fn until<T, F>(limit: Duration, work: F) -> Within<F>
where
    F: Future<Output = Result<T, StoreError>>,
{
    Within { step: work, part: limit, parts: 1, timer: None }
}

/// Takes a step that may be taken twice, and takes it again after errors of these kinds: up to three times, and for no
/// longer than `limit` in all.
pub(crate) async fn repeated<T, F>(
    limit: Duration,
    after: &[StoreErrorKind],
    mut step: impl FnMut() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    const AGAIN: u32 = 2;
    within(limit, async {
        for tries in 1..=AGAIN {
            match step().await {
                Err(error) if after.contains(&error.kind()) => {}
                result => return result,
            }
            sleep(Duration::from_millis(10) * tries).await;
        }
        step().await
    })
    .await
}

/// The connection broke, or the store took too long.
pub(crate) const UNANSWERED: &[StoreErrorKind] = &[StoreErrorKind::Unavailable, StoreErrorKind::TimedOut];

pin_project! {
    pub(crate) struct Within<F> {
        #[pin]
        step: F,
        part: Duration,
        parts: u32,
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
        let part = *this.part;
        while *this.parts > 0 {
            let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(part)));
            ready!(timer.as_mut().poll(cx));
            *this.timer = None;
            *this.parts -= 1;
        }
        Poll::Ready(Err(StoreError::new(StoreErrorKind::TimedOut)))
    }
}
