//! Policies: what a call may choose, with the defaults.

use std::time::Duration;

use crate::answer::Answer;
pub use crate::store::OnCrash;
use crate::store::Retention;

/// What a caller gets while another holds the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InFlight {
    /// An error at once: 409 over HTTP.
    #[default]
    Reject,
    /// Waits at most so long for the first to finish and replays its answer; then the error.
    Wait(Duration),
}

/// What happens to a key whose answer has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expired {
    /// It runs as new.
    #[default]
    Rerun,
    /// It is refused until the [tombstone](Policy::tombstone_ttl) is gone: 409 over HTTP.
    Reject,
}

/// What a caller that goes away does to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDisconnect {
    /// The handler runs to its end, and its answer is stored.
    #[default]
    Finish,
    /// The handler is dropped; that counts as failed, and the key is free at once.
    Cancel,
}

/// What happens if the store cannot be asked for the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreError {
    /// An error, and the handler does not run: 503 over HTTP.
    #[default]
    Reject,
    /// **Unsafe**: the handler runs without protection; a retry may run it again.
    Run,
}

/// What happens to a call without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// An error: 400 over HTTP.
    #[default]
    Reject,
    /// The handler runs without a record.
    Run,
    /// **Unsafe**: the fingerprint serves as the key; two equal requests that were meant twice count as one.
    Derive,
}

/// The choices of one call. [`Policy::default`] is what an engine starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// How long an answer is replayed, from its completion, and a failed key stays bound. Default: 24 hours.
    pub ttl: Duration,
    /// How long a claim holds unless it is renewed; renewal is automatic. Default: 30 seconds.
    pub lease: Duration,
    /// How long a handler may run before it is aborted and its key freed. Default: 15 minutes.
    pub max_run: Duration,
    /// How long an expired key is refused under [`Expired::Reject`]. Default: 30 days.
    pub tombstone_ttl: Duration,
    /// What a caller gets while another holds the key. Default: an error.
    pub in_flight: InFlight,
    /// What happens to a key whose answer has expired. Default: it runs as new.
    pub expired: Expired,
    /// What happens to work whose holder crashed or failed. Default: the next caller takes over.
    pub on_crash: OnCrash,
    /// What a caller that goes away does to its handler. Default: it finishes.
    pub on_disconnect: OnDisconnect,
    /// What happens if the store cannot be asked. Default: an error.
    pub on_store_error: OnStoreError,
    /// What happens to a call without a key. Default: an error.
    pub missing: Missing,
    /// **Unsafe**: lets a failed key be used again with another payload. Default: no.
    pub rebind: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ttl: Duration::from_hours(24),
            lease: Duration::from_secs(30),
            max_run: Duration::from_mins(15),
            tombstone_ttl: Duration::from_hours(30 * 24),
            in_flight: InFlight::default(),
            expired: Expired::default(),
            on_crash: OnCrash::default(),
            on_disconnect: OnDisconnect::default(),
            on_store_error: OnStoreError::default(),
            missing: Missing::default(),
            rebind: false,
        }
    }
}

impl Policy {
    /// How long an answer is kept.
    pub(crate) fn retention(&self) -> Retention {
        let refused = self.expired == Expired::Reject;
        Retention { ttl: self.ttl, tombstone_ttl: refused.then_some(self.tombstone_ttl) }
    }

    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.ttl.is_zero() {
            Some("a ttl of zero would forget each answer at once")
        } else if self.lease.is_zero() {
            Some("a lease of zero would protect nothing")
        } else if self.max_run.is_zero() {
            Some("a max_run of zero would abort every handler")
        } else if self.expired == Expired::Reject && self.tombstone_ttl.is_zero() {
            Some("a tombstone_ttl of zero would refuse no expired key")
        } else {
            None
        }
    }
}

/// What becomes of the record when the work has ended.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// The outcome is final: store this answer and replay it.
    Complete(Answer),
    /// The work failed: free to run again, bound to its payload. Unknown under [`OnCrash::Reject`].
    Fail,
    /// The work failed and says that running it again is right: free and bound, also under [`OnCrash::Reject`].
    Retryable,
    /// The work never began: as if the key had not been claimed.
    Undo,
}

/// What a handler says of its own outcome; obeyed whatever the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The outcome is final: it is stored and replayed.
    Final,
    /// The outcome is not final: a retry runs again.
    Retryable,
    /// The outcome is final, but it is not kept: a retry is told that the work is done.
    Tombstone,
}
