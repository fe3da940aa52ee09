//! Transactions of SQLite.

use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Executor as _, Transaction};
use tokio::sync::OwnedMutexGuard;

use super::desk::Desk;
use super::fault::Fault;
use super::source::{self, Done, Source};
use super::text::Text;
use super::writer::{self, wait};
use super::{Sqlite, first};
use crate::database::Found;
use crate::fault::misconfigured;
use crate::step::{Step, Value};
use crate::transaction::{Failed, Mark, Transactions, Uncommitted};

/// One writes; the others may be on their way back to the pool, rolling back.
const CONNECTIONS: u32 = 4;

/// About how many bytes a transaction logs; what the work writes in it is not known.
const WRITTEN: usize = 16 << 10;

/// SQLite has one writer. A transaction keeps the desk, so that the store's own steps queue up behind it instead of running
/// into its lock.
#[derive(Debug)]
pub struct Turn {
    _desk: OwnedMutexGuard<Desk>,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy => Self::Undone(Fault::Busy.into_error()),
            Fault::Broken(error) => Self::Broken(error),
            Fault::Refused(error) => Self::Refused(error),
        }
    }
}

/// Where transactions are begun if no pool was handed over.
pub(super) fn pool_of_our_own(source: &Source, limit: Duration) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(limit)
        .test_before_acquire(false)
        .connect_lazy_with(source.options.clone().create_if_missing(false))
}

impl Transactions for Sqlite {
    type Driver = sqlx::Sqlite;
    type Turn = Turn;

    async fn open(
        &self,
        _limit: Duration,
        _idle: Duration,
    ) -> Result<(Transaction<'static, sqlx::Sqlite>, Turn), Failed> {
        self.source.check_open().map_err(Failed::Refused)?;
        if self.source.in_memory() && self.source.pool.is_none() {
            return Err(Failed::Refused(misconfigured(
                "a database in memory of the store's own has no tables that anybody else could write: use a file or a pool",
            )));
        }
        let turn = Turn { _desk: self.writer.turn().await };
        let mut pause = writer::SHORTEST_PAUSE;
        loop {
            // The write lock at once: a transaction that begins to read and then writes would be refused when it is busy.
            match self.transactions.begin_with("BEGIN IMMEDIATE").await.map_err(Fault::of) {
                Ok(transaction) => return Ok((transaction, turn)),
                Err(Fault::Busy) => wait(&mut pause).await,
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    async fn claim_in(
        &self,
        connection: &mut SqliteConnection,
        step: &Step,
        mark: &Mark,
        _limit: Option<Duration>,
    ) -> Result<Found, Failed> {
        let texts = &self.source.texts;
        let inserted = run(connection, texts.step(step.verb), &step.values).await?;
        let found = if inserted.changed.first() == Some(&1) {
            Found::Nothing
        } else {
            let values = [step.values[0].clone(), Value::Int(1)];
            let there = run(connection, &texts.look_up, &values).await?;
            first(&there).map_err(Failed::Refused)?.map_or(Found::Vanished, Found::Record)
        };
        self.set_mark(connection, mark).await?;
        Ok(found)
    }

    async fn take_over_in(
        &self,
        connection: &mut SqliteConnection,
        step: &Step,
        mark: &Mark,
    ) -> Result<u64, Failed> {
        let changed = self.end_in(connection, step).await?;
        self.set_mark(connection, mark).await?;
        Ok(changed)
    }

    async fn end_in(&self, connection: &mut SqliteConnection, step: &Step) -> Result<u64, Failed> {
        let done = run(connection, self.source.texts.step(step.verb), &step.values).await?;
        Ok(done.changed.first().copied().unwrap_or(0))
    }

    async fn set_mark(&self, connection: &mut SqliteConnection, mark: &Mark) -> Result<(), Failed> {
        command(connection, format!("SAVEPOINT {mark}")).await
    }

    async fn undo_writes(&self, connection: &mut SqliteConnection, mark: &Mark) -> Result<(), Failed> {
        command(connection, format!("ROLLBACK TO SAVEPOINT {mark}")).await
    }

    // The database is in this process, so its reply cannot be lost.
    async fn commit(
        &self,
        transaction: Transaction<'static, sqlx::Sqlite>,
        _limit: Duration,
    ) -> Result<(), Uncommitted> {
        transaction
            .commit()
            .await
            .map_err(|error| Uncommitted::Refused(Fault::of(error).into_error()))
            .inspect(|()| self.checkpointer.wrote(WRITTEN))
    }
}

/// Executes a statement that is not worth keeping prepared.
async fn command(connection: &mut SqliteConnection, text: String) -> Result<(), Failed> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.map_err(Fault::of)?;
    Ok(())
}

/// Executes a statement with its values.
async fn run(connection: &mut SqliteConnection, text: &Text, values: &[Value]) -> Result<Done, Fault> {
    let mut arguments = SqliteArguments::default();
    text.bind(values, &mut arguments).map_err(Fault::of)?;
    source::execute(connection, text.once(), arguments).await
}
