//! Transactions: what a database does in transaction mode.

use std::fmt::{self, Write as _};
use std::future::Future;
use std::time::Duration;

use idem_core::owner::Owner;
use idem_core::store::StoreError;
use sqlx::Transaction;

use crate::database::{Database, Found};
use crate::step::Step;

/// Opens transactions on one database, and takes steps in them. Callers limit the time.
pub trait Transactions: Database {
    /// The database, as sqlx knows it.
    type Driver: sqlx::Database;
    /// What keeps this store's own writers waiting while a transaction is open, where the database has one writer.
    type Turn: Send + 'static;

    /// Opens a transaction. Where the database lets us say so, its statements wait at most `limit` for a lock, and it is given
    /// up after it was `idle` for so long: here, or by [`claim_in`](Self::claim_in).
    fn open(
        &self,
        limit: Duration,
        idle: Duration,
    ) -> impl Future<Output = Result<(Transaction<'static, Self::Driver>, Self::Turn), Failed>> + Send;

    /// How many connections may be found broken one after the other, and the next still be a new one.
    fn broken_at_most(&self) -> u32 {
        4
    }

    /// Inserts a record, or reads the one that is there, unless another transaction holds it. Sets the mark: what is
    /// written after it can be undone by [`undo_writes`](Self::undo_writes).
    ///
    /// `limit` is how long a statement of this transaction may wait for a lock, where the transaction is the store's own.
    fn claim_in(
        &self,
        connection: &mut Connection<Self>,
        step: &Step,
        mark: &Mark,
        limit: Option<Duration>,
    ) -> impl Future<Output = Result<Found, Failed>> + Send;

    /// Takes over a record that is there, sets the mark, and tells how many rows changed.
    fn take_over_in(
        &self,
        connection: &mut Connection<Self>,
        step: &Step,
        mark: &Mark,
    ) -> impl Future<Output = Result<u64, Failed>> + Send;

    /// Ends a claim and tells how many rows changed.
    fn end_in(
        &self,
        connection: &mut Connection<Self>,
        step: &Step,
    ) -> impl Future<Output = Result<u64, Failed>> + Send;

    /// Sets the mark without a claim; fails if nothing of the transaction can be committed.
    fn set_mark(
        &self,
        connection: &mut Connection<Self>,
        mark: &Mark,
    ) -> impl Future<Output = Result<(), Failed>> + Send;

    /// Undoes what was written since the mark.
    fn undo_writes(
        &self,
        connection: &mut Connection<Self>,
        mark: &Mark,
    ) -> impl Future<Output = Result<(), Failed>> + Send;

    /// Commits; takes no longer than `limit` if the database may be silent.
    fn commit(
        &self,
        transaction: Transaction<'static, Self::Driver>,
        limit: Duration,
    ) -> impl Future<Output = Result<(), Uncommitted>> + Send;
}

/// A savepoint that writes are undone to. `Display` is its name, which nobody else should use.
#[derive(Debug)]
pub struct Mark(String);

impl Mark {
    /// Of a transaction that the store has begun.
    pub(crate) fn own() -> Self {
        Self("idem_work".into())
    }

    /// Of one claim among others, perhaps, in a transaction that the caller has. In it they may end in any order, and it may
    /// be one that the store has begun for another record.
    pub(crate) fn of(owner: Owner) -> Self {
        let mut name = String::from("idem_work_");
        for byte in &owner.as_bytes()[..8] {
            let _ = write!(name, "{byte:02x}");
        }
        Self(name)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the statements of a database's transactions go over.
pub(crate) type Connection<B> = <<B as Transactions>::Driver as sqlx::Database>::Connection;

/// Why a step in a transaction was not taken. The transaction is of no use any more.
#[derive(Debug)]
pub enum Failed {
    /// It met another transaction, which undid this one: begin again.
    Undone(StoreError),
    /// Its connection was found broken: begin again on another.
    Broken(StoreError),
    /// It was refused.
    Refused(StoreError),
}

/// Why a transaction is not known to be committed.
#[derive(Debug)]
pub enum Uncommitted {
    /// The database refused; nothing of it is left.
    Refused(StoreError),
    /// Its reply was lost.
    Unknown(StoreError),
}

impl Failed {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Undone(error) | Self::Broken(error) | Self::Refused(error) => error,
        }
    }
}
