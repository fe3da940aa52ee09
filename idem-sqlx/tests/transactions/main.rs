//! Transaction mode on the SQL stores: claim, the work's writes and the answer commit together, or nothing does.

#[path = "../common/mod.rs"]
mod common;
mod processes;
mod rivals;
mod suite;

/// Not a test by itself: what the other processes do.
#[test]
#[ignore = "started by other tests"]
fn the_other_process() {
    let Some((play, place)) = common::process::play() else { return };
    let (store, play) = play.split_once(' ').expect("a store and a play");
    match store {
        #[cfg(feature = "mysql")]
        "mysql" => mysql::play(play, &place),
        #[cfg(feature = "postgres")]
        "postgres" if play == "idle" => postgres::idle::play(&place),
        #[cfg(feature = "postgres")]
        "postgres" => postgres::play(play, &place),
        #[cfg(feature = "sqlite")]
        "sqlite" => sqlite::play(play, &place),
        other => panic!("no such store: {other} for {play} at {place}"),
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    mod innodb;

    use idem_sqlx::MySqlStore;
    use idem_testkit::{Database, MariaDbServer};
    use sqlx::mysql::{MySqlPool as Pool, MySqlPoolOptions as PoolOptions};

    /// A database with a ledger, and the pool that both store and test write over.
    pub(crate) struct Place {
        database: Database,
        pub(crate) pool: Pool,
    }

    pub(crate) type Store = MySqlStore;

    const STORE: &str = "mysql";
    const SLOW: &str = "SELECT SLEEP(0.3)";
    // Its rows' locks are those of its transactions.
    const LOCKS: &str = "SELECT 0";

    impl Place {
        pub(crate) async fn new() -> Self {
            let database = MariaDbServer::shared().database().await;
            let pool = PoolOptions::new().max_connections(8).connect(database.url()).await.unwrap();
            sqlx::query(super::suite::LEDGER).execute(&pool).await.unwrap();
            Self { database, pool }
        }

        /// A store as another process has it.
        pub(crate) async fn store(&self) -> Store {
            Self::store_at(self.place()).await
        }

        pub(crate) async fn store_at(place: &str) -> Store {
            MySqlStore::open(place).await.unwrap()
        }

        pub(crate) async fn pool_at(place: &str) -> Pool {
            PoolOptions::new().max_connections(4).connect(place).await.unwrap()
        }

        /// What another process needs to know.
        pub(crate) fn place(&self) -> &str {
            self.database.url()
        }

        /// Whether a rival elsewhere is told at once; otherwise it waits for the end of the transaction.
        pub(crate) const TELLS_OTHER_PROCESSES: bool = true;

        /// A store on a pool of one connection.
        pub(crate) async fn cramped(&self) -> (Store, Pool) {
            let pool = PoolOptions::new().max_connections(1).connect(self.database.url()).await.unwrap();
            (MySqlStore::from_pool(&pool).await.unwrap(), pool)
        }
    }

    super::suite::tests!();
    super::rivals::tests!();
    super::processes::tests!();
}

#[cfg(feature = "postgres")]
mod postgres {
    mod barrier;
    mod commits;
    mod counts;
    pub(crate) mod idle;
    mod waiters;
    mod wire;

    use idem_sqlx::PostgresStore;
    use idem_testkit::{Database, PostgresServer};
    use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

    /// A database with a ledger, and the pool that both store and test write over.
    pub(crate) struct Place {
        database: Database,
        pub(crate) pool: Pool,
    }

    pub(crate) type Store = PostgresStore;

    /// What others call this store.
    const STORE: &str = "postgres";
    /// What takes a while, though not long.
    const SLOW: &str = "SELECT pg_sleep(0.3)";
    /// How many locks are held in this database that are not the statement's own.
    const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

    impl Place {
        pub(crate) async fn new() -> Self {
            Self::on(PostgresServer::shared().database().await).await
        }

        pub(crate) async fn on(database: Database) -> Self {
            let pool = PoolOptions::new().max_connections(8).connect(database.url()).await.unwrap();
            sqlx::query(super::suite::LEDGER).execute(&pool).await.unwrap();
            Self { database, pool }
        }

        /// A store as another process has it.
        pub(crate) async fn store(&self) -> Store {
            Self::store_at(self.place()).await
        }

        pub(crate) async fn store_at(place: &str) -> Store {
            PostgresStore::open(place).await.unwrap()
        }

        pub(crate) async fn pool_at(place: &str) -> Pool {
            PoolOptions::new().max_connections(4).connect(place).await.unwrap()
        }

        /// What another process needs to know.
        pub(crate) fn place(&self) -> &str {
            self.database.url()
        }

        /// Whether a rival elsewhere is told at once; otherwise it waits for the end of the transaction.
        pub(crate) const TELLS_OTHER_PROCESSES: bool = true;

        /// A store on a pool of one connection.
        pub(crate) async fn cramped(&self) -> (Store, Pool) {
            let pool = PoolOptions::new().max_connections(1).connect(self.database.url()).await.unwrap();
            (PostgresStore::from_pool(&pool).await.unwrap(), pool)
        }
    }

    super::suite::tests!();
    super::rivals::tests!();
    super::processes::tests!();
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use idem_sqlx::SqliteStore;
    use sqlx::sqlite::{SqlitePool as Pool, SqlitePoolOptions as PoolOptions};
    use tempfile::TempDir;

    /// A database with a ledger, and a pool to look at it.
    pub(crate) struct Place {
        _folder: TempDir,
        url: String,
        pub(crate) pool: Pool,
    }

    pub(crate) type Store = SqliteStore;

    const STORE: &str = "sqlite";
    const SLOW: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
        SELECT count(*) FROM n";
    const LOCKS: &str = "SELECT 0";

    impl Place {
        pub(crate) async fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let url = format!("sqlite:{}", folder.path().join("test.db").display());
            let new = format!("{url}?mode=rwc");
            let pool = PoolOptions::new().max_connections(8).connect(&new).await.unwrap();
            sqlx::query("PRAGMA journal_mode = wal").execute(&pool).await.unwrap();
            sqlx::query(super::suite::LEDGER).execute(&pool).await.unwrap();
            Self { _folder: folder, url, pool }
        }

        pub(crate) async fn store(&self) -> Store {
            Self::store_at(self.place()).await
        }

        pub(crate) async fn store_at(place: &str) -> Store {
            SqliteStore::open(place).await.unwrap()
        }

        pub(crate) async fn pool_at(place: &str) -> Pool {
            PoolOptions::new().max_connections(4).connect(place).await.unwrap()
        }

        pub(crate) fn place(&self) -> &str {
            &self.url
        }

        // The file has one lock, which says nothing of keys.
        pub(crate) const TELLS_OTHER_PROCESSES: bool = false;

        pub(crate) async fn cramped(&self) -> (Store, Pool) {
            let pool = PoolOptions::new().max_connections(1).connect(self.place()).await.unwrap();
            (SqliteStore::from_pool(&pool).await.unwrap(), pool)
        }
    }

    super::suite::tests!();
    super::rivals::tests!();
    super::processes::tests!();

    #[tokio::test]
    async fn work_that_asks_the_store_for_another_key_is_told_in_time_and_goes_on() {
        let place = Place::new().await;
        let limit = Duration::from_millis(200);
        let store = SqliteStore::builder().file(place.place()).timeout(limit).open().await.unwrap();
        let idem = Transactional::new(store);
        let inner = idem.clone();
        let outer = call(&idem, "outer", "payload").transact(|tx, run| async move {
            // It waits for the one writer, which is this transaction.
            assert_eq!(
                refused(call(&inner, "b", "payload").transact(pay).await),
                ErrorKind::StoreUnavailable
            );
            let lease = call(&inner, "c", "payload").run(|_| async { Ok::<_, String>(String::new()) });
            assert_eq!(refused(lease.await), ErrorKind::StoreUnavailable);
            assert_eq!(refused(call(&inner, "outer", "payload").transact(pay).await), ErrorKind::InFlight);
            pay(tx, run).await
        });
        assert_eq!(fresh(outer.await).unwrap(), "attempt 1");
        assert_eq!(place.entries().await, ["paid"]);
    }
}
