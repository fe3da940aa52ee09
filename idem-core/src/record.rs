//! Records: what a store remembers of one request.

use std::fmt;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::answer::Answer;
use crate::fingerprint::Fingerprint;
use crate::key::{Key, KeyHint, Scope};
use crate::operation::Operation;
use crate::owner::Owner;

/// Identifies a record: SHA-256 over scope, operation and key, with the operation and the key's hint for people.
///
/// Equal exactly if the digests are. Full keys and scopes are not kept.
#[derive(Clone)]
pub struct RecordId {
    digest: [u8; 32],
    operation: Operation,
    hint: KeyHint,
}

impl RecordId {
    /// The record of `key` under an operation, as `scope` sees it.
    ///
    /// Durable format, version 1: the digest is SHA-256 over `1u8`, then `0u8` for the shared scope or `1u8`, the
    /// length of the scope (u32, big-endian) and the scope; then the length of the operation (u32, big-endian), the
    /// operation, and the key, each part of scope and key as `S`, its length (u8) and its bytes, a tuple as `T` and the
    /// number of its parts (u8) before them.
    pub fn new(scope: &Scope, operation: &Operation, key: &Key) -> Self {
        let name = operation.as_str().as_bytes();
        let mut identity = Vec::with_capacity(160);
        identity.push(1);
        match scope.encoded() {
            None => identity.push(0),
            Some(scope) => {
                identity.push(1);
                identity.extend((scope.len() as u32).to_be_bytes());
                identity.extend_from_slice(scope);
            }
        }
        identity.extend((name.len() as u32).to_be_bytes());
        identity.extend_from_slice(name);
        identity.extend_from_slice(key.encoded());
        Self { digest: Sha256::digest(&identity).into(), operation: operation.clone(), hint: *key.hint() }
    }

    /// The identity of a run without a record; belongs to no key.
    pub(crate) fn unprotected(nonce: Owner) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"idem unprotected");
        hasher.update(nonce.as_bytes());
        Self {
            digest: hasher.finalize().into(),
            operation: Operation::from_static(""),
            hint: KeyHint::default(),
        }
    }

    /// The primary key of the record: 32 bytes, evenly distributed.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The operation, kept in clear.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// The first characters of the key.
    pub fn hint(&self) -> &KeyHint {
        &self.hint
    }

    /// A key for a system that this work calls, for example a payment provider.
    ///
    /// Stable for this identity and different for every label, so that a second attempt reaches that system under the
    /// same key. It has the form of a UUID (version 8, RFC 9562): SHA-256 over `"idem derive 1"`, the record's digest
    /// and the label, cut to 128 bits.
    pub fn derive(&self, label: &str) -> String {
        let mut hasher = Sha256::new();
        hasher.update(b"idem derive 1");
        hasher.update(self.digest);
        hasher.update(label.as_bytes());
        let digest = hasher.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[6] = 0x80 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        let mut text = String::with_capacity(36);
        for (i, byte) in bytes.into_iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.extend(
                [byte >> 4, byte & 0xf].map(|nibble| char::from(b"0123456789abcdef"[usize::from(nibble)])),
            );
        }
        text
    }
}

impl PartialEq for RecordId {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for RecordId {}

impl std::hash::Hash for RecordId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}…", self.operation, self.hint)
    }
}

/// Where a record stands, as its store sees it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// A holder runs the work; its lease has not ended.
    InFlight,
    /// The holder's lease ended without an answer; the next claim takes over.
    Lapsed,
    /// The work failed: free to run again, but bound to its fingerprint.
    Failed,
    /// The work is done and its answer is stored.
    Completed,
    /// Whether the work was done is not known, and it must not run twice: it waits to be settled.
    Unknown,
    /// The answer has expired, and the record is remembered so that the key is refused.
    Expired,
}

impl State {
    /// The state's name in metrics, logs and SQL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Lapsed => "lapsed",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A record as [`look_up`](crate::store::Store::look_up) finds it. Times are durations from the store's now.
#[derive(Debug, Clone)]
pub struct Record {
    /// Where it stands.
    pub state: State,
    /// The operation, in clear.
    pub operation: String,
    /// The first characters of the key.
    pub hint: KeyHint,
    /// What it is bound to.
    pub fingerprint: Fingerprint,
    /// How many times the work was begun.
    pub attempt: u32,
    /// How long ago the first attempt was granted.
    pub age: Duration,
    /// How long the lease still lasts; `None` unless in flight.
    pub lease_left: Option<Duration>,
    /// How long until the record is gone; `None` if it stays until it is settled.
    pub expires_in: Option<Duration>,
    /// The stored answer; `Some` only if completed.
    pub answer: Option<Answer>,
}

/// What an operator may see of a record: never its payload or answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Where it stands.
    pub state: State,
    /// The operation.
    pub operation: String,
    /// The first characters of the key.
    pub hint: KeyHint,
    /// How many times the work was begun.
    pub attempt: u32,
    /// How long ago the first attempt was granted.
    pub age: Duration,
    /// How long the lease still lasts; `None` unless in flight.
    pub lease_left: Option<Duration>,
    /// How long until the record is gone; `None` if it stays until it is settled.
    pub expires_in: Option<Duration>,
    /// The size of the stored answer in bytes; `None` unless completed.
    pub answer_len: Option<usize>,
}

impl From<Record> for Inspection {
    fn from(record: Record) -> Self {
        Self {
            state: record.state,
            operation: record.operation,
            hint: record.hint,
            attempt: record.attempt,
            age: record.age,
            lease_left: record.lease_left,
            expires_in: record.expires_in,
            answer_len: record.answer.map(|answer| answer.as_bytes().len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(scope: &Scope, operation: &'static str, key: &str) -> RecordId {
        RecordId::new(scope, &operation.into(), &Key::new(key).unwrap())
    }

    #[test]
    fn scope_operation_and_key_each_separate_records() {
        let alice = Scope::new("alice").unwrap();
        let bob = Scope::new("bob").unwrap();
        let base = id(&alice, "charge", "k-1");
        assert_eq!(base, id(&alice, "charge", "k-1"));
        assert_ne!(base, id(&bob, "charge", "k-1"));
        assert_ne!(base, id(&Scope::SHARED, "charge", "k-1"));
        assert_ne!(base, id(&alice, "refund", "k-1"));
        assert_ne!(base, id(&alice, "charge", "K-1"));
    }

    #[test]
    fn identity_and_derived_keys_are_fixed_for_ever() {
        let id = id(&Scope::new("alice").unwrap(), "payments.create", "order-1");
        let digest = id.digest().map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(digest, "3489b8204e734493dcd171c4c6ee510e93c87fb62eafa70ad8fb3832913daf46");
        assert_eq!(id.derive("stripe"), "6f47297f-2253-8974-b4ad-af2092d1d719");
        assert_ne!(id.derive("stripe"), id.derive("ledger"));
    }
}
