//! The engine and the memory store, as they are, under a scheduler that chooses every interleaving.
//!
//! `RUSTFLAGS="--cfg idem_shuttle" cargo test -p idem-core --features memory --test shuttle --target-dir target/shuttle`
//!
//! Each test is tried under schedules chosen at random, and under such as change their mind only a few times (PCT), which
//! finds races that need one task to be very late. `IDEM_TEST_SCHEDULES=50000` tries more of both.
#![cfg(all(idem_shuttle, feature = "memory"))]

mod away;
mod leases;
mod leaving;
mod planted;
mod races;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use idem_core::call::Call;
use idem_core::clock::ManualClock;
use idem_core::engine::Idempotency;
use idem_core::error::Error;
use idem_core::memory::MemoryStore;
use idem_core::outcome::Outcome;
use shuttle::future::{JoinHandle, block_on, spawn, yield_now};

/// How many switches of one task for another a PCT schedule has besides those that have to be.
const DEPTH: usize = 3;

/// Tries many schedules of either kind; a failing one is printed and can be replayed.
fn explore<F: Future<Output = ()>>(test: impl Fn() -> F + Copy + Send + Sync + 'static) {
    let schedules =
        std::env::var("IDEM_TEST_SCHEDULES").map_or(2_000, |many| many.parse().expect("a number"));
    shuttle::check_random(move || block_on(test()), schedules);
    shuttle::check_pct(move || block_on(test()), schedules, DEPTH);
}

/// A store with few shards, so that interleavings meet.
fn store(clock: ManualClock) -> MemoryStore {
    MemoryStore::builder().shards(1).clock(clock).build()
}

/// An engine over such a store.
fn engine(clock: ManualClock) -> Idempotency {
    Idempotency::new(store(clock))
}

fn call(engine: &Idempotency) -> Call {
    engine.call("charge").key("key").fingerprint("a")
}

/// A caller whose handler counts its runs, and answers how many there were before.
fn counting(
    call: Call,
    runs: &Arc<AtomicUsize>,
) -> JoinHandle<Result<Outcome<Result<usize, String>>, Error>> {
    let runs = runs.clone();
    spawn(async move {
        call.run(move |_| async move {
            yield_now().await;
            Ok::<_, String>(runs.fetch_add(1, Ordering::SeqCst))
        })
        .await
    })
}

/// Waits until the engine's own tasks have ended, as a schedule has to.
async fn idle(engine: &Idempotency) {
    while !engine.is_idle() {
        yield_now().await;
    }
}

/// Polls a future at most so many times, then drops it.
async fn polled<F: Future>(mut future: Pin<Box<F>>, times: usize) {
    let mut left = times;
    std::future::poll_fn(move |cx| {
        if left == 0 || future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
