//! A claim whose first try was not answered, and is still under way while the repeated one is told something.

use std::time::Duration;

use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind};
use idem_core::outcome::Outcome;
use idem_core::policy::{InFlight, OnDisconnect};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::faulty::{Fault, Step};
use crate::support::{Effects, LEASE, SECOND, TestStore, begins, call, charge, engine};

const LATE: Duration = SECOND.saturating_mul(3);
/// Well before the lease would end what came late.
const SOON: Duration = SECOND.saturating_mul(9);

type Charged = Result<Outcome<Result<usize, String>>, Error>;

/// Has the key, and lets go of it after two seconds.
async fn rival(store: &TestStore, engine: &Idempotency) -> JoinHandle<Charged> {
    let call = call(engine, "key", "a");
    let rival = tokio::spawn(call.run(|_| async {
        sleep(2 * SECOND).await;
        Err("no".to_owned())
    }));
    store.reached(Step::Claim, 1).await;
    rival
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_refused_does_not_come_to_hold_the_key() {
    for payload in ["a", "b"] {
        let (store, engine) = engine();
        let effects = Effects::default();
        let rival = rival(&store, &engine).await;
        store.fail(Step::Claim, 1, Fault::BrokenLate(LATE));
        let error = charge(call(&engine, "key", payload).rebind(true), &effects).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InFlight | ErrorKind::Mismatch), "{error}");
        assert!(rival.await.unwrap().is_ok());
        sleep(SOON).await;
        let again = charge(call(&engine, "key", "a").rebind(true), &effects).await;
        assert_eq!(again.unwrap(), Outcome::Fresh(Ok(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_gets_the_key_and_keeps_it() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let rival = rival(&store, &engine).await;
    store.fail(Step::Claim, 1, Fault::BrokenLate(LATE));
    let waiter = tokio::spawn({
        let (call, effects) = (call(&engine, "key", "a"), effects.clone());
        call.in_flight(InFlight::Wait(LEASE)).run(move |_| async move {
            sleep(LEASE).await;
            Ok::<_, String>(effects.happen())
        })
    });
    assert!(rival.await.unwrap().is_ok());
    for _ in 0..20 {
        sleep(SECOND).await;
        let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InFlight);
    }
    assert_eq!(waiter.await.unwrap().unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_went_away_while_it_waited_does_not_come_to_hold_the_key() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let rival = rival(&store, &engine).await;
    store.fail(Step::Claim, 1, Fault::BrokenLate(LATE));
    let call_ = call(&engine, "key", "a").in_flight(InFlight::Wait(LEASE));
    let mut waiter = Box::pin(charge(call_, &effects));
    while store.count(Step::Changed) == 0 {
        assert!(begins(&mut waiter).await);
        sleep(Duration::from_millis(1)).await;
    }
    drop(waiter);
    assert!(rival.await.unwrap().is_ok());
    sleep(SOON).await;
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_freed_stays_free() {
    for away in [false, true] {
        let (store, engine) = engine();
        let effects = Effects::default();
        store.fail(Step::Claim, 1, Fault::BrokenLate(LATE));
        if away {
            store.fail(Step::Release, 2, Fault::Lost(idem_core::store::StoreErrorKind::Unavailable));
        }
        let failed = call(&engine, "key", "a").run(|_| async { Err::<usize, _>("no".to_owned()) }).await;
        assert_eq!(failed.unwrap(), Outcome::Fresh(Err("no".to_owned())));
        sleep(LATE + SOON).await;
        let error = charge(call(&engine, "key", "b"), &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "it stays bound");
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_freed_by_cancelling_stays_free() {
    let (store, engine) = engine();
    let effects = Effects::default();
    store.fail(Step::Claim, 1, Fault::BrokenLate(LATE));
    let call_ = call(&engine, "key", "a").on_disconnect(OnDisconnect::Cancel);
    let (begun, begins_now) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(call_.run(|_| async {
        begun.send(()).unwrap();
        std::future::pending::<Result<usize, String>>().await
    }));
    begins_now.await.unwrap();
    running.abort();
    sleep(LATE + SOON).await;
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_replay_of_what_is_kept_for_long_leaves_nothing_to_look_for() {
    let (store, engine) = engine();
    let effects = Effects::default();
    assert!(charge(call(&engine, "key", "a"), &effects).await.is_ok());
    store.fail(Step::Claim, 1, Fault::BrokenLate(LATE));
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
    sleep(LATE + SOON).await;
    assert_eq!(store.count(Step::Release), 0);
}
