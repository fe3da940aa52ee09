//! What MariaDB's sessions and settings may be, and what they may not.
#![cfg(feature = "mysql")]

mod common;

use common::{DAY, HOUR, answer, claim, completed, granted, id};
use idem_core::owner::Owner;
use idem_core::store::{Claimed, Fenced, Store as _, StoreErrorKind};
use idem_sqlx::MySqlStore;
use idem_testkit::MariaDbServer;
use sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};

/// A pool each of whose connections is told this first.
async fn pool(url: &str, told: &'static str) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(2)
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(sqlx::raw_sql(AssertSqlSafe(told))).await.map(drop) })
        })
        .connect(url)
        .await
        .unwrap()
}

#[tokio::test]
async fn sessions_in_which_steps_would_not_be_what_they_seem_are_refused() {
    let database = MariaDbServer::shared().database().await;
    for told in ["SET autocommit = 0", "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"] {
        let refused = MySqlStore::from_pool(&pool(database.url(), told).await).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{told}");
    }
    for told in [
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET sql_mode = 'ANSI'",
        "SET sql_mode = 'ORACLE,NO_BACKSLASH_ESCAPES'",
        "SET sql_mode = ''",
        "SET NAMES latin1",
    ] {
        let store = MySqlStore::from_pool(&pool(database.url(), told).await).await.unwrap();
        completed(&store, &id(told), DAY).await;
        assert!(matches!(
            store.claim(&id(told), &claim("payload")).await.unwrap(),
            Claimed::Completed { .. }
        ));
        assert!(store.sweep(10).await.is_ok(), "{told}");
    }
}

#[tokio::test]
async fn an_answer_that_the_server_does_not_let_through_is_told_in_words() {
    let server = MariaDbServer::start(&["max_allowed_packet=1M"]);
    let database = server.database().await;
    for prepared in [true, false] {
        let builder = MySqlStore::builder().url(database.url()).prepared(prepared);
        let store = builder.table(if prepared { "keys" } else { "other_keys" }).open().await.unwrap();
        let claim = claim("payload");
        granted(&store, &id("k"), &claim).await;
        let large = answer(&"x".repeat(2 << 20));
        let refused = store.complete(&id("k"), claim.owner, &large, DAY).await.unwrap_err();
        let told = std::error::Error::source(&refused).unwrap().to_string();
        assert!(told.contains("`max_allowed_packet` of 1048576"), "{told}");
        let small = answer(&"x".repeat(400 << 10));
        assert_eq!(store.complete(&id("k"), claim.owner, &small, DAY).await.unwrap(), Fenced::Held);
        assert_eq!(store.look_up(&id("k")).await.unwrap().unwrap().answer, Some(small));
    }
}

#[tokio::test]
async fn a_replay_a_conflict_and_a_mismatch_write_to_no_log_however_it_is_kept() {
    for format in ["MIXED", "ROW"] {
        let format = format!("binlog_format={format}");
        let server = MariaDbServer::start(&["log_bin=changes", "server_id=1", &format]);
        let database = server.database().await;
        let store = MySqlStore::open(database.url()).await.unwrap();
        let (done, busy) = (id("done"), id("busy"));
        completed(&store, &done, DAY).await;
        granted(&store, &busy, &claim("payload")).await;
        let mut observer = MySqlConnection::connect(database.url()).await.unwrap();
        let mut written = async || {
            let row = observer.fetch_one("SHOW MASTER STATUS").await.unwrap();
            let (file, position): (String, u64) = (row.get(0), row.get(1));
            (file, position)
        };
        let before = written().await;
        for _ in 0..20 {
            let replayed = store.claim(&done, &claim("payload")).await.unwrap();
            assert!(matches!(replayed, Claimed::Completed { .. }));
            assert!(matches!(store.claim(&done, &claim("another")).await.unwrap(), Claimed::Mismatch));
            assert!(matches!(store.claim(&busy, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
        }
        assert_eq!(written().await, before, "{format}");
        let lost = store.renew(&busy, Owner::random(), HOUR).await.unwrap();
        assert_eq!(lost, Fenced::Lost);
        granted(&store, &id("fresh"), &claim("payload")).await;
        assert_ne!(written().await, before, "the observer sees what is written");
    }
}
