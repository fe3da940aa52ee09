//! Outcomes: what a call came to.

use std::time::Duration;

use crate::answer::Answer;

/// A stored answer on its way to a caller.
#[derive(Debug, Clone)]
pub struct Stored {
    answer: Answer,
    expires_in: Duration,
}

impl Stored {
    pub(crate) fn new(answer: Answer, expires_in: Duration) -> Self {
        Self { answer, expires_in }
    }

    /// The answer.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// How much longer it is replayed, by the store's clock.
    pub fn expires_in(&self) -> Duration {
        self.expires_in
    }
}

/// What a call came to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome<R> {
    /// The work ran now.
    Fresh(R),
    /// The work ran before; this is its stored answer.
    Replayed(R),
    /// The work ran without a record, as the policy for missing keys or an unreachable store allows.
    Unprotected(R),
}

impl<R> Outcome<R> {
    /// The result, however it came about.
    pub fn into_inner(self) -> R {
        match self {
            Self::Fresh(result) | Self::Replayed(result) | Self::Unprotected(result) => result,
        }
    }

    /// The result, borrowed.
    pub const fn get(&self) -> &R {
        match self {
            Self::Fresh(result) | Self::Replayed(result) | Self::Unprotected(result) => result,
        }
    }

    /// Whether the result was stored by an earlier call.
    pub const fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }

    /// Changes the result.
    pub fn map<T>(self, change: impl FnOnce(R) -> T) -> Outcome<T> {
        match self {
            Self::Fresh(result) => Outcome::Fresh(change(result)),
            Self::Replayed(result) => Outcome::Replayed(change(result)),
            Self::Unprotected(result) => Outcome::Unprotected(change(result)),
        }
    }
}
