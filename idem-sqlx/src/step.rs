//! Steps: one statement and its values, to be taken now or together with others.

use std::time::Duration;

use bytes::Bytes;
use idem_core::answer::Answer;
use idem_core::fingerprint::Fingerprint;
use idem_core::owner::Owner;
use idem_core::record::RecordId;
use idem_core::store::{Claim, OnCrash, Release, Retention, Settle};

use crate::dialect::Statements;
use crate::row::{Phase, Row};
use crate::span::{NEVER, one_after_another, to_micros};

/// One atomic change, which the database takes or does not.
#[derive(Debug, Clone)]
pub struct Step {
    pub(crate) verb: Verb,
    pub(crate) values: Vec<Value>,
}

/// Which statement a step is; the order is that of [`Statements`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    Claim,
    Reclaim,
    TakeOver,
    Complete,
    Undo,
    Fail,
    Renew,
    Expect,
    Settle,
    Erase,
    Sweep,
}

impl Verb {
    pub(crate) const ALL: [Self; 11] = [
        Self::Claim,
        Self::Reclaim,
        Self::TakeOver,
        Self::Complete,
        Self::Undo,
        Self::Fail,
        Self::Renew,
        Self::Expect,
        Self::Settle,
        Self::Erase,
        Self::Sweep,
    ];

    pub(crate) const fn statement(self, of: &Statements) -> &'static str {
        match self {
            Self::Claim => of.claim,
            Self::Reclaim => of.reclaim,
            Self::TakeOver => of.take_over,
            Self::Complete => of.complete,
            Self::Undo => of.undo,
            Self::Fail => of.fail,
            Self::Renew => of.renew,
            Self::Expect => of.expect,
            Self::Settle => of.settle,
            Self::Erase => of.erase,
            Self::Sweep => of.sweep,
        }
    }
}

/// A value to bind. `Debug` does not show it: it may be an answer or an owner.
#[derive(Clone)]
pub(crate) enum Value {
    Int(i64),
    Text(Box<str>),
    Word(&'static str),
    Bytes(Bytes),
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Value {
    /// Its bytes, if it is made of them.
    pub(crate) fn bytes(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        if let Self::Bytes(bytes) = self { bytes } else { &NONE }
    }

    /// Its text, if it is one.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Word(word) => word,
            Self::Int(_) | Self::Bytes(_) => "",
        }
    }

    /// Its number, if it is one.
    pub(crate) fn int(&self) -> i64 {
        if let Self::Int(int) = self { *int } else { 0 }
    }

    /// About how many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int(_) => 8,
            Self::Text(text) => text.len(),
            Self::Word(word) => word.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

pub(crate) fn id(id: &RecordId) -> Value {
    Value::Bytes(Bytes::copy_from_slice(id.digest()))
}

fn owner(owner: Owner) -> Value {
    Value::Bytes(Bytes::copy_from_slice(owner.as_bytes()))
}

fn fingerprint(fingerprint: &Fingerprint) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&fingerprint.to_bytes()))
}

fn answer(answer: &Answer) -> Value {
    Value::Bytes(answer.as_bytes().clone())
}

fn span(span: Duration) -> Value {
    Value::Int(to_micros(span))
}

fn on_crash(on_crash: OnCrash) -> Value {
    Value::Word(match on_crash {
        OnCrash::Retry => "retry",
        OnCrash::Reject => "reject",
    })
}

/// How long a claim's record stays: nobody may forget work that must not run twice.
fn life(claim: &Claim) -> Value {
    Value::Int(match claim.on_crash {
        OnCrash::Retry => one_after_another(claim.lease, claim.binding),
        OnCrash::Reject => NEVER,
    })
}

/// How long the record of an answer stays.
fn retained(retention: Retention) -> Value {
    Value::Int(one_after_another(retention.ttl, retention.tombstone_ttl.unwrap_or_default()))
}

impl Step {
    fn new(verb: Verb, values: impl Into<Vec<Value>>) -> Self {
        Self { verb, values: values.into() }
    }

    pub(crate) fn claim(record: &RecordId, claim: &Claim) -> Self {
        Self::new(
            Verb::Claim,
            [
                id(record),
                Value::Text(record.operation().as_str().into()),
                Value::Text(record.hint().as_str().into()),
                fingerprint(claim.fingerprints.current()),
                owner(claim.owner),
                on_crash(claim.on_crash),
                span(claim.lease),
                life(claim),
            ],
        )
    }

    pub(crate) fn take_over(
        record: &RecordId,
        claim: &Claim,
        found: &Row,
        attempt: u32,
        bound_to: &Fingerprint,
    ) -> Self {
        Self::new(
            Verb::TakeOver,
            [
                id(record),
                owner(claim.owner),
                fingerprint(bound_to),
                Value::Int(attempt.into()),
                on_crash(claim.on_crash),
                span(claim.lease),
                life(claim),
                Value::Word(found.phase.as_str()),
                owner(found.owner),
                Value::Int(found.attempt.into()),
                Value::Int(found.lease_until),
            ],
        )
    }

    pub(crate) fn complete(record: &RecordId, by: Owner, with: &Answer, retention: Retention) -> Self {
        Self::new(
            Verb::Complete,
            [id(record), owner(by), answer(with), span(retention.ttl), retained(retention)],
        )
    }

    pub(crate) fn release(record: &RecordId, by: Owner, how: Release) -> Self {
        let (phase, binding) = match how {
            Release::Undo(binding) => {
                return Self::new(Verb::Undo, [id(record), owner(by), span(binding)]);
            }
            Release::KeepBinding(binding) => (Phase::Failed, to_micros(binding)),
            Release::Unknown => (Phase::Unknown, NEVER),
        };
        Self::new(Verb::Fail, [id(record), owner(by), Value::Word(phase.as_str()), Value::Int(binding)])
    }

    pub(crate) fn renew(record: &RecordId, by: Owner, lease: Duration) -> Self {
        Self::new(Verb::Renew, [id(record), owner(by), span(lease)])
    }

    pub(crate) fn expect(record: &RecordId) -> Self {
        Self::new(Verb::Expect, [id(record)])
    }

    pub(crate) fn settle(record: &RecordId, how: &Settle) -> Self {
        match how {
            Settle::Complete { answer: with, retention } => {
                Self::new(Verb::Settle, [id(record), answer(with), span(retention.ttl), retained(*retention)])
            }
            Settle::Forget => Self::new(Verb::Erase, [id(record)]),
        }
    }

    /// The digest of the record that it is about.
    pub(crate) fn id(&self) -> &Bytes {
        self.values[0].bytes()
    }

    /// About how many bytes it writes.
    pub(crate) fn len(&self) -> usize {
        self.values.iter().map(Value::len).sum()
    }
}
