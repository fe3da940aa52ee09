//! The seam between the generic store and a database.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use idem_core::record::RecordId;
use idem_core::store::StoreError;

use crate::row::Row;
use crate::step::Step;
use crate::waiters::Waiters;

/// Takes steps on one database. What they mean is the generic store's business; how they get there (which connection,
/// alone or together with others, when to try again) is the database's.
///
/// A future that is dropped may or may not have taken its step, and harms nobody else's. Callers limit the time.
pub trait Database: Debug + Send + Sync + 'static {
    /// The most records that it deletes in one step without keeping others waiting.
    const SWEEP_BATCH: u32;

    /// Inserts a record, or reads the one that is there with its answer, in one trip.
    fn claim(&self, id: &RecordId, step: Step) -> impl Future<Output = Result<Found, StoreError>> + Send;

    /// Takes a step and tells how many rows it changed.
    fn take(&self, step: Step) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Reads a record that is not gone, its answer only if it is wanted.
    fn look_up(
        &self,
        id: &RecordId,
        with_answer: bool,
    ) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    /// Whether an open transaction holds the record; `false` where nobody can tell.
    fn is_locked(&self, id: &RecordId) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = id;
        async { Ok(false) }
    }

    /// Sees to it that those who wait for the end of this flight are woken whoever ends it; `false` if it cannot.
    fn expect(&self, id: &RecordId, waiters: &Arc<Waiters>) -> impl Future<Output = bool> + Send {
        let _ = (id, waiters);
        async { false }
    }

    /// Looks at some of the records, deletes at most `limit` that are gone, and tells how many it deleted.
    fn sweep(&self, round: &mut Round, limit: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

/// How far a sweep has come, once around the table.
#[derive(Debug, Default)]
pub struct Round {
    /// The row that it started after; `None` before it started.
    pub(crate) start: Option<i64>,
    /// The row up to which it has looked.
    pub(crate) at: i64,
    /// The end of the table when it started, where that can be told.
    pub(crate) end: i64,
    /// Whether it has come to the end of the table and begun again.
    pub(crate) wrapped: bool,
    /// What it has found and not yet deleted, the last first.
    pub(crate) gone: Vec<i64>,
    /// Whether it has been everywhere.
    pub(crate) over: bool,
}

/// What a claim met.
#[derive(Debug)]
pub enum Found {
    /// Nothing: the record is inserted.
    Nothing,
    /// A record that is not gone.
    Record(Box<Row>),
    /// One that went away while it was looked at: try again.
    Vanished,
    /// A transaction that is not committed yet has claimed it. This is what was there before, if anything was.
    Locked(Option<Box<Row>>),
}
