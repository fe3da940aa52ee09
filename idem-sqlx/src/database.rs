//! The seam between the generic store and a database.

use std::fmt::Debug;
use std::future::Future;

use idem_core::record::RecordId;
use idem_core::store::StoreError;

use crate::row::Row;
use crate::step::Step;

/// Takes steps on one database. What they mean is the generic store's business; how they get there (which connection,
/// alone or together with others, when to try again) is the database's.
///
/// A future that is dropped may or may not have taken its step, and harms nobody else's. Callers limit the time.
pub trait Database: Debug + Send + Sync + 'static {
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

    /// Deletes some of the records that are gone, at most `limit`; none only if there are none.
    fn sweep(&self, limit: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;
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
}
