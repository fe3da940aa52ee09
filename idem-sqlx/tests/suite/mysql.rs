//! MariaDB, on the shared server if a test does not ask for another.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_core::store::StoreError;
use idem_sqlx::{Migration, MySqlStore, Sweeper, TableName};
use idem_testkit::{Database, MariaDbServer};
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::{Backend, Options, Served};

pub(crate) struct MySql {
    pub(crate) database: Database,
    server: Option<MariaDbServer>,
    /// The connections that are no store's.
    direct: Mutex<Vec<i64>>,
}

const LOG: &str = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status
    WHERE variable_name = 'INNODB_LSN_CURRENT'";

impl Backend for MySql {
    type Store = MySqlStore;
    type Direct = MySqlConnection;

    const EXPIRED: &str =
        "INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt,
            on_crash, created_at, lease_until, expires_at, gone_at, answer)
        SELECT UNHEX(SHA2(CONCAT('{TEXT}', seq), 256)), 'tests', 'k', 'completed', UNHEX(SHA2('', 256)),
            UNHEX(MD5(CONCAT('{TEXT}', seq))), 1, 'retry', 1, 0, 2, 2, REPEAT('a', 300) FROM seq_1_to_{N}";
    // The records alone: by default what lies between them is locked, too.
    const LOCK: &str =
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SELECT id FROM idem_records FOR UPDATE";
    // An owner is never too short: the column fills it up.
    const DAMAGES: &[&str] =
        &["state = 'paused'", "fingerprint = 'x'", "on_crash = 'shrug'", "attempt = -1", "answer = NULL"];
    const RESERVED: &[&str] = &[];
    const FIRST_MIGRATION: &str = include_str!("../../migrations/mysql/0001_records.sql");

    async fn new() -> Self {
        Self::on(MariaDbServer::shared().database().await)
    }

    async fn quiet() -> Self {
        let server = MariaDbServer::start(&["innodb-stats-persistent=OFF"]);
        let home = Self::on(server.database().await);
        Self { server: Some(server), ..home }
    }

    fn place(&self) -> String {
        self.database.url().to_owned()
    }

    async fn open_at(place: &str, options: Options) -> Result<MySqlStore, StoreError> {
        let mut builder = MySqlStore::builder().url(place).table(&options.table).migrate(options.migrate);
        if let Some(timeout) = options.timeout {
            builder = builder.timeout(timeout);
        }
        builder.connections(options.connections).prepared(options.prepared).open().await
    }

    async fn variants(&self, options: Options) -> Vec<MySqlStore> {
        let most = u32::try_from(options.connections).expect("few connections");
        let pool = MySqlPoolOptions::new().max_connections(most).connect(self.database.url()).await;
        let mut pooled =
            MySqlStore::builder().pool(&pool.expect("a pool")).table(&options.beside("pooled").table);
        if let Some(timeout) = options.timeout {
            pooled = pooled.timeout(timeout);
        }
        let simple = Options { prepared: false, ..options.beside("simple") };
        vec![
            Self::open_at(self.database.url(), options).await.expect("a store"),
            pooled.open().await.expect("a store"),
            Self::open_at(self.database.url(), simple).await.expect("a store"),
        ]
    }

    async fn close(store: &MySqlStore) {
        store.close().await;
    }

    async fn migrate(store: &MySqlStore) -> Result<(), StoreError> {
        store.migrate().await
    }

    fn migrations(table: &TableName) -> Vec<Migration> {
        MySqlStore::migrations(None, table)
    }

    fn spawn_sweeper(store: &MySqlStore, interval: Duration) -> Sweeper {
        store.spawn_sweeper(interval)
    }

    async fn direct(&self) -> MySqlConnection {
        let mut connection = MySqlConnection::connect(self.database.url()).await.expect("a connection");
        let id = Self::number(&mut connection, "SELECT CAST(connection_id() AS SIGNED)").await;
        self.direct.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        connection
    }

    async fn execute(direct: &mut MySqlConnection, sql: &str) {
        direct.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.expect("done");
    }

    async fn number(direct: &mut MySqlConnection, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(direct).await.expect("a number")
    }

    /// Waits until the server has tidied up, which tells of itself in its log alone.
    async fn tidy(&self, direct: &mut MySqlConnection) {
        let (mut log, mut quiet) = (0, 0);
        while quiet < 20 {
            let now = Self::number(direct, LOG).await;
            quiet = if now == log { quiet + 1 } else { 0 };
            log = now;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The end of the redo log.
    async fn written(&self, direct: &mut MySqlConnection) -> String {
        Self::number(direct, LOG).await.to_string()
    }
}

impl Served for MySql {
    type Product = idem_testkit::MariaDb;

    const ISOLATIONS: &[&str] = &[
        "transaction-isolation=READ-COMMITTED",
        "transaction-isolation=REPEATABLE-READ",
        "transaction-isolation=SERIALIZABLE",
    ];
    const BLOCKED: &str = "SELECT count(*) FROM information_schema.innodb_trx
        JOIN information_schema.processlist ON id = trx_mysql_thread_id
        WHERE trx_state = 'LOCK WAIT' AND db = database()";

    const ZONES: [&str; 2] = ["SET time_zone = 'Pacific/Kiritimati'", "SET time_zone = '-12:00'"];
    const ZONE: &str = "SELECT TIMESTAMPDIFF(HOUR, utc_timestamp, localtimestamp)";

    async fn open_after(&self, statement: &'static str, asked: &'static str) -> (MySqlStore, i64) {
        let pool = MySqlPoolOptions::new()
            .max_connections(2)
            .after_connect(move |connection, _| {
                Box::pin(async move { connection.execute(statement).await.map(drop) })
            })
            .connect(self.database.url())
            .await
            .expect("a pool");
        let answer = sqlx::query_scalar(asked).fetch_one(&pool).await.expect("a number");
        (MySqlStore::from_pool(&pool).await.expect("a store"), answer)
    }

    fn on(database: Database) -> Self {
        Self { database, server: None, direct: Mutex::default() }
    }

    async fn terminate(&self, direct: &mut MySqlConnection) -> usize {
        let all = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = database()";
        let all: Vec<i64> = sqlx::query_scalar(all).fetch_all(&mut *direct).await.expect("connections");
        let spared = self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut ended = 0;
        for id in all.into_iter().filter(|id| !spared.contains(id)) {
            // It may have ended meanwhile.
            let kill = AssertSqlSafe(format!("KILL CONNECTION {id}"));
            ended += usize::from(direct.execute(sqlx::raw_sql(kill)).await.is_ok());
        }
        ended
    }
}
