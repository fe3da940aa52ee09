//! SQLite: a file, in both of its durabilities.

use std::sync::Arc;

use idem::{Durability, SqliteStore};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Sqlite};
use tempfile::TempDir;

use super::bare::{Connections, table, text};
use super::{ANSWER, Entry, run};
use crate::contest::runtime;
use crate::ours;

const READERS: usize = 4;

super::bare::bare!(Sqlite, str::to_owned);
super::transaction::transactions!(SqliteStore, SqlitePoolOptions, "INSERT INTO ledger VALUES (?, ?)");

async fn connections(
    folder: &TempDir,
    synchronous: SqliteSynchronous,
) -> (Arc<Connections<Sqlite>>, Arc<Connections<Sqlite>>) {
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("bare.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .disable_statement_logging();
    let mut connection = SqliteConnection::connect_with(&options).await.expect("a file");
    let migrations = AssertSqlSafe(text(SqliteStore::migrations(&table())));
    connection.execute(sqlx::raw_sql(migrations)).await.expect("a table");
    connection.close().await.expect("a close");
    // One writer, as SQLite has it, so that its lock is never met.
    (Connections::open(&options, 1).await, Connections::open(&options, READERS).await)
}

/// The URL of a new database that has a write-ahead log, as the store's own have.
async fn in_wal(folder: &TempDir) -> String {
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("transactions.db").display());
    let mut connection = SqliteConnection::connect(&url).await.expect("a file");
    connection.execute("PRAGMA journal_mode = WAL").await.expect("a log");
    connection.close().await.expect("a close");
    url
}

pub(super) fn measure() {
    for (title, durability, synchronous) in [
        ("SQLite, NORMAL", Durability::Normal, SqliteSynchronous::Normal),
        ("SQLite, FULL", Durability::Full, SqliteSynchronous::Full),
    ] {
        let (runtime, folder) = (runtime(), TempDir::new().expect("a folder"));
        let entry = runtime.block_on(async {
            let (writer, readers) = connections(&folder, synchronous).await;
            let (bare_fresh, bare_replay) = bare(writer, readers).await;
            let store = SqliteStore::builder()
                .file(folder.path().join("ours.db"))
                .durability(durability)
                .readers(READERS)
                .open()
                .await
                .expect("a store");
            let (fresh, replay, _) = ours::contenders("SqliteStore", store, ANSWER).await;
            // Pools have the durability of their URL, which knows only the default, FULL.
            let transactions = if synchronous == SqliteSynchronous::Full {
                transactions(&in_wal(&folder).await, 1).await
            } else {
                Vec::new()
            };
            let (fresh, replay) = (vec![bare_fresh, fresh], vec![bare_replay, replay]);
            Entry { title: title.into(), fresh, replay, transactions }
        });
        run(&runtime, &entry);
    }
}
