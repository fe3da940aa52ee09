//! Making tables where each definition is committed by itself, and who may use them.
#![cfg(feature = "mysql")]

mod common;

use std::time::Duration;

use common::{DAY, completed, id, released};
use idem_core::store::{Release, Retention, Settle, Settled, Store as _, StoreErrorKind};
use idem_sqlx::{MySqlStore, TableName};
use idem_testkit::MariaDbServer;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

#[tokio::test]
async fn a_migration_that_was_left_half_done_is_completed_by_the_next() {
    let text = MySqlStore::migrations(None, &TableName::default()).remove(0).sql;
    let statements: Vec<_> = text.split_inclusive(";\n").collect();
    assert_eq!(statements.len(), 3);
    for done in 0..=statements.len() {
        let database = MariaDbServer::shared().database().await;
        let mut connection = MySqlConnection::connect(database.url()).await.unwrap();
        for statement in &statements[..done] {
            connection.execute(sqlx::raw_sql(AssertSqlSafe((*statement).to_owned()))).await.unwrap();
        }
        let unfinished = MySqlStore::builder().url(database.url()).migrate(false).open().await;
        assert_eq!(unfinished.is_ok(), done == statements.len(), "{done} of the statements");
        let store = MySqlStore::open(database.url()).await.unwrap();
        completed(&store, &id("k"), DAY).await;
        store.migrate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_migrates_waits_for_whoever_is_at_it_and_gives_up_in_time() {
    let database = MariaDbServer::shared().database().await;
    let mut other = MySqlConnection::connect(database.url()).await.unwrap();
    other.execute("DO GET_LOCK('idem_migrations', 60)").await.unwrap();
    let builder = MySqlStore::builder().url(database.url());
    let in_vain = builder.clone().timeout(Duration::from_millis(300)).open().await.unwrap_err();
    assert_eq!(in_vain.kind(), StoreErrorKind::TimedOut);
    let opening = tokio::spawn(async move { builder.timeout(Duration::from_secs(30)).open().await });
    // Whoever holds the lock and dies leaves it to the next.
    other.close().await.unwrap();
    let store = opening.await.unwrap().unwrap();
    completed(&store, &id("k"), DAY).await;
}

#[tokio::test]
async fn a_url_without_a_database_says_what_is_missing() {
    let database = MariaDbServer::shared().database().await;
    let (url, _) = database.url().rsplit_once('/').unwrap();
    let refused = MySqlStore::open(url).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
    let told = std::error::Error::source(&refused).unwrap().to_string();
    assert!(told.contains("name a database in the URL, or by `database`"), "{told}");
    let store = MySqlStore::builder().url(url).database(database.name()).open().await.unwrap();
    completed(&store, &id("k"), DAY).await;
    assert_eq!(store.sweep(10).await.unwrap(), 0);
}

#[tokio::test]
async fn a_role_that_serves_needs_no_more_than_is_documented() {
    let database = MariaDbServer::shared().database().await;
    MySqlStore::open(database.url()).await.unwrap().close().await;
    let (name, mut owner) = (database.name(), MySqlConnection::connect(database.url()).await.unwrap());
    let role = format!("{name}_app");
    for sql in [
        format!("CREATE USER {role} IDENTIFIED BY 'secret-password'"),
        format!("GRANT SELECT ON {name}.idem_migrations TO {role}"),
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.idem_records TO {role}"),
    ] {
        owner.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
    }
    let url = database.url().replace("idem@", &format!("{role}:secret-password@"));
    let builder = MySqlStore::builder().url(&url);
    let store = builder.clone().open().await.unwrap();
    completed(&store, &id("k"), Retention { ttl: Duration::ZERO, tombstone_ttl: None }).await;
    released(&store, &id("other"), Release::Unknown).await;
    assert_eq!(store.settle(&id("other"), &Settle::Forget).await.unwrap(), Settled::Done);
    assert_eq!(store.sweep(10).await.unwrap(), 1);
    store.migrate().await.unwrap();
    let cannot_migrate = builder.clone().table("others").open().await.unwrap_err();
    assert_eq!(cannot_migrate.kind(), StoreErrorKind::Misconfigured);
    let pool = sqlx::MySqlPool::connect(&url).await.unwrap();
    let pooled = MySqlStore::builder().pool(&pool);
    let shown = format!("{builder:?} {store:?} {pooled:?} {:?}", pooled.clone().open().await.unwrap());
    assert!(!shown.contains("secret-password"), "{shown}");
    let wrong = MySqlStore::open(&url.replace("secret-password", "wrong-password")).await.unwrap_err();
    assert_eq!(wrong.kind(), StoreErrorKind::Misconfigured);
    assert!(!format!("{wrong:?}").contains("wrong-password"), "{wrong:?}");
    pool.close().await;
    owner.execute(sqlx::raw_sql(AssertSqlSafe(format!("DROP USER {role}")))).await.unwrap();
}
