//! A call that nothing goes wrong with: fresh, replayed, refused.

use std::sync::Arc;
use std::time::Duration;

use idem_core::engine::Idempotency;
use idem_core::error::ErrorKind;
use idem_core::operation::Site;
use idem_core::outcome::Outcome;
use idem_core::policy::{Expired, InFlight, Mark, Missing};
use idem_core::run::{Run, current};
use idem_core::store::StoreErrorKind;
use tokio::sync::{Barrier, oneshot};
use tokio::time::advance;

use crate::faulty::{Fault, Step};
use crate::support::{Effects, LEASE, SECOND, begins, call, charge, engine, engine_with};

#[tokio::test(start_paused = true)]
async fn a_fresh_call_takes_two_steps_and_a_replay_one() {
    let (store, engine) = engine();
    let effects = Effects::default();
    assert_eq!(charge(call(&engine, "key-1", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!((store.count(Step::Claim), store.count(Step::Complete)), (1, 1));
    assert_eq!(charge(call(&engine, "key-1", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
    assert_eq!((store.count(Step::Claim), store.count(Step::Complete)), (2, 1));
    assert_eq!((store.count(Step::Renew), store.count(Step::Release), store.count(Step::LookUp)), (0, 0, 0));
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn unit_none_zero_and_empty_are_answers() {
    let (_, engine) = engine();
    macro_rules! replays {
        ($key:literal, $value:expr, $ty:ty) => {
            for replayed in [false, true] {
                let outcome = call(&engine, $key, "a")
                    .run(move |_| async move { Ok::<$ty, String>($value) })
                    .await
                    .unwrap();
                assert_eq!(outcome.is_replayed(), replayed, $key);
                assert_eq!(outcome.into_inner(), Ok($value), $key);
            }
        };
    }
    replays!("unit", (), ());
    replays!("none", None, Option<u8>);
    replays!("zero", 0, i64);
    replays!("text", String::new(), String);
    replays!("list", Vec::new(), Vec<u8>);
    replays!("float", 0.1 + 0.2, f64);
    replays!("large", "x".repeat(900_000), String);
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_a_mismatch_in_flight_failed_waiting_and_completed() {
    let (store, engine) = engine();
    let (finish, finished) = oneshot::channel::<()>();
    let first = tokio::spawn(call(&engine, "key", "a").run(|_| async {
        finished.await.unwrap();
        Ok::<_, String>(())
    }));
    store.reached(Step::Claim, 1).await;
    let mismatch = async |call: idem_core::call::Call| {
        let effects = Effects::default();
        let error = charge(call, &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert_eq!(error.retry_after(), None);
        assert_eq!(effects.count(), 0);
    };
    mismatch(call(&engine, "key", "b")).await;
    mismatch(call(&engine, "key", "b").in_flight(InFlight::Wait(SECOND))).await;
    finish.send(()).unwrap();
    let _ = first.await.unwrap().unwrap();
    mismatch(call(&engine, "key", "b")).await;

    let failed = call(&engine, "failed", "a").run(|_| async { Err::<(), _>("no".to_owned()) }).await;
    assert_eq!(failed.unwrap(), Outcome::Fresh(Err("no".to_owned())));
    mismatch(call(&engine, "failed", "b")).await;
    assert!(charge(call(&engine, "failed", "b").rebind(true), &Effects::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_duplicate_is_told_to_come_back_in_a_second() {
    let (store, engine) = engine();
    let first = tokio::spawn(call(&engine, "key", "a").run(|_| std::future::pending::<Result<(), String>>()));
    store.reached(Step::Claim, 1).await;
    let error = charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    assert_eq!(error.retry_after(), Some(SECOND));
    assert_eq!(error.operation(), Some("charge"));
    assert!(error.lease_left().unwrap() <= LEASE);
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_replays_what_the_first_answered() {
    let (store, engine) = engine();
    let (finish, finished) = oneshot::channel::<()>();
    let first = tokio::spawn(call(&engine, "key", "a").run(|_| async {
        finished.await.unwrap();
        Ok::<_, String>(7)
    }));
    store.reached(Step::Claim, 1).await;
    let waiter = tokio::spawn(
        call(&engine, "key", "a")
            .in_flight(InFlight::Wait(5 * SECOND))
            .run(|_| async { Ok::<i32, String>(8) }),
    );
    store.reached(Step::Claim, 2).await;
    finish.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Fresh(Ok(7)));
    assert_eq!(waiter.await.unwrap().unwrap(), Outcome::Replayed(Ok(7)));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gives_up_at_its_deadline_and_leaves_the_record_alone() {
    let (store, engine) = engine();
    let (finish, finished) = oneshot::channel::<()>();
    let first = tokio::spawn(call(&engine, "key", "a").run(|_| async {
        finished.await.unwrap();
        Ok::<_, String>(7)
    }));
    store.reached(Step::Claim, 1).await;
    let begun = tokio::time::Instant::now();
    let waiting = call(&engine, "key", "a").in_flight(InFlight::Wait(5 * SECOND));
    let error = charge(waiting, &Effects::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    assert!(begun.elapsed() >= 5 * SECOND && begun.elapsed() < 6 * SECOND, "{:?}", begun.elapsed());
    let error = charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    finish.send(()).unwrap();
    let _ = first.await.unwrap().unwrap();
    assert_eq!(
        charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap(),
        Outcome::Replayed(Ok(7))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixty_four_racing_calls_one_runs() {
    for round in 0..50 {
        let (_, engine) = engine();
        let effects = Effects::default();
        let barrier = Arc::new(Barrier::new(64));
        let key = format!("key-{round}");
        let racers: Vec<_> = (0..64)
            .map(|_| {
                let (call, effects, barrier) = (call(&engine, &key, "a"), effects.clone(), barrier.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    charge(call, &effects).await
                })
            })
            .collect();
        let mut fresh = 0;
        for racer in racers {
            match racer.await.unwrap() {
                Ok(Outcome::Fresh(_)) => fresh += 1,
                Ok(outcome) => assert_eq!(outcome, Outcome::Replayed(Ok(1))),
                Err(error) => assert_eq!(error.kind(), ErrorKind::InFlight),
            }
        }
        assert_eq!((fresh, effects.count()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn scopes_and_operations_never_meet() {
    let (_, engine) = engine();
    let effects = Effects::default();
    for (scope, operation) in [("alice", "charge"), ("bob", "charge"), ("alice", "refund")] {
        let call = engine.call(operation).scope(scope).key("key").fingerprint("a");
        assert!(!charge(call, &effects).await.unwrap().is_replayed());
    }
    let shared = engine.call("charge").shared().key("key").fingerprint("a");
    assert!(!charge(shared, &effects).await.unwrap().is_replayed());
    assert_eq!(effects.count(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_ttl_counts_from_completion_and_a_replay_does_not_extend_it() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let slow = {
        let effects = effects.clone();
        call(&engine, "key", "a").ttl(10 * SECOND).run(move |_| async move {
            tokio::time::sleep(60 * SECOND).await;
            Ok::<_, String>(effects.happen())
        })
    };
    assert_eq!(slow.await.unwrap(), Outcome::Fresh(Ok(1)));
    advance(9 * SECOND).await;
    assert!(charge(call(&engine, "key", "a"), &effects).await.unwrap().is_replayed());
    advance(SECOND).await;
    // Expired: whatever the payload, it runs as new.
    assert_eq!(charge(call(&engine, "key", "b"), &effects).await.unwrap(), Outcome::Fresh(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn an_expired_key_is_refused_until_its_tombstone_is_gone() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let reject =
        || call(&engine, "key", "a").ttl(10 * SECOND).expired(Expired::Reject).tombstone_ttl(20 * SECOND);
    assert!(charge(reject(), &effects).await.is_ok());
    advance(10 * SECOND).await;
    assert_eq!(charge(reject(), &effects).await.unwrap_err().kind(), ErrorKind::KeyExpired);
    advance(20 * SECOND).await;
    assert_eq!(charge(reject(), &effects).await.unwrap(), Outcome::Fresh(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_missing_key_is_an_error_a_pass_through_or_the_fingerprint() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let keyless = || engine.call("charge").key(&None::<&str>).fingerprint("a");
    assert_eq!(charge(keyless(), &effects).await.unwrap_err().kind(), ErrorKind::KeyRequired);
    for _ in 0..2 {
        let outcome = charge(keyless().missing(Missing::Run), &effects).await.unwrap();
        assert!(matches!(outcome, Outcome::Unprotected(Ok(_))));
    }
    assert_eq!(store.count(Step::Claim), 0);
    for replayed in [false, true] {
        let outcome = charge(keyless().missing(Missing::Derive), &effects).await.unwrap();
        assert_eq!(outcome.is_replayed(), replayed);
    }
    assert_eq!(effects.count(), 3);
    let unsaid = engine.call("charge").key(&None::<&str>).unfingerprinted().missing(Missing::Derive);
    assert_eq!(charge(unsaid, &effects).await.unwrap_err().kind(), ErrorKind::Misuse);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_call_is_told_before_the_store_is_asked() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let kind = async |call| charge(call, &effects).await.unwrap_err().kind();
    assert_eq!(kind(call(&engine, " ", "a")).await, ErrorKind::KeyInvalid);
    assert_eq!(kind(call(&engine, "k", "a").scope(&None::<u8>)).await, ErrorKind::ScopeInvalid);
    assert_eq!(kind(call(&engine, "k", "a").ttl(Duration::ZERO)).await, ErrorKind::Misuse);
    assert_eq!(kind(call(&engine, "k", "a").lease(Duration::ZERO)).await, ErrorKind::Misuse);
    assert_eq!(kind(engine.call("charge").key("k")).await, ErrorKind::Misuse);
    assert_eq!(kind(engine.call("").key("k").fingerprint("a")).await, ErrorKind::Misuse);
    assert_eq!(store.count(Step::Claim), 0);
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn durations_too_long_for_any_clock_are_cut_not_wrapped() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let long = || {
        call(&engine, "key", "a")
            .ttl(Duration::MAX)
            .lease(Duration::MAX)
            .max_run(Duration::MAX)
            .in_flight(InFlight::Wait(Duration::MAX))
    };
    let slow = {
        let effects = effects.clone();
        long().run(move |_| async move {
            tokio::time::sleep(SECOND).await;
            Ok::<_, String>(effects.happen())
        })
    };
    assert_eq!(slow.await.unwrap(), Outcome::Fresh(Ok(1)));
    advance(Duration::from_hours(24 * 400)).await;
    assert_eq!(charge(long(), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_run_knows_its_attempt_and_derives_stable_keys() {
    let (_, engine) = engine();
    let seen = |key: &'static str, fail: bool| {
        let call = call(&engine, key, "a");
        async move {
            let mut told = None;
            let outcome = call
                .run_inline(|run| {
                    told = Some((run.attempt(), run.derive("stripe"), run.derive("ledger")));
                    async move {
                        // The task-local sees the same run.
                        assert_eq!(current().unwrap().attempt(), run.attempt());
                        if fail { Err("no") } else { Ok(()) }
                    }
                })
                .await;
            assert!(outcome.is_ok());
            told.unwrap()
        }
    };
    let first = seen("key-1", true).await;
    let second = seen("key-1", false).await;
    let other = seen("key-2", false).await;
    assert_eq!((first.0, second.0, other.0), (1, 2, 1));
    assert_eq!(first.1, second.1);
    assert_ne!(first.1, first.2);
    assert_ne!(first.1, other.1);
    assert!(current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_handler_says_itself_what_becomes_of_its_outcome() {
    let (_, engine) = engine();
    let marked = async |key: &str, mark: Mark, result: Result<u8, u8>| {
        let outcome = call(&engine, key, "a")
            .run(move |run| async move {
                run.mark(mark);
                result
            })
            .await;
        assert_eq!(outcome.unwrap(), Outcome::Fresh(result));
        charge(call(&engine, key, "a"), &Effects::default()).await
    };
    assert_eq!(marked("1", Mark::Retryable, Ok(9)).await.unwrap(), Outcome::Fresh(Ok(1)));
    for (key, result) in [("2", Ok(9)), ("3", Err(9))] {
        let error = marked(key, Mark::Tombstone, result).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
    }
    let error = marked("4", Mark::Final, Err(9)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
}

#[tokio::test(start_paused = true)]
async fn a_stored_err_is_replayed_as_an_err() {
    let (_, engine) = engine();
    for expected in
        [Outcome::Fresh(Err("declined".to_owned())), Outcome::Replayed(Err("declined".to_owned()))]
    {
        let outcome = call(&engine, "key", "a")
            .run_storing_err(|_| async { Err::<u8, _>("declined".to_owned()) })
            .await;
        assert_eq!(outcome.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_of_its_outcome_is_obeyed_also_where_errors_are_stored() {
    let (_, engine) = engine();
    let attempt = async |key: &str, mark: Option<Mark>, result: Result<u8, u8>| {
        let work = move |run: Run| async move {
            if let Some(mark) = mark {
                run.mark(mark);
            }
            result
        };
        call(&engine, key, "a").run_storing_err(work).await
    };
    for (key, result) in [("retryable-ok", Ok(1)), ("retryable-err", Err(1))] {
        assert_eq!(attempt(key, Some(Mark::Retryable), result).await.unwrap(), Outcome::Fresh(result));
        assert_eq!(attempt(key, None, Ok(2)).await.unwrap(), Outcome::Fresh(Ok(2)));
        assert_eq!(attempt(key, None, Err(3)).await.unwrap(), Outcome::Replayed(Ok(2)));
    }
    for (key, result) in [("tombstone-ok", Ok(1)), ("tombstone-err", Err(1))] {
        assert_eq!(attempt(key, Some(Mark::Tombstone), result).await.unwrap(), Outcome::Fresh(result));
        let error = attempt(key, None, Ok(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
    }
    assert_eq!(attempt("final", Some(Mark::Final), Err(1)).await.unwrap(), Outcome::Fresh(Err(1)));
    assert_eq!(attempt("final", None, Ok(2)).await.unwrap(), Outcome::Replayed(Err(1)));
}

#[tokio::test(start_paused = true)]
async fn a_stored_err_is_no_answer_to_those_who_know_of_no_errors() {
    let (_, engine) = engine();
    let declined =
        call(&engine, "key", "a").run_inline_storing_err(|_| async { Err::<u8, _>("no".to_owned()) });
    assert_eq!(declined.await.unwrap(), Outcome::Fresh(Err("no".to_owned())));
    let effects = Effects::default();
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!((error.kind(), effects.count()), (ErrorKind::Undecodable, 0));
    let again = call(&engine, "key", "a").run_inline_storing_err(|_| async { Ok::<u8, String>(1) });
    assert_eq!(again.await.unwrap(), Outcome::Replayed(Err("no".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_limit_or_without_json_leaves_a_tombstone() {
    let (_, engine) = engine_with(|builder| builder.max_response_bytes(100));
    let large = call(&engine, "large", "a").run(|_| async { Ok::<_, String>("x".repeat(100)) }).await;
    assert_eq!(large.unwrap().into_inner().unwrap().len(), 100);
    let unjson = call(&engine, "map", "a")
        .run(|_| async { Ok::<_, String>(std::collections::BTreeMap::from([((1, 2), 3)])) })
        .await;
    assert!(matches!(unjson.unwrap(), Outcome::Fresh(Ok(_))));
    for key in ["large", "map"] {
        let error = charge(call(&engine, key, "a"), &Effects::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_type_is_an_error_never_a_second_run() {
    let (_, engine) = engine();
    let text = call(&engine, "key", "a").run(|_| async { Ok::<_, String>("secret-answer".to_owned()) });
    assert!(text.await.is_ok());
    let effects = Effects::default();
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecodable);
    assert!(!format!("{error:?}").contains("secret-answer"));
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_unpinned_operation_from_two_places_is_refused() {
    static FIRST: Site = Site::unpinned("app::f", "a.rs", 1, 1);
    static SECOND: Site = Site::unpinned("app::f", "a.rs", 9, 1);
    static PINNED: Site = Site::pinned("app::f", "b.rs", 9, 1);
    let (_, engine) = engine();
    let run = async |site| charge(engine.call_at(site).key("k").fingerprint("a"), &Effects::default()).await;
    for _ in 0..100 {
        assert!(run(&FIRST).await.is_ok());
    }
    let error = run(&SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("a.rs:1:1") && error.to_string().contains("a.rs:9:1"), "{error}");
    assert!(run(&PINNED).await.is_ok());
    assert!(run(&FIRST).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn beyond_the_limit_new_keys_are_refused_and_live_keys_still_answer() {
    let (store, engine) = engine_with(|builder| builder.max_in_flight(1));
    let effects = Effects::default();
    assert!(charge(call(&engine, "done", "a"), &effects).await.is_ok());
    let running =
        tokio::spawn(call(&engine, "busy", "a").run(|_| std::future::pending::<Result<(), String>>()));
    store.reached(Step::Claim, 2).await;
    assert!(charge(call(&engine, "done", "a"), &effects).await.unwrap().is_replayed());
    let kind = async |key, payload| charge(call(&engine, key, payload), &effects).await.unwrap_err().kind();
    assert_eq!(kind("done", "b").await, ErrorKind::Mismatch);
    assert_eq!(kind("busy", "a").await, ErrorKind::InFlight);
    assert_eq!(kind("new", "a").await, ErrorKind::Overloaded);
    assert_eq!(effects.count(), 1);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn replays_do_not_take_the_place_of_handlers() {
    let (store, engine) = engine_with(|builder| builder.max_in_flight(1));
    let effects = Effects::default();
    assert!(charge(call(&engine, "done", "a"), &effects).await.is_ok());
    store.fail(Step::Claim, 1, Fault::Slow(SECOND));
    let mut replay = Box::pin(charge(call(&engine, "done", "a"), &effects));
    assert!(begins(&mut replay).await);
    assert_eq!(charge(call(&engine, "new", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(2)));
    assert!(replay.await.unwrap().is_replayed());
}

#[tokio::test(start_paused = true)]
async fn of_those_that_claim_at_once_no_more_run_than_may_and_the_others_leave_nothing_behind() {
    let (store, engine) = engine_with(|builder| builder.max_in_flight(1));
    let effects = Effects::default();
    store.fail(Step::Claim, 2, Fault::Slow(SECOND));
    let slow = |key| {
        let effects = effects.clone();
        call(&engine, key, "a").run(move |_| async move {
            tokio::time::sleep(SECOND).await;
            Ok::<_, String>(effects.happen())
        })
    };
    let (first, second) = tokio::join!(slow("first"), slow("second"));
    let (ran, refused, key) =
        if first.is_ok() { (first, second, "second") } else { (second, first, "first") };
    assert_eq!(ran.unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Overloaded);
    assert_eq!(charge(call(&engine, key, "b"), &effects).await.unwrap(), Outcome::Fresh(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn a_run_does_not_wait_for_itself() {
    let (_, engine) = engine();
    let begun = tokio::time::Instant::now();
    let waiting = |engine: &Idempotency, key| call(engine, key, "a").in_flight(InFlight::Wait(60 * SECOND));
    let outer = engine.clone();
    let refused = waiting(&engine, "outer").run(move |_| async move {
        let inner = outer.clone();
        // However deep.
        let refused = waiting(&outer, "inner").run(move |_| async move {
            let refused = charge(waiting(&inner, "outer"), &Effects::default()).await;
            Ok::<_, String>(refused.unwrap_err().kind() == ErrorKind::InFlight)
        });
        refused.await.unwrap().into_inner()
    });
    assert_eq!(refused.await.unwrap(), Outcome::Fresh(Ok(true)));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_lets_the_holder_run_though_its_store_returns_from_each_wait_at_once() {
    let (store, engine) = engine();
    let effects = Effects::default();
    store.fail(Step::Changed, 10_000, Fault::Lost(StoreErrorKind::Unavailable));
    let holder = call(&engine, "key", "a").run({
        let effects = effects.clone();
        move |_| async move {
            tokio::time::sleep(SECOND).await;
            Ok::<_, String>(effects.happen())
        }
    });
    let patient = charge(call(&engine, "key", "a").in_flight(InFlight::Wait(60 * SECOND)), &effects);
    let (fresh, replayed) = tokio::join!(holder, patient);
    assert_eq!((fresh.unwrap(), replayed.unwrap()), (Outcome::Fresh(Ok(1)), Outcome::Replayed(Ok(1))));
    assert!(store.count(Step::Claim) < 1_000, "{} claims", store.count(Step::Claim));
}
