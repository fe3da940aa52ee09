//! SQLite, in a file.

use std::path::PathBuf;
use std::time::Duration;

use idem_core::store::StoreError;
use idem_sqlx::{Migration, SqliteStore, Sweeper, TableName};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use tempfile::TempDir;

use super::{Backend, Options};

pub(crate) struct Sqlite(TempDir);

impl Sqlite {
    fn file(&self) -> PathBuf {
        self.0.path().join("idem.db")
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.file()).create_if_missing(true)
    }
}

impl Backend for Sqlite {
    type Store = SqliteStore;
    type Direct = SqliteConnection;

    const EXPIRED: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {N})
        INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
            created_at, lease_until, expires_at, gone_at, answer)
        SELECT CAST(substr('{TEXT}' || i || '-' || hex(zeroblob(16)), 1, 32) AS BLOB), 'tests', 'k', 'completed', zeroblob(37),
            randomblob(16), 1, 'retry', 1, 0, 2, 2, randomblob(300) FROM n";
    const LOCK: &str = "BEGIN IMMEDIATE";
    const DAMAGES: &[&str] = &[
        "state = 'paused'",
        "fingerprint = x'0102'",
        "owner = x'01'",
        "on_crash = 'shrug'",
        "attempt = -1",
        "answer = NULL",
    ];
    const RESERVED: &[&str] = &["sqlite_schema"];
    const FIRST_MIGRATION: &str = include_str!("../../migrations/sqlite/0001_records.sql");

    async fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn place(&self) -> String {
        self.file().to_str().expect("a path of letters").to_owned()
    }

    async fn open_at(place: &str, options: Options) -> Result<SqliteStore, StoreError> {
        let mut builder = SqliteStore::builder().file(place).table(&options.table).migrate(options.migrate);
        if let Some(timeout) = options.timeout {
            builder = builder.timeout(timeout);
        }
        builder.readers(options.connections).open().await
    }

    async fn variants(&self, options: Options) -> Vec<SqliteStore> {
        let pool = SqlitePool::connect_with(self.options()).await.expect("a pool");
        let mut pooled = SqliteStore::builder().pool(&pool).table(&options.beside("pooled").table);
        if let Some(timeout) = options.timeout {
            pooled = pooled.timeout(timeout);
        }
        vec![
            Self::open_at(&self.place(), options).await.expect("a store"),
            pooled.open().await.expect("a store"),
            SqliteStore::in_memory().await.expect("a store"),
        ]
    }

    async fn close(store: &SqliteStore) {
        store.close().await;
    }

    async fn migrate(store: &SqliteStore) -> Result<(), StoreError> {
        store.migrate().await
    }

    fn migrations(table: &TableName) -> Vec<Migration> {
        SqliteStore::migrations(table)
    }

    fn spawn_sweeper(store: &SqliteStore, interval: Duration) -> Sweeper {
        store.spawn_sweeper(interval)
    }

    async fn direct(&self) -> SqliteConnection {
        self.options().connect().await.expect("a connection")
    }

    async fn execute(direct: &mut SqliteConnection, sql: &str) {
        direct.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.expect("done");
    }

    async fn number(direct: &mut SqliteConnection, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(direct).await.expect("a number")
    }

    /// The last is in memory.
    fn is_seen(variant: usize) -> bool {
        variant < 2
    }

    /// This number changes exactly if another connection has committed.
    async fn written(&self, direct: &mut SqliteConnection) -> String {
        let version = Self::number(direct, "PRAGMA data_version").await;
        let log = std::fs::metadata(self.0.path().join("idem.db-wal")).map(|file| file.len()).ok();
        format!("{version} {log:?}")
    }
}
