//! What goes on after the caller has its answer: writes that the store could not take yet.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tracing::Instrument as _;

use crate::answer::{Answer, Codec};
use crate::flight::Flight;
use crate::store::{Fenced, Release, StoreError};
use crate::sync::{Instant, Spawner, sleep};
use crate::tracker::Active;

/// Growing, jittered pauses; short enough that the store's return is noticed within a second.
struct Pauses(Duration);

impl Pauses {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_millis(500);

    async fn pause(&mut self) {
        let jitter = rand::rng().random_range(0.5..1.0);
        sleep(self.0.mul_f64(jitter)).await;
        self.0 = (self.0 * 2).min(Self::LONGEST);
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Some(spawner) = Spawner::current() {
        spawner.spawn(task.in_current_span());
    } else {
        tracing::warn!("no Tokio runtime here: a record is left to its lease");
    }
}

/// Stores the answer when the store is back, for as long as a run may take; then the lease decides.
pub(crate) fn complete(flight: Arc<Flight>, answer: Answer, mut error: StoreError, active: Active) {
    spawn(async move {
        let begun = Instant::now();
        let mut pauses = Pauses(Pauses::FIRST);
        let mut answer = answer;
        while begun.elapsed() < flight.policy().max_run {
            if !error.is_retryable() {
                // The store will not take this answer, ever: that the work is done must still be kept.
                let codec = answer.open().map_or(Codec::JsonOk, |(_, codec, _)| codec);
                answer = Answer::tombstone(codec);
            }
            pauses.pause().await;
            match flight.try_complete(&answer).await {
                Ok(Fenced::Held) => return drop(active),
                Ok(Fenced::Lost) => {
                    tracing::warn!(record = %flight.id(), "the answer came too late: the record was taken over");
                    return;
                }
                Err(again) => error = again,
            }
        }
        tracing::error!(record = %flight.id(), %error, "the answer was never stored; a retry may run again");
    });
}

/// Releases the claim when the store is back; after the lease there is nothing left to release.
pub(crate) fn release(flight: Arc<Flight>, how: Release, active: Active) {
    spawn(async move {
        // An unknown outcome is worth telling after the lease, too.
        let at_most = if how == Release::Unknown { flight.policy().max_run } else { flight.lease() };
        let begun = Instant::now();
        let mut pauses = Pauses(Pauses::FIRST);
        while begun.elapsed() < at_most {
            pauses.pause().await;
            if flight.try_release(how).await.is_ok() {
                break;
            }
        }
        drop(active);
    });
}

/// Takes back a claim that may have got through though the caller was refused.
///
/// A claim that is still on its way is looked for a few times; if it comes later than that, its lease ends it.
pub(crate) fn clear(flight: Arc<Flight>) {
    const TRIES: u32 = 4;
    let Some(active) = flight.enter() else { return };
    spawn(async move {
        let begun = Instant::now();
        let mut pauses = Pauses(Pauses::FIRST);
        let mut tries = 0;
        while tries < TRIES && begun.elapsed() < flight.lease() {
            pauses.pause().await;
            match flight.try_release(flight.undoing()).await {
                Ok(Fenced::Held) => break,
                Ok(Fenced::Lost) => tries += 1,
                Err(_) => {}
            }
        }
        drop(active);
    });
}

/// Frees the key of a run that its caller cancelled.
pub(crate) fn cancel(spawner: &Spawner, flight: Arc<Flight>) {
    let Some(active) = flight.enter() else { return };
    let how = flight.failing();
    spawner.spawn(
        async move {
            if flight.try_release(how).await.is_err() {
                release(flight, how, active);
            }
        }
        .in_current_span(),
    );
}
