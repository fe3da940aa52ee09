//! A key that an open transaction holds, seen by claims of lease mode: nobody waits for it, on any isolation level.
#![cfg(feature = "mysql")]

mod common;

use std::time::{Duration, Instant};

use common::{DAY, answer, claim, completed, granted, id, released};
use idem_core::record::RecordId;
use idem_core::store::{Claim, Claimed, Fenced, Release, Retention, Store as _};
use idem_sqlx::MySqlStore;
use idem_testkit::MariaDbServer;
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

const INSERT: &str = "INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
    created_at, lease_until, expires_at, gone_at) VALUES (?, 'o', 'k', 'completed', '', '', 1, 'retry', 0, 0, 0, 0)
    ON DUPLICATE KEY UPDATE state = 'completed'";

/// A transaction that has written a record and is not committed.
async fn hold(url: &str, id: &RecordId) -> MySqlConnection {
    let mut connection = MySqlConnection::connect(url).await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    sqlx::query(INSERT).bind(&id.digest()[..]).execute(&mut connection).await.unwrap();
    connection
}

#[tokio::test]
async fn whoever_claims_a_key_that_an_open_transaction_holds_is_told_at_once() {
    for prepared in [true, false] {
        let database = MariaDbServer::shared().database().await;
        let store = MySqlStore::builder().url(database.url()).prepared(prepared).open().await.unwrap();
        let (new, failed, gone, lapsed) = (id("new"), id("failed"), id("gone"), id("lapsed"));
        released(&store, &failed, Release::KeepBinding(DAY.ttl)).await;
        completed(&store, &gone, Retention { ttl: Duration::ZERO, tombstone_ttl: None }).await;
        granted(&store, &lapsed, &Claim { lease: Duration::ZERO, ..claim("payload") }).await;
        for id in [&new, &failed, &gone, &lapsed] {
            let mut holder = hold(database.url(), id).await;
            let (claim, asked) = (claim("payload"), Instant::now());
            let told = store.claim(id, &claim).await.unwrap();
            assert!(matches!(told, Claimed::InFlight { .. }), "{told:?}");
            assert!(asked.elapsed() < Duration::from_millis(900), "after {:?}", asked.elapsed());
            holder.execute("ROLLBACK").await.unwrap();
            granted(&store, id, &claim).await;
        }
    }
}

#[tokio::test]
async fn what_is_known_of_a_locked_record_is_told_all_the_same() {
    let database = MariaDbServer::shared().database().await;
    let store = MySqlStore::open(database.url()).await.unwrap();
    let (done, busy) = (id("done"), id("busy"));
    completed(&store, &done, DAY).await;
    let held = claim("payload");
    granted(&store, &busy, &held).await;
    let (_done, mut holder) = (hold(database.url(), &done).await, hold(database.url(), &busy).await);
    for id in [&done, &busy] {
        assert!(matches!(store.claim(id, &claim("another")).await.unwrap(), Claimed::Mismatch));
    }
    assert!(matches!(store.claim(&done, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    assert!(matches!(store.claim(&busy, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
    // Whoever holds the lease waits for the transaction, longer than a statement does.
    let answering = tokio::spawn({
        let (store, busy) = (store.clone(), busy.clone());
        async move { store.complete(&busy, held.owner, &answer("done"), DAY).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert!(!answering.is_finished());
    holder.execute("ROLLBACK").await.unwrap();
    assert_eq!(answering.await.unwrap(), Fenced::Held);
}

#[tokio::test]
async fn whoever_waits_for_a_key_that_an_open_transaction_holds_wakes_when_it_ends() {
    let database = MariaDbServer::shared().database().await;
    let store = MySqlStore::open(database.url()).await.unwrap();
    let new = id("new");
    let mut holder = hold(database.url(), &new).await;
    let mut waiting = tokio::spawn({
        let (store, new) = (store.clone(), new.clone());
        async move { store.changed(&new, Duration::from_mins(1)).await }
    });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err());
    holder.execute("ROLLBACK").await.unwrap();
    waiting.await.unwrap();
    granted(&store, &new, &claim("payload")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_on_one_key_is_answered_right_to_everybody_and_one_is_granted() {
    for isolation in ["REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"] {
        let database = MariaDbServer::shared().database().await;
        let pool = MySqlPoolOptions::new()
            .max_connections(16)
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    let set = AssertSqlSafe(format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"));
                    connection.execute(sqlx::raw_sql(set)).await.map(drop)
                })
            })
            .connect(database.url())
            .await
            .unwrap();
        let store = MySqlStore::from_pool(&pool).await.unwrap();
        for round in 0..20 {
            let id = id(&round.to_string());
            match round % 3 {
                // New, failed, gone.
                0 => {}
                1 => released(&store, &id, Release::KeepBinding(DAY.ttl)).await,
                _ => released(&store, &id, Release::Undo(DAY.ttl)).await,
            }
            let racers: Vec<_> = (0..48)
                .map(|_| {
                    let (store, id, claim) = (store.clone(), id.clone(), claim("payload"));
                    tokio::spawn(async move { (claim.owner, store.claim(&id, &claim).await.unwrap()) })
                })
                .collect();
            let mut winners = Vec::new();
            for racer in racers {
                match racer.await.unwrap() {
                    (owner, Claimed::Granted { .. }) => winners.push(owner),
                    (_, Claimed::InFlight { .. }) => {}
                    (_, other) => panic!("{other:?}"),
                }
            }
            let [winner] = winners[..] else { panic!("{} are granted", winners.len()) };
            // Answered in the middle of a burst, and replayed to all who come later.
            let done = answer("done");
            let (completing, replays) = tokio::join!(
                store.complete(&id, winner, &done, DAY),
                futures_util::future::join_all((0..48).map(|_| {
                    let (store, id, claim) = (store.clone(), id.clone(), claim("payload"));
                    async move { store.claim(&id, &claim).await.unwrap() }
                }))
            );
            assert_eq!(completing.unwrap(), Fenced::Held);
            for told in replays {
                assert!(matches!(told, Claimed::InFlight { .. } | Claimed::Completed { .. }), "{told:?}");
            }
        }
        pool.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_gets_through_a_storm_of_claims_of_its_key() {
    let database = MariaDbServer::shared().database().await;
    let (store, rivals) = (
        MySqlStore::open(database.url()).await.unwrap(),
        MySqlStore::builder().url(database.url()).connections(16).open().await.unwrap(),
    );
    let holder = claim("payload");
    granted(&store, &id("k"), &holder).await;
    let (raging, mut rages) = tokio::sync::mpsc::channel(1);
    let claims: Vec<_> = (0..32)
        .map(|_| {
            let (rivals, raging) = (rivals.clone(), raging.clone());
            tokio::spawn(async move {
                loop {
                    match rivals.claim(&id("k"), &claim("payload")).await.unwrap() {
                        Claimed::InFlight { .. } => drop(raging.try_send(())),
                        Claimed::Completed { .. } => return,
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    for _ in 0..20 {
        rages.recv().await.unwrap();
        assert_eq!(store.renew(&id("k"), holder.owner, DAY.ttl).await.unwrap(), Fenced::Held);
    }
    assert_eq!(store.complete(&id("k"), holder.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    for claim in claims {
        claim.await.unwrap();
    }
}
