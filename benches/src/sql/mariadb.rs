//! MariaDB: a private server, durable as it comes.

use std::str::FromStr as _;
use std::sync::Arc;

use idem::MySqlStore;
use idem_testkit::MariaDbServer;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, MySql};

use super::bare::{Connections, table, text};
use super::{ANSWER, Entry, connections, run};
use crate::contest::runtime;
use crate::ours;

const SETTINGS: &[&str] =
    &["innodb_flush_log_at_trx_commit=1", "innodb_buffer_pool_size=512M", "innodb_log_file_size=512M"];

super::bare::bare!(MySql, str::to_owned);
super::transaction::transactions!(MySqlStore, MySqlPoolOptions, "INSERT INTO ledger VALUES (?, ?)");

pub(super) fn measure() {
    let (runtime, server) = (runtime(), MariaDbServer::start(SETTINGS));
    let count = connections();
    let entry = runtime.block_on(async {
        let database = server.database().await;
        let mut connection = MySqlConnection::connect(database.url()).await.expect("a connection");
        let migrations = AssertSqlSafe(text(MySqlStore::migrations(None, &table())));
        connection.execute(sqlx::raw_sql(migrations)).await.expect("a table");
        let options =
            MySqlConnectOptions::from_str(database.url()).expect("a URL").disable_statement_logging();
        let connections = Connections::<MySql>::open(&options, count).await;
        let (bare_fresh, bare_replay) = bare(Arc::clone(&connections), connections).await;
        let store = MySqlStore::builder().url(database.url()).connections(count).open().await;
        let (fresh, replay, _) = ours::contenders("MySqlStore", store.expect("a store"), ANSWER).await;
        let title = format!("MariaDB, {count} connections");
        let transactions = transactions(database.url(), count).await;
        Entry { title, fresh: vec![bare_fresh, fresh], replay: vec![bare_replay, replay], transactions }
    });
    run(&runtime, &entry);
}
