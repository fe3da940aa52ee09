//! The SQLite store.

mod builder;
mod checkpointer;
mod desk;
mod fault;
mod migrate;
mod readers;
mod source;
mod text;
mod transaction;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use idem_core::record::RecordId;
use idem_core::store::StoreError;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteArguments, SqliteRow};

pub use self::builder::{Durability, SqliteBuilder};
use self::checkpointer::Checkpointer;
use self::fault::Fault;
use self::readers::Readers;
use self::source::{Done, Link, Source};
use self::text::Text;
use self::writer::{Writer, wait};
use crate::database::{Database, Found, Round};
use crate::dialect::Migration;
use crate::row::Row;
use crate::step::{Step, Value, Verb, id as record};
use crate::store::SqlStore;
use crate::table::TableName;

/// How many rows a sweep looks at in one query.
const LOOK: i64 = 10_000;

#[doc = include_str!("../SQLITE.md")]
pub type SqliteStore = SqlStore<Sqlite>;

/// An SQLite database, as [`SqliteStore`] uses it.
#[derive(Debug)]
pub struct Sqlite {
    source: Arc<Source>,
    writer: Arc<Writer>,
    readers: Readers,
    /// Where transactions are begun: sqlx makes them of a pool's connections.
    transactions: SqlitePool,
    checkpointer: Checkpointer,
    /// The row up to which the last sweep came; the next begins there.
    swept: AtomicI64,
    /// Whether the last claim found a record, so that the next is better asked of a reader first.
    replaying: AtomicBool,
}

impl SqliteStore {
    /// Opens a database file, `sqlite:payments.db` or a path; makes it and its table if need be.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is no database, or has the table of a newer release.
    pub async fn open(location: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder().file(location).open().await
    }

    /// Makes a database in memory, for tests: it is gone when the last clone is.
    ///
    /// # Errors
    ///
    /// When there is no memory, or no thread for it.
    pub async fn in_memory() -> Result<Self, StoreError> {
        Self::builder().open().await
    }

    /// Uses the database of a pool, and makes the table if need be.
    ///
    /// The store opens connections of its own with the pool's options, so the pool may be as small as it likes, and is
    /// not waited for. When the pool is closed, so is the store.
    ///
    /// # Errors
    ///
    /// When the database cannot be opened, has the table of a newer release, or is one in memory that the pool's
    /// connections do not share.
    pub async fn from_pool(pool: &SqlitePool) -> Result<Self, StoreError> {
        Self::builder().pool(pool).open().await
    }

    /// Starts to say which database it is, and how it is used.
    pub fn builder() -> SqliteBuilder {
        SqliteBuilder::default()
    }

    /// The migrations of a table, oldest first, for those who run them with a tool of their own.
    ///
    /// For the default table they are the files in `migrations/sqlite`. Each records its version in `idem_migrations`;
    /// [`migrate`](Self::migrate) then has nothing to do.
    pub fn migrations(table: &TableName) -> Vec<Migration> {
        migrate::texts(table)
    }

    /// Makes or upgrades the table; does nothing if it is up to date. Any number of processes may do so at once.
    ///
    /// # Errors
    ///
    /// When the database cannot be written, or has the table of a newer release. A migration is done as a whole or not
    /// at all.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let sqlite = self.database();
        sqlite.source.check_open()?;
        if sqlite.source.in_memory() {
            // Done when it was made, and there is no other connection to it.
            return Ok(());
        }
        let link = sqlite.source.set_up(false, true, self.timeout()).await?;
        link.close().await;
        Ok(())
    }

    /// Waits for the steps in progress, writes the log into the database and closes all connections.
    ///
    /// Later calls fail as [`Unavailable`](idem_core::store::StoreErrorKind::Unavailable), on every clone. A store that
    /// is dropped instead closes its connections in the background; nothing is lost.
    pub async fn close(&self) {
        let sqlite = self.database();
        sqlite.source.closed.store(true, Ordering::Release);
        if sqlite.source.pool.is_none() {
            sqlite.transactions.close().await;
        }
        sqlite.readers.close().await;
        sqlite.checkpointer.close().await;
        // The last one to close moves the log.
        sqlite.writer.close().await;
    }
}

impl Sqlite {
    fn new(source: Source, link: Link, readers: usize, limit: Duration) -> Self {
        let transactions =
            source.pool.clone().unwrap_or_else(|| transaction::pool_of_our_own(&source, limit));
        let source = Arc::new(source);
        Self {
            writer: Arc::new(Writer::new(Arc::clone(&source), link)),
            transactions,
            readers: Readers::new(Arc::clone(&source), readers),
            checkpointer: Checkpointer::new(Arc::clone(&source)),
            swept: AtomicI64::new(i64::MIN),
            replaying: AtomicBool::new(false),
            source,
        }
    }

