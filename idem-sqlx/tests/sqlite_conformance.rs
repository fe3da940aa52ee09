//! The store contract on SQLite: on a file, in memory, on another table, and as `dyn`.
#![cfg(feature = "sqlite")]

use std::sync::Arc;
use std::time::Duration;

use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_core::store::Store;
use idem_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tempfile::TempDir;

/// SQLite's clock cannot be wound, so its time is waited for. The store rounds a span up to the ticks of that clock and
/// adds one, so it is over up to two milliseconds later than asked for.
async fn wait(span: Duration) {
    tokio::time::sleep(span + Duration::from_millis(2)).await;
}

struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    async fn open(&self) -> SqliteStore {
        SqliteStore::open(self.0.path().join("idem.db")).await.expect("a store")
    }
}

impl Subject for File {
    type Store = SqliteStore;

    async fn fresh(&self) -> SqliteStore {
        self.open().await
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }

    async fn held(&self, _: &SqliteStore) -> Option<u64> {
        let options = SqliteConnectOptions::new().filename(self.0.path().join("idem.db"));
        let pool = SqlitePool::connect_with(options).await.expect("a pool");
        let held: i64 =
            sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(&pool).await.expect("a count");
        u64::try_from(held).ok()
    }
}

struct Memory;

impl Subject for Memory {
    type Store = SqliteStore;

    async fn fresh(&self) -> SqliteStore {
        SqliteStore::in_memory().await.expect("a store")
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }
}

/// Beside a pool of one connection, and under another name.
struct Pooled(TempDir);

impl Subject for Pooled {
    type Store = SqliteStore;

    async fn fresh(&self) -> SqliteStore {
        let options =
            SqliteConnectOptions::new().filename(self.0.path().join("app.db")).create_if_missing(true);
        let pool = SqlitePool::connect_with(options).await.expect("a pool");
        SqliteStore::builder().pool(&pool).table("acme_keys").readers(1).open().await.expect("a store")
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }
}

struct Dyn(File);

impl Subject for Dyn {
    type Store = Arc<dyn Store>;

    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(self.0.open().await)
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }
}

conformance_tests!(mod file, File::new());
conformance_tests!(mod memory, Memory);
conformance_tests!(mod pooled, Pooled(TempDir::new().expect("a directory")));
conformance_tests!(mod dynamic, Dyn(File::new()));
