//! Waiters: callers that sleep until a record changes.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::record::{RecordId, State};
use futures_util::future::{Either, select};
use rand::RngExt as _;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::row::Row;

/// The first pause between two looks at a record that another process may change.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest.
const LONGEST: Duration = Duration::from_millis(400);
/// The pause of those who are told, should it be forgotten.
const TOLD: Duration = Duration::from_secs(1);

type Bells = Mutex<HashMap<[u8; 32], Arc<Notify>>>;

/// Those who wait in this process, by record.
#[derive(Debug, Default)]
pub struct Waiters(Bells);

/// One waiter's part in a bell; the last one takes it down.
struct Waiter<'a> {
    bells: &'a Bells,
    id: [u8; 32],
    bell: Arc<Notify>,
}

impl Waiters {
    /// Wakes those who wait for this record.
    pub fn wake(&self, id: &RecordId) {
        self.wake_digest(id.digest());
    }

    /// Wakes those who wait for the record of this digest.
    pub fn wake_digest(&self, digest: &[u8; 32]) {
        if let Some(bell) = lock(&self.0).get(digest) {
            bell.notify_waiters();
        }
    }

    /// Wakes everybody: they may have missed a change.
    pub fn wake_all(&self) {
        lock(&self.0).values().for_each(|bell| bell.notify_waiters());
    }

    /// Waits until the record is woken or read to be no longer in the same flight, at most so long.
    ///
    /// A store that changes it elsewhere rings no bell here, unless it is expected to. So the record is read now and then,
    /// with growing pauses.
    pub async fn wait<F, L>(
        &self,
        id: &RecordId,
        at_most: Duration,
        look_up: impl Fn() -> F,
        is_locked: impl Fn() -> L,
        expect: impl Future<Output = bool>,
    ) where
        F: Future<Output = Option<Row>>,
        L: Future<Output = bool>,
    {
        let waiter = self.enter(id);
        let mut bell = pin!(waiter.bell.notified());
        // From here on no ring is missed; what happened before is seen by the first look.
        bell.as_mut().enable();
        let polling = pin!(async {
            let mut pause = SHORTEST;
            let Some(first) = look_up().await.filter(|row| !row.is_free()) else {
                // What a transaction has claimed cannot be read until that is over.
                while is_locked().await {
                    sleep(jittered(pause)).await;
                    pause = (pause * 3 / 2).min(LONGEST);
                }
                return;
            };
            let mut left = in_flight(&first);
            let is_told = left.is_some() && expect.await;
            if is_told {
                // What happened before it was expected is seen at once.
                pause = Duration::ZERO;
            }
            while let Some(lease_left) = left {
                sleep(jittered(pause).min(lease_left)).await;
                pause = if is_told { TOLD } else { (pause * 3 / 2).min(LONGEST) };
                left = look_up()
                    .await
                    .filter(|row| row.owner == first.owner && row.attempt == first.attempt)
                    .and_then(|row| in_flight(&row));
            }
        });
        let _ = timeout(at_most, async {
            match select(bell, polling).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        })
        .await;
    }

    fn enter(&self, id: &RecordId) -> Waiter<'_> {
        let bell = Arc::clone(lock(&self.0).entry(*id.digest()).or_default());
        Waiter { bells: &self.0, id: *id.digest(), bell }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut bells = lock(self.bells);
        // One count is the map's, one is ours; nobody can enter meanwhile.
        if Arc::strong_count(&self.bell) == 2 {
            bells.remove(&self.id);
        }
    }
}

fn lock(bells: &Bells) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Arc<Notify>>> {
    bells.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the lease still lasts, and a little more, so that the next look finds it lapsed.
fn in_flight(row: &Row) -> Option<Duration> {
    let lasts = Duration::from_micros(u64::try_from(row.lease_until - row.now).unwrap_or(0));
    (row.state() == State::InFlight).then_some(lasts + Duration::from_millis(1))
}

/// Half to three halves of a pause: those who came together shall not look together.
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..1.5))
}
