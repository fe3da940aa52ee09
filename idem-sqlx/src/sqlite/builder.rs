//! The builder: which database, and how it is used.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqlitePool};

use super::fault::Fault;
use super::source::Source;
use super::text::Texts;
use super::{Sqlite, SqliteStore};
use crate::dialect::sqlite::STATEMENTS;
use crate::fault::misconfigured;
use crate::table::{TableName, TableNameError};

/// The default time-out of a store.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// How long SQLite itself waits for a lock, on its connection's own thread, before the store takes over.
const BUSY_TIMEOUT: Duration = Duration::from_millis(20);

/// What a machine that loses power may take with it. A process that dies takes nothing, either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing: each commit is on the disk before it is acknowledged.
    #[default]
    Full,
    /// The commits since the last checkpoint. Work whose claim is lost can run again, answers that were sent can be
    /// forgotten; the database stays sound.
    Normal,
}

/// Says which database a [`SqliteStore`] is in, and how it is used.
#[derive(Debug, Clone)]
#[must_use]
pub struct SqliteBuilder {
    place: Place,
    table: Result<TableName, TableNameError>,
    durability: Option<Durability>,
    timeout: Duration,
    readers: usize,
    migrate: bool,
    create: bool,
}

#[derive(Debug, Clone)]
enum Place {
    Memory,
    File(PathBuf),
    Pool(SqlitePool),
}

impl Default for SqliteBuilder {
    fn default() -> Self {
        Self {
            place: Place::Memory,
            table: Ok(TableName::default()),
            durability: None,
            timeout: TIMEOUT,
            readers: 4,
            migrate: true,
            create: true,
        }
    }
}

impl SqliteBuilder {
    /// Takes a file: `sqlite:payments.db` or a path. Default = in memory.
    pub fn file(mut self, location: impl AsRef<Path>) -> Self {
        self.place = Place::File(location.as_ref().to_owned());
        self
    }

    /// Takes the database of a pool. See [`SqliteStore::from_pool`].
    pub fn pool(mut self, pool: &SqlitePool) -> Self {
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

    /// Sets what a power cut may take. Default = [`Durability::Full`]; with a pool, what its options say.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets how long a step may take, waiting for locks included. Default = 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many connections may read at once. Default = 4.
    ///
    /// They are opened when they are needed. Callers that wait for another's answer hold none.
    pub fn readers(mut self, most: usize) -> Self {
        self.readers = most;
        self
    }

    /// Sets whether opening makes or upgrades the table. Default = true.
    ///
    /// Without it a table of another version, or none, is an error that says so.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets whether a file that is not there is made. Default = true.
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// When the table's name is refused, the database cannot be opened within the time-out, is none, or its table is not
    /// of this release's version.
    pub async fn open(self) -> Result<SqliteStore, StoreError> {
        let table =
            self.table.map_err(|error| StoreError::with_source(StoreErrorKind::Misconfigured, error))?;
        let (options, path, pool) = self.place.options()?;
        let options = match self.durability {
            Some(Durability::Full) => options.synchronous(SqliteSynchronous::Full),
            Some(Durability::Normal) => options.synchronous(SqliteSynchronous::Normal),
            None if pool.is_none() => options.synchronous(SqliteSynchronous::Full),
            None => options,
        };
        let texts = Texts::new(&STATEMENTS, &table);
        let options = options.busy_timeout(BUSY_TIMEOUT).disable_statement_logging();
        let source = Source { options, path, pool, table, texts, closed: AtomicBool::new(false) };
        source.check_open()?;
        let link = source.set_up(self.create, self.migrate, self.timeout).await?;
        Ok(SqliteStore::new(Sqlite::new(source, link, self.readers, self.timeout), self.timeout))
    }
}

impl Place {
    fn options(self) -> Result<(SqliteConnectOptions, Option<PathBuf>, Option<SqlitePool>), StoreError> {
        let parse =
            |url: &str| SqliteConnectOptions::from_str(url).map_err(|error| Fault::of(error).into_error());
        let (options, pool) = match self {
            Self::Memory => return Ok((parse("sqlite::memory:")?, None, None)),
            Self::File(location) => {
                let url = location.to_str().filter(|text| text.starts_with("sqlite:"));
                let options = match url {
                    Some(url) => parse(url)?,
                    None => SqliteConnectOptions::new().filename(&location),
                };
                (options.journal_mode(SqliteJournalMode::Wal), None)
            }
            Self::Pool(pool) => ((*pool.connect_options()).clone(), Some(pool)),
        };
        let name = options.get_filename();
        if name == Path::new(":memory:") {
            return Err(misconfigured("each connection of this pool has a database of its own, in memory"));
        }
        if name.as_os_str().as_encoded_bytes().starts_with(b"file:") {
            return Ok((options, None, pool));
        }
        let path = std::path::absolute(name)
            .map_err(|error| StoreError::with_source(StoreErrorKind::Misconfigured, error))?;
        Ok((options.filename(&path), Some(path), pool))
    }
}
