//! The seam between the suite and a kind of store: what differs from database to database.

use std::future::Future;
use std::time::Duration;

use idem_core::store::{Store, StoreError};
use idem_sqlx::{Migration, Sweeper, TableName};
use idem_testkit::{Database, SqlProduct};

/// How a store is opened.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) table: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) connections: usize,
    pub(crate) migrate: bool,
    /// Whether statements are prepared, where it can be chosen.
    pub(crate) prepared: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { table: "idem_records".into(), timeout: None, connections: 4, migrate: true, prepared: true }
    }
}

impl Options {
    pub(crate) fn table(name: &str) -> Self {
        Self { table: name.into(), ..Self::default() }
    }

    /// The same on another table.
    pub(crate) fn beside(&self, suffix: &str) -> Self {
        Self { table: format!("{}_{suffix}", self.table), ..self.clone() }
    }
}

/// An empty database of one test, and the stores that open it.
pub(crate) trait Backend: Sized + Send + Sync + 'static {
    type Store: Store + Clone;
    /// A connection without a store.
    type Direct: Send;

    /// Inserts N records that are gone long since, their ids made of TEXT.
    const EXPIRED: &str;
    /// Begins a transaction that locks all records.
    const LOCK: &str;
    /// What makes a record unreadable, as assignments.
    const DAMAGES: &[&str];
    /// Names that no table may have.
    const RESERVED: &[&str];
    /// The first migration, as it is in the repository.
    const FIRST_MIGRATION: &str;

    fn new() -> impl Future<Output = Self> + Send;

    /// A database where nobody else writes, not even the server itself.
    fn quiet() -> impl Future<Output = Self> + Send {
        Self::new()
    }

    /// What another process needs to know.
    fn place(&self) -> String;

    fn open_at(place: &str, options: Options)
    -> impl Future<Output = Result<Self::Store, StoreError>> + Send;

    /// Stores of each kind that there is, each on a table of its own.
    fn variants(&self, options: Options) -> impl Future<Output = Vec<Self::Store>> + Send;

    fn close(store: &Self::Store) -> impl Future<Output = ()> + Send;

    fn migrate(store: &Self::Store) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn migrations(table: &TableName) -> Vec<Migration>;

    fn spawn_sweeper(store: &Self::Store, interval: Duration) -> Sweeper;

    fn direct(&self) -> impl Future<Output = Self::Direct> + Send;

    fn execute(direct: &mut Self::Direct, sql: &str) -> impl Future<Output = ()> + Send;

    fn number(direct: &mut Self::Direct, sql: &str) -> impl Future<Output = i64> + Send;

    /// Does what the next reader would do else, which is not the readers' fault.
    fn tidy(&self, direct: &mut Self::Direct) -> impl Future<Output = ()> + Send {
        let _ = direct;
        async {}
    }

    /// Whether what the N-th variant writes is seen by others.
    fn is_seen(variant: usize) -> bool {
        let _ = variant;
        true
    }

    /// What is another if, and only if, anything was written.
    fn written(&self, direct: &mut Self::Direct) -> impl Future<Output = String> + Send;

    fn open(&self) -> impl Future<Output = Self::Store> + Send {
        async { Self::open_at(&self.place(), Options::default()).await.expect("a store") }
    }
}

/// A backend whose database is on a server.
pub(crate) trait Served: Backend {
    type Product: SqlProduct;

    /// Settings of a server whose sessions are isolated as they are not by default.
    const ISOLATIONS: &[&str];
    /// How many connections to this database wait for a lock.
    const BLOCKED: &str;

    fn on(database: Database) -> Self;

    /// Sets the time zone of a session to 14 hours ahead of UTC, and to 12 behind: there are none further off.
    const ZONES: [&str; 2];
    /// How many hours the session's time zone is ahead.
    const ZONE: &str;

    /// Opens a store on connections for each of which a statement was executed, and asks one of them for a number.
    fn open_after(
        &self,
        statement: &'static str,
        asked: &'static str,
    ) -> impl Future<Output = (Self::Store, i64)> + Send;

    /// Ends the connections of all stores to this database, and tells how many there were.
    fn terminate(&self, direct: &mut Self::Direct) -> impl Future<Output = usize> + Send;
}
