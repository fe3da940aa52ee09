//! Opened: a store with its engines, and the ledger beside it.

use std::error::Error;
use std::time::Duration;

use idem::{
    Builder, Idempotency, MemoryStore, MySqlStore, PostgresStore, RedisStore, SqliteStore, Store,
    Transactional,
};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::late::Late;
use super::ledger::Ledger;
use super::{Broken, ServiceOptions};

/// An engine that knows its database.
#[derive(Debug, Clone)]
pub(super) enum Engine {
    Sqlite(Transactional<SqliteStore>),
    Postgres(Transactional<PostgresStore>),
    MySql(Transactional<MySqlStore>),
}

#[derive(Debug, Clone)]
pub(super) struct Opened {
    /// The engine of lease mode.
    pub(super) idem: Idempotency,
    /// That of transaction mode, where there is one.
    pub(super) engine: Option<Engine>,
    pub(super) ledger: Ledger,
}

impl Opened {
    pub(super) async fn open(options: &ServiceOptions) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let time_out = Duration::from_millis(options.time_out_ms);
        let (kind, place) = options.store.split_once(':').unwrap_or((&options.store, ""));
        let (idem, engine, ledger) = match kind {
            "memory" => (lease_engine(options, MemoryStore::new())?, None, Ledger::Nowhere),
            "sqlite" => {
                let store = SqliteStore::builder().file(place).timeout(time_out).open().await?;
                let file = SqliteConnectOptions::new().filename(place);
                let pool = SqlitePoolOptions::new().max_connections(1).connect_with(file).await?;
                let engine = configure(options, Transactional::builder(store.clone())).build()?;
                let engine = Some(Engine::Sqlite(engine));
                (lease_engine(options, store)?, engine, Ledger::Sqlite(pool))
            }
            "postgres" | "postgresql" => {
                let store = PostgresStore::builder().url(&options.store).timeout(time_out).open().await?;
                let pool = PgPoolOptions::new().max_connections(1).connect(&options.store).await?;
                let engine = configure(options, Transactional::builder(store.clone())).build()?;
                let engine = Some(Engine::Postgres(engine));
                (lease_engine(options, store)?, engine, Ledger::Postgres(pool))
            }
            "mysql" | "mariadb" => {
                let store = MySqlStore::builder().url(&options.store).timeout(time_out).open().await?;
                let pool = MySqlPoolOptions::new().max_connections(1).connect(&options.store).await?;
                let engine = configure(options, Transactional::builder(store.clone())).build()?;
                let engine = Some(Engine::MySql(engine));
                (lease_engine(options, store)?, engine, Ledger::MySql(pool))
            }
            _ => {
                let builder = match (kind, place.split_once('@')) {
                    ("redis-cluster", _) => RedisStore::cluster(place.split(',')),
                    ("redis-sentinel", Some((name, sentinels))) => {
                        RedisStore::sentinel(name, sentinels.split(',')).wait_replicas(1)
                    }
                    _ => RedisStore::builder().url(&options.store),
                };
                let store = builder.timeout(time_out).open().await?;
                (lease_engine(options, store)?, None, Ledger::Nowhere)
            }
        };
        ledger.create().await?;
        Ok(Self { idem, engine, ledger })
    }
}

fn lease_engine(options: &ServiceOptions, store: impl Store) -> Result<Idempotency, idem::Error> {
    if options.broken == Broken::Late {
        let by = Duration::from_millis(options.lease_ms * 3 / 2);
        return configure(options, Idempotency::builder(Late { store, by })).build();
    }
    configure(options, Idempotency::builder(store)).build()
}

fn configure<S>(options: &ServiceOptions, builder: Builder<S>) -> Builder<S> {
    let lease_ms = if options.broken == Broken::ShortLease { 30 } else { options.lease_ms };
    builder
        .lease(Duration::from_millis(lease_ms))
        .store_timeout(Duration::from_millis(options.time_out_ms))
        .max_run(Duration::from_secs(20))
}
