//! PostgreSQL, on the shared server if a test does not ask for another.

use std::time::Duration;

use idem_core::store::StoreError;
use idem_sqlx::{Migration, PostgresStore, Sweeper, TableName};
use idem_testkit::{Database, PostgresServer};
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::{Backend, Options, Served};

pub(crate) struct Postgres {
    pub(crate) database: Database,
    server: Option<PostgresServer>,
}

impl Backend for Postgres {
    type Store = PostgresStore;
    type Direct = PgConnection;

    const EXPIRED: &str = "INSERT INTO idem_records (id, operation, key_hint, state, fingerprint, owner, attempt,
            on_crash, created_at, lease_until, expires_at, gone_at, answer)
        SELECT sha256(('{TEXT}' || i)::bytea), 'tests', 'k', 'completed', sha256(''), uuid_send(gen_random_uuid()), 1,
            'retry', 1, 0, 2, 2, decode(repeat('00', 300), 'hex') FROM generate_series(1, {N}) AS i";
    const LOCK: &str = "BEGIN; SELECT FROM idem_records FOR UPDATE";
    const DAMAGES: &[&str] = &[
        "state = 'paused'",
        "fingerprint = 'x'",
        "owner = 'x'",
        "on_crash = 'shrug'",
        "attempt = -1",
        "answer = NULL",
    ];
    const RESERVED: &[&str] = &["pg_class"];
    const FIRST_MIGRATION: &str = include_str!("../../migrations/postgres/0001_records.sql");

    async fn new() -> Self {
        Self::on(PostgresServer::shared().database().await)
    }

    async fn quiet() -> Self {
        let server = PostgresServer::start(&["autovacuum=off", "wal_level=minimal", "max_wal_senders=0"]);
        Self { database: server.database().await, server: Some(server) }
    }

    fn place(&self) -> String {
        self.database.url().to_owned()
    }

    async fn open_at(place: &str, options: Options) -> Result<PostgresStore, StoreError> {
        let mut builder = PostgresStore::builder().url(place).table(&options.table).migrate(options.migrate);
        if let Some(timeout) = options.timeout {
            builder = builder.timeout(timeout);
        }
        builder.connections(options.connections).prepared(options.prepared).open().await
    }

    async fn variants(&self, options: Options) -> Vec<PostgresStore> {
        let most = u32::try_from(options.connections).expect("few connections");
        let pool = PgPoolOptions::new().max_connections(most).connect(self.database.url()).await;
        let mut pooled =
            PostgresStore::builder().pool(&pool.expect("a pool")).table(&options.beside("pooled").table);
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

    async fn close(store: &PostgresStore) {
        store.close().await;
    }

    async fn migrate(store: &PostgresStore) -> Result<(), StoreError> {
        store.migrate().await
    }

    fn migrations(table: &TableName) -> Vec<Migration> {
        PostgresStore::migrations(None, table)
    }

    fn spawn_sweeper(store: &PostgresStore, interval: Duration) -> Sweeper {
        store.spawn_sweeper(interval)
    }

    async fn direct(&self) -> PgConnection {
        let mut connection = PgConnection::connect(self.database.url()).await.expect("a connection");
        Self::execute(&mut connection, "SET application_name = 'direct'").await;
        connection
    }

    async fn execute(direct: &mut PgConnection, sql: &str) {
        direct.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.expect("done");
    }

    async fn number(direct: &mut PgConnection, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(direct).await.expect("a number")
    }

    async fn tidy(&self, direct: &mut PgConnection) {
        Self::execute(direct, "VACUUM").await;
    }

    /// The end of the write-ahead log, and the next transaction.
    async fn written(&self, direct: &mut PgConnection) -> String {
        let both = "SELECT pg_current_wal_insert_lsn() || ' ' || pg_snapshot_xmax(pg_current_snapshot())";
        sqlx::query_scalar(both).fetch_one(direct).await.expect("a text")
    }
}

impl Served for Postgres {
    type Product = idem_testkit::Postgres;

    const ISOLATIONS: &[&str] =
        &["default_transaction_isolation=repeatable read", "default_transaction_isolation=serializable"];
    const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";

    // In POSIX the sign is the other way round.
    const ZONES: [&str; 2] = ["SET TIME ZONE '<+14>-14'", "SET TIME ZONE '<-12>+12'"];
    const ZONE: &str = "SELECT (extract(timezone FROM now()) / 3600)::bigint";

    async fn open_after(&self, statement: &'static str, asked: &'static str) -> (PostgresStore, i64) {
        let pool = PgPoolOptions::new()
            .max_connections(2)
            .after_connect(move |connection, _| {
                Box::pin(async move { connection.execute(statement).await.map(drop) })
            })
            .connect(self.database.url())
            .await
            .expect("a pool");
        let answer = sqlx::query_scalar(asked).fetch_one(&pool).await.expect("a number");
        (PostgresStore::from_pool(&pool).await.expect("a store"), answer)
    }

    fn on(database: Database) -> Self {
        Self { database, server: None }
    }

    async fn terminate(&self, direct: &mut PgConnection) -> usize {
        let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> 'direct'";
        Self::number(direct, terminate).await as usize
    }
}
