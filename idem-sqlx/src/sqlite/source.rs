//! Sources: which database it is, and how a connection to it is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use idem_core::store::StoreError;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Either, Executor as _, SqlitePool};
use tokio::time::timeout;

use super::fault::Fault;
use super::migrate;
use super::text::Texts;
use super::writer::{SHORTEST_PAUSE, wait};
use crate::fault::{misconfigured, unavailable};
use crate::table::TableName;

/// A database and the statements for its table.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) options: SqliteConnectOptions,
    /// Where its file is; `None` in memory.
    pub(super) path: Option<PathBuf>,
    pub(super) pool: Option<SqlitePool>,
    pub(super) table: TableName,
    pub(super) texts: Texts,
    pub(super) closed: AtomicBool,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Write,
    Read,
}

/// An open connection, and the file that it opened.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: SqliteConnection,
    file: Option<FileId>,
}

/// Identifies a file as long as it is there.
type FileId = (u64, u64);

/// What the statements of one text did: the rows that each changed, and the rows that were read.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) changed: Vec<u64>,
    pub(super) rows: Vec<SqliteRow>,
}

impl Source {
    /// Whether the store still answers.
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) || self.pool.as_ref().is_some_and(SqlitePool::is_closed) {
            return Err(unavailable("the store is closed"));
        }
        Ok(())
    }

    pub(super) fn in_memory(&self) -> bool {
        self.path.is_none()
    }

    /// Opens a connection to the database as it is; does not look at its tables.
    pub(super) async fn connect(&self, role: Role, create: bool) -> Result<Link, Fault> {
        let mut options = self.options.clone().create_if_missing(create);
        if !self.in_memory() {
            options = match role {
                // The store checkpoints from a connection of its own. This is for when that one cannot keep up.
                Role::Write => options.pragma("wal_autocheckpoint", "8000"),
                Role::Read => options.pragma("query_only", "1"),
            };
        }
        let connection = options.connect().await.map_err(Fault::of)?;
        Ok(Link { connection, file: self.path.as_deref().and_then(file_id) })
    }

    /// Opens the first connection, and makes the table if that is wanted; tries again while the database is locked.
    pub(super) async fn set_up(
        &self,
        create: bool,
        migrate: bool,
        limit: Duration,
    ) -> Result<Link, StoreError> {
        let tries = async {
            let mut pause = SHORTEST_PAUSE;
            loop {
                match self.try_to_set_up(create, migrate).await {
                    Err(Fault::Busy) => wait(&mut pause).await,
                    result => return result.map_err(Fault::into_error),
                }
            }
        };
        timeout(limit, tries).await.unwrap_or_else(|_| Err(Fault::Busy.into_error()))
    }

    async fn try_to_set_up(&self, create: bool, migrate: bool) -> Result<Link, Fault> {
        let mut link = self.connect(Role::Write, create).await?;
        if migrate {
            migrate::run(self, &mut link).await?;
        }
        self.check_version(&mut link).await?;
        Ok(link)
    }

    /// Opens a connection to a database that is there and set up.
    pub(super) async fn reconnect(&self, role: Role) -> Result<Link, Fault> {
        let mut link = self.connect(role, false).await?;
        self.check_version(&mut link).await?;
        Ok(link)
    }

    /// Refuses a database whose tables are not those of this release.
    pub(super) async fn check_version(&self, link: &mut Link) -> Result<(), Fault> {
        let found = migrate::version(self, link).await?;
        if found == migrate::LATEST {
            return Ok(());
        }
        let table = &self.table;
        Err(Fault::Refused(misconfigured(if found > migrate::LATEST {
            format!(
                "table `{table}` has version {found}, from a newer release; this one knows {}",
                migrate::LATEST
            )
        } else if found == 0 {
            format!("there is no table `{table}` of idem; run `migrate`")
        } else {
            format!("table `{table}` has version {found} of {}; run `migrate`", migrate::LATEST)
        })))
    }

    /// Whether the file that the connection opened is still the one at its place.
    ///
    /// SQLite would go on with a deleted file, while another process makes a new one: both would grant the same claim.
    pub(super) fn still_in_place(&self, link: &Link) -> bool {
        self.path.as_deref().is_none_or(|path| file_id(path) == link.file)
    }
}

impl Link {
    /// Executes a text in one trip.
    pub(super) async fn execute(
        &mut self,
        text: Arc<str>,
        arguments: SqliteArguments,
    ) -> Result<Done, Fault> {
        execute(&mut self.connection, text, arguments).await
    }

    /// Closes the connection; an error now has nobody to tell.
    pub(super) async fn close(self) {
        let _ = self.connection.close().await;
    }

    /// Executes a statement without values.
    pub(super) async fn command(&mut self, statement: &'static str) -> Result<(), Fault> {
        self.connection.execute(sqlx::query(statement)).await.map(drop).map_err(Fault::of)
    }
}

/// Executes a text in one trip.
pub(super) async fn execute(
    connection: &mut SqliteConnection,
    text: Arc<str>,
    arguments: SqliteArguments,
) -> Result<Done, Fault> {
    let mut done = Done::default();
    let mut results = connection.fetch_many(sqlx::query_with(AssertSqlSafe(text), arguments));
    while let Some(result) = results.try_next().await.map_err(Fault::of)? {
        match result {
            Either::Left(statement) => done.changed.push(statement.rows_affected()),
            Either::Right(row) => done.rows.push(row),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere an open file cannot be deleted or replaced.
#[cfg(not(unix))]
fn file_id(_: &Path) -> Option<FileId> {
    None
}
