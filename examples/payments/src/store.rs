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
pub struct Opened {
    pub records: Arc<dyn Store>,
    pub ledger: Arc<dyn Ledger>,
}

impl StoreUrl {
    /// Opens what is there, or makes it.
    pub async fn open(&self) -> Result<Opened, Box<dyn Error + Send + Sync>> {
        match self {
            Self::Memory => Ok(Opened {
                records: Arc::new(MemoryStore::new()),
                ledger: Arc::new(MemoryLedger::default()),
            }),
            Self::Sqlite(path) => {
                let records = SqliteStore::open(path).await?;
                let ledger = SqliteLedger::open(path).await?;
                Ok(Opened { records: Arc::new(records), ledger: Arc::new(ledger) })
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
                Err(format!("the {scheme} store is not built yet in this version; {THERE_IS}"))
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
