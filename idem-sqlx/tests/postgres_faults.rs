//! Faults of the server and the way to it: an error of the right kind, in time, and no lasting harm.
#![cfg(feature = "postgres")]

mod common;

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{DAY, HOUR, answer, claim, completed, granted, id};
use idem_core::store::{Claimed, Fenced, Release, Store as _, StoreError, StoreErrorKind};
use idem_sqlx::PostgresStore;
use idem_testkit::{Database, PostgresServer, Proxy};
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use tokio::sync::Barrier;

const SHORT: Duration = Duration::from_millis(700);
const SECOND: Duration = Duration::from_secs(1);

fn full_text(error: &StoreError) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}

async fn command(connection: &mut PgConnection, sql: &str) {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
}

/// Stores on connections of their own and on a pool, with a short time-out.
async fn both_stores(url: &str) -> [PostgresStore; 2] {
    let pool = PgPoolOptions::new().max_connections(2).connect(url).await.unwrap();
    let builder = PostgresStore::builder().timeout(SHORT);
    [
        builder.clone().url(url).connections(2).open().await.unwrap(),
        builder.pool(&pool).table("other_keys").open().await.unwrap(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_server_is_timed_out_and_works_at_once_when_it_goes_on() {
    let mut server = PostgresServer::start(&[]);
    let database = server.database().await;
    for store in both_stores(database.url()).await {
        let held = claim("payload");
        granted(&store, &id("held"), &held).await;
        completed(&store, &id("done"), DAY).await;
        for round in 0..2 {
            server.pause();
            let started = Instant::now();
            // More than there are connections: the second half waits for one.
            let claims: Vec<_> = (0..6)
                .map(|n| {
                    let store = store.clone();
                    tokio::spawn(async move {
                        let key = id(&format!("fresh {round} {n}"));
                        store.claim(&key, &claim("payload")).await.unwrap_err().kind()
                    })
                })
                .collect();
            for claim in claims {
                assert_eq!(claim.await.unwrap(), StoreErrorKind::TimedOut);
            }
            let late = store.renew(&id("held"), held.owner, HOUR).await.unwrap_err();
            assert_eq!(late.kind(), StoreErrorKind::TimedOut, "{}", full_text(&late));
            let took = started.elapsed();
            assert!(took >= SHORT && took < SHORT * 4, "{took:?}");
            server.resume();
            let back = Instant::now();
            let replayed = store.claim(&id("done"), &claim("payload")).await.unwrap();
            assert!(matches!(replayed, Claimed::Completed { .. }));
            granted(&store, &id(&format!("after {round}")), &claim("payload")).await;
            assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
        }
        assert_eq!(
            store.complete(&id("held"), held.owner, &answer("done"), DAY).await.unwrap(),
            Fenced::Held
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_killed_server_which_is_used_again_within_a_second() {
    let mut server = PostgresServer::start(&[]);
    let database = server.database().await;
    let [store, pooled] = both_stores(database.url()).await;
    completed(&pooled, &id("done"), DAY).await;
    for round in 0..2 {
        let stop = Arc::new(AtomicBool::new(false));
        let gate = Arc::new(Barrier::new(9));
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let (store, stop, gate) = (store.clone(), Arc::clone(&stop), Arc::clone(&gate));
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in 0_u64.. {
                        let key = format!("{round}-{task}-{n}");
                        let claim = claim("payload");
                        let granted = store.claim(&id(&key), &claim).await;
                        let stored = store.complete(&id(&key), claim.owner, &answer(&key), DAY).await;
                        match (granted, stored) {
                            // Where the claim is an error, it was made and its reply lost.
                            (Ok(Claimed::Granted { attempt: 1 }) | Err(_), Ok(Fenced::Held)) => {
                                acknowledged.push(key);
                            }
                            (Ok(Claimed::Granted { attempt: 1 }) | Err(_), Err(_) | Ok(Fenced::Lost)) => {}
                            other => panic!("{other:?}"),
                        }
                        if n == 20 {
                            gate.wait().await;
                        }
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        if n > 20 {
                            // A server that is away refuses faster than anything else can be done.
                            tokio::task::yield_now().await;
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        gate.wait().await;
        server.kill();
        let started = Instant::now();
        let refused = store.claim(&id("refused"), &claim("payload")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
        assert!(started.elapsed() < SHORT, "own connections are refused at once: {:?}", started.elapsed());
        let refused = pooled.claim(&id("refused"), &claim("payload")).await.unwrap_err();
        assert!(refused.is_retryable(), "{}", full_text(&refused));
        assert!(started.elapsed() < SHORT * 4, "{:?}", started.elapsed());

        server.restart();
        let back = Instant::now();
        granted(&store, &id(&format!("after {round}")), &claim("payload")).await;
        assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
        let replayed = pooled.claim(&id("done"), &claim("payload")).await.unwrap();
        assert!(matches!(replayed, Claimed::Completed { .. }));
        assert!(back.elapsed() < 2 * SECOND, "{:?}", back.elapsed());

        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            let acknowledged = task.await.unwrap();
            assert!(acknowledged.len() >= 20, "{}", acknowledged.len());
            for key in acknowledged {
                match store.claim(&id(&key), &claim("payload")).await.unwrap() {
                    Claimed::Completed { answer: found, .. } => assert_eq!(found, answer(&key)),
                    other => panic!("{key}: {other:?}"),
                }
            }
        }
    }
}

/// A store that reaches its database by way of a proxy.
async fn by_proxy(database: &Database) -> (PostgresStore, Proxy) {
    let mut direct = PgConnection::connect(database.url()).await.unwrap();
    let port: i32 = sqlx::query_scalar("SELECT inet_server_port()").fetch_one(&mut direct).await.unwrap();
    let proxy = Proxy::to(u16::try_from(port).unwrap()).await;
    let url = database.url().replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let store = PostgresStore::open(&format!("{url}?sslmode=disable")).await.unwrap();
    (store, proxy)
}

#[tokio::test]
async fn a_step_whose_answer_was_lost_is_repeated_and_not_taken_for_a_rival() {
    let database = PostgresServer::shared().database().await;
    let (store, proxy) = by_proxy(&database).await;
    // Once, so that everything is prepared: the answer that gets lost is then that of the step itself.
    completed(&store, &id("before"), DAY).await;
    for prepared in [false, true] {
        let key = id(&format!("k {prepared}"));
        let holder = claim("payload");
        proxy.lose_next_answer();
        assert_eq!(granted(&store, &key, &holder).await, 1);
        proxy.lose_next_answer();
        assert_eq!(store.renew(&key, holder.owner, HOUR).await.unwrap(), Fenced::Held);
        proxy.lose_next_answer();
        assert_eq!(store.complete(&key, holder.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
        proxy.lose_next_answer();
        assert!(matches!(store.claim(&key, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert!(proxy.connections() >= 8, "{} connections", proxy.connections());
}

const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'idem' AND pid <> pg_backend_pid()";

#[tokio::test]
async fn terminated_connections_are_replaced_even_in_the_middle_of_a_step() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    for n in 0..5 {
        let holder = claim("payload");
        granted(&store, &id(&n.to_string()), &holder).await;
        command(&mut other, TERMINATE).await;
        assert_eq!(
            store.complete(&id(&n.to_string()), holder.owner, &answer("done"), DAY).await.unwrap(),
            Fenced::Held
        );
    }
    let holder = claim("payload");
    granted(&store, &id("held"), &holder).await;
    command(&mut other, "BEGIN; SELECT FROM idem_records FOR UPDATE").await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.renew(&id("held"), holder.owner, HOUR).await }
    });
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while sqlx::query_scalar::<_, i64>(blocked).fetch_one(&mut observer).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    command(&mut observer, TERMINATE).await;
    command(&mut other, "COMMIT").await;
    assert_eq!(waiting.await.unwrap().unwrap(), Fenced::Held);
}

#[tokio::test]
async fn a_pool_whose_connections_are_all_broken_is_used_until_one_is_new() {
    let database = PostgresServer::shared().database().await;
    let pool = PgPoolOptions::new().max_connections(8).test_before_acquire(false);
    let pool = pool.connect(database.url()).await.unwrap();
    let store = PostgresStore::from_pool(&pool).await.unwrap();
    let taken = futures_util::future::join_all((0..8).map(|_| pool.acquire())).await;
    drop(taken);
    while pool.num_idle() < 8 {
        tokio::task::yield_now().await;
    }
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    command(&mut PgConnection::connect(database.url()).await.unwrap(), terminate).await;
    assert_eq!(pool.num_idle(), 8);
    completed(&store, &id("k"), DAY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serialization_failure_reaches_nobody() {
    for isolation in ["repeatable read", "serializable"] {
        let database = PostgresServer::shared().database().await;
        let set =
            format!("ALTER DATABASE {} SET default_transaction_isolation = '{isolation}'", database.name());
        command(&mut PgConnection::connect(database.url()).await.unwrap(), &set).await;
        let store = PostgresStore::open(database.url()).await.unwrap();
        for round in 0..30 {
            let gate = Arc::new(Barrier::new(64));
            let tasks: Vec<_> = (0..64)
                .map(|task| {
                    let (store, gate) = (store.clone(), Arc::clone(&gate));
                    tokio::spawn(async move {
                        let (id, claim) = (id(&format!("{round}-{}", task % 4)), claim("payload"));
                        gate.wait().await;
                        match store.claim(&id, &claim).await.unwrap() {
                            Claimed::Granted { .. } if task % 3 == 0 => {
                                let how = Release::KeepBinding(HOUR);
                                assert_eq!(store.release(&id, claim.owner, how).await.unwrap(), Fenced::Held);
                            }
                            Claimed::Granted { .. } => {
                                let fenced =
                                    store.complete(&id, claim.owner, &answer("done"), DAY).await.unwrap();
                                assert_eq!(fenced, Fenced::Held);
                            }
                            Claimed::InFlight { .. } | Claimed::Completed { .. } => {}
                            other => panic!("{other:?}"),
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_statement_that_waits_for_a_lock_ends_in_time_and_is_taken_when_it_is_free() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::builder().url(database.url()).timeout(SHORT).open().await.unwrap();
    let held = claim("payload");
    granted(&store, &id("held"), &held).await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    command(&mut other, "BEGIN; SELECT FROM idem_records FOR UPDATE").await;
    let started = Instant::now();
    let late = store.complete(&id("held"), held.owner, &answer("done"), DAY).await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::TimedOut, "{}", full_text(&late));
    assert!(started.elapsed() >= SHORT && started.elapsed() < SHORT * 4, "{:?}", started.elapsed());
    // Readers and other keys do not mind.
    assert!(matches!(store.claim(&id("held"), &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
    granted(&store, &id("other"), &claim("payload")).await;
    command(&mut other, "COMMIT").await;
    assert_eq!(store.complete(&id("held"), held.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
}

#[tokio::test]
async fn a_database_that_is_not_set_up_says_what_to_do() {
    let database = PostgresServer::shared().database().await;
    let not_migrated = PostgresStore::builder().url(database.url()).migrate(false).open().await.unwrap_err();
    assert_eq!(not_migrated.kind(), StoreErrorKind::Misconfigured);
    assert!(full_text(&not_migrated).contains("run `migrate`"), "{}", full_text(&not_migrated));
    let store = PostgresStore::open(database.url()).await.unwrap();
    store.migrate().await.unwrap();
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    command(&mut owner, "ALTER TABLE idem_records RENAME TO elsewhere").await;
    let missing = store.claim(&id("k"), &claim("payload")).await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::Misconfigured);
    assert!(full_text(&missing).contains("run `migrate`"), "{}", full_text(&missing));
    command(&mut owner, "ALTER TABLE elsewhere RENAME TO idem_records").await;
    granted(&store, &id("k"), &claim("payload")).await;

    command(&mut owner, "INSERT INTO idem_migrations VALUES ('idem_records', 99, 0)").await;
    let newer = PostgresStore::open(database.url()).await.unwrap_err();
    assert_eq!(newer.kind(), StoreErrorKind::Misconfigured);
    assert!(full_text(&newer).contains("newer release"), "{}", full_text(&newer));

    for url in ["postgres://127.0.0.1:1/none", "mysql://127.0.0.1/x", "nonsense"] {
        let refused = PostgresStore::builder().url(url).timeout(SHORT).open().await.unwrap_err();
        assert!(
            matches!(refused.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Misconfigured),
            "{url}: {}",
            full_text(&refused)
        );
    }
    let nowhere = PostgresStore::builder().open().await.unwrap_err();
    assert_eq!(nowhere.kind(), StoreErrorKind::Misconfigured);
    store.close().await;
    let closed = store.claim(&id("k"), &claim("payload")).await.unwrap_err();
    assert_eq!(closed.kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn a_record_that_this_release_does_not_know_is_corrupt_and_is_not_run() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let broken = [
        "state = 'paused'",
        "on_crash = 'shrug'",
        "owner = 'x'",
        "fingerprint = 'x'",
        "attempt = -1",
        "answer = NULL",
    ];
    for (n, broken) in broken.into_iter().enumerate() {
        let key = id(&n.to_string());
        completed(&store, &key, DAY).await;
        let update = AssertSqlSafe(format!("UPDATE idem_records SET {broken} WHERE id = $1"));
        sqlx::query(update).bind(&key.digest()[..]).execute(&mut owner).await.unwrap();
        let found = store.claim(&key, &claim("payload")).await.unwrap_err();
        assert_eq!(found.kind(), StoreErrorKind::Corrupt, "{broken}: {}", full_text(&found));
    }
}

#[test]
fn a_store_outlives_the_runtime_that_opened_it() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let database = first.block_on(PostgresServer::shared().database());
    let store = first.block_on(PostgresStore::open(database.url())).unwrap();
    first.block_on(completed(&store, &id("one"), DAY));
    first.shutdown_background();
    runtime().block_on(async {
        completed(&store, &id("two"), DAY).await;
        assert!(matches!(
            store.claim(&id("one"), &claim("payload")).await.unwrap(),
            Claimed::Completed { .. }
        ));
    });
}
