//! Where things are kept: the address of a store, and the opening of it.

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use idem::{MemoryStore, PostgresStore, SqliteStore, Store};

use crate::ledger::{Ledger, MemoryLedger, PostgresLedger, SqliteLedger};

/// Where records and ledger are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process, and gone with it.
    Memory,
    /// In an SQLite file, which several processes may share.
    Sqlite(PathBuf),
    /// In a PostgreSQL database, which any number of machines may share.
    Postgres(String),
}

/// An open store: idem's records, and our ledger beside them.
///
/// Both are in one database, so that there is one thing to start, to kill and to look into. A service with more to write
/// to SQLite gives idem a file of its own: there is one writer at a time in each.
#[derive(Debug, Clone)]
pub struct Opened {
    pub records: Records,
    pub ledger: Arc<dyn Ledger>,
}

/// Idem's records. The engine wants any [`Store`]; who closes a store has to know which it is.
#[derive(Debug, Clone)]
pub enum Records {
    Memory(MemoryStore),
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl Records {
    /// The store, for the engine.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }
}

impl Opened {
    /// Closes the store, once nothing asks it any more. The last process to close an SQLite file leaves the file alone,
    /// without `-wal` and `-shm` beside it.
    pub async fn close(&self) {
        self.ledger.close().await;
        match &self.records {
            Records::Memory(_) => {}
            Records::Sqlite(store) => store.close().await,
            Records::Postgres(store) => store.close().await,
        }
    }
}

impl StoreUrl {
    /// Opens what is there, or makes it.
    pub async fn open(&self) -> Result<Opened, Box<dyn Error + Send + Sync>> {
        match self {
            Self::Memory => Ok(Opened {
                records: Records::Memory(MemoryStore::new()),
                ledger: Arc::new(MemoryLedger::default()),
            }),
            Self::Sqlite(path) => {
                let records = SqliteStore::open(path).await?;
                let ledger = SqliteLedger::open(path).await?;
                Ok(Opened { records: Records::Sqlite(records), ledger: Arc::new(ledger) })
            }
            Self::Postgres(url) => {
                let records = PostgresStore::open(url).await?;
                let ledger = PostgresLedger::open(url).await?;
                Ok(Opened { records: Records::Postgres(records), ledger: Arc::new(ledger) })
            }
        }
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        const THERE_IS: &str = "use `memory:`, `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`";
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        match (scheme, rest.strip_prefix("//").unwrap_or(rest)) {
            ("memory", "") => Ok(Self::Memory),
            ("sqlite", "") => {
                Err("`sqlite:` needs the path of a file, for example `sqlite:payments.db`".into())
            }
            ("sqlite", ":memory:") => Err("for a store in memory use `memory:`".into()),
            ("sqlite", path) => Ok(Self::Sqlite(path.into())),
            ("postgres" | "postgresql", _) if rest.starts_with("//") => Ok(Self::Postgres(url.into())),
            ("postgres" | "postgresql", _) => {
                Err("a PostgreSQL database is named as in `postgres://USER:PASSWORD@HOST/DATABASE`".into())
            }
            ("mysql" | "mariadb" | "redis" | "rediss" | "valkey", _) => {
                Err(format!("this example has no {scheme} store yet; {THERE_IS}"))
            }
            _ => Err(format!("there is no such store; {THERE_IS}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_store_or_say_what_is_wrong() {
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
        assert_eq!("sqlite:a/b.db".parse(), Ok(StoreUrl::Sqlite("a/b.db".into())));
        assert_eq!("sqlite:///a/b.db".parse(), Ok(StoreUrl::Sqlite("/a/b.db".into())));
        let postgres = "postgres://app:secret@db.internal:5433/payments?sslmode=require";
        assert_eq!(postgres.parse(), Ok(StoreUrl::Postgres(postgres.into())));
        for refused in [
            "",
            "sqlite:",
            "sqlite",
            "sqlite::memory:",
            "memory:x",
            "payments.db",
            "postgres",
            "postgres:payments",
            "redis://localhost",
        ] {
            assert!(refused.parse::<StoreUrl>().is_err(), "{refused}");
        }
    }
}
