//! The limit on the new keys of a scope.

use std::time::Duration;

use idem_core::call::Call;
use idem_core::engine::Idempotency;
use idem_core::error::ErrorKind;
use idem_core::outcome::Outcome;
use tokio::time::advance;

use crate::faulty::{Fault, Step};
use crate::support::{Effects, LEASE, SECOND, TestStore, call, charge, engine_with};

const MINUTE: Duration = Duration::from_mins(1);

fn limited(keys: u32) -> (TestStore, Idempotency) {
    engine_with(|builder| builder.max_new_keys(keys, MINUTE))
}

async fn refused(call: Call, effects: &Effects) -> Duration {
    let error = charge(call, effects).await.unwrap_err();
    assert_eq!((error.kind(), error.status(), error.is_retryable()), (ErrorKind::TooManyKeys, 429, true));
    error.retry_after().unwrap()
}

#[tokio::test(start_paused = true)]
async fn beyond_the_limit_a_new_key_is_refused_before_anything_is_claimed() {
    let (store, engine) = limited(2);
    let effects = Effects::default();
    for key in ["k-1", "k-2"] {
        assert!(charge(call(&engine, key, "a"), &effects).await.is_ok());
    }
    let left = refused(call(&engine, "k-3", "a"), &effects).await;
    assert_eq!((left, store.count(Step::Claim), effects.count()), (MINUTE / 2, 2, 2));
    advance(left).await;
    assert_eq!(charge(call(&engine, "k-3", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(3)));
    refused(call(&engine, "k-4", "a"), &effects).await;
}

#[tokio::test(start_paused = true)]
async fn keys_that_have_a_record_are_not_counted_and_go_on_beyond_the_limit() {
    let (_, engine) = limited(3);
    let effects = Effects::default();
    assert!(charge(call(&engine, "done", "a"), &effects).await.is_ok());
    assert!(call(&engine, "failed", "a").run(|_| async { Err::<usize, _>("no".to_owned()) }).await.is_ok());
    let crashed =
        call(&engine, "crashed", "a").run_inline(|_| std::future::pending::<Result<usize, String>>());
    assert!(tokio::time::timeout(SECOND, crashed).await.is_err());
    for _ in 0..10 {
        assert!(charge(call(&engine, "done", "a"), &effects).await.unwrap().is_replayed());
        refused(call(&engine, "new", "a"), &effects).await;
    }
    let kind = async |key, payload| charge(call(&engine, key, payload), &effects).await.unwrap_err().kind();
    assert_eq!(kind("done", "b").await, ErrorKind::Mismatch);
    assert_eq!(kind("failed", "b").await, ErrorKind::Mismatch);
    assert_eq!(kind("crashed", "a").await, ErrorKind::InFlight);
    assert_eq!(charge(call(&engine, "failed", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(2)));
    // The lease is over, and so is the wait for new keys: these are all there are.
    advance(LEASE).await;
    let next = async |key| charge(call(&engine, key, "a"), &effects).await;
    assert_eq!(next("new-1").await.unwrap(), Outcome::Fresh(Ok(3)));
    assert_eq!(next("crashed").await.unwrap(), Outcome::Fresh(Ok(4)));
}

#[tokio::test(start_paused = true)]
async fn each_scope_has_its_own_new_keys() {
    let (_, engine) = limited(1);
    let effects = Effects::default();
    for scope in ["alice", "bob"] {
        assert!(charge(call(&engine, "k-1", "a").scope(scope), &effects).await.is_ok());
        refused(call(&engine, "k-2", "a").scope(scope), &effects).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_new_keys_that_come_at_once_no_more_run_than_may() {
    let (store, engine) = limited(7);
    let effects = Effects::default();
    store.fail(Step::Claim, 7, Fault::Slow(SECOND));
    let calls = (0..50).map(|i| {
        let (engine, effects) = (engine.clone(), effects.clone());
        tokio::spawn(async move { charge(call(&engine, &format!("k-{i}"), "a"), &effects).await })
    });
    let mut granted = 0;
    for called in calls.collect::<Vec<_>>() {
        granted += usize::from(called.await.unwrap().is_ok());
    }
    assert_eq!((granted, effects.count(), store.count(Step::Claim)), (7, 7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_did_not_come_to_be_leaves_its_key_to_another() {
    let (store, engine) = limited(1);
    let effects = Effects::default();
    store.fail(Step::Claim, 100, Fault::Hang);
    let mut hanging = Box::pin(charge(call(&engine, "k-1", "a"), &effects));
    assert!(crate::support::begins(&mut hanging).await);
    // It may be a new key: nobody knows yet.
    refused(call(&engine, "k-2", "a"), &effects).await;
    assert_eq!(hanging.await.unwrap_err().kind(), ErrorKind::StoreUnavailable);
    store.heal();
    assert!(charge(call(&engine, "k-2", "a"), &effects).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nobody_is_told_of_a_limit() {
    let (store, engine) = limited(1);
    let effects = Effects::default();
    assert!(charge(call(&engine, "k-1", "a"), &effects).await.is_ok());
    store.fail(Step::LookUp, 100, Fault::Lost(idem_core::store::StoreErrorKind::Unavailable));
    let error = charge(call(&engine, "k-2", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
}

#[test]
fn a_limit_of_nothing_is_a_mistake() {
    for (keys, per) in [(0, MINUTE), (1, Duration::ZERO)] {
        let builder = Idempotency::builder(crate::support::store()).max_new_keys(keys, per);
        assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Misuse);
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_too_long_for_any_clock_is_cut() {
    let (_, engine) = engine_with(|builder| builder.max_new_keys(1, Duration::MAX));
    let effects = Effects::default();
    assert!(charge(call(&engine, "k-1", "a"), &effects).await.is_ok());
    refused(call(&engine, "k-2", "a"), &effects).await;
}
