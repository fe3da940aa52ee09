//! What a claim found, as its statement tells it.

use idem_core::store::StoreError;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::fault;
use crate::database::Found;
use crate::record;

/// Where the record stands in a row, and after it whether there was no lock on it.
const RECORD: usize = 1;
const FREE: usize = 14;

/// Reads the answer to a claim; a record that is gone is one, too, unless it is locked.
pub(super) fn found(row: Option<&PgRow>) -> Result<Found, StoreError> {
    let Some(row) = row else { return Ok(Found::Vanished) };
    if waited(row)?.is_some() {
        return Ok(Found::Nothing);
    }
    let free: bool = get(row, FREE)?;
    // No record is without an operation.
    let is_there = get::<Option<&str>>(row, RECORD)?.is_some();
    let record = if is_there { Some(Box::new(record::read(row, RECORD)?)) } else { None };
    Ok(match (free, record) {
        (true, Some(record)) => Found::Record(record),
        // Nothing inserted and nothing there: what stood in the way came or went after the statement began.
        (true, None) => Found::Vanished,
        (false, record) => Found::Locked(record.filter(|record| record.gone_at > record.now)),
    })
}

/// How long ago the clock of a granted lease was read, in microseconds; `None` if there was nothing to grant.
pub(super) fn waited(row: &PgRow) -> Result<Option<i64>, StoreError> {
    get(row, 0)
}

fn get<'r, T>(row: &'r PgRow, at: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(at).map_err(|error| fault::of(error).into_error())
}
