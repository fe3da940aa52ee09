//! The engine and the memory store, as they are, under a scheduler that chooses every interleaving.
//!
//! `RUSTFLAGS="--cfg idem_shuttle" cargo test -p idem-core --features memory --test shuttle --target-dir target/shuttle`
#![cfg(all(idem_shuttle, feature = "memory"))]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use idem_core::clock::ManualClock;
use idem_core::engine::Idempotency;
use idem_core::error::ErrorKind;
use idem_core::memory::MemoryStore;
use idem_core::outcome::Outcome;
use idem_core::policy::InFlight;
use shuttle::future::{block_on, spawn, yield_now};

/// Schedules tried for each test; a failing one is printed and can be replayed.
const SCHEDULES: usize = 2_000;

/// An engine whose store has few shards, so that interleavings meet.
fn engine(clock: ManualClock) -> Idempotency {
    Idempotency::new(MemoryStore::builder().shards(1).clock(clock).build())
}

fn call(engine: &Idempotency) -> idem_core::call::Call {
    engine.call("charge").key("key").fingerprint("a")
}

#[test]
fn of_racing_calls_one_runs_and_the_others_get_its_answer_or_are_told() {
    shuttle::check_random(
        || {
            block_on(async {
                let engine = engine(ManualClock::new());
                let effects = Arc::new(AtomicUsize::new(0));
                let racers: Vec<_> = (0..3)
                    .map(|_| {
                        let (call, effects) = (call(&engine), effects.clone());
                        spawn(async move {
                            call.run(move |_| async move {
                                yield_now().await;
                                Ok::<_, String>(effects.fetch_add(1, Ordering::SeqCst))
                            })
                            .await
                        })
                    })
                    .collect();
                for racer in racers {
                    match racer.await.unwrap() {
                        Ok(outcome) => assert_eq!(outcome.into_inner(), Ok(0)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::InFlight),
                    }
                }
                assert_eq!(effects.load(Ordering::SeqCst), 1);
                assert_eq!(
                    call(&engine).run(|_| async { Ok::<_, String>(9) }).await.unwrap(),
                    Outcome::Replayed(Ok(0))
                );
            });
        },
        SCHEDULES,
    );
}

#[test]
fn waiters_all_get_the_first_answer() {
    shuttle::check_random(
        || {
            block_on(async {
                let engine = engine(ManualClock::new());
                let callers: Vec<_> = (0..3)
                    .map(|i| {
                        let call = call(&engine).in_flight(InFlight::Wait(Duration::from_secs(60)));
                        spawn(async move {
                            call.run(move |_| async move {
                                yield_now().await;
                                Ok::<_, String>(i)
                            })
                            .await
                        })
                    })
                    .collect();
                let mut answers = Vec::new();
                let mut fresh = 0;
                for caller in callers {
                    let outcome = caller.await.unwrap().unwrap();
                    fresh += usize::from(!outcome.is_replayed());
                    answers.push(outcome.into_inner().unwrap());
                }
                assert_eq!(fresh, 1);
                assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
                idle(&engine).await;
            });
        },
        SCHEDULES,
    );
}

#[test]
fn however_leases_lapse_there_is_one_stored_answer_and_everybody_is_told_it() {
    shuttle::check_random(
        || {
            block_on(async {
                let clock = ManualClock::new();
                let engine = engine(clock.clone());
                let lapsing = spawn(async move {
                    for _ in 0..3 {
                        clock.advance(Duration::from_secs(31));
                        yield_now().await;
                    }
                });
                let callers: Vec<_> = (0..3)
                    .map(|_| {
                        let call = call(&engine);
                        spawn(async move {
                            call.run(|run| async move {
                                yield_now().await;
                                Ok::<_, String>(run.attempt())
                            })
                            .await
                        })
                    })
                    .collect();
                let mut told = Vec::new();
                for caller in callers {
                    match caller.await.unwrap() {
                        Ok(outcome) => told.push(outcome.into_inner().unwrap()),
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::InFlight | ErrorKind::LeaseLost),
                            "{error}"
                        ),
                    }
                }
                lapsing.await.unwrap();
                let stored = call(&engine).run(|_| async { Ok::<_, String>(99) }).await.unwrap();
                let stored = stored.into_inner().unwrap();
                assert!(told.iter().all(|answer| *answer == stored), "{told:?} against {stored}");
                idle(&engine).await;
            });
        },
        SCHEDULES,
    );
}

#[test]
fn a_caller_that_goes_away_anywhere_leaves_an_answer_or_nothing() {
    shuttle::check_random(
        || {
            block_on(async {
                let engine = engine(ManualClock::new());
                let effects = Arc::new(AtomicUsize::new(0));
                let first = spawn({
                    let (call, effects) = (call(&engine), effects.clone());
                    async move {
                        let work = call.run(move |_| async move {
                            for _ in 0..3 {
                                yield_now().await;
                            }
                            Ok::<_, String>(effects.fetch_add(1, Ordering::SeqCst))
                        });
                        // Dropped after two polls, unless it is ready by then.
                        polled(Box::pin(work), 2).await;
                    }
                });
                first.await.unwrap();
                idle(&engine).await;
                let effects_of_first = effects.load(Ordering::SeqCst);
                let retry = call(&engine).run(|_| async { Ok::<_, String>(7) }).await.unwrap();
                match effects_of_first {
                    0 => assert_eq!(retry, Outcome::Fresh(Ok(7))),
                    1 => assert_eq!(retry, Outcome::Replayed(Ok(0))),
                    more => panic!("{more} effects"),
                }
                idle(&engine).await;
            });
        },
        SCHEDULES,
    );
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
