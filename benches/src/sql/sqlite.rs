//! SQLite: a file, in both of its durabilities.

use std::sync::Arc;

use idem::{Durability, SqliteStore};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Sqlite};
use tempfile::TempDir;

use super::bare::{Connections, table, text};
use super::{Entry, ours, run, runtime};

const READERS: usize = 4;

super::bare::bare!(Sqlite, str::to_owned);

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
            let (fresh, replay, _) = ours::contenders("SqliteStore", store).await;
            Entry { title: title.into(), fresh: vec![bare_fresh, fresh], replay: vec![bare_replay, replay] }
        });
        run(&runtime, &entry);
    }
}
