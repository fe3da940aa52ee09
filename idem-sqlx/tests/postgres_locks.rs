//! A key that an open transaction holds, seen by claims of lease mode: nobody waits for it.
#![cfg(feature = "postgres")]

mod common;

use std::time::Duration;

use common::{DAY, answer, claim, completed, granted, id, released};
use idem_core::record::RecordId;
use idem_core::store::{Claimed, Fenced, Release, Store as _};
use idem_sqlx::PostgresStore;
use idem_testkit::PostgresServer;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};

/// A transaction that holds the record's lock alone, as one that has claimed it does.
async fn hold(url: &str, id: &RecordId) -> PgConnection {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    let key = i64::from_be_bytes(id.digest()[..8].try_into().unwrap());
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(key).execute(&mut connection).await.unwrap();
    connection
}

#[tokio::test]
async fn whoever_claims_a_key_that_an_open_transaction_holds_is_told_at_once() {
    for prepared in [true, false] {
        let database = PostgresServer::shared().database().await;
        // Whoever waited for the transaction would run into this time-out.
        let builder = PostgresStore::builder().url(database.url()).timeout(Duration::from_secs(3));
        let store = builder.prepared(prepared).open().await.unwrap();
        let (new, failed, gone) = (id("new"), id("failed"), id("gone"));
        released(&store, &failed, Release::KeepBinding(DAY.ttl)).await;
        released(&store, &gone, Release::Undo(DAY.ttl)).await;
        for id in [&new, &failed, &gone] {
            let mut holder = hold(database.url(), id).await;
            let claim = claim("payload");
            let told = store.claim(id, &claim).await.unwrap();
            assert!(matches!(told, Claimed::InFlight { .. }), "{told:?}");
            // The holder has written, too.
            let table = "UPDATE idem_records SET owner = owner WHERE id = $1";
            sqlx::query(table).bind(&id.digest()[..]).execute(&mut holder).await.unwrap();
            let told = store.claim(id, &claim).await.unwrap();
            assert!(matches!(told, Claimed::InFlight { .. }), "{told:?}");
            holder.execute("ROLLBACK").await.unwrap();
            granted(&store, id, &claim).await;
        }
    }
}

#[tokio::test]
async fn what_is_known_of_a_locked_record_is_told_all_the_same() {
    let database = PostgresServer::shared().database().await;
    let store = PostgresStore::open(database.url()).await.unwrap();
    let (done, busy) = (id("done"), id("busy"));
    completed(&store, &done, DAY).await;
    let held = claim("payload");
    granted(&store, &busy, &held).await;
    let _holders = (hold(database.url(), &done).await, hold(database.url(), &busy).await);
    for id in [&done, &busy] {
        assert!(matches!(store.claim(id, &claim("another")).await.unwrap(), Claimed::Mismatch));
    }
    assert!(matches!(store.claim(&done, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    assert!(matches!(store.claim(&busy, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
    // Whoever holds a lease needs no lock.
    assert_eq!(store.complete(&busy, held.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
}

#[tokio::test]
async fn a_store_that_expects_replays_is_told_of_a_locked_record_all_the_same() {
    let database = PostgresServer::shared().database().await;
    let builder = PostgresStore::builder().url(database.url()).timeout(Duration::from_secs(3));
    let store = builder.open().await.unwrap();
    let (done, failed) = (id("done"), id("failed"));
    completed(&store, &done, DAY).await;
    released(&store, &failed, Release::KeepBinding(DAY.ttl)).await;
    for _ in 0..20 {
        assert!(matches!(store.claim(&done, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    let mut holder = hold(database.url(), &failed).await;
    let told = store.claim(&failed, &claim("payload")).await.unwrap();
    assert!(matches!(told, Claimed::InFlight { .. }), "{told:?}");
    holder.execute("ROLLBACK").await.unwrap();
    granted(&store, &failed, &claim("payload")).await;
}
