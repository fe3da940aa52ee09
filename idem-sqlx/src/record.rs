//! Reading a row as a database returns it.

use bytes::Bytes;
use idem_core::answer::Answer;
use idem_core::fingerprint::Fingerprint;
use idem_core::key::KeyHint;
use idem_core::owner::Owner;
use idem_core::store::{OnCrash, StoreError, StoreErrorKind};
use sqlx::{ColumnIndex, Decode, Type};

use crate::row::{Phase, Row};

/// Reads the columns of `look_up`, of which the first is this one.
pub(crate) fn read<'r, R>(row: &'r R, first: usize) -> Result<Row, StoreError>
where
    R: sqlx::Row,
    usize: ColumnIndex<R>,
    &'r str: Decode<'r, R::Database> + Type<R::Database>,
    Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    let text = |at: usize| row.try_get::<&str, _>(first + at).map_err(unreadable);
    let blob = |at: usize| row.try_get::<Vec<u8>, _>(first + at).map_err(unreadable);
    let int = |at: usize| row.try_get::<i64, _>(first + at).map_err(unreadable);
    let on_crash = match text(6)? {
        "retry" => OnCrash::Retry,
        "reject" => OnCrash::Reject,
        _ => return Err(corrupt("an on_crash")),
    };
    Ok(Row {
        operation: text(0)?.to_owned(),
        hint: KeyHint::from_stored(text(1)?),
        phase: Phase::from_name(text(2)?).ok_or_else(|| corrupt("a state"))?,
        fingerprint: Fingerprint::from_bytes(&blob(3)?).ok_or_else(|| corrupt("a fingerprint"))?,
        owner: Owner::from_bytes(blob(4)?.try_into().map_err(|_| corrupt("an owner"))?),
        attempt: u32::try_from(int(5)?).map_err(|_| corrupt("an attempt"))?,
        on_crash,
        created_at: int(7)?,
        lease_until: int(8)?,
        expires_at: int(9)?,
        gone_at: int(10)?,
        answer: row
            .try_get::<Option<Vec<u8>>, _>(first + 11)
            .map_err(unreadable)?
            .map(|bytes| Answer::from_bytes(Bytes::from(bytes))),
        now: int(12)?,
    })
}

fn unreadable(error: sqlx::Error) -> StoreError {
    StoreError::with_source(StoreErrorKind::Corrupt, error)
}

fn corrupt(what: &str) -> StoreError {
    let message = format!("a record has {what} that this release does not know");
    StoreError::with_source(StoreErrorKind::Corrupt, message)
}
