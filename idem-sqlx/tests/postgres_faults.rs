//! Faults of the server and the way to it: an error of the right kind, in time, and no lasting harm.
#![cfg(feature = "postgres")]

mod common;
mod suite;

use common::{DAY, completed, id};
use idem_core::store::StoreErrorKind;
use idem_sqlx::PostgresStore;
use idem_testkit::PostgresServer;
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

suite::faults_tests!(suite::Postgres);
suite::servers_tests!(suite::Postgres);

async fn command(connection: &mut PgConnection, sql: &str) {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
}

#[tokio::test]
async fn a_pool_whose_connections_are_all_broken_is_used_until_one_is_new() {
    let database = PostgresServer::shared().database().await;
    let pool = PgPoolOptions::new().max_connections(8).test_before_acquire(false);
    let pool = pool.connect(database.url()).await.unwrap();
    let store = PostgresStore::from_pool(&pool).await.unwrap();
    let taken = futures_util::future::join_all((0..8).map(|_| pool.acquire())).await;
    drop(taken);
    while pool.num_idle() < 8 {
        tokio::task::yield_now().await;
    }
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    command(&mut PgConnection::connect(database.url()).await.unwrap(), terminate).await;
    assert_eq!(pool.num_idle(), 8);
    completed(&store, &id("k"), DAY).await;
}

#[tokio::test]
async fn a_store_without_a_place_says_so() {
    let nowhere = PostgresStore::builder().open().await.unwrap_err();
    assert_eq!(nowhere.kind(), StoreErrorKind::Misconfigured);
}
