//! What goes on after the caller has its answer: writes that the store could not take yet.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument as _;

use crate::answer::Answer;
use crate::flight::Flight;
use crate::lease::Ticket;
use crate::store::{Fenced, Release, StoreError};
use crate::sync::{Instant, Spawner, sleep};
use crate::telemetry::Trouble;
use crate::tracker::Active;

/// Growing, jittered pauses; short enough that the store's return is noticed within a second.
///
/// The jitter is that of the record, whose digest is as good as random: what happens to one can be told again.
struct Pauses<'a> {
    next: Duration,
    longest: Duration,
    jitter: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl<'a> Pauses<'a> {
    fn new(flight: &'a Flight) -> Self {
        Self {
            next: Duration::from_millis(20),
            longest: Duration::from_millis(500),
            jitter: flight.id().digest().iter().cycle(),
        }
    }

    async fn pause(&mut self) {
        let jitter = self.jitter.next().copied().unwrap_or(u8::MAX);
        // Between a half and the whole of it.
        sleep(self.next / 512 * (256 + u32::from(jitter))).await;
        self.next = (self.next * 2).min(self.longest);
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Some(spawner) = Spawner::current() {
        spawner.spawn(task.in_current_span());
    } else {
        tracing::warn!("no Tokio runtime here: a record is left to its lease");
    }
}

/// What is offered to the store until it takes it: sealed once, however often that has to be.
pub(crate) struct Offer {
    pub(crate) answer: Answer,
    /// That the work is done, for a store that does not take the answer.
    pub(crate) instead: Answer,
}

/// Stores the answer when the store is back, for as long as a run may take; then the lease decides.
pub(crate) fn complete(
    flight: Arc<Flight>,
    offer: Offer,
    mut error: StoreError,
    active: Active,
    ticket: Ticket,
) {
    spawn(async move {
        // Both end with this task: the lease is renewed until then.
        let _held = (active, ticket);
        let begun = Instant::now();
        let mut pauses = Pauses::new(&flight);
        while begun.elapsed() < flight.policy().max_run {
            pauses.pause().await;
            match complete_somehow(&flight, &offer).await {
                Ok(Fenced::Held) => return,
                Ok(Fenced::Lost) => {
                    Trouble::AnswerFenced.tell(flight.id(), None);
                    return;
                }
                Err(again) => error = again,
            }
        }
        Trouble::AnswerNeverStored.tell(flight.id(), Some(&error));
    });
}

/// Stores the answer, or, if the store does not take it, that the work is done.
///
/// A store that takes neither may have to be mended, and the answer is offered to it again.
async fn complete_somehow(flight: &Arc<Flight>, offer: &Offer) -> Result<Fenced, StoreError> {
    match flight.try_complete(&offer.answer).await {
        Err(error) if !error.is_retryable() => flight.try_complete(&offer.instead).await,
        result => result,
    }
}

/// Releases the claim when the store is back; after the lease there is nothing left to release.
pub(crate) fn release(flight: Arc<Flight>, how: Release, active: Active) {
    spawn(async move {
        // An unknown outcome is worth telling after the lease, too.
        let at_most = if how == Release::Unknown { flight.policy().max_run } else { flight.lease() };
        let begun = Instant::now();
        let mut pauses = Pauses::new(&flight);
        while begun.elapsed() < at_most {
            pauses.pause().await;
            if flight.try_release(how).await.is_ok() {
                break;
            }
        }
        drop(active);
    });
}

/// How long a claim that was not answered may still be under way; if it comes later than that, its lease ends it.
pub(crate) const LATEST: Duration = Duration::from_mins(1);

/// Takes back a claim that may have got through, or may yet, though nothing runs under it.
///
/// It is looked for less and less often. A shutdown waits for the first few looks only.
pub(crate) fn clear(flight: Arc<Flight>) {
    const AWAITED: u32 = 4;
    const RARELY: Duration = Duration::from_secs(5);
    let mut active = Some(flight.enter());
    spawn(async move {
        let at_most = flight.lease().min(LATEST);
        let begun = Instant::now();
        let mut pauses = Pauses::new(&flight);
        let mut looks = 0;
        while begun.elapsed() < at_most {
            pauses.pause().await;
            match flight.ask_release(flight.undoing()).await {
                Ok(Fenced::Held) => break,
                Ok(Fenced::Lost) => {
                    looks += 1;
                    pauses.longest = RARELY;
                    if looks == AWAITED {
                        active = None;
                    }
                }
                Err(_) => {}
            }
        }
        drop(active);
    });
}

/// Frees the key of a run that its caller cancelled.
pub(crate) fn cancel(spawner: &Spawner, flight: Arc<Flight>) {
    let active = flight.enter();
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
