//! An application that logs over the `log` crate alone. One process, and nothing in it may set a subscriber.
#![cfg(any(feature = "mysql", feature = "postgres"))]

use idem_core::transaction::TransactionalStore;
use idem_core::transactional::Transactional;

async fn assert_log_stays_on(store: impl TransactionalStore) {
    let idem = Transactional::new(store);
    for _ in 0..2 {
        let call = idem.call("tests").key("k").fingerprint("payload");
        call.transact(|_, _| async { Ok::<_, String>(1) }).await.unwrap().into_inner().unwrap();
        assert!(!tracing::dispatcher::has_been_set(), "`tracing` tells `log` nothing any more");
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn transactions_on_mariadb_leave_it_its_log() {
    let database = idem_testkit::MariaDbServer::shared().database().await;
    assert_log_stays_on(idem_sqlx::MySqlStore::open(database.url()).await.unwrap()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn transactions_on_postgres_leave_it_its_log() {
    let database = idem_testkit::PostgresServer::shared().database().await;
    assert_log_stays_on(idem_sqlx::PostgresStore::open(database.url()).await.unwrap()).await;
}
