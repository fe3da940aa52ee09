//! A store that is away, slow, or whose replies are lost.

use std::time::Duration;

use idem_core::answer::{Answer, Codec};
use idem_core::error::ErrorKind;
use idem_core::key::{Key, Scope};
use idem_core::outcome::Outcome;
use idem_core::policy::{OnCrash, OnStoreError};
use idem_core::store::StoreErrorKind;
use tokio::time::Instant;

use crate::faulty::{Fault, Step};
use crate::support::{Effects, LEASE, SECOND, call, charge, engine, engine_with};

const AWAY: Fault = Fault::Lost(StoreErrorKind::Unavailable);

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_hangs_or_is_slow_is_a_refusal_within_its_timeout() {
    for fault in [AWAY, Fault::Lost(StoreErrorKind::TimedOut), Fault::Hang] {
        let (store, engine) = engine_with(|builder| builder.store_timeout(2 * SECOND));
        let effects = Effects::default();
        store.fail(Step::Claim, 100, fault);
        let begun = Instant::now();
        let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{fault:?}");
        assert!(error.retry_after().is_some());
        assert!(begun.elapsed() <= 2 * SECOND + Duration::from_millis(10), "{fault:?} {:?}", begun.elapsed());
        assert_eq!(effects.count(), 0);
        store.heal();
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_is_repeated_and_granted() {
    let (store, engine) = engine();
    store.fail(Step::Claim, 1, Fault::ReplyLost(StoreErrorKind::Unavailable));
    let outcome = charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap();
    assert_eq!(outcome, Outcome::Fresh(Ok(1)));
    assert_eq!(store.count(Step::Claim), 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_got_through_though_refused_is_taken_back() {
    let (store, engine) = engine();
    store.fail(Step::Claim, 100, Fault::ReplyLost(StoreErrorKind::TimedOut));
    let effects = Effects::default();
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    store.heal();
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    // Nothing ran, so nothing is bound: another payload may have the key.
    assert_eq!(charge(call(&engine, "key", "b"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_got_through_is_taken_back_also_if_its_repetition_is_refused_for_another_reason() {
    let (store, engine) = engine();
    store.fail(Step::Claim, 1, Fault::ReplyLost(StoreErrorKind::Unavailable));
    store.then_fail(Step::Claim, 1, Fault::Lost(StoreErrorKind::Misconfigured));
    let effects = Effects::default();
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    assert_eq!(charge(call(&engine, "key", "b"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn taking_back_a_claim_does_not_unbind_what_an_earlier_attempt_bound() {
    let (store, engine) = engine();
    let failed = call(&engine, "key", "a").run(|_| async { Err::<usize, _>("no".to_owned()) }).await;
    assert!(failed.is_ok());
    store.fail(Step::Claim, 100, Fault::ReplyLost(StoreErrorKind::TimedOut));
    assert!(charge(call(&engine, "key", "a"), &Effects::default()).await.is_err());
    store.heal();
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    let error = charge(call(&engine, "key", "b"), &Effects::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(charge(call(&engine, "key", "a"), &Effects::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_is_given_and_stored_when_the_store_is_back() {
    for fault in [AWAY, Fault::Hang, Fault::ReplyLost(StoreErrorKind::Unavailable)] {
        let (store, engine) = engine();
        let effects = Effects::default();
        store.fail(Step::Complete, 5, fault);
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
        if !matches!(fault, Fault::ReplyLost(_)) {
            let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InFlight, "{fault:?}");
        }
        // A hung store costs its timeout each time, so that the lease may well be over before it is back.
        assert_eq!(engine.drain(60 * SECOND).await, 0);
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
        assert_eq!(effects.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_noticed_within_a_second() {
    let (store, engine) = engine();
    store.fail(Step::Complete, usize::MAX, AWAY);
    assert!(charge(call(&engine, "key", "a"), &Effects::default()).await.is_ok());
    tokio::time::advance(10 * SECOND).await;
    store.heal();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert!(charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap().is_replayed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_store_will_never_take_becomes_a_tombstone() {
    let (store, engine) = engine();
    store.take_answers_up_to(Answer::tombstone(Codec::JsonOk).as_bytes().len());
    let effects = Effects::default();
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_given_up_for_a_tombstone_where_the_store_is_only_away() {
    let (store, engine) = engine();
    let effects = Effects::default();
    // The last time in the background, where whatever is offered next is taken.
    store.fail(Step::Complete, 2, AWAY);
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_told_also_when_the_lease_is_over() {
    let (store, engine) = engine();
    store.fail(Step::Release, usize::MAX, AWAY);
    let reject = call(&engine, "key", "a").on_crash(OnCrash::Reject);
    assert!(reject.run(|_| async { Err::<usize, _>("no".to_owned()) }).await.is_ok());
    tokio::time::sleep(2 * LEASE).await;
    let tried = store.count(Step::Release);
    store.heal();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert_eq!(store.count(Step::Release), tried + 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_outlasts_a_store_that_has_to_be_mended_first() {
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::Full, StoreErrorKind::Corrupt] {
        let (store, engine) = engine();
        let effects = Effects::default();
        store.fail(Step::Complete, usize::MAX, Fault::Lost(kind));
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
        tokio::time::sleep(5 * SECOND).await;
        store.heal();
        assert_eq!(engine.drain(SECOND).await, 0);
        let again = charge(call(&engine, "key", "a"), &effects).await;
        assert_eq!(again.unwrap(), Outcome::Replayed(Ok(1)), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_over_while_a_finished_answer_waits_to_be_stored() {
    for takes in [Duration::ZERO, 2 * LEASE] {
        let (store, engine) = engine();
        let effects = Effects::default();
        store.fail(Step::Complete, usize::MAX, AWAY);
        let work = {
            let effects = effects.clone();
            move |_| async move {
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                Ok::<_, String>(effects.happen())
            }
        };
        assert_eq!(call(&engine, "key", "a").run(work).await.unwrap(), Outcome::Fresh(Ok(1)));
        for _ in 0..10 {
            tokio::time::sleep(LEASE / 2).await;
            let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InFlight, "{takes:?}");
        }
        store.heal();
        assert_eq!(engine.drain(SECOND).await, 0);
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_over_for_as_long_as_an_answer_is_tried_however_long_its_work_took() {
    const MAX_RUN: Duration = Duration::from_mins(5);
    const NEARLY: Duration = Duration::from_secs(298);
    let (store, engine) = engine_with(|builder| builder.max_run(MAX_RUN));
    let effects = Effects::default();
    store.fail(Step::Complete, usize::MAX, AWAY);
    let work = {
        let effects = effects.clone();
        move |_| async move {
            tokio::time::sleep(NEARLY).await;
            Ok::<_, String>(effects.happen())
        }
    };
    assert_eq!(call(&engine, "key", "a").run(work).await.unwrap(), Outcome::Fresh(Ok(1)));
    let waits = Instant::now();
    while waits.elapsed() < NEARLY {
        tokio::time::sleep(SECOND).await;
        let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InFlight, "{:?}", waits.elapsed());
    }
    store.heal();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_given_up_frees_its_key_within_a_lease() {
    const MAX_RUN: Duration = Duration::from_mins(1);
    let (store, engine) = engine_with(|builder| builder.max_run(MAX_RUN));
    let effects = Effects::default();
    store.fail(Step::Complete, usize::MAX, AWAY);
    assert!(charge(call(&engine, "key", "a"), &effects).await.is_ok());
    assert_eq!(engine.drain(MAX_RUN + SECOND).await, 0);
    store.heal();
    tokio::time::sleep(LEASE).await;
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(2)));
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_over_a_finished_answer_though_its_process_stood_still_for_longer_than_a_lease() {
    let (store, engine) = engine();
    let effects = Effects::default();
    store.fail(Step::Complete, usize::MAX, AWAY);
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    tokio::time::advance(2 * LEASE).await;
    tokio::time::timeout(SECOND, store.reached(Step::Renew, 1)).await.unwrap();
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    store.heal();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_gets_through_long_after_it_was_given_up_is_taken_back() {
    let (store, engine) = engine_with(|builder| builder.store_timeout(SECOND));
    let effects = Effects::default();
    for late in [3 * SECOND / 2, 3 * SECOND, 8 * SECOND] {
        let key = format!("{late:?}");
        store.fail(Step::Claim, 1, Fault::Late(late));
        let error = charge(call(&engine, &key, "a"), &effects).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
        // Well before the lease would end it.
        tokio::time::sleep(late + 5 * SECOND).await;
        assert!(charge(call(&engine, &key, "b"), &effects).await.is_ok(), "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_run_happens_only_where_it_was_asked_for() {
    let (store, engine) = engine();
    store.fail(Step::Claim, 100, AWAY);
    let effects = Effects::default();
    let outcome = charge(call(&engine, "key", "a").on_store_error(OnStoreError::Run), &effects).await;
    assert_eq!(outcome.unwrap(), Outcome::Unprotected(Ok(1)));
    store.fail(Step::Claim, 100, Fault::Lost(StoreErrorKind::Corrupt));
    let error =
        charge(call(&engine, "key", "a").on_store_error(OnStoreError::Run), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecodable, "a record that cannot be read may be a completed one");
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_lease_is_claimed_anew_before_anything_runs() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let short = || call(&engine, "key", "a").lease(SECOND);
    store.fail(Step::Claim, 1, Fault::Slow(3 * SECOND / 2));
    assert_eq!(charge(short(), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(store.count(Step::Claim), 2);

    store.fail(Step::Claim, 100, Fault::Slow(3 * SECOND / 2));
    let error = charge(call(&engine, "other", "a").lease(SECOND), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert_eq!(effects.count(), 1);
    store.heal();
    assert_eq!(engine.drain(10 * SECOND).await, 0);
    assert!(charge(call(&engine, "other", "b"), &effects).await.is_ok(), "taken back, unbound");
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_on_the_last_of_a_lease() {
    let (store, engine) = engine();
    let id = engine.record_id("charge", &Scope::SHARED, &Key::new("key").unwrap());
    store.fail(Step::Claim, 1, Fault::SlowReply(9 * SECOND / 10));
    let inspecting = {
        let engine = engine.clone();
        |_| async move {
            let record = engine.inspect(&id).await.unwrap().unwrap();
            Ok::<_, String>((record.attempt, record.lease_left.unwrap()))
        }
    };
    let outcome = call(&engine, "key", "a").lease(SECOND).run(inspecting).await.unwrap();
    let (attempt, left) = outcome.into_inner().unwrap();
    assert_eq!(attempt, 1);
    assert!(left > SECOND / 2, "{left:?}");
}
