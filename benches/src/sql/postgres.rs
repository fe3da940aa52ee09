//! PostgreSQL: a private server, durable as it comes.

use std::str::FromStr as _;
use std::sync::Arc;

use idem::PostgresStore;
use idem_testkit::PostgresServer;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Postgres, Row as _};

use super::bare::{Connections, numbered, table, text};
use super::{ANSWER, CALLERS, Entry, connections, pgbench, run};
use crate::contest::{callers, contest, runtime};
use crate::ours;

const SETTINGS: &[&str] = &["synchronous_commit=on", "fsync=on", "shared_buffers=512MB", "max_wal_size=4GB"];

super::bare::bare!(Postgres, numbered);
super::transaction::transactions!(PostgresStore, PgPoolOptions, "INSERT INTO ledger VALUES ($1, $2)");

pub(super) fn measure() {
    let (runtime, server) = (runtime(), PostgresServer::start(SETTINGS));
    let count = connections();
    let (entry, mixed, url) = runtime.block_on(async {
        let database = server.database().await;
        let url = database.url().to_owned();
        let mut connection = PgConnection::connect(&url).await.expect("a connection");
        let migrations = AssertSqlSafe(text(PostgresStore::migrations(None, &table())));
        connection.execute(sqlx::raw_sql(migrations)).await.expect("a table");
        let options = PgConnectOptions::from_str(&url).expect("a URL").disable_statement_logging();
        let connections = Connections::<Postgres>::open(&options, count).await;
        let (bare_fresh, bare_replay) = bare(Arc::clone(&connections), connections).await;
        let store = PostgresStore::builder().url(&url).connections(count).open().await.expect("a store");
        let (fresh, replay, mixed) = ours::contenders("PostgresStore", store, ANSWER).await;
        let title = format!("PostgreSQL, {count} connections");
        let transactions = transactions(&url, count).await;
        let (fresh, replay) = (vec![bare_fresh, fresh], vec![bare_replay, replay]);
        (Entry { title, fresh, replay, transactions }, mixed, url)
    });
    run(&runtime, &entry);
    contest(&runtime, "PostgreSQL: one half replays", 16, &[mixed]);
    for clients in callers(CALLERS) {
        pgbench::pair(&url, clients);
    }
}

/// A claim among a million completed records, and what a record takes.
pub(super) fn measure_million() {
    const RECORDS: i64 = 1_000_000;
    let (runtime, server) = (runtime(), PostgresServer::start(SETTINGS));
    let count = connections();
    let (few, many) = runtime.block_on(async {
        let database = server.database().await;
        let mut connection = PgConnection::connect(database.url()).await.expect("a connection");
        let open =
            |table| PostgresStore::builder().url(database.url()).connections(count).table(table).open();
        let (few, many) = (open("few").await.expect("a store"), open("many").await.expect("a store"));
        let fill = format!(
            "INSERT INTO many (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash, created_at,
                lease_until, gone_at, expires_at, answer)
            SELECT sha256(convert_to('filling ' || n, 'UTF8')), 'charges.create', 'k-' || n, 'completed',
                '\\x01'::bytea || sha256(convert_to('payload', 'UTF8')), uuid_send(gen_random_uuid()), 1, 'retry', 0, 0,
                9000000000000000000, 9000000000000000000, convert_to(repeat('x', {ANSWER}), 'UTF8')
            FROM generate_series(1, {RECORDS}) AS n"
        );
        connection.execute(sqlx::raw_sql(AssertSqlSafe(fill))).await.expect("a million");
        connection.execute("VACUUM ANALYZE").await.expect("tidiness");
        let sizes = "SELECT pg_table_size('many'), pg_indexes_size('many')";
        let row = connection.fetch_one(sizes).await.expect("sizes");
        println!(
            "\na million records with answers of {ANSWER} bytes: {} bytes each in the table, {} in its index",
            row.get::<i64, _>(0) / RECORDS,
            row.get::<i64, _>(1) / RECORDS
        );
        (ours::contenders("an empty table", few, ANSWER).await, ours::contenders("a million records", many, ANSWER).await)
    });
    for callers in callers(CALLERS) {
        contest(&runtime, "PostgreSQL: fresh call", callers, &[few.0.again(), many.0.again()]);
        contest(&runtime, "PostgreSQL: replay", callers, &[few.1.again(), many.1.again()]);
    }
}
