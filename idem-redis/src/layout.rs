//! Layout: how a record stands in the value of its key.
//!
//! Durable format, version 1; integers are big-endian, times are milliseconds of the server's clock:
//!
//! | bytes | |
//! |---|---|
//! | 1 | version, `01` |
//! | 1 | phase: `F` in flight, `X` failed, `C` completed, `U` unknown |
//! | 1 | what happens on a crash: `r` retry, `j` reject |
//! | 1 | `1` if its end is awaited in another process, else `0` |
//! | 4 | attempt |
//! | 16 | owner |
//! | 37 | fingerprint |
//! | 4 x 8 | when it was created, when its lease ends, when it expires, when it is gone; 2^52 is never |
//! | 1, .. | length of the operation, operation |
//! | 1, .. | length of the hint, hint |
//! | 1, .. | `-` no answer; `=` and the answer; `+` and 16 bytes that name the key of the answer |
//!
//! Scripts change bytes by their position, so another version is another release of them.

use std::time::Duration;

use bytes::Bytes;
use idem_core::answer::Answer;
use idem_core::fingerprint::Fingerprint;
use idem_core::key::KeyHint;
use idem_core::owner::Owner;
use idem_core::record::RecordId;
use idem_core::store::{Claim, OnCrash, Retention, StoreError, StoreErrorKind};
use idem_core::stored::row::{Phase, Row};
use idem_core::stored::span::{NEVER, one_after_another, to_micros};

/// The end of what does not end, in milliseconds: exact in Lua, whose numbers are doubles.
pub(crate) const NEVER_MILLIS: i64 = 1 << 52;
const MICROS: i64 = 1_000;
const VERSION: u8 = 1;
/// Up to the times.
const HEAD_LEN: usize = 61;
const TIMES_LEN: usize = 32;

const NO_ANSWER: u8 = b'-';
const WITHIN: u8 = b'=';
const APART: u8 = b'+';

/// Where an answer is that has a key of its own: 128 random bits, new for each answer, so that none is ever overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Apart([u8; 16]);

impl Apart {
    pub(crate) fn random() -> Self {
        Self(*Owner::random().as_bytes())
    }

    /// What its key ends with.
    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// A record as it was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// What it means; its answer is there if it is kept within the record.
    pub(crate) row: Row,
    /// Where its answer is otherwise.
    pub(crate) apart: Option<Apart>,
    /// Its bytes.
    pub(crate) raw: Bytes,
}

impl Found {
    /// When it was created, as it stands in the record.
    pub(crate) fn created(&self) -> &[u8] {
        self.raw.get(HEAD_LEN..HEAD_LEN + 8).unwrap_or_default()
    }
}

/// The span to add to the server's now, in milliseconds.
pub(crate) fn millis(span: Duration) -> i64 {
    to_micros(span) / MICROS
}

/// How long a claim's record stays: nobody may forget work that must not run twice.
pub(crate) fn life(claim: &Claim) -> i64 {
    match claim.on_crash {
        OnCrash::Retry => one_after_another(claim.lease, claim.binding) / MICROS,
        OnCrash::Reject => NEVER_MILLIS,
    }
}

/// How long the record of an answer stays, in milliseconds.
pub(crate) fn retained(retention: Retention) -> i64 {
    one_after_another(retention.ttl, retention.tombstone_ttl.unwrap_or_default()) / MICROS
}

/// A claimed record up to its times.
pub(crate) fn head(claim: &Claim, attempt: u32, fingerprint: &Fingerprint) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[0] = VERSION;
    head[1] = b'F';
    head[2] = match claim.on_crash {
        OnCrash::Retry => b'r',
        OnCrash::Reject => b'j',
    };
    head[3] = b'0';
    head[4..8].copy_from_slice(&attempt.to_be_bytes());
    head[8..24].copy_from_slice(claim.owner.as_bytes());
    head[24..].copy_from_slice(&fingerprint.to_bytes());
    head
}

/// A new record after its times.
pub(crate) fn tail(id: &RecordId) -> Vec<u8> {
    let (operation, hint) = (id.operation().as_str().as_bytes(), id.hint().as_str().as_bytes());
    // Longer names are refused before they come here.
    let operation = &operation[..operation.len().min(usize::from(u8::MAX))];
    let mut tail = Vec::with_capacity(operation.len() + hint.len() + 3);
    tail.push(operation.len() as u8);
    tail.extend_from_slice(operation);
    tail.push(hint.len() as u8);
    tail.extend_from_slice(hint);
    tail.push(NO_ANSWER);
    tail
}

/// An answer as it stands in its record.
pub(crate) fn within(answer: &Answer) -> Vec<u8> {
    let answer = answer.as_bytes();
    let mut part = Vec::with_capacity(answer.len() + 1);
    part.push(WITHIN);
    part.extend_from_slice(answer);
    part
}

/// What stands in the record of an answer that has a key of its own.
pub(crate) fn elsewhere(apart: Apart) -> Vec<u8> {
    let mut part = vec![APART];
    part.extend_from_slice(&apart.0);
    part
}

/// Reads a record, which the server read at `now` milliseconds.
pub(crate) fn read(raw: Bytes, now: i64) -> Result<Found, StoreError> {
    match raw.first() {
        Some(&VERSION) => {}
        Some(_) => return Err(corrupt("a layout")),
        None => return Err(corrupt("no content")),
    }
    let (head, rest) = raw.split_at_checked(HEAD_LEN).ok_or_else(|| corrupt("a head"))?;
    let (times, rest) = rest.split_at_checked(TIMES_LEN).ok_or_else(|| corrupt("times"))?;
    let (operation, rest) = text(rest).ok_or_else(|| corrupt("an operation"))?;
    let (hint, rest) = text(rest).ok_or_else(|| corrupt("a hint"))?;
    let time = |at: usize| {
        let millis = times[8 * at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        if millis == NEVER_MILLIS { NEVER } else { millis.saturating_mul(MICROS) }
    };
    let (answer, apart) = match rest.split_first() {
        Some((&NO_ANSWER, [])) => (None, None),
        Some((&WITHIN, answer)) => (Some(Answer::from_bytes(raw.slice_ref(answer))), None),
        Some((&APART, name)) => {
            (None, Some(Apart(name.try_into().map_err(|_| corrupt("a place of its answer"))?)))
        }
        _ => return Err(corrupt("an answer")),
    };
    let row = Row {
        operation: operation.to_owned(),
        hint: KeyHint::from_stored(hint),
        phase: match head[1] {
            b'F' => Phase::InFlight,
            b'X' => Phase::Failed,
            b'C' => Phase::Completed,
            b'U' => Phase::Unknown,
            _ => return Err(corrupt("a phase")),
        },
        on_crash: match head[2] {
            b'r' => OnCrash::Retry,
            b'j' => OnCrash::Reject,
            _ => return Err(corrupt("a choice for crashes")),
        },
        attempt: head[4..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes)),
        owner: Owner::from_bytes(*head[8..].first_chunk().ok_or_else(|| corrupt("an owner"))?),
        fingerprint: Fingerprint::from_bytes(&head[24..]).ok_or_else(|| corrupt("a fingerprint"))?,
        created_at: time(0),
        lease_until: time(1),
        expires_at: time(2),
        gone_at: time(3),
        answer,
        now: now.saturating_mul(MICROS),
    };
    Ok(Found { row, apart, raw })
}

/// A text after its length.
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(len))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

fn corrupt(what: &str) -> StoreError {
    let message = format!("a record has {what} that this release does not know");
    StoreError::with_source(StoreErrorKind::Corrupt, message)
}
