//! Where things are kept: the address of a store, and the opening of it.

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use idem::{Idempotency, MemoryStore, MySqlStore, PostgresStore, RedisStore, SqliteStore, Transactional};

use crate::ledger::{Ledger, MemoryLedger, MySqlLedger, PostgresLedger, RedisLedger, SqliteLedger};
use crate::options::Options;

/// Where records and ledger are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process, and gone with it.
    Memory,
    /// In an SQLite file, which several processes may share.
    Sqlite(PathBuf),
    /// In a PostgreSQL database, which any number of machines may share.
    Postgres(String),
    /// In a database of MySQL or MariaDB, which any number of machines may share, too.
    MySql(String),
    /// In Redis or Valkey, which any number of machines may share as well: a server, the primary that Sentinels know, or a
    /// cluster.
    Redis(String),
}

/// An open store: an engine with idem's records, and our ledger beside them.
///
/// Both are in one database: transfers commit in both at once, and there is one thing to start, to kill and to look into.
/// A service that writes much to SQLite but nothing together with idem gives each a file of its own: there is one writer at
/// a time in each.
#[derive(Debug, Clone)]
pub struct Opened {
    pub engine: Engine,
    pub ledger: Arc<dyn Ledger>,
}

/// An engine. Most handlers want any, those of transfers the one of their database, and so does who closes it.
#[derive(Debug, Clone)]
pub enum Engine {
    Memory(Idempotency),
    Sqlite(Transactional<SqliteStore>),
    Postgres(Transactional<PostgresStore>),
    MySql(Transactional<MySqlStore>),
    Redis(Idempotency, RedisStore),
}

impl Engine {
    /// The engine, for what needs no transaction.
    pub fn idem(&self) -> &Idempotency {
        match self {
            Self::Memory(idem) => idem,
            Self::Sqlite(idem) => idem,
            Self::Postgres(idem) => idem,
            Self::MySql(idem) => idem,
            Self::Redis(idem, _) => idem,
        }
    }
}

impl Opened {
    /// Opens what is there, or makes it.
    pub async fn open(options: &Options) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(match &options.store {
            StoreUrl::Memory => {
                let idem = options.configure(Idempotency::builder(MemoryStore::new())).build()?;
                Self { engine: Engine::Memory(idem), ledger: Arc::new(MemoryLedger::default()) }
            }
            StoreUrl::Sqlite(path) => {
                let store = SqliteStore::open(path).await?;
                let idem = options.configure(Transactional::builder(store)).build()?;
                Self { engine: Engine::Sqlite(idem), ledger: Arc::new(SqliteLedger::open(path).await?) }
            }
            StoreUrl::Postgres(url) => {
                let store = PostgresStore::open(url).await?;
                let idem = options.configure(Transactional::builder(store)).build()?;
                Self { engine: Engine::Postgres(idem), ledger: Arc::new(PostgresLedger::open(url).await?) }
            }
            StoreUrl::MySql(url) => {
                let store = MySqlStore::open(url).await?;
                let idem = options.configure(Transactional::builder(store)).build()?;
                Self { engine: Engine::MySql(idem), ledger: Arc::new(MySqlLedger::open(url).await?) }
            }
            StoreUrl::Redis(url) => {
                let store = RedisStore::open(url).await?;
                let idem = options.configure(Idempotency::builder(store.clone())).build()?;
                Self { engine: Engine::Redis(idem, store), ledger: Arc::new(RedisLedger::open(url).await?) }
            }
        })
    }

    /// Closes the store, once nothing asks it any more. The last process to close an SQLite file leaves the file alone,
    /// without `-wal` and `-shm` beside it.
    pub async fn close(&self) {
        self.ledger.close().await;
        match &self.engine {
            Engine::Memory(_) => {}
            Engine::Sqlite(idem) => idem.store().close().await,
            Engine::Postgres(idem) => idem.store().close().await,
            Engine::MySql(idem) => idem.store().close().await,
            Engine::Redis(_, store) => store.close().await,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        const THERE_IS: &str = "use `memory:`, `sqlite:PATH`, `postgres://USER:PASSWORD@HOST/DATABASE`, \
                                `mysql://USER:PASSWORD@HOST/DATABASE`, `redis://USER:PASSWORD@HOST/NUMBER`, \
                                `redis+sentinel://USER:PASSWORD@HOST,HOST/NAME/NUMBER` or \
                                `redis+cluster://USER:PASSWORD@HOST,HOST`; `rediss` is with TLS";
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_redis = matches!(base, "redis" | "rediss" | "valkey" | "valkeys")
            && matches!(kind, "" | "unix" | "sentinel" | "cluster");
        match (scheme, rest.strip_prefix("//").unwrap_or(rest)) {
            ("memory", "") => Ok(Self::Memory),
            ("sqlite", "") => {
                Err("`sqlite:` needs the path of a file, for example `sqlite:payments.db`".into())
            }
            ("sqlite", ":memory:") => Err("for a store in memory use `memory:`".into()),
            ("sqlite", path) => Ok(Self::Sqlite(path.into())),
            ("postgres" | "postgresql", _) if rest.starts_with("//") => Ok(Self::Postgres(url.into())),
            ("mysql" | "mariadb", _) if rest.starts_with("//") => Ok(Self::MySql(url.into())),
            _ if is_redis && rest.starts_with("//") => Ok(Self::Redis(url.into())),
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
        let mysql = "mysql://app@db.internal/payments";
        assert_eq!(mysql.parse(), Ok(StoreUrl::MySql(mysql.into())));
        for redis in [
            "redis://app:secret@cache.internal:6380/3",
            "rediss://cache.internal",
            "valkey+unix:///run/valkey.sock",
            "redis+sentinel://app:secret@one.internal,two.internal:26380/main/3",
            "rediss+cluster://one.internal,two.internal",
        ] {
            assert_eq!(redis.parse(), Ok(StoreUrl::Redis(redis.into())));
        }
        for refused in [
            "",
            "sqlite:",
            "sqlite",
            "sqlite::memory:",
            "memory:x",
            "payments.db",
            "postgres",
            "postgres:payments",
            "mysql:payments",
            "redis:localhost",
            "rediss+srv://localhost",
            "redis+cluster:localhost",
            "mongodb://localhost",
        ] {
            assert!(refused.parse::<StoreUrl>().is_err(), "{refused}");
        }
    }
}
