//! Waiting on PostgreSQL: who waits is told, or looks for himself.
#![cfg(feature = "postgres")]

mod common;

use std::time::{Duration, Instant};

use common::{DAY, HOUR, answer, claim, granted, id};
use idem_core::store::{Claimed, Fenced, Release, Store as _};
use idem_sqlx::PostgresStore;
use idem_testkit::{Database, PostgresServer};
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

const SECOND: Duration = Duration::from_secs(1);

async fn database() -> Database {
    PostgresServer::shared().database().await
}

async fn scalar<T>(connection: &mut PgConnection, sql: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

const AWAITED: &str = "SELECT count(*) FROM idem_records WHERE awaited AND state = 'in_flight'";
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE 'LISTEN%'";

/// Waits until somebody expects to be told.
async fn until_awaited(observer: &mut PgConnection) {
    while scalar::<i64>(observer, AWAITED).await == 0 {
        tokio::task::yield_now().await;
    }
}

/// Lets one store wait for what another does, and tells how long it took to learn of it.
async fn learnt(
    here: &PostgresStore,
    elsewhere: &PostgresStore,
    key: &str,
    observer: &mut PgConnection,
) -> Duration {
    let holder = claim("payload");
    granted(elsewhere, &id(key), &holder).await;
    let waiting = tokio::spawn({
        let (here, id) = (here.clone(), id(key));
        async move {
            loop {
                here.changed(&id, HOUR).await;
                if matches!(here.claim(&id, &claim("payload")).await.unwrap(), Claimed::Completed { .. }) {
                    return Instant::now();
                }
            }
        }
    });
    until_awaited(observer).await;
    assert_eq!(elsewhere.complete(&id(key), holder.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    let done = Instant::now();
    waiting.await.unwrap().saturating_duration_since(done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_told_what_another_store_did() {
    let database = database().await;
    let pool = PgPoolOptions::new().max_connections(1).connect(database.url()).await.unwrap();
    let here = PostgresStore::from_pool(&pool).await.unwrap();
    let elsewhere = PostgresStore::open(database.url()).await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let mut took = Vec::new();
    for n in 0..8 {
        took.push(learnt(&here, &elsewhere, &n.to_string(), &mut observer).await);
    }
    println!("told after {took:?}");
    // Looking for themselves they would take half a second on the average.
    assert!(took.iter().sum::<Duration>() < 2 * SECOND, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_whose_connection_breaks_off_are_woken_and_listen_again() {
    let database = database().await;
    let here = PostgresStore::open(database.url()).await.unwrap();
    let elsewhere = PostgresStore::open(database.url()).await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let holder = claim("payload");
    granted(&elsewhere, &id("k"), &holder).await;
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { here.changed(&id("k"), HOUR).await }
    });
    until_awaited(&mut observer).await;
    assert_eq!(scalar::<i64>(&mut observer, TERMINATE).await, 1);
    waiting.await.unwrap();
    assert_eq!(elsewhere.release(&id("k"), holder.owner, Release::Undo(HOUR)).await.unwrap(), Fenced::Held);
    learnt(&here, &elsewhere, "again", &mut observer).await;
    assert_eq!(scalar::<i64>(&mut observer, TERMINATE).await, 1);
}

#[tokio::test]
async fn waiters_who_cannot_be_told_look_for_themselves() {
    let database = database().await;
    let builder = PostgresStore::builder().url(database.url());
    let here = builder.clone().listen(false).open().await.unwrap();
    let elsewhere = builder.prepared(false).open().await.unwrap();
    for (here, elsewhere, key) in [(&here, &elsewhere, "one"), (&elsewhere, &here, "two")] {
        let holder = claim("payload");
        granted(elsewhere, &id(key), &holder).await;
        let (id, done) = (id(key), answer("done"));
        let waiting = here.changed(&id, HOUR);
        let answering = elsewhere.complete(&id, holder.owner, &done, DAY);
        let (answered, ()) = tokio::join!(answering, waiting);
        assert_eq!(answered.unwrap(), Fenced::Held);
        // Nothing to wait for: at once.
        here.changed(&id, HOUR).await;
    }
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    assert_eq!(scalar::<i64>(&mut observer, "SELECT count(*) FROM idem_records WHERE awaited").await, 0);
}
