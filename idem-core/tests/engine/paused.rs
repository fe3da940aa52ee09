//! A process that stands still in the middle of a step: stopped by a signal, or on a machine that slept.

use std::sync::Arc;
use std::time::Duration;

use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind};
use idem_core::outcome::Outcome;
use idem_core::store::StoreErrorKind;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

use crate::faulty::{Fault, Step};
use crate::support::{Effects, LEASE, SECOND, call, charge, engine, engine_with};

const LIMIT: Duration = SECOND.saturating_mul(5);
/// Most of the limit, but the process has that time only while it runs.
const REPLY: Fault = Fault::SlowReplyInWaits(SECOND.saturating_mul(3));
const STILL: Duration = SECOND.saturating_mul(8);

type Charged = Result<Outcome<Result<usize, String>>, Error>;

fn charging(engine: &Idempotency, effects: &Effects) -> JoinHandle<Charged> {
    let (call, effects) = (call(engine, "key", "a"), effects.clone());
    tokio::spawn(async move { charge(call, &effects).await })
}

/// A request whose handler runs until it is told to end; it has no effect.
async fn held(engine: &Idempotency) -> (JoinHandle<Charged>, Arc<Notify>) {
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let request = tokio::spawn({
        let (call, begun, end) = (call(engine, "key", "a"), begun.clone(), end.clone());
        call.run(move |_| async move {
            begun.notify_one();
            end.notified().await;
            Ok::<_, String>(99)
        })
    });
    begun.notified().await;
    (request, end)
}

#[tokio::test(start_paused = true)]
async fn a_claim_under_way_is_not_given_up() {
    let (store, engine) = engine_with(|builder| builder.store_timeout(LIMIT));
    let effects = Effects::default();
    store.fail(Step::Claim, 1, REPLY);
    let request = charging(&engine, &effects);
    store.reached(Step::Claim, 1).await;
    advance(STILL).await;
    assert_eq!(request.await.unwrap().unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(store.count(Step::Claim), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_granted_longer_ago_than_its_lease_is_asked_for_again_before_anything_runs() {
    let (store, engine) = engine_with(|builder| builder.store_timeout(LIMIT));
    let effects = Effects::default();
    store.fail(Step::Claim, 1, REPLY);
    // A lease that the time-out of the store cannot use up, but a pause can.
    let request = charging(&engine, &effects);
    store.reached(Step::Claim, 1).await;
    advance(LEASE).await;
    let other = charge(call(&engine, "key", "a"), &effects).await.unwrap();
    assert_eq!(other, Outcome::Fresh(Ok(1)));
    assert_eq!(request.await.unwrap().unwrap(), Outcome::Replayed(Ok(1)));
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_under_way_is_not_given_up() {
    let (store, engine) = engine_with(|builder| builder.store_timeout(LIMIT));
    let effects = Effects::default();
    store.fail(Step::Complete, 1, REPLY);
    let request = charging(&engine, &effects);
    store.reached(Step::Complete, 1).await;
    advance(STILL).await;
    assert_eq!(request.await.unwrap().unwrap(), Outcome::Fresh(Ok(1)));
    assert_eq!(engine.drain(STILL).await, 0);
    assert_eq!(store.count(Step::Complete), 1, "nothing went on in the background");
}

#[tokio::test(start_paused = true)]
async fn a_zombie_whose_look_at_the_record_is_interrupted_answers_what_the_record_says() {
    let (store, engine) = engine_with(|builder| builder.store_timeout(LIMIT));
    let effects = Effects::default();
    let (zombie, end) = held(&engine).await;
    // Its lease goes by, and another takes over.
    store.fail(Step::LookUp, 1, REPLY);
    advance(LEASE).await;
    let successor = charge(call(&engine, "key", "a"), &effects).await.unwrap();
    assert_eq!(successor, Outcome::Fresh(Ok(1)));
    end.notify_one();
    store.reached(Step::LookUp, 1).await;
    advance(STILL).await;
    assert_eq!(zombie.await.unwrap().unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_record_is_repeated_where_the_connection_broke() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let (zombie, end) = held(&engine).await;
    advance(LEASE).await;
    let successor = charge(call(&engine, "key", "a"), &effects).await.unwrap();
    assert_eq!(successor, Outcome::Fresh(Ok(1)));
    store.fail(Step::LookUp, 2, Fault::Lost(StoreErrorKind::Unavailable));
    end.notify_one();
    assert_eq!(zombie.await.unwrap().unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_replies_is_given_up_though_the_process_stood_still() {
    let (store, engine) = engine_with(|builder| builder.store_timeout(LIMIT));
    store.fail(Step::Claim, 100, Fault::Hang);
    let begun = Instant::now();
    let request = charging(&engine, &Effects::default());
    store.reached(Step::Claim, 1).await;
    advance(STILL).await;
    assert_eq!(request.await.unwrap().unwrap_err().kind(), ErrorKind::StoreUnavailable);
    assert!(begun.elapsed() <= STILL + LIMIT, "{:?}", begun.elapsed());
}
