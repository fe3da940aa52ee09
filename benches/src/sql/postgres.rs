//! PostgreSQL: a private server, durable as it comes.

use std::str::FromStr as _;
use std::sync::Arc;

use idem::PostgresStore;
use idem_testkit::PostgresServer;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Postgres, Row as _};

use super::bare::{Connections, id};
use super::{ANSWER, CALLERS, Entry, KEPT, contest, ours, pgbench, run, runtime};
use crate::contest::Contender;

/// On both sides. `IDEM_BENCH_CONNECTIONS` names another number.
const CONNECTIONS: usize = 8;

const SETTINGS: &[&str] = &["synchronous_commit=on", "fsync=on", "shared_buffers=512MB", "max_wal_size=4GB"];

pub(super) const INSERT: &str =
    "INSERT INTO bare (id, state, owner, lease_until) VALUES ($1, 'in_flight', $2, $3)";
pub(super) const UPDATE: &str =
    "UPDATE bare SET state = 'completed', answer = $3, lease_until = $4 WHERE id = $1 AND owner = $2";
const SELECT: &str = "SELECT state, owner, lease_until, answer FROM bare WHERE id = $1";
const TABLE: &str = "CREATE TABLE bare (id bytea PRIMARY KEY, state text NOT NULL, owner bytea NOT NULL,
    lease_until bigint NOT NULL, answer bytea) WITH (fillfactor = 70);
    ALTER TABLE bare ALTER COLUMN answer SET STORAGE EXTERNAL";

fn connections() -> usize {
    std::env::var("IDEM_BENCH_CONNECTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(CONNECTIONS)
}

async fn fresh(connections: &Connections<Postgres>, id: &[u8; 32]) {
    let answer = vec![b'x'; ANSWER];
    // One connection for each statement: the work would be between them.
    let inserted = {
        let mut held = connections.take().await;
        let query = sqlx::query(INSERT).bind(&id[..]).bind(&id[..16]).bind(1_i64);
        query.execute(held.connection()).await.expect("an insertion")
    };
    let updated = {
        let mut held = connections.take().await;
        let query = sqlx::query(UPDATE).bind(&id[..]).bind(&id[..16]).bind(&answer).bind(2_i64);
        query.execute(held.connection()).await.expect("an update")
    };
    assert_eq!((inserted.rows_affected(), updated.rows_affected()), (1, 1));
}

async fn replay(connections: &Connections<Postgres>, id: &[u8; 32]) {
    let mut held = connections.take().await;
    let row = sqlx::query(SELECT).bind(&id[..]).fetch_one(held.connection()).await.expect("a row");
    assert_eq!(row.get::<&str, _>(0), "completed");
    assert_eq!(row.get::<Vec<u8>, _>(3).len(), ANSWER);
}

async fn bare(options: &PgConnectOptions, count: usize) -> (Contender, Contender) {
    let connections = Connections::<Postgres>::open(options, count).await;
    for n in 0..KEPT {
        fresh(&connections, &id(1, n)).await;
    }
    let again = Arc::clone(&connections);
    (
        Contender::new("bare INSERT + UPDATE", move |n| {
            let connections = Arc::clone(&connections);
            async move { fresh(&connections, &id(2, n)).await }
        }),
        Contender::new("bare SELECT", move |n| {
            let connections = Arc::clone(&again);
            async move { replay(&connections, &id(1, n % KEPT)).await }
        }),
    )
}

pub(super) fn measure() {
    let (runtime, server) = (runtime(), PostgresServer::start(SETTINGS));
    let count = connections();
    let (entry, mixed, url) = runtime.block_on(async {
        let database = server.database().await;
        let url = database.url().to_owned();
        let mut connection = PgConnection::connect(&url).await.expect("a connection");
        connection.execute(sqlx::raw_sql(TABLE)).await.expect("a table");
        let options = PgConnectOptions::from_str(&url).expect("a URL").disable_statement_logging();
        let (bare_fresh, bare_replay) = bare(&options, count).await;
        let store = PostgresStore::builder().url(&url).connections(count).open().await.expect("a store");
        let (fresh, replay, mixed) = ours::contenders("PostgresStore", store).await;
        let title = format!("PostgreSQL, {count} connections");
        (Entry { title, fresh: vec![bare_fresh, fresh], replay: vec![bare_replay, replay] }, mixed, url)
    });
    run(&runtime, &entry);
    contest(&runtime, "PostgreSQL: one half replays", 16, &[mixed]);
    for clients in CALLERS {
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
        (ours::contenders("an empty table", few).await, ours::contenders("a million records", many).await)
    });
    for callers in [1, 16] {
        contest(&runtime, "PostgreSQL: fresh call", callers, &[few.0.again(), many.0.again()]);
        contest(&runtime, "PostgreSQL: replay", callers, &[few.1.again(), many.1.again()]);
    }
}
