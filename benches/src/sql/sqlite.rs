//! SQLite: a file, in both of its durabilities.

use std::sync::Arc;

use idem::{Durability, SqliteStore};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, Sqlite};
use tempfile::TempDir;

use super::bare::{Connections, id};
use super::{ANSWER, Entry, KEPT, ours, run, runtime};
use crate::contest::Contender;

const READERS: usize = 4;

const INSERT: &str = "INSERT INTO bare (id, state, owner, lease_until) VALUES (?1, 'in_flight', ?2, ?3)";
const UPDATE: &str =
    "UPDATE bare SET state = 'completed', answer = ?3, lease_until = ?4 WHERE id = ?1 AND owner = ?2";
const SELECT: &str = "SELECT state, owner, lease_until, answer FROM bare WHERE id = ?1";
const TABLE: &str = "CREATE TABLE bare (id BLOB PRIMARY KEY, state TEXT NOT NULL, owner BLOB NOT NULL,
    lease_until INTEGER NOT NULL, answer BLOB)";

/// One writer, as SQLite has it, so that its lock is never met.
async fn fresh(writer: &Connections<Sqlite>, id: &[u8; 32]) {
    let answer = vec![b'x'; ANSWER];
    let inserted = {
        let mut held = writer.take().await;
        let query = sqlx::query(INSERT).bind(&id[..]).bind(&id[..16]).bind(1_i64);
        query.execute(held.connection()).await.expect("an insertion")
    };
    let updated = {
        let mut held = writer.take().await;
        let query = sqlx::query(UPDATE).bind(&id[..]).bind(&id[..16]).bind(&answer).bind(2_i64);
        query.execute(held.connection()).await.expect("an update")
    };
    assert_eq!((inserted.rows_affected(), updated.rows_affected()), (1, 1));
}

async fn replay(readers: &Connections<Sqlite>, id: &[u8; 32]) {
    let mut held = readers.take().await;
    let row = sqlx::query(SELECT).bind(&id[..]).fetch_one(held.connection()).await.expect("a row");
    assert_eq!(row.get::<&str, _>(0), "completed");
    assert_eq!(row.get::<Vec<u8>, _>(3).len(), ANSWER);
}

async fn bare(folder: &TempDir, synchronous: SqliteSynchronous) -> (Contender, Contender) {
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("bare.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .disable_statement_logging();
    let mut connection = SqliteConnection::connect_with(&options).await.expect("a file");
    connection.execute(TABLE).await.expect("a table");
    connection.close().await.expect("a close");
    let writer = Connections::<Sqlite>::open(&options, 1).await;
    let readers = Connections::<Sqlite>::open(&options, READERS).await;
    for n in 0..KEPT {
        fresh(&writer, &id(1, n)).await;
    }
    (
        Contender::new("bare INSERT + UPDATE", move |n| {
            let writer = Arc::clone(&writer);
            async move { fresh(&writer, &id(2, n)).await }
        }),
        Contender::new("bare SELECT", move |n| {
            let readers = Arc::clone(&readers);
            async move { replay(&readers, &id(1, n % KEPT)).await }
        }),
    )
}

pub(super) fn measure() {
    for (title, durability, synchronous) in [
        ("SQLite, NORMAL", Durability::Normal, SqliteSynchronous::Normal),
        ("SQLite, FULL", Durability::Full, SqliteSynchronous::Full),
    ] {
        let (runtime, folder) = (runtime(), TempDir::new().expect("a folder"));
        let entry = runtime.block_on(async {
            let (bare_fresh, bare_replay) = bare(&folder, synchronous).await;
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
