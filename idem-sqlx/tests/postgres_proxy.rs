//! Behind `PgBouncer`, which hands out four connections for a transaction each and keeps no prepared statements.
#![cfg(feature = "postgres")]

mod common;
mod suite;
#[path = "transactions/rivals.rs"]
mod transaction_rivals;
#[path = "transactions/suite.rs"]
mod transaction_suite;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{DAY, claim, completed, id};
use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_core::store::{Store as _, StoreError, StoreErrorKind};
use idem_sqlx::postgres::PostgresBuilder;
use idem_sqlx::{Migration, PostgresStore, Sweeper, TableName};
use idem_testkit::{Database, PgBouncer, PostgresServer};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Executor as _, Row as _};
use suite::{Backend, Options, Served as _};
use tokio::sync::OnceCell;

/// How many connections there are to each database.
const CONNECTIONS: usize = 4;

/// The server, and the proxy before it.
static SERVERS: LazyLock<(PostgresServer, PgBouncer)> = LazyLock::new(|| {
    let server = PostgresServer::start(&[]);
    let proxy = PgBouncer::before(&server, CONNECTIONS);
    (server, proxy)
});

fn proxied(database: &Database) -> String {
    SERVERS.1.url(database.name())
}

fn builder(url: &str) -> PostgresBuilder {
    PostgresStore::builder().url(url).prepared(false).listen(false)
}

/// What a user's pool or connection needs behind a proxy that accepts few settings.
fn options(url: &str) -> PgConnectOptions {
    url.parse::<PgConnectOptions>().expect("a URL").extra_float_digits(None)
}

struct Behind(String);

impl Subject for Behind {
    type Store = PostgresStore;

    async fn fresh(&self) -> PostgresStore {
        static DATABASE: OnceCell<Database> = OnceCell::const_new();
        let database = DATABASE.get_or_init(|| SERVERS.0.database()).await;
        builder(&proxied(database)).table(&self.0).open().await.expect("a store")
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span + Duration::from_millis(5)).await;
    }
}