    /// Executes a query, again and again while the database is locked.
    async fn query(&self, text: &Text, values: &[Value]) -> Result<Done, StoreError> {
        let mut arguments = SqliteArguments::default();
        text.bind(values, &mut arguments).map_err(|error| Fault::of(error).into_error())?;
        let mut pause = writer::SHORTEST_PAUSE;
        loop {
            let result = if self.source.in_memory() {
                self.writer.query(text.once(), arguments.clone()).await
            } else {
                self.readers.query(text.once(), arguments.clone()).await
            };
            match result {
                Err(Fault::Busy) => wait(&mut pause).await,
                result => return result.map_err(Fault::into_error),
            }
        }
    }

    /// Inserts or reads in one trip, if the writing connection is free and the database not locked.
    ///
    /// A new record then costs no trip more than a bare INSERT. For one that is there it is twice a SELECT, since the
    /// write lock is taken, so it is not done while records keep being found.
    async fn claim_at_once(&self, step: &Step) -> Result<Option<Found>, StoreError> {
        if self.replaying.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(mut desk) = self.writer.idle() else { return Ok(None) };
        let text = &self.source.texts.claim_or_look_up;
        let mut arguments = SqliteArguments::default();
        let mut values = step.values.clone();
        values.push(Value::Int(1));
        text.bind(&values, &mut arguments).map_err(|error| Fault::of(error).into_error())?;
        let done = match desk.execute(text.once(), arguments).await {
            Err(Fault::Busy) => return Ok(None),
            done => done.map_err(Fault::into_error)?,
        };
        if done.changed.first() == Some(&1) {
            return Ok(Some(Found::Nothing));
        }
        first(&done).map(|row| Some(row.map_or(Found::Vanished, Found::Record)))
    }
}

impl Database for Sqlite {
    // Other steps wait while one deletes.
    const SWEEP_BATCH: u32 = 250;

    async fn claim(&self, id: &RecordId, step: Step) -> Result<Found, StoreError> {
        let bytes = step.len();
        let found = match self.claim_at_once(&step).await? {
            Some(found) => found,
            // A replay does not queue up behind those who write.
            None => match self.look_up(id, true).await? {
                Some(row) => Found::Record(Box::new(row)),
                None if self.writer.take(step).await? == 1 => Found::Nothing,
                None => Found::Vanished,
            },
        };
        let inserted = matches!(found, Found::Nothing);
        self.replaying.store(!inserted, Ordering::Relaxed);
        if inserted {
            self.checkpointer.wrote(bytes);
        }
        Ok(found)
    }

    async fn take(&self, step: Step) -> Result<u64, StoreError> {
        let bytes = step.len();
        let changed = self.writer.take(step).await?;
        if changed > 0 {
            self.checkpointer.wrote(bytes);
        }
        Ok(changed)
    }

    async fn look_up(&self, id: &RecordId, with_answer: bool) -> Result<Option<Row>, StoreError> {
        let values = [record(id), Value::Int(with_answer.into())];
        let done = self.query(&self.source.texts.look_up, &values).await?;
        Ok(first(&done)?.map(|row| *row))
    }

    async fn sweep(&self, round: &mut Round, limit: u32) -> Result<u64, StoreError> {
        if round.gone.is_empty() {
            self.find_gone(round).await?;
        }
        let kept = round.gone.len().saturating_sub(limit as usize);
        let rows = round.gone.split_off(kept);
        if rows.is_empty() {
            return Ok(0);
        }
        let values = vec![Value::Text(format!("{rows:?}").into())];
        let deleted = self.take(Step { verb: Verb::Sweep, values }).await?;
        self.swept.store(rows[0], Ordering::Relaxed);
        Ok(deleted)
    }
}

impl Sqlite {
    /// Looks at the next rows without the write lock, a limited number of them: however large the table, no look takes
    /// long, and none keeps the log from being reused.
    async fn find_gone(&self, round: &mut Round) -> Result<(), StoreError> {
        let start = *round.start.get_or_insert_with(|| {
            round.at = self.swept.load(Ordering::Relaxed);
            // There is nothing before the first row.
            round.wrapped = round.at == i64::MIN;
            round.at
        });
        if round.wrapped && round.at >= start && start > i64::MIN {
            round.over = true;
            return Ok(());
        }
        let done =
            self.query(&self.source.texts.find_gone, &[Value::Int(round.at), Value::Int(LOOK)]).await?;
        let (last, gone) = match done.rows.first() {
            Some(row) => (column::<Option<i64>>(row, 0)?, column::<Option<String>>(row, 1)?),
            None => (None, None),
        };
        if let Some(last) = last {
            round.at = last;
            round.gone =
                gone.iter().flat_map(|rows| rows.split(',')).filter_map(|row| row.parse().ok()).collect();
            round.gone.sort_unstable_by(|a, b| b.cmp(a));
        } else if round.wrapped {
            round.over = true;
        } else {
            round.wrapped = true;
            round.at = i64::MIN;
        }
        if round.gone.is_empty() {
            self.swept.store(round.at, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn column<'r, T>(row: &'r SqliteRow, at: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    sqlx::Row::try_get(row, at).map_err(|error| Fault::of(error).into_error())
}

/// The record among what was read.
fn first(done: &Done) -> Result<Option<Box<Row>>, StoreError> {
    done.rows.first().map(|row| crate::record::read(row, 0)).transpose().map(|row| row.map(Box::new))
}
