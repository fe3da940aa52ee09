//! Reading a row as SQLite returns it.

use bytes::Bytes;
use idem_core::answer::Answer;
use idem_core::fingerprint::Fingerprint;
use idem_core::key::KeyHint;
use idem_core::owner::Owner;
use idem_core::store::{OnCrash, StoreError, StoreErrorKind};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::fault::Fault;
use crate::row::{Phase, Row};

/// Reads the columns of `look_up`.
pub(super) fn read(row: &SqliteRow) -> Result<Row, Fault> {
    let phase = Phase::from_str(text(row, 2)?).ok_or_else(|| corrupt("a state"))?;
    let on_crash = match text(row, 6)? {
        "retry" => OnCrash::Retry,
        "reject" => OnCrash::Reject,
        _ => return Err(corrupt("an on_crash")),
    };
    Ok(Row {
        operation: text(row, 0)?.to_owned(),
        hint: KeyHint::from_stored(text(row, 1)?),
        phase,
        fingerprint: Fingerprint::from_bytes(blob(row, 3)?).ok_or_else(|| corrupt("a fingerprint"))?,
        owner: Owner::from_bytes(blob(row, 4)?.try_into().map_err(|_| corrupt("an owner"))?),
        attempt: u32::try_from(int(row, 5)?).map_err(|_| corrupt("an attempt"))?,
        on_crash,
        created_at: int(row, 7)?,
        lease_until: int(row, 8)?,
        expires_at: int(row, 9)?,
        gone_at: int(row, 10)?,
        answer: row
            .try_get::<Option<&[u8]>, _>(11)
            .map_err(Fault::of)?
            .map(|bytes| Answer::from_bytes(Bytes::copy_from_slice(bytes))),
        now: int(row, 12)?,
    })
}

fn text(row: &SqliteRow, at: usize) -> Result<&str, Fault> {
    row.try_get(at).map_err(Fault::of)
}

fn blob(row: &SqliteRow, at: usize) -> Result<&[u8], Fault> {
    row.try_get(at).map_err(Fault::of)
}

fn int(row: &SqliteRow, at: usize) -> Result<i64, Fault> {
    row.try_get(at).map_err(Fault::of)
}

fn corrupt(what: &str) -> Fault {
    let message = format!("a record has {what} that this release does not know");
    Fault::Refused(StoreError::with_source(StoreErrorKind::Corrupt, message))
}
