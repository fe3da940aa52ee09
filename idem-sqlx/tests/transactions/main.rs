//! Transaction mode on the SQL stores: claim, the work's writes and the answer commit together, or nothing does.

mod suite;

#[cfg(feature = "mysql")]
mod mysql {
    use idem_sqlx::MySqlStore;
    use idem_testkit::{Database, MariaDbServer};
    use sqlx::mysql::{MySqlPool as Pool, MySqlPoolOptions as PoolOptions};

    /// A database with a ledger, and the pool that both store and test write over.
    pub(crate) struct Place {
        database: Database,
        pub(crate) pool: Pool,
    }

    pub(crate) type Store = MySqlStore;

    impl Place {
        pub(crate) async fn new() -> Self {
            let database = MariaDbServer::shared().database().await;
            let pool = PoolOptions::new().max_connections(8).connect(database.url()).await.unwrap();
            sqlx::query(super::suite::LEDGER).execute(&pool).await.unwrap();
            Self { database, pool }
        }

        /// A store as another process has it.
        pub(crate) async fn store(&self) -> Store {
            MySqlStore::open(self.database.url()).await.unwrap()
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
}

#[cfg(feature = "postgres")]
mod postgres {
    use idem_sqlx::PostgresStore;
    use idem_testkit::{Database, PostgresServer};
    use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

    /// A database with a ledger, and the pool that both store and test write over.
    pub(crate) struct Place {
        database: Database,
        pub(crate) pool: Pool,
    }

    pub(crate) type Store = PostgresStore;

    impl Place {
        pub(crate) async fn new() -> Self {
            let database = PostgresServer::shared().database().await;
            let pool = PoolOptions::new().max_connections(8).connect(database.url()).await.unwrap();
            sqlx::query(super::suite::LEDGER).execute(&pool).await.unwrap();
            Self { database, pool }
        }

        /// A store as another process has it.
        pub(crate) async fn store(&self) -> Store {
            PostgresStore::open(self.database.url()).await.unwrap()
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
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use idem_sqlx::SqliteStore;
    use sqlx::sqlite::{SqlitePool as Pool, SqlitePoolOptions as PoolOptions};
    use tempfile::TempDir;

    /// A database with a ledger, and a pool to look at it.
    pub(crate) struct Place {
        folder: TempDir,
        pub(crate) pool: Pool,
    }

    pub(crate) type Store = SqliteStore;

    impl Place {
        pub(crate) async fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let url = format!("sqlite:{}?mode=rwc", folder.path().join("test.db").display());
            let pool = PoolOptions::new().max_connections(8).connect(&url).await.unwrap();
            sqlx::query("PRAGMA journal_mode = wal").execute(&pool).await.unwrap();
            sqlx::query(super::suite::LEDGER).execute(&pool).await.unwrap();
            Self { folder, pool }
        }

        pub(crate) async fn store(&self) -> Store {
            SqliteStore::open(self.folder.path().join("test.db")).await.unwrap()
        }

        // The file has one lock, which says nothing of keys.
        pub(crate) const TELLS_OTHER_PROCESSES: bool = false;

        pub(crate) async fn cramped(&self) -> (Store, Pool) {
            let url = format!("sqlite:{}", self.folder.path().join("test.db").display());
            let pool = PoolOptions::new().max_connections(1).connect(&url).await.unwrap();
            (SqliteStore::from_pool(&pool).await.unwrap(), pool)
        }
    }

    super::suite::tests!();
}
