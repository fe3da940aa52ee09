//! The contract on PostgreSQL, where the shared suite does not look: what is written and asked, and by which clock.
#![cfg(feature = "postgres")]

mod common;
mod suite;

use std::time::{Duration, Instant};

use common::{DAY, HOUR, answer, claim, completed, granted, id, released};
use idem_core::record::RecordId;
use idem_core::store::{Claim, Fenced, Release, Retention, Store as _};
use idem_sqlx::PostgresStore;
use idem_testkit::{Database, PostgresServer};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

const SECOND: Duration = Duration::from_secs(1);

suite::steps_tests!(suite::Postgres);
suite::cases!(suite::Postgres, steps: each_step_is_one_statement_and_one_trip);

async fn database() -> Database {
    PostgresServer::shared().database().await
}

async fn scalar<T>(connection: &mut PgConnection, sql: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

/// Waits until somebody in this database waits for a lock.
async fn until_blocked(observer: &mut PgConnection) {
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while scalar::<i64>(observer, blocked).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Keeps a lock for a while that somebody waits for: that takes time, and nothing tells of it.
async fn hold(span: Duration) {
    tokio::time::sleep(span).await;
}

#[tokio::test]
async fn a_fresh_call_writes_little_and_changes_no_index_when_it_completes() {
    let server = PostgresServer::start(&["autovacuum=off", "wal_level=minimal", "max_wal_senders=0"]);
    let database = server.database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let kilobyte = answer(&"x".repeat(1_000));
    let mut written = Vec::new();
    for n in 0..200 {
        let (id, claim) = (id(&n.to_string()), claim("payload"));
        let before: String = scalar(&mut observer, "SELECT pg_current_wal_insert_lsn()::text").await;
        granted(&store, &id, &claim).await;
        assert_eq!(store.complete(&id, claim.owner, &kilobyte, DAY).await.unwrap(), Fenced::Held);
        let bytes = format!("SELECT (pg_current_wal_insert_lsn() - '{before}'::pg_lsn)::bigint");
        written.push(scalar::<i64>(&mut observer, &bytes).await);
    }
    written.sort_unstable();
    let median = written[written.len() / 2];
    println!("a fresh call with an answer of 1 kB writes {median} bytes of log");
    assert!(median < 2_400, "{median} bytes of log");
    observer.execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    // The store's connection tells of its updates when it is idle for a while, or ends.
    store.close().await;
    let counted =
        "SELECT n_tup_upd || ' ' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idem_records'";
    let started = Instant::now();
    let (updates, hot) = loop {
        let both: String = scalar(&mut observer, counted).await;
        let (all, hot) = both.split_once(' ').unwrap();
        let (all, hot): (u32, u32) = (all.parse().unwrap(), hot.parse().unwrap());
        if all == 200 || started.elapsed() > 20 * SECOND {
            break (all, hot);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    println!("{hot} of {updates} updates changed no index");
    assert_eq!(updates, 200);
    assert!(hot >= 180, "{hot} of {updates} updates changed no index");
}

#[tokio::test]
async fn a_lease_of_a_claim_starts_when_its_wait_was_over() {
    let database = database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let long = Duration::from_millis(1_500);
    let brief = move || Claim { lease: 2 * SECOND, ..claim("payload") };
    let fresh = async |what: &str, id: &RecordId| {
        let left = store.look_up(id).await.unwrap().unwrap().lease_left.expect(what);
        assert!(left > SECOND, "{what}: {left:?}");
    };

    // A claim that waits for an insertion, which then does not happen.
    other.execute("BEGIN").await.unwrap();
    let insertion = "INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
        created_at, lease_until, gone_at, expires_at) VALUES ($1, 'o', 'k', 'in_flight', '', '', 1, 'retry', 0, 0, 0, 0)";
    sqlx::query(insertion).bind(&id("new").digest()[..]).execute(&mut other).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { granted(&store, &id("new"), &brief()).await }
    });
    until_blocked(&mut observer).await;
    hold(long).await;
    other.execute("ROLLBACK").await.unwrap();
    assert_eq!(waiting.await.unwrap(), 1);
    fresh("a claim", &id("new")).await;

    // A take-over, the re-use of a record that is gone, and a renewal, which wait for a row.
    released(&store, &id("failed"), Release::KeepBinding(HOUR)).await;
    completed(&store, &id("gone"), Retention { ttl: Duration::ZERO, tombstone_ttl: None }).await;
    let held = brief();
    granted(&store, &id("held"), &held).await;
    assert_eq!(store.renew(&id("held"), held.owner, HOUR).await.unwrap(), Fenced::Held);
    other.execute("BEGIN; SELECT FROM idem_records FOR UPDATE").await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move {
            let (failed, gone, held_id) = (id("failed"), id("gone"), id("held"));
            let (a, b) = (brief(), brief());
            let (taken, reclaimed, renewed) = tokio::join!(
                granted(&store, &failed, &a),
                granted(&store, &gone, &b),
                store.renew(&held_id, held.owner, 2 * SECOND)
            );
            (taken, reclaimed, renewed.unwrap())
        }
    });
    until_blocked(&mut observer).await;
    hold(long).await;
    other.execute("COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap(), (2, 1, Fenced::Held));
    for what in ["failed", "gone", "held"] {
        fresh(what, &id(what)).await;
    }
}

#[tokio::test]
async fn nothing_outlasts_a_statement_where_nothing_is_prepared() {
    let database = database().await;
    let store =
        PostgresStore::builder().url(database.url()).connections(1).prepared(false).open().await.unwrap();
    // Texts that would be SQL, if anything could be.
    let evil = RecordId::new(
        &idem_core::key::Scope::SHARED,
        &"it's; DROP TABLE idem_records; -- \\' $1".to_owned().into(),
        &idem_core::key::Key::new("'); DROP TABLE idem_records; --").unwrap(),
    );
    let holder = claim("payload");
    granted(&store, &evil, &holder).await;
    assert_eq!(store.complete(&evil, holder.owner, &answer("'\\"), DAY).await.unwrap(), Fenced::Held);
    let record = store.look_up(&evil).await.unwrap().unwrap();
    assert_eq!(
        (record.operation.as_str(), record.answer),
        ("it's; DROP TABLE idem_records; -- \\' $1", Some(answer("'\\")))
    );
}

#[tokio::test]
async fn a_statement_that_the_server_has_forgotten_is_prepared_again() {
    let database = database().await;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .before_acquire(|connection, _| {
            // As a proxy does that gives each transaction another connection.
            Box::pin(async move { connection.execute(sqlx::raw_sql("DEALLOCATE ALL")).await.map(|_| true) })
        })
        .connect(database.url())
        .await
        .unwrap();
    let store = PostgresStore::from_pool(&pool).await.unwrap();
    for n in 0..5 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
}

#[tokio::test]
async fn debug_shows_no_password_key_or_answer() {
    let database = database().await;
    let url = database.url().replace("idem@", "idem:secret-password@");
    let builder = PostgresStore::builder().url(&url);
    let shown = format!("{builder:?}");
    let store = builder.open().await.unwrap();
    completed(&store, &id("secret-key-of-somebody"), DAY).await;
    let shown =
        format!("{shown} {store:?} {:?}", store.look_up(&id("secret-key-of-somebody")).await.unwrap());
    for secret in ["secret-password", "secret-key-of-somebody", "done"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let pool = PgPool::connect(&url).await.unwrap();
    assert!(!format!("{:?}", PostgresStore::from_pool(&pool).await.unwrap()).contains("secret"));
}
