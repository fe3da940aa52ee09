//! Tables: their names, their migrations, and the files of earlier versions.
#![cfg(feature = "sqlite")]

mod common;
mod suite;

use std::path::Path;

use common::{answer, claim, granted, id};
use idem_core::record::State;
use idem_core::store::{Claimed, Store as _, StoreErrorKind};
use idem_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use tempfile::TempDir;

suite::tables_tests!(suite::Sqlite);

async fn connection(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).create_if_missing(true).connect().await.unwrap()
}

#[tokio::test]
async fn no_file_is_made_for_a_table_that_may_not_be() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let refused = SqliteStore::builder().file(&file).table("x\"; --").open().await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
    assert!(!file.exists(), "nothing was opened");
}

/// Written by the first release; no later one may change it.
#[tokio::test]
async fn records_of_version_1_are_read() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    connection(&file).await.execute(sqlx::raw_sql(include_str!("fixtures/sqlite-v1.sql"))).await.unwrap();
    let store = SqliteStore::open(&file).await.unwrap();
    let states = [
        ("in flight", State::InFlight, 1),
        ("lapsed", State::Lapsed, 2),
        ("failed", State::Failed, 1),
        ("completed", State::Completed, 3),
        ("unknown", State::Unknown, 1),
        ("crashed under reject", State::Unknown, 1),
        ("refused", State::Expired, 1),
    ];
    for (key, state, attempt) in states {
        let record = store.look_up(&id(key)).await.unwrap().unwrap();
        assert_eq!((record.state, record.attempt), (state, attempt), "{key}");
        assert_eq!(record.operation, "tests");
        assert_eq!(record.hint.as_str(), id(key).hint().as_str());
    }
    assert!(store.look_up(&id("gone")).await.unwrap().is_none());
    match store.claim(&id("completed"), &claim("payload")).await.unwrap() {
        Claimed::Completed { answer: found, .. } => assert_eq!(found, answer("done")),
        other => panic!("{other:?}"),
    }
    assert!(matches!(store.claim(&id("completed"), &claim("another")).await.unwrap(), Claimed::Mismatch));
    assert!(matches!(store.claim(&id("refused"), &claim("payload")).await.unwrap(), Claimed::Expired));
    assert_eq!(granted(&store, &id("lapsed"), &claim("payload")).await, 3);
    assert_eq!(granted(&store, &id("failed"), &claim("payload")).await, 2);
    assert_eq!(granted(&store, &id("gone"), &claim("payload")).await, 1);
}

/// Makes the fixture: run it by name, with `IDEM_FIXTURE` for where to.
#[tokio::test]
#[ignore = "writes a file"]
async fn write_the_fixture() {
    use std::fmt::Write as _;
    use std::time::Duration;

    use idem_core::store::{Claim, OnCrash, Release, Retention};
    let Ok(path) = std::env::var("IDEM_FIXTURE") else { return };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let store = SqliteStore::open(&file).await.unwrap();
    let century = Duration::from_hours(24 * 36_500);
    let long = |payload| Claim { lease: century, binding: century, ..claim(payload) };
    let short = |payload| Claim { lease: Duration::ZERO, ..long(payload) };
    let kept = Retention { ttl: century, tombstone_ttl: None };
    granted(&store, &id("in flight"), &long("payload")).await;
    granted(&store, &id("lapsed"), &short("payload")).await;
    granted(&store, &id("lapsed"), &short("payload")).await;
    common::released(&store, &id("failed"), Release::KeepBinding(century)).await;
    granted(&store, &id("completed"), &short("payload")).await;
    granted(&store, &id("completed"), &short("payload")).await;
    completed_at(&store, "completed", kept).await;
    common::released(&store, &id("unknown"), Release::Unknown).await;
    let reject = Claim { on_crash: OnCrash::Reject, ..short("payload") };
    granted(&store, &id("crashed under reject"), &reject).await;
    completed_at(&store, "refused", Retention { ttl: Duration::ZERO, tombstone_ttl: Some(century) }).await;
    completed_at(&store, "gone", Retention { ttl: Duration::ZERO, tombstone_ttl: None }).await;

    let mut connection = connection(&file).await;
    let mut dump = String::from("-- Records as version 1 of the table holds them.\n\n");
    dump += include_str!("../migrations/sqlite/0001_records.sql");
    dump.push('\n');
    let columns = "operation, key_hint, state, fingerprint, owner, attempt, on_crash, created_at, lease_until, expires_at, gone_at, answer";
    let values =
        columns.split(", ").map(|column| format!("quote({column})")).collect::<Vec<_>>().join(" || ', ' || ");
    let rows: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(format!("SELECT quote(id) || ', ' || {values} FROM idem_records")))
            .fetch_all(&mut connection)
            .await
            .unwrap();
    for row in rows {
        writeln!(dump, "INSERT INTO idem_records (id, {columns})\nVALUES ({row});").unwrap();
    }
    std::fs::write(path, dump).unwrap();
}

async fn completed_at(store: &SqliteStore, key: &str, retention: idem_core::store::Retention) {
    let claim = claim("payload");
    granted(store, &id(key), &claim).await;
    let fenced = store.complete(&id(key), claim.owner, &answer("done"), retention).await.unwrap();
    assert_eq!(fenced, idem_core::store::Fenced::Held);
}
