//! The builder: which database, and how it is used.

use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use super::ear::Ear;
use super::fault;
use super::lines::Lines;
use super::text::Names;
use super::{Postgres, PostgresStore};
use crate::fault::misconfigured;
use crate::table::{TableName, TableNameError};

/// The default time-out of a store.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Says which database a [`PostgresStore`] is in, and how it is used.
#[derive(Debug, Clone)]
#[must_use]
pub struct PostgresBuilder {
    place: Place,
    table: Result<TableName, TableNameError>,
    schema: Option<Result<TableName, TableNameError>>,
    timeout: Duration,
    connections: usize,
    migrate: bool,
    prepared: bool,
    listen: bool,
}

#[derive(Clone)]
enum Place {
    Nowhere,
    Url(String),
    Options(Box<PgConnectOptions>),
    Pool(PgPool),
}

/// URL and options may have a password.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nowhere => "Nowhere",
            Self::Url(_) => "Url",
            Self::Options(_) => "Options",
            Self::Pool(_) => "Pool",
        })
    }
}

impl Default for PostgresBuilder {
    fn default() -> Self {
        Self {
            place: Place::Nowhere,
            table: Ok(TableName::default()),
            schema: None,
            timeout: TIMEOUT,
            connections: 8,
            migrate: true,
            prepared: true,
            listen: true,
        }
    }
}

impl PostgresBuilder {
    /// Takes the database of a URL, `postgres://user:password@host/database`, with connections of the store's own.
    pub fn url(mut self, url: &str) -> Self {
        self.place = Place::Url(url.to_owned());
        self
    }

    /// Takes the database of sqlx's options, with connections of the store's own.
    pub fn options(mut self, options: PgConnectOptions) -> Self {
        self.place = Place::Options(Box::new(options));
        self
    }

    /// Takes the connections of a pool. See [`PostgresStore::from_pool`].
    pub fn pool(mut self, pool: &PgPool) -> Self {
        self.place = Place::Pool(pool.clone());
        self
    }

    /// Names the table of the records. Default = `idem_records`.
    ///
    /// A name that [`TableName`] refuses is told by [`open`](Self::open).
    pub fn table(mut self, name: &str) -> Self {
        self.table = TableName::new(name);
        self
    }

    /// Names the schema of the tables, which must be there. Default = what the connection's `search_path` finds.
    ///
    /// What [`TableName`] says of names holds for it, too.
    pub fn schema(mut self, name: &str) -> Self {
        self.schema = Some(TableName::new(name));
        self
    }

    /// Sets how long a step may take, waiting for a connection included. Default = 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many connections of its own the store may have. Default = 8. With a pool, the pool decides.
    ///
    /// They are opened when they are needed. Callers that wait for another's answer hold none.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Sets whether opening makes or upgrades the table. Default = true.
    ///
    /// Without it a table of another version, or none, is an error that says so.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets whether statements are prepared once for each connection. Default = true.
    ///
    /// Not prepared they need nothing that lasts longer than a statement, so that any transaction-pooling proxy will do;
    /// each is still one trip, but has to be planned each time. The store then has connections of its own even if it was
    /// given a pool, since a pool may log statements, and these have their values in them.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// Sets whether those who wait for another process's answer are told of it. Default = true.
    ///
    /// From the first of them on, the store keeps one more connection, which listens. Behind a proxy it would hear
    /// nothing; without, and where statements are not [prepared](Self::prepared), they look now and then.
    pub fn listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// When a name is refused, no database was named, it cannot be reached within the time-out, or its table is not of
    /// this release's version.
    pub async fn open(self) -> Result<PostgresStore, StoreError> {
        let refused = |error| StoreError::with_source(StoreErrorKind::Misconfigured, error);
        let names =
            Names { table: self.table.map_err(refused)?, schema: self.schema.transpose().map_err(refused)? };
        let options = match &self.place {
            Place::Nowhere => {
                return Err(misconfigured("no database was named: give a URL, options or a pool"));
            }
            Place::Pool(pool) => (*pool.connect_options()).clone(),
            Place::Options(options) => (**options).clone(),
            Place::Url(url) => {
                PgConnectOptions::from_str(url).map_err(|error| fault::of(error).into_error())?
            }
        };
        let has_name = options.get_application_name().is_some();
        let options =
            if has_name { options } else { options.application_name("idem") }.disable_statement_logging();
        // sqlx sets it for old servers, and a proxy may refuse who sets it. From PostgreSQL 12 on it says what the default
        // does.
        let options = options.extra_float_digits(None);
        let ear = (self.listen && self.prepared).then(|| Ear::new(options.clone(), names.table.as_str()));
        let transactions = match &self.place {
            Place::Pool(pool) => pool.clone(),
            _ => pool_of_our_own(options.clone(), self.connections, self.timeout),
        };
        let lines = match self.place {
            Place::Pool(pool) if self.prepared => Lines::pool(pool, self.timeout),
            _ => Lines::own(options, self.connections, self.timeout),
        };
        let postgres = Postgres::new(lines, transactions, names, self.prepared, ear);
        let store = PostgresStore::new(postgres, self.timeout);
        store.set_up(self.migrate).await?;
        Ok(store)
    }
}

/// Where transactions are begun if no pool was handed over. Its connections are made when the first is.
fn pool_of_our_own(options: PgConnectOptions, most: usize, limit: Duration) -> PgPool {
    PgPoolOptions::new()
        .max_connections(u32::try_from(most).unwrap_or(u32::MAX).max(1))
        .acquire_timeout(limit)
        // What is found broken is replaced: nothing is lost, since nothing is committed.
        .test_before_acquire(false)
        .connect_lazy_with(options)
}
