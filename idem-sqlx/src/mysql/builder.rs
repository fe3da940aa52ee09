//! The builder: which database, and how it is used.

use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlPool};

use super::text::Names;
use super::transaction::Beginnings;
use super::{MySqlServer, MySqlStore, fault};
use crate::fault::misconfigured;
use crate::lines::Lines;
use crate::table::{TableName, TableNameError};

/// The default time-out of a store.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Says which database a [`MySqlStore`] is in, and how it is used.
#[derive(Debug, Clone)]
#[must_use]
pub struct MySqlBuilder {
    place: Place,
    table: Result<TableName, TableNameError>,
    database: Option<Result<TableName, TableNameError>>,
    timeout: Duration,
    connections: usize,
    migrate: bool,
    prepared: bool,
}

#[derive(Clone)]
enum Place {
    Nowhere,
    Url(String),
    Options(Box<MySqlConnectOptions>),
    Pool(MySqlPool),
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

impl Default for MySqlBuilder {
    fn default() -> Self {
        Self {
            place: Place::Nowhere,
            table: Ok(TableName::default()),
            database: None,
            timeout: TIMEOUT,
            connections: 8,
            migrate: true,
            prepared: true,
        }
    }
}

impl MySqlBuilder {
    /// Takes the database of a URL, `mysql://user:password@host/database`, with connections of the store's own.
    pub fn url(mut self, url: &str) -> Self {
        self.place = Place::Url(url.to_owned());
        self
    }

    /// Takes the database of sqlx's options, with connections of the store's own.
    pub fn options(mut self, options: MySqlConnectOptions) -> Self {
        self.place = Place::Options(Box::new(options));
        self
    }

    /// Takes the connections of a pool. See [`MySqlStore::from_pool`].
    pub fn pool(mut self, pool: &MySqlPool) -> Self {
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

    /// Names the database of the tables, which must be there. Default = the one that the connection names.
    ///
    /// What [`TableName`] says of names holds for it, too.
    pub fn database(mut self, name: &str) -> Self {
        self.database = Some(TableName::new(name));
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
    /// Not prepared they need nothing that lasts longer than a statement, so that any proxy will do that hands out
    /// connections for a statement or a transaction. The store then has connections of its own even if it was given a
    /// pool, since a pool may log statements, and these have their values in them.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// When a name is refused, no database was named, it cannot be reached within the time-out, or its table is not of
    /// this release's version.
    pub async fn open(self) -> Result<MySqlStore, StoreError> {
        let refused = |error| StoreError::with_source(StoreErrorKind::Misconfigured, error);
        let names = Names {
            table: self.table.map_err(refused)?,
            database: self.database.transpose().map_err(refused)?,
        };
        let options = match &self.place {
            Place::Nowhere => {
                return Err(misconfigured("no database was named: give a URL, options or a pool"));
            }
            Place::Pool(pool) => (*pool.connect_options()).clone(),
            Place::Options(options) => (**options).clone(),
            Place::Url(url) => {
                MySqlConnectOptions::from_str(url).map_err(|error| fault::of(error).into_error())?
            }
        };
        let options = options.disable_statement_logging();
        let beginnings = match &self.place {
            Place::Pool(pool) => Beginnings { pool: pool.clone(), is_lent: true },
            _ => Beginnings::own(options.clone(), self.connections, self.timeout),
        };
        let lines = match self.place {
            Place::Pool(pool) if self.prepared => Lines::pool(pool),
            _ => Lines::own(options, self.connections),
        };
        let server = MySqlServer::new(lines, beginnings, names, self.prepared);
        let store = MySqlStore::new(server, self.timeout);
        store.set_up(self.migrate).await?;
        Ok(store)
    }
}
