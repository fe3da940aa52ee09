//! Violations: what was promised, and did not hold.

use std::fmt;

use crate::history::Key;

/// The promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An effect happens no more often than the operation declares.
    EffectOnce,
    /// What is answered with success has happened.
    EffectAnswered,
    /// Nobody runs a key again unless its last run failed, or a fault has ended it.
    RunExplained,
    /// After a crash `on_crash = reject` never runs again.
    NeverAgain,
    /// Another payload never runs under a key that is bound.
    OnePayload,
    /// Every replay is what was answered first, byte for byte.
    OneAnswer,
    /// An answer is one to the payload that was sent, by a run that there was.
    OwnAnswer,
    /// No answer is replayed after it has expired.
    NotExpired,
    /// 422 is for other payloads, never for the same.
    TrueMismatch,
    /// Nothing is answered that the operation does not declare.
    KnownAnswer,
    /// After healing every key gets a final answer.
    NothingStuck,
}

/// A promise that did not hold for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub rule: Rule,
    /// For which key.
    pub key: Key,
    /// What happened instead.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} {}: {}", self.rule, self.key.operation.name(), self.key.name, self.what)
    }
}
