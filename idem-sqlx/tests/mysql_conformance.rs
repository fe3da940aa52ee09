//! The store contract on MariaDB: on connections of its own, on a pool, behind what forgets prepared statements, and
//! as `dyn`.
#![cfg(feature = "mysql")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_core::store::Store;
use idem_sqlx::MySqlStore;
use idem_testkit::{Database, MariaDbServer};
use sqlx::AssertSqlSafe;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use tokio::sync::OnceCell;

/// One database for all cases: each has a table of its own, which is made faster than a database.
async fn database() -> &'static Database {
    static DATABASE: OnceCell<Database> = OnceCell::const_new();
    DATABASE.get_or_init(|| MariaDbServer::shared().database()).await
}

fn new_table() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("keys_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn count(table: &str) -> Option<u64> {
    let pool = MySqlPool::connect(database().await.url()).await.expect("a pool");
    let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    let held: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.expect("a count");
    pool.close().await;
    u64::try_from(held).ok()
}

/// MariaDB's clock cannot be wound, so its time is waited for: a little more, since spans are rounded up.
async fn wait(span: Duration) {
    tokio::time::sleep(span + Duration::from_millis(5)).await;
}

struct Own(String);

impl Subject for Own {
    type Store = MySqlStore;

    async fn fresh(&self) -> MySqlStore {
        let url = database().await.url();
        MySqlStore::builder().url(url).table(&self.0).open().await.expect("a store")
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }

    async fn held(&self, _: &MySqlStore) -> Option<u64> {
        count(&self.0).await
    }
}

/// A pool of two, and a database by name.
struct Pooled(String);

impl Subject for Pooled {
    type Store = MySqlStore;

    async fn fresh(&self) -> MySqlStore {
        let pool =
            MySqlPoolOptions::new().max_connections(2).connect(database().await.url()).await.expect("a pool");
        MySqlStore::builder()
            .pool(&pool)
            .database(database().await.name())
            .table(&self.0)
            .open()
            .await
            .expect("a store")
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }
}

/// One trip each, and nothing that outlasts it.
struct Simple(String);

impl Subject for Simple {
    type Store = MySqlStore;

    async fn fresh(&self) -> MySqlStore {
        let url = database().await.url();
        MySqlStore::builder().url(url).prepared(false).table(&self.0).open().await.expect("a store")
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }
}

struct Dyn(Own);

impl Subject for Dyn {
    type Store = Arc<dyn Store>;

    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(self.0.fresh().await)
    }

    async fn pass(&self, span: Duration) {
        wait(span).await;
    }
}

conformance_tests!(mod own, Own(new_table()));
conformance_tests!(mod pooled, Pooled(new_table()));
conformance_tests!(mod simple, Simple(new_table()));
conformance_tests!(mod dynamic, Dyn(Own(new_table())));
