//! Tables of PostgreSQL: their names, schemas and migrations, and what a role needs.
#![cfg(feature = "postgres")]

mod common;
mod suite;

use std::time::Duration;

use common::{DAY, completed, id, released};
use idem_core::store::{Release, Retention, Settle, Settled, Store as _};
use idem_sqlx::PostgresStore;
use idem_testkit::{Database, PostgresServer};
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

suite::tables_tests!(suite::Postgres);

async fn database() -> Database {
    PostgresServer::shared().database().await
}

async fn scalar<T>(connection: &mut PgConnection, sql: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn names_that_could_be_sql_are_refused() {
    let database = database().await;
    for name in
        ["", "a b", "a\"; DROP TABLE users; --", "a'", "Keys", "pg_class", "idem_migrations", "a.b", "$1"]
    {
        for builder in [PostgresStore::builder().table(name), PostgresStore::builder().schema(name)] {
            let refused = builder.url(database.url()).open().await.unwrap_err();
            assert_eq!(refused.kind(), idem_core::store::StoreErrorKind::Misconfigured, "{name:?}");
        }
    }
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    owner.execute("CREATE SCHEMA acme").await.unwrap();
    let store =
        PostgresStore::builder().url(database.url()).schema("acme").table("select").open().await.unwrap();
    completed(&store, &id("k"), DAY).await;
    assert_eq!(scalar::<i64>(&mut owner, r#"SELECT count(*) FROM acme."select""#).await, 1);
    assert_eq!(store.sweep(10).await.unwrap(), 0);
    let missing = PostgresStore::builder().url(database.url()).schema("nowhere").open().await.unwrap_err();
    assert_eq!(missing.kind(), idem_core::store::StoreErrorKind::Misconfigured);
}

#[tokio::test]
async fn a_role_that_serves_needs_no_more_than_is_documented() {
    let database = database().await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let texts = PostgresStore::migrations(None, &idem_sqlx::TableName::default());
    assert_eq!(texts[0].sql, include_str!("../migrations/postgres/0001_records.sql"));
    for text in texts {
        owner.execute(sqlx::raw_sql(AssertSqlSafe(text.sql))).await.unwrap();
    }
    let role = format!("{}_serves", database.name());
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA public TO {role}; GRANT SELECT ON idem_migrations TO {role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON idem_records TO {role}"
    );
    owner.execute(sqlx::raw_sql(AssertSqlSafe(grants))).await.unwrap();
    let url = database.url().to_owned();
    let pool = PgPoolOptions::new()
        .after_connect({
            let set = format!("SET ROLE {role}");
            move |connection, _| {
                let set = AssertSqlSafe(set.clone());
                Box::pin(async move { connection.execute(sqlx::raw_sql(set)).await.map(drop) })
            }
        })
        .connect(&url)
        .await
        .unwrap();
    let store = PostgresStore::from_pool(&pool).await.unwrap();
    completed(&store, &id("k"), Retention { ttl: Duration::ZERO, tombstone_ttl: None }).await;
    released(&store, &id("other"), Release::Unknown).await;
    assert_eq!(store.settle(&id("other"), &Settle::Forget).await.unwrap(), Settled::Done);
    assert_eq!(store.sweep(10).await.unwrap(), 1);
    let cannot_migrate = PostgresStore::builder().pool(&pool).table("others").open().await.unwrap_err();
    assert_eq!(cannot_migrate.kind(), idem_core::store::StoreErrorKind::Misconfigured);
    pool.close().await;
    let done = format!("REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}");
    owner.execute(sqlx::raw_sql(AssertSqlSafe(done))).await.unwrap();
}