fn new_table() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("keys_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

conformance_tests!(mod contract, Behind(new_table()));

/// A database whose stores are behind the proxy; who looks on is not.
struct Proxied(suite::Postgres);

impl Backend for Proxied {
    type Store = PostgresStore;
    type Direct = PgConnection;

    const EXPIRED: &str = suite::Postgres::EXPIRED;
    const LOCK: &str = suite::Postgres::LOCK;
    const DAMAGES: &[&str] = suite::Postgres::DAMAGES;
    const RESERVED: &[&str] = suite::Postgres::RESERVED;
    const FIRST_MIGRATION: &str = suite::Postgres::FIRST_MIGRATION;

    async fn new() -> Self {
        Self(suite::Postgres::on(SERVERS.0.database().await))
    }

    fn place(&self) -> String {
        proxied(&self.0.database)
    }

    async fn open_at(place: &str, options: Options) -> Result<PostgresStore, StoreError> {
        let builder = builder(place).table(&options.table).connections(options.connections);
        builder.migrate(options.migrate).open().await
    }

    /// One with a proxied pool for its transactions, and one without.
    async fn variants(&self, options: Options) -> Vec<PostgresStore> {
        let pool = PgPoolOptions::new().connect_lazy_with(self::options(&self.place()));
        let pooled = PostgresStore::builder().pool(&pool).prepared(false).listen(false);
        vec![
            pooled.table(&options.beside("pooled").table).open().await.expect("a store"),
            Self::open_at(&self.place(), options).await.expect("a store"),
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
        self.0.direct().await
    }

    async fn execute(direct: &mut PgConnection, sql: &str) {
        suite::Postgres::execute(direct, sql).await;
    }

    async fn number(direct: &mut PgConnection, sql: &str) -> i64 {
        suite::Postgres::number(direct, sql).await
    }

    async fn written(&self, direct: &mut PgConnection) -> String {
        self.0.written(direct).await
    }
}

suite::cases! { Proxied, races:
    sixty_four_rivals_get_one_grant_and_sixty_three_answers
    thirty_two_writers_see_no_error_and_lose_nothing
    steps_taken_at_once_are_answered_each_by_itself
    dropped_callers_harm_nobody
    many_waiters_hold_no_connection_and_wake_at_once
    waiters_learn_what_another_store_did
}

#[tokio::test]
async fn whoever_prepares_statements_all_the_same_is_told_not_to() {
    let database = SERVERS.0.database().await;
    let open =
        || async { PostgresStore::builder().url(&proxied(&database)).listen(false).open().await.unwrap() };
    let (first, second) = (open().await, open().await);
    // One after the other they are given the same connection, on which a name means what it meant first.
    completed(&first, &id("k"), DAY).await;
    let refused = second.claim(&id("k"), &claim("payload")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
    let text = common::writers::full_text(&refused);
    assert!(text.contains("prepared(false)"), "{text}");
}

#[tokio::test]
async fn a_setting_that_the_proxy_refuses_is_told_as_such() {
    let database = SERVERS.0.database().await;
    let url = format!("{}?options[statement_timeout]=5s", proxied(&database));
    let refused = builder(&url).open().await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
    let text = common::writers::full_text(&refused);
    assert!(text.contains("leave `options` out"), "{text}");
}

mod transactions {
    use std::collections::BTreeSet;

    use super::*;

    /// A database with a ledger. Stores are behind the proxy, the pool that looks on is not.
    pub(crate) struct Place {
        database: Database,
        pub(crate) pool: PgPool,
    }

    pub(crate) type Store = PostgresStore;
    type Pool = PgPool;

    const SLOW: &str = "SELECT pg_sleep(0.3)";
    const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    const SETTINGS: &str = "SELECT pg_backend_pid()::text, current_setting('lock_timeout'),
        current_setting('idle_in_transaction_session_timeout')";

    impl Place {
        pub(crate) const TELLS_OTHER_PROCESSES: bool = true;

        pub(crate) async fn new() -> Self {
            let database = SERVERS.0.database().await;
            let pool = PgPoolOptions::new().max_connections(8).connect(database.url()).await.unwrap();
            sqlx::query(transaction_suite::LEDGER).execute(&pool).await.unwrap();
            Self { database, pool }
        }

        pub(crate) async fn store(&self) -> PostgresStore {
            builder(&proxied(&self.database)).open().await.unwrap()
        }

        /// A store on a pool of one connection.
        pub(crate) async fn cramped(&self) -> (PostgresStore, PgPool) {
            let options = options(&proxied(&self.database));
            let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
            let builder = PostgresStore::builder().pool(&pool).prepared(false).listen(false);
            (builder.open().await.unwrap(), pool)
        }
    }

    transaction_suite::tests!(false);
    transaction_rivals::tests!();

    #[tokio::test]
    async fn a_claim_is_part_of_a_proxied_transaction_that_the_caller_has() {
        let place = Place::new().await;
        let (store, pool) = place.cramped().await;
        let idem = Transactional::new(store);
        for end in ["rollback", "commit"] {
            let mut tx = pool.begin().await.unwrap();
            let joined = call(&idem, "k", "payload").claim_in::<String>(&mut tx).await.unwrap();
            let Joined::Granted(part) = joined else { panic!("{joined:?} at {end}") };
            let entry = sqlx::query("INSERT INTO ledger (entry) VALUES ($1)").bind("joined");
            entry.persistent(false).execute(&mut *tx).await.unwrap();
            part.complete(&mut tx, &"done").await.unwrap();
            if end == "commit" { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        let mut tx = pool.begin().await.unwrap();
        let joined = call(&idem, "k", "payload").claim_in::<String>(&mut tx).await.unwrap();
        assert!(matches!(joined, Joined::Replayed(text) if text == "done"));
        tx.rollback().await.unwrap();
        assert_eq!(place.entries().await, ["joined"]);
    }

    #[tokio::test]
    async fn neither_settings_nor_locks_are_left_on_the_connections_that_transactions_used() {
        let place = Place::new().await;
        let idem = place.engine().await;
        let gate = Arc::new(tokio::sync::Barrier::new(CONNECTIONS));
        let calls = (0..CONNECTIONS).map(|n| {
            let gate = Arc::clone(&gate);
            call(&idem, &format!("k{n}"), "payload").transact(|mut tx, _| async move {
                let set = tx.fetch_one(sqlx::raw_sql(SETTINGS)).await.map_err(|error| error.to_string())?;
                let set: [String; 3] = [0, 1, 2].map(|at| set.get(at));
                gate.wait().await;
                Ok::<_, String>(set.join(" "))
            })
        });
        let mut used = BTreeSet::new();
        for ended in futures_util::future::join_all(calls).await {
            let Ok(Outcome::Fresh(Ok(set))) = ended else { panic!("{ended:?}") };
            let [pid, lock, idle] = set.split(' ').collect::<Vec<_>>().try_into().unwrap();
            assert!(
                lock != "0" && idle != "0",
                "lock_timeout {lock}, idle_in_transaction_session_timeout {idle}"
            );
            used.insert(pid.to_owned());
        }
        // All of them again, for others.
        let (mut clients, mut seen) = (Vec::new(), BTreeSet::new());
        for _ in 0..CONNECTIONS {
            let mut client = options(&proxied(&place.database)).connect().await.unwrap();
            client.execute(sqlx::raw_sql("BEGIN")).await.unwrap();
            let found = client.fetch_one(sqlx::raw_sql(SETTINGS)).await.unwrap();
            assert_eq!([1, 2].map(|at| found.get::<String, _>(at)), ["0", "0"]);
            seen.insert(found.get::<String, _>(0));
            clients.push(client);
        }
        assert_eq!((seen.len(), &seen), (CONNECTIONS, &used));
        let locks: i64 = sqlx::query_scalar(LOCKS).fetch_one(&place.pool).await.unwrap();
        assert_eq!(locks, 0);
    }
}
