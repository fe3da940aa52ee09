//! Sweeping: what is gone is deleted, nothing else is, and nobody waits long.
#![cfg(feature = "sqlite")]

mod common;

use std::time::{Duration, Instant};

use common::{DAY, HOUR, claim, completed, granted, id, released};
use idem_core::record::State;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Store as _};
use idem_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use tempfile::TempDir;

const EXPIRED: i64 = 120_000;

async fn connection(dir: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(dir.path().join("idem.db")).connect().await.unwrap()
}

async fn count(connection: &mut SqliteConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sweepers_clear_a_hundred_thousand_records_beside_live_claims() {
    let dir = TempDir::new().unwrap();
    let open = || SqliteStore::open(dir.path().join("idem.db"));
    let (store, other) = (open().await.unwrap(), open().await.unwrap());
    // Live ones before, among and after the expired ones.
    completed(&store, &id("done"), DAY).await;
    released(&store, &id("unknown"), Release::Unknown).await;
    let held = claim("payload");
    granted(&store, &id("held"), &held).await;
    let mut direct = connection(&dir).await;
    for half in 0..2 {
        sqlx::query(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
                created_at, lease_until, expires_at, gone_at, answer)
            SELECT randomblob(32), 'tests', 'k', 'completed', zeroblob(37), randomblob(16), 1, 'retry', 1, 0, 2, 2,
                randomblob(300) FROM n",
        )
        .bind(EXPIRED / 2)
        .execute(&mut direct)
        .await
        .unwrap();
        completed(&store, &id(&format!("done after {half}")), DAY).await;
    }
    assert_eq!(count(&mut direct).await, EXPIRED + 5);

    let sweep = |store: SqliteStore| {
        tokio::spawn(async move {
            let mut swept = 0;
            loop {
                match store.sweep(5_000).await.unwrap() {
                    0 => return swept,
                    some => swept += some,
                }
            }
        })
    };
    let sweepers = [sweep(store.clone()), sweep(other)];
    let (mut steps, mut slowest) = (0, Duration::ZERO);
    while !sweepers.iter().all(tokio::task::JoinHandle::is_finished) {
        let started = Instant::now();
        granted(&store, &id(&format!("live {steps}")), &claim("payload")).await;
        assert_eq!(store.renew(&id("held"), held.owner, HOUR).await.unwrap(), Fenced::Held);
        slowest = slowest.max(started.elapsed());
        steps += 1;
    }
    let mut swept = 0;
    for sweeper in sweepers {
        swept += sweeper.await.unwrap();
    }
    assert_eq!(swept, EXPIRED as u64);
    assert_eq!(count(&mut direct).await, 5 + steps);
    assert!(steps > 20, "{steps} steps beside the sweepers, the slowest took {slowest:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    for key in ["done", "done after 0", "done after 1"] {
        assert!(matches!(store.claim(&id(key), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert_eq!(store.look_up(&id("unknown")).await.unwrap().unwrap().state, State::Unknown);
}

#[tokio::test]
async fn a_sweep_deletes_no_more_than_it_was_told_and_finds_the_rest_later() {
    let store = SqliteStore::in_memory().await.unwrap();
    let gone = Retention { ttl: Duration::ZERO, tombstone_ttl: None };
    for n in 0..30 {
        completed(&store, &id(&n.to_string()), gone).await;
        completed(&store, &id(&format!("live {n}")), DAY).await;
    }
    let refused = Retention { ttl: Duration::ZERO, tombstone_ttl: Some(HOUR) };
    completed(&store, &id("refused"), refused).await;
    let crashed =
        Claim { lease: Duration::ZERO, binding: Duration::ZERO, on_crash: OnCrash::Reject, ..claim("p") };
    granted(&store, &id("crashed"), &crashed).await;
    assert_eq!(store.sweep(0).await.unwrap(), 0);
    assert_eq!(store.sweep(20).await.unwrap(), 20);
    // Expired ones behind the place where the last sweep ended.
    for n in 0..5 {
        completed(&store, &id(&n.to_string()), gone).await;
    }
    assert_eq!(store.sweep(1_000).await.unwrap(), 15);
    assert_eq!(store.sweep(1_000).await.unwrap(), 0);
    assert!(matches!(store.claim(&id("refused"), &claim("payload")).await.unwrap(), Claimed::Expired));
    assert!(matches!(store.claim(&id("crashed"), &claim("p")).await.unwrap(), Claimed::Unknown));
}

#[tokio::test]
async fn a_sweeper_works_until_it_is_stopped() {
    let dir = TempDir::new().unwrap();
    let store = SqliteStore::open(dir.path().join("idem.db")).await.unwrap();
    let gone = Retention { ttl: Duration::ZERO, tombstone_ttl: None };
    completed(&store, &id("k"), gone).await;
    let (one, two) = (store.spawn_sweeper(Duration::from_millis(2)), store.spawn_sweeper(Duration::ZERO));
    let mut direct = connection(&dir).await;
    tokio::time::timeout(Duration::from_secs(20), async {
        while count(&mut direct).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is swept");
    tokio::time::timeout(Duration::from_secs(20), one.stop()).await.expect("it stops");
    drop(two);
    store.close().await;
    // A sweeper of a closed store stops like any other.
    let late = store.spawn_sweeper(Duration::from_millis(1));
    tokio::task::yield_now().await;
    tokio::time::timeout(Duration::from_secs(20), late.stop()).await.expect("it stops");
    direct.execute("SELECT 1").await.unwrap();
}
