//! Sweeping on PostgreSQL: what is gone is deleted, nothing else is, and nobody waits long.
#![cfg(feature = "postgres")]

mod common;

use std::time::{Duration, Instant};

use common::{DAY, HOUR, claim, completed, granted, id, released};
use idem_core::record::State;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Store as _};
use idem_sqlx::PostgresStore;
use idem_testkit::PostgresServer;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};

const EXPIRED: i64 = 60_000;
const GONE: Retention = Retention { ttl: Duration::ZERO, tombstone_ttl: None };

async fn count(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sweepers_clear_many_records_beside_live_claims() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    let other = PostgresStore::open(database.url()).await.unwrap();
    // Live ones before, among and after the expired ones.
    completed(&store, &id("done"), DAY).await;
    released(&store, &id("unknown"), Release::Unknown).await;
    let held = claim("payload");
    granted(&store, &id("held"), &held).await;
    let mut direct = PgConnection::connect(database.url()).await.unwrap();
    for half in 0..2 {
        sqlx::query(
            "INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
                created_at, lease_until, expires_at, gone_at, answer)
            SELECT sha256(($2 || i)::bytea), 'tests', 'k', 'completed', sha256(''), uuid_send(gen_random_uuid()), 1,
                'retry', 1, 0, 2, 2, decode(repeat('00', 300), 'hex') FROM generate_series(1, $1) AS i",
        )
        .bind(EXPIRED / 2)
        .bind(format!("{half}-"))
        .execute(&mut direct)
        .await
        .unwrap();
        completed(&store, &id(&format!("done after {half}")), DAY).await;
    }
    assert_eq!(count(&mut direct).await, EXPIRED + 5);

    let started = Instant::now();
    let sweep = |store: PostgresStore| {
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
    println!(
        "{swept} records swept in {:?} beside {steps} live steps, the slowest {slowest:?}",
        started.elapsed()
    );
    // Each may have left to the other what the other was at.
    swept += store.sweep(u32::MAX).await.unwrap();
    assert_eq!(swept, EXPIRED as u64);
    assert_eq!(count(&mut direct).await, 5 + steps);
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    for key in ["done", "done after 0", "done after 1"] {
        assert!(matches!(store.claim(&id(key), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert_eq!(store.look_up(&id("unknown")).await.unwrap().unwrap().state, State::Unknown);
}

#[tokio::test]
async fn a_sweep_deletes_no_more_than_it_was_told_and_finds_the_rest_later() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    assert_eq!(store.sweep(10).await.unwrap(), 0);
    for n in 0..30 {
        completed(&store, &id(&n.to_string()), GONE).await;
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
        completed(&store, &id(&n.to_string()), GONE).await;
    }
    let mut swept = 0;
    for _ in 0..3 {
        swept += store.sweep(1_000).await.unwrap();
    }
    // Of the five, some took the place of one that was gone and not yet deleted.
    let mut direct = PgConnection::connect(database.url()).await.unwrap();
    assert_eq!(count(&mut direct).await, 32, "after {swept} more");
    assert!(matches!(store.claim(&id("refused"), &claim("payload")).await.unwrap(), Claimed::Expired));
    assert!(matches!(store.claim(&id("crashed"), &claim("p")).await.unwrap(), Claimed::Unknown));
}

#[tokio::test]
async fn a_sweeper_leaves_to_others_what_they_are_at_and_works_until_it_is_stopped() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    completed(&store, &id("k"), GONE).await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    other.execute("BEGIN; SELECT FROM idem_records FOR UPDATE").await.unwrap();
    assert_eq!(store.sweep(10).await.unwrap(), 0, "it does not wait for a lock");
    other.execute("COMMIT").await.unwrap();
    let sweeper = store.spawn_sweeper(Duration::from_millis(2));
    tokio::time::timeout(Duration::from_secs(20), async {
        while count(&mut other).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is swept");
    tokio::time::timeout(Duration::from_secs(20), sweeper.stop()).await.expect("it stops");
}
