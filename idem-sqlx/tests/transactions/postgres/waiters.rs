//! Those who wait for a transaction, and what that costs.

use std::time::Duration;

use idem_core::policy::InFlight;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Place, SOON, call, fresh, pay, write};

/// The claims that were refused; the server tells them up to a second late.
const UNDONE: &str = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_another_process_do_not_wake_each_other() {
    let place = Place::new().await;
    let (idem, other) = (place.engine().await, place.engine().await);
    let (begun, has_begun) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let first = tokio::spawn(call(&other, "k", "payload").transact(|mut tx, _| async move {
        write(&mut tx, "first").await?;
        begun.send(()).unwrap();
        goes_on.await.unwrap();
        Ok::<_, String>(String::new())
    }));
    has_begun.await.unwrap();
    let before: i64 = sqlx::query_scalar(UNDONE).fetch_one(&place.pool).await.unwrap();
    let waiting: Vec<_> = (0..8)
        .map(|_| tokio::spawn(call(&idem, "k", "payload").in_flight(InFlight::Wait(SOON * 5)).transact(pay)))
        .collect();
    // How many claims they make in this time is what is tested.
    sleep(Duration::from_secs(2)).await;
    go_on.send(()).unwrap();
    fresh(first.await.unwrap()).unwrap();
    for waiting in waiting {
        assert!(waiting.await.unwrap().unwrap().is_replayed());
    }
    let undone: i64 = sqlx::query_scalar(UNDONE).fetch_one(&place.pool).await.unwrap();
    assert!(undone - before < 80, "{} claims of 8 callers in 2 seconds", undone - before);
    assert_eq!(place.entries().await, ["first"]);
}
