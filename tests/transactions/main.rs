//! The attribute's `transaction = tx`, on every store that has transactions: what the work writes is committed with its
//! answer, or is not there.
#![cfg(all(
    feature = "axum",
    feature = "encryption",
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]

mod answer;
mod encrypted;
mod functions;
mod handlers;
mod new_keys;
mod records;

/// A ledger without a constraint, so that whatever is written twice is seen.
const LEDGER: &str = "CREATE TABLE ledger (entry VARCHAR(40) NOT NULL)";

mod mysql {
    use idem::MySqlStore as Store;
    use idem_testkit::{Database, MariaDbServer};
    use sqlx::{MySqlConnection as Connection, MySqlPool as Pool};

    /// A database with a ledger and an engine over it.
    struct Place {
        _database: Database,
        pool: Pool,
        idem: idem::Transactional<Store>,
    }

    impl Place {
        async fn new() -> Self {
            let database = MariaDbServer::shared().database().await;
            let pool = Pool::connect(database.url()).await.unwrap();
            sqlx::query(super::LEDGER).execute(&pool).await.unwrap();
            let idem = idem::Transactional::new(Store::open(database.url()).await.unwrap());
            Self { _database: database, pool, idem }
        }
    }

    super::functions::tests!();
    super::handlers::tests!();
    super::encrypted::tests!();
    super::new_keys::tests!();
    super::records::tests!();
}

mod postgres {
    use idem::PostgresStore as Store;
    use idem_testkit::{Database, PostgresServer};
    use sqlx::{PgConnection as Connection, PgPool as Pool};

    /// A database with a ledger and an engine over it.
    struct Place {
        _database: Database,
        pool: Pool,
        idem: idem::Transactional<Store>,
    }

    impl Place {
        async fn new() -> Self {
            let database = PostgresServer::shared().database().await;
            let pool = Pool::connect(database.url()).await.unwrap();
            sqlx::query(super::LEDGER).execute(&pool).await.unwrap();
            let idem = idem::Transactional::new(Store::open(database.url()).await.unwrap());
            Self { _database: database, pool, idem }
        }
    }

    super::functions::tests!();
    super::handlers::tests!();
    super::encrypted::tests!();
    super::new_keys::tests!();
    super::records::tests!();
}

mod sqlite {
    use idem::SqliteStore as Store;
    use sqlx::{SqliteConnection as Connection, SqlitePool as Pool};
    use tempfile::TempDir;

    /// A file with a ledger and an engine over it.
    struct Place {
        _folder: TempDir,
        pool: Pool,
        idem: idem::Transactional<Store>,
    }

    impl Place {
        async fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("test.db");
            let idem = idem::Transactional::new(Store::open(&path).await.unwrap());
            let pool = Pool::connect(&format!("sqlite:{}", path.display())).await.unwrap();
            sqlx::query(super::LEDGER).execute(&pool).await.unwrap();
            Self { _folder: folder, pool, idem }
        }
    }

    super::functions::tests!();
    super::handlers::tests!();
    super::encrypted::tests!();
    super::new_keys::tests!();
    super::records::tests!();
}
