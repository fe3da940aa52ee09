//! Leases: renewed while the work runs, lost by zombies, over for handlers that hang.

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::key::{Key, Scope};
use idem_core::outcome::Outcome;
use idem_core::policy::OnCrash;
use idem_core::store::StoreErrorKind;
use tokio::sync::oneshot;
use tokio::time::{Instant, advance, sleep};

use crate::faulty::{Fault, Step};
use crate::support::{Effects, LEASE, SECOND, begins, call, charge, engine, engine_with};

#[tokio::test(start_paused = true)]
async fn a_handler_may_take_five_times_its_lease() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let slow = {
        let effects = effects.clone();
        tokio::spawn(call(&engine, "key", "a").run(move |_| async move {
            sleep(5 * LEASE).await;
            Ok::<_, String>(effects.happen())
        }))
    };
    store.reached(Step::Claim, 1).await;
    for _ in 0..140 {
        sleep(SECOND).await;
        let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InFlight);
    }
    assert_eq!(slow.await.unwrap().unwrap(), Outcome::Fresh(Ok(1)));
    let renewals = store.count(Step::Renew);
    assert!((14..=16).contains(&renewals), "one a third of the lease, not {renewals}");
}

#[tokio::test(start_paused = true)]
async fn handlers_that_end_within_a_third_of_the_lease_are_not_renewed() {
    let (store, engine) = engine();
    for i in 0..100 {
        let outcome = call(&engine, &format!("key-{i}"), "a")
            .run(|_| async {
                sleep(Duration::from_millis(9_950)).await;
                Ok::<_, String>(())
            })
            .await;
        assert!(outcome.is_ok());
    }
    assert_eq!(store.count(Step::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_is_renewed_beside_long_ones() {
    let (store, engine) = engine();
    let long = tokio::spawn(call(&engine, "long", "a").run(|_| async {
        sleep(20 * SECOND).await;
        Ok::<_, String>(())
    }));
    store.reached(Step::Claim, 1).await;
    sleep(SECOND).await;
    let short = call(&engine, "short", "a").lease(Duration::from_millis(300)).run(|_| async {
        sleep(3 * SECOND).await;
        Ok::<_, String>(())
    });
    assert_eq!(short.await.unwrap(), Outcome::Fresh(Ok(())));
    assert!(store.count(Step::Renew) >= 25);
    assert_eq!(long.await.unwrap().unwrap(), Outcome::Fresh(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn renewal_is_tried_on_until_the_lease_may_be_over_and_then_the_work_is_aborted() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let slow = {
        let effects = effects.clone();
        tokio::spawn(call(&engine, "key", "a").run(move |_| async move {
            sleep(5 * LEASE).await;
            Ok::<_, String>(effects.happen())
        }))
    };
    store.reached(Step::Claim, 1).await;
    let begun = Instant::now();
    store.fail(Step::Renew, usize::MAX, Fault::Lost(StoreErrorKind::Unavailable));
    let error = slow.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    let took = begun.elapsed();
    assert!(took.abs_diff(LEASE) <= SECOND, "{took:?}");
    assert!(store.count(Step::Renew) > 10, "it was tried on");
    assert_eq!(effects.count(), 0, "the handler was aborted");
    store.heal();
    let outcome = call(&engine, "key", "a").run(|run| async move { Ok::<_, String>(run.attempt()) }).await;
    assert_eq!(outcome.unwrap(), Outcome::Fresh(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_comes_through_again_saves_the_lease() {
    let (store, engine) = engine();
    let slow = tokio::spawn(call(&engine, "key", "a").run(|_| async {
        sleep(3 * LEASE).await;
        Ok::<_, String>(1)
    }));
    store.reached(Step::Claim, 1).await;
    store.fail(Step::Renew, 5, Fault::Lost(StoreErrorKind::Unavailable));
    assert_eq!(slow.await.unwrap().unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_zombie_answers_what_the_record_says_and_changes_nothing() {
    let (_, engine) = engine();
    // Blocked for longer than its lease without being polled: nobody renews, somebody takes over.
    let (go_on, gone_on) = oneshot::channel::<()>();
    let mut zombie = Box::pin(call(&engine, "key", "a").run_inline(|_| async {
        gone_on.await.unwrap();
        Ok::<_, String>("zombie".to_owned())
    }));
    assert!(begins(&mut zombie).await);
    // The lease lapses only if the renewer cannot renew.
    let id = engine.record_id("charge", &Scope::SHARED, &Key::new("key").unwrap());
    assert!(engine.forget(&id).await.is_ok());
    let winner = call(&engine, "key", "a").run(|_| async { Ok::<_, String>("winner".to_owned()) }).await;
    assert_eq!(winner.unwrap(), Outcome::Fresh(Ok("winner".to_owned())));
    go_on.send(()).unwrap();
    assert_eq!(zombie.await.unwrap(), Outcome::Replayed(Ok("winner".to_owned())));
    let third = call(&engine, "key", "a").run(|_| async { Ok::<_, String>("third".to_owned()) }).await;
    assert_eq!(third.unwrap(), Outcome::Replayed(Ok("winner".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_finds_the_lease_lost_aborts_the_work() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let slow = {
        let effects = effects.clone();
        tokio::spawn(call(&engine, "key", "a").run(move |_| async move {
            sleep(5 * LEASE).await;
            Ok::<_, String>(effects.happen())
        }))
    };
    store.reached(Step::Claim, 1).await;
    let id = engine.record_id("charge", &Scope::SHARED, &Key::new("key").unwrap());
    assert!(engine.forget(&id).await.is_ok());
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    let begun = Instant::now();
    assert_eq!(slow.await.unwrap().unwrap(), Outcome::Replayed(Ok(1)));
    assert!(begun.elapsed() <= LEASE / 3 + SECOND, "{:?}", begun.elapsed());
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_was_taken_to_another_task_is_told_there_that_its_lease_is_lost() {
    let (_, engine) = engine();
    let mut slow =
        Box::pin(call(&engine, "key", "a").run_inline(|_| std::future::pending::<Result<usize, String>>()));
    assert!(begins(&mut slow).await);
    let slow = tokio::spawn(slow);
    let id = engine.record_id("charge", &Scope::SHARED, &Key::new("key").unwrap());
    assert!(engine.forget(&id).await.is_ok());
    assert!(charge(call(&engine, "key", "a"), &Effects::default()).await.is_ok());
    let told = tokio::time::timeout(LEASE, slow).await.expect("told before the lease would be over");
    assert_eq!(told.unwrap().unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn the_renewer_goes_when_there_is_no_lease_left_and_comes_back_with_the_next() {
    let (store, engine) = engine();
    for renewals in 1..=2 {
        let slow = call(&engine, &format!("key-{renewals}"), "a").run(|_| async {
            sleep(LEASE / 2).await;
            Ok::<_, String>(())
        });
        assert!(slow.await.is_ok());
        assert_eq!((engine.active(), engine.is_idle()), (0, false), "it wakes when it meant to");
        sleep(LEASE).await;
        assert!(engine.is_idle());
        assert_eq!(store.count(Step::Renew), renewals);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_aborted_at_the_ceiling_and_its_key_is_free_but_bound() {
    let (_, engine) = engine_with(|builder| builder.max_run(100 * SECOND));
    let begun = Instant::now();
    let error = call(&engine, "key", "a").run(|_| std::future::pending::<Result<(), String>>()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted);
    assert!(begun.elapsed() >= 100 * SECOND && begun.elapsed() <= 101 * SECOND, "{:?}", begun.elapsed());
    let error = charge(call(&engine, "key", "b"), &Effects::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(charge(call(&engine, "key", "a"), &Effects::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_slow_claim_takes_nothing_of_the_time_that_a_handler_has() {
    let (store, engine) = engine_with(|builder| builder.max_run(2 * SECOND));
    let effects = Effects::default();
    store.fail(Step::Claim, 1, Fault::SlowReply(3 * SECOND));
    let work = {
        let effects = effects.clone();
        move |_| async move {
            sleep(SECOND).await;
            Ok::<_, String>(effects.happen())
        }
    };
    assert_eq!(call(&engine, "key", "a").run(work).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_crash_blocks_the_key_for_the_lease_not_for_the_ttl() {
    let (_, engine) = engine();
    crash(call(&engine, "key", "a").lease(2 * SECOND)).await;
    let effects = Effects::default();
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    advance(2 * SECOND).await;
    let error = charge(call(&engine, "key", "b"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "the record outlives its lease");
    let outcome = call(&engine, "key", "a").run(|run| async move { Ok::<_, String>(run.attempt()) }).await;
    assert_eq!(outcome.unwrap(), Outcome::Fresh(Ok(2)));
    advance(3600 * SECOND).await;
    assert!(charge(call(&engine, "key", "a"), &effects).await.unwrap().is_replayed());
}

#[tokio::test(start_paused = true)]
async fn under_reject_a_crash_leaves_the_key_unknown_for_ever() {
    let (_, engine) = engine();
    crash(call(&engine, "key", "a").on_crash(OnCrash::Reject).ttl(SECOND)).await;
    for _ in 0..3 {
        advance(100 * LEASE).await;
        let error = charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
}

/// Runs the work inline and drops it while it runs: what a crash looks like to everybody else.
async fn crash(call: idem_core::call::Call) {
    let mut dying = Box::pin(call.run_inline(|_| std::future::pending::<Result<(), String>>()));
    assert!(begins(&mut dying).await);
}

#[test]
fn leases_are_renewed_though_the_renewers_runtime_was_shut_down() {
    // The renewer lives on the runtime of whoever needed it first.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = crate::faulty::Faulty::new(idem_core::memory::MemoryStore::new());
    let engine = idem_core::engine::Idempotency::new(store.clone());
    let lease = Duration::from_millis(300);
    let first = runtime();
    let second = runtime();
    let (finish, finished) = oneshot::channel::<()>();
    first.block_on(async {
        let mut call = Box::pin(
            call(&engine, "first", "a").lease(lease).run(|_| std::future::pending::<Result<(), String>>()),
        );
        assert!(begins(&mut call).await);
    });
    let slow = second.spawn(call(&engine, "second", "a").lease(lease).run(|_| async {
        finished.await.unwrap();
        Ok::<_, String>(1)
    }));
    second.block_on(store.reached(Step::Claim, 2));
    first.shutdown_background();
    let before = store.count(Step::Renew);
    second.block_on(store.reached(Step::Renew, before + 4));
    finish.send(()).unwrap();
    assert_eq!(second.block_on(slow).unwrap().unwrap(), Outcome::Fresh(Ok(1)));
}
