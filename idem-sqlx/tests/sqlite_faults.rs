//! Faults of the file, the disk and the set-up: an error of the right kind, in time, and no lasting harm.
#![cfg(feature = "sqlite")]

mod common;
mod suite;

use std::error::Error as _;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{DAY, answer, claim, completed, granted, id};
use idem_core::answer::{Answer, AnswerKind, Codec};
use idem_core::store::{Claimed, Fenced, Store as _, StoreError, StoreErrorKind};
use idem_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool};
use sqlx::{ConnectOptions as _, Executor as _};
use tempfile::TempDir;

suite::faults_tests!(suite::Sqlite);

const SHORT: Duration = Duration::from_millis(400);

async fn connection(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

fn full_text(error: &StoreError) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}

#[tokio::test]
async fn a_locked_database_is_timed_out_and_works_at_once_when_it_is_free() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let store = SqliteStore::builder().file(&file).timeout(SHORT).open().await.unwrap();
    let held = claim("payload");
    granted(&store, &id("held"), &held).await;
    completed(&store, &id("done"), DAY).await;
    let mut other = connection(&file).await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();

    let started = Instant::now();
    let (fresh, done, held_id) = (id("fresh"), answer("done"), id("held"));
    let (first, second) = (claim("payload"), claim("payload"));
    let other_id = id("other");
    let (claimed, also, finished) = tokio::join!(
        store.claim(&fresh, &first),
        store.claim(&other_id, &second),
        store.complete(&held_id, held.owner, &done, DAY),
    );
    assert_eq!(claimed.unwrap_err().kind(), StoreErrorKind::TimedOut);
    assert_eq!(also.unwrap_err().kind(), StoreErrorKind::TimedOut);
    assert_eq!(finished.unwrap_err().kind(), StoreErrorKind::TimedOut);
    assert!(started.elapsed() >= SHORT && started.elapsed() < SHORT * 4, "{:?}", started.elapsed());
    assert!(matches!(store.claim(&id("done"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));

    other.execute("ROLLBACK").await.unwrap();
    let freed = Instant::now();
    // The same owner may ask again, whatever became of the first time.
    granted(&store, &fresh, &first).await;
    assert_eq!(store.complete(&held_id, held.owner, &done, DAY).await.unwrap(), Fenced::Held);
    assert!(freed.elapsed() < Duration::from_secs(1), "{:?}", freed.elapsed());
}

#[tokio::test]
async fn a_read_only_database_replays_and_refuses_claims() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let store = SqliteStore::open(&file).await.unwrap();
    completed(&store, &id("done"), DAY).await;
    let options = SqliteConnectOptions::new().filename(&file).read_only(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let read_only = SqliteStore::from_pool(&pool).await.unwrap();
    let refused = read_only.claim(&id("fresh"), &claim("payload")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{}", full_text(&refused));
    assert!(read_only.look_up(&id("done")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(dir.path().join("idem.db"))
        .create_if_missing(true)
        .pragma("max_page_count", "64");
    let pool = SqlitePool::connect_lazy_with(options);
    let store = SqliteStore::from_pool(&pool).await.unwrap();
    let (first, second) = (claim("payload"), claim("payload"));
    granted(&store, &id("first"), &first).await;
    granted(&store, &id("second"), &second).await;
    let large = Answer::build(AnswerKind::Full, Codec::Http, 1 << 20, |body| body.resize(1 << 20, 7));
    let (a, b) = (id("first"), id("second"));
    let small = answer("small");
    for _ in 0..3 {
        // Together with one that fits.
        let (refused, stored, renewed) = tokio::join!(
            store.complete(&a, first.owner, &large, DAY),
            store.complete(&b, second.owner, &small, DAY),
            store.renew(&a, first.owner, common::LEASE),
        );
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Full);
        assert_eq!(stored.unwrap(), Fenced::Held);
        assert_eq!(renewed.unwrap(), Fenced::Held);
    }
    assert_eq!(store.complete(&a, first.owner, &small, DAY).await.unwrap(), Fenced::Held);
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_file_is_noticed_and_no_new_one_is_made() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let store = SqliteStore::open(&file).await.unwrap();
    completed(&store, &id("done"), DAY).await;
    store.close().await;
    let store = SqliteStore::open(&file).await.unwrap();
    completed(&store, &id("more"), DAY).await;
    std::fs::rename(&file, dir.path().join("kept.db")).unwrap();

    // Once with the writing connection free, and once behind others.
    let refused = store.claim(&id("fresh"), &claim("payload")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
    let refused = store.look_up(&id("done")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
    assert!(!file.exists());

    std::fs::rename(dir.path().join("kept.db"), &file).unwrap();
    let back = Instant::now();
    assert!(matches!(store.claim(&id("done"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    granted(&store, &id("fresh"), &claim("payload")).await;
    assert!(back.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn what_is_no_database_is_corrupt() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    std::fs::write(&file, [7; 8192]).unwrap();
    let refused = SqliteStore::open(&file).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Corrupt, "{}", full_text(&refused));
    let refused = SqliteStore::open(dir.path()).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
    let missing = SqliteStore::builder().file(dir.path().join("none.db")).create_if_missing(false);
    assert_eq!(missing.open().await.unwrap_err().kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn pages_overwritten_under_the_store_are_corrupt_not_a_panic() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let store = SqliteStore::open(&file).await.unwrap();
    for n in 0..50 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
    store.close().await;
    let mut bytes = std::fs::read(&file).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 4);
    bytes[3 * 4096..].fill(0xa5);
    std::fs::write(&file, bytes).unwrap();
    let store = SqliteStore::open(&file).await.unwrap();
    let mut kinds = Vec::new();
    for n in 0..50 {
        kinds.extend(
            store.claim(&id(&n.to_string()), &claim("payload")).await.err().map(|error| error.kind()),
        );
    }
    assert!(kinds.contains(&StoreErrorKind::Corrupt), "{kinds:?}");
}

#[tokio::test]
async fn closing_a_store_moves_its_log_into_the_database() {
    let dir = TempDir::new().unwrap();
    let store = SqliteStore::open(dir.path().join("idem.db")).await.unwrap();
    completed(&store, &id("k"), DAY).await;
    assert!(dir.path().join("idem.db-wal").exists());
    store.close().await;
    assert!(!dir.path().join("idem.db-wal").exists());
}

#[tokio::test]
async fn a_store_ends_with_its_pool() {
    let dir = TempDir::new().unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("app.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let store = SqliteStore::from_pool(&pool).await.unwrap();
    completed(&store, &id("k"), DAY).await;
    pool.close().await;
    assert_eq!(
        store.claim(&id("k"), &claim("payload")).await.unwrap_err().kind(),
        StoreErrorKind::Unavailable
    );
    assert_eq!(SqliteStore::from_pool(&pool).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    // Each connection of such a pool has a database of its own.
    let options = SqliteConnectOptions::new().filename(":memory:");
    let refused = SqliteStore::from_pool(&SqlitePool::connect_lazy_with(options)).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
}
