//! Stores whose claims can be part of the work's own transaction.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use async_trait::async_trait;

use crate::answer::Answer;
use crate::owner::Owner;
use crate::record::RecordId;
use crate::store::{Claim, Claimed, Fenced, Release, Retention, Store, StoreError};
use crate::sync::Mutex;

/// A store that claims, and keeps the answer, in the transaction that the work writes in: all of it commits, or nothing.
///
/// # Contract
///
/// - Until the transaction is committed nobody sees the claim. A rival, in this mode or under a lease, is told
///   [`Claimed::InFlight`] at once: it never waits for the transaction's end.
/// - No lease is renewed: a claim that is not committed dies with its connection. [`Claim::lease`] says after which idle
///   time the database gives up a transaction whose holder has vanished.
/// - A transaction that is dropped leaves nothing, of the claim either.
/// - No step takes a second connection while a transaction holds one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no transactions that the work could write in",
    label = "transaction mode needs an SQL store",
    note = "use `SqliteStore`, `PostgresStore` or `MySqlStore`, or leave `transaction` out: a lease works on every store"
)]
#[async_trait]
pub trait TransactionalStore: Store {
    /// What the work writes in.
    type Transaction: Send + 'static;
    /// What is kept as long as the transaction is open, and let go after it.
    type Hold: Send + 'static;
    /// What the statements of a transaction go over.
    type Connection: Send;

    /// Begins a transaction and claims the record in it.
    ///
    /// What the work writes from then on can be undone without the claim.
    ///
    /// # Errors
    ///
    /// When the store cannot say; nothing is claimed.
    async fn begin(
        &self,
        id: &RecordId,
        claim: &Claim,
    ) -> Result<Begun<Self::Transaction, Self::Hold>, StoreError>;

    /// Ends the claim and commits the transaction.
    ///
    /// Lost means that the claim is not in this transaction any more; then nothing is committed. A commit whose reply was
    /// lost is looked up.
    ///
    /// # Errors
    ///
    /// When the database refused the commit, and nothing of it is left; or when nobody could tell in time, and the next
    /// claim will.
    async fn commit(
        &self,
        transaction: Self::Transaction,
        hold: Self::Hold,
        id: &RecordId,
        owner: Owner,
        ending: &Ending,
    ) -> Result<Fenced, StoreError>;

    /// Begins a transaction without a claim.
    ///
    /// # Errors
    ///
    /// When there is no connection to be had.
    async fn begin_unclaimed(&self) -> Result<(Self::Transaction, Self::Hold), StoreError>;

    /// Commits a transaction without a claim.
    ///
    /// # Errors
    ///
    /// When the database refused it, or nobody can tell whether it did.
    async fn commit_unclaimed(
        &self,
        transaction: Self::Transaction,
        hold: Self::Hold,
    ) -> Result<(), StoreError>;

    /// Claims the record in a transaction that the caller has, and will end.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the transaction can then only be rolled back.
    async fn claim_in(
        &self,
        connection: &mut Self::Connection,
        id: &RecordId,
        claim: &Claim,
    ) -> Result<Claimed, StoreError>;

    /// Ends a claim that was made by [`claim_in`](Self::claim_in); what is said takes effect with the caller's commit.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the transaction can then only be rolled back.
    async fn end_in(
        &self,
        connection: &mut Self::Connection,
        id: &RecordId,
        owner: Owner,
        ending: &Ending,
    ) -> Result<Fenced, StoreError>;
}

/// The answer to a claim in a transaction of its own.
#[derive(Debug)]
pub enum Begun<T, H> {
    /// The record is yours, if you commit.
    Granted {
        /// 1 for the first run, one more for each retry.
        attempt: u32,
        /// What the work writes in.
        transaction: T,
        /// What is kept until the end.
        hold: H,
    },
    /// It cannot be had; there is no transaction any more.
    Refused(Claimed),
}

/// How a claim in a transaction ends.
#[derive(Debug, Clone)]
pub struct Ending {
    /// What becomes of the record.
    pub record: RecordEnd,
    /// What becomes of what the work wrote.
    pub writes: Writes,
}

/// What becomes of a record whose claim ends in a transaction.
#[derive(Debug, Clone)]
pub enum RecordEnd {
    /// The answer is stored.
    Complete(Answer, Retention),
    /// There is none.
    Release(Release),
}

/// What becomes of what the work wrote in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// It is committed with the answer.
    Keep,
    /// It is undone; what is said of the record is committed.
    Undo,
}

/// The transaction as the work has it: a guard that is given back when it is dropped.
///
/// Drop it before the work ends, or let the work own it. A transaction that is kept longer cannot be committed.
pub struct Tx<T> {
    transaction: Option<T>,
    slot: Slot<T>,
}

/// Where a transaction is left for whoever will end it; dropped with it if nobody does.
pub(crate) struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    /// Hands a transaction out.
    pub(crate) fn lend(transaction: T) -> (Self, Tx<T>) {
        let slot = Arc::new(Mutex::new(None));
        (Self(slot.clone()), Tx { transaction: Some(transaction), slot: Self(slot) })
    }

    /// Takes it back; `None` if it is still in use.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().take()
    }
}

impl<T> Drop for Tx<T> {
    fn drop(&mut self) {
        *self.slot.0.lock() = self.transaction.take();
    }
}

impl<T> Deref for Tx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.transaction.as_ref().expect("only `drop` takes it")
    }
}

impl<T> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.transaction.as_mut().expect("only `drop` takes it")
    }
}

impl<T> fmt::Debug for Tx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}
