//! The contract on SQLite, where the shared suite does not look: what is written, and by which clock.
#![cfg(feature = "sqlite")]

mod common;
mod suite;

use std::time::{Duration, Instant};

use common::{DAY, claim, completed, granted, id};
use idem_core::store::{Claim, Claimed, Store as _};
use idem_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use tempfile::TempDir;

suite::steps_tests!(suite::Sqlite);

async fn store_in(dir: &TempDir) -> SqliteStore {
    SqliteStore::open(dir.path().join("idem.db")).await.unwrap()
}

async fn other_connection(dir: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(dir.path().join("idem.db")).connect().await.unwrap()
}

#[tokio::test]
async fn a_lease_starts_when_the_lock_was_given_not_when_it_was_asked_for() {
    let dir = TempDir::new().unwrap();
    let store = store_in(&dir).await;
    let mut other = other_connection(&dir).await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move {
            granted(&store, &id("k"), &Claim { lease: Duration::from_secs(1), ..claim("payload") }).await
        }
    });
    let held = Instant::now();
    while held.elapsed() < Duration::from_millis(700) {
        // The lock must really be waited for: that takes time, and nothing tells of it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
    }
    other.execute("COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap(), 1);
    let left = store.look_up(&id("k")).await.unwrap().unwrap().lease_left.unwrap();
    assert!(left > Duration::from_millis(600), "{left:?}");
}

#[tokio::test]
async fn clones_of_a_store_in_memory_share_it_and_two_stores_do_not() {
    let (one, other) = (SqliteStore::in_memory().await.unwrap(), SqliteStore::in_memory().await.unwrap());
    completed(&one, &id("k"), DAY).await;
    assert!(matches!(
        one.clone().claim(&id("k"), &claim("payload")).await.unwrap(),
        Claimed::Completed { .. }
    ));
    assert_eq!(granted(&other, &id("k"), &claim("payload")).await, 1);
}
