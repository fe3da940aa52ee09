//! Where things are kept: the address of a store, and the opening of it.

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use idem::{MemoryStore, SqliteStore, Store};

use crate::ledger::{Ledger, MemoryLedger, SqliteLedger};

/// Where records and ledger are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process, and gone with it.
    Memory,
    /// In an SQLite file, which several processes may share.
    Sqlite(PathBuf),
}

/// An open store: idem's records, and our ledger beside them.
///
/// Both are in one SQLite file, so that there is one thing to start, to kill and to look into. A service with more to write
/// gives idem a file of its own: SQLite has one writer at a time in each.
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
}

impl Records {
    /// The store, for the engine.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            Self::Sqlite(store) => Arc::new(store.clone()),
        }
    }
}

impl Opened {
    /// Closes the store, once nothing asks it any more. The last process to close an SQLite file leaves the file alone,
    /// without `-wal` and `-shm` beside it.
    pub async fn close(&self) {
        self.ledger.close().await;
        if let Records::Sqlite(store) = &self.records {
            store.close().await;
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
        }
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        const THERE_IS: &str = "use `memory:` or `sqlite:PATH`";
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        match (scheme, rest.strip_prefix("//").unwrap_or(rest)) {
            ("memory", "") => Ok(Self::Memory),
            ("sqlite", "") => {
                Err("`sqlite:` needs the path of a file, for example `sqlite:payments.db`".into())
            }
            ("sqlite", ":memory:") => Err("for a store in memory use `memory:`".into()),
            ("sqlite", path) => Ok(Self::Sqlite(path.into())),
            ("postgres" | "postgresql" | "mysql" | "mariadb" | "redis" | "rediss" | "valkey", _) => {
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
        for refused in
            ["", "sqlite:", "sqlite", "sqlite::memory:", "memory:x", "payments.db", "redis://localhost"]
        {
            assert!(refused.parse::<StoreUrl>().is_err(), "{refused}");
        }
    }
}
