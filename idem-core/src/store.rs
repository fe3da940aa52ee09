//! The store contract: one atomic step a method.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::answer::Answer;
use crate::fingerprint::Fingerprints;
use crate::owner::Owner;
use crate::record::{Record, RecordId};

/// Remembers which requests are claimed and what was answered.
///
/// # Contract
///
/// - Every method is one atomic step: of any number of callers, in any number of processes, racing to claim a record,
///   exactly one is granted it.
/// - Time is the store's own clock; only durations cross this trait. A span of time is half-open, `[t, t + d)`. A zero
///   duration is over at once; one too long for the store's clock is cut to the longest it can keep, never wrapped.
/// - A record past its expiry is absent for every method, swept or not, except that one completed with a
///   [`tombstone_ttl`](Retention::tombstone_ttl) is refused as [`Claimed::Expired`] until that is over too.
/// - An in-flight record outlives its lease by [`Claim::binding`]. An unknown one, and a lapsed one that was claimed
///   under [`OnCrash::Reject`], stays until it is completed, released or settled.
/// - [`complete`](Self::complete), [`release`](Self::release) and [`renew`](Self::renew) ask for expiry as well as for
///   the owner: what they do must not depend on whether the sweeper came by.
/// - `Ok` is an answer, a lost race included. `Err` means that the store could not say; the step may have happened, and
///   repeating it with the same owner is safe.
/// - A dropped future may or may not have taken its step.
///
/// `conformance_tests!` (feature `conformance`) makes one test of every promise.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Claims the record, or tells why it cannot be claimed.
    ///
    /// One round trip; writes nothing unless it grants. The order of decisions is: identity, expiry, version,
    /// fingerprint, then the state:
    ///
    /// | record | same owner | another owner |
    /// |---|---|---|
    /// | absent, or past its expiry | granted, attempt 1 | granted, attempt 1 |
    /// | bound to another fingerprint | mismatch | mismatch |
    /// | in flight | granted again, same attempt, lease renewed | in flight |
    /// | lapsed, [`OnCrash::Retry`] | granted again, same attempt, lease renewed | granted, attempt + 1 |
    /// | lapsed, [`OnCrash::Reject`] | granted again, same attempt, lease renewed | unknown |
    /// | failed | granted, attempt + 1 | granted, attempt + 1 |
    /// | completed, unknown, expired | as it is | as it is |
    ///
    /// With [`Claim::rebind`] a failed record is granted whatever its fingerprint, and is bound to the new one. What
    /// happens on a crash is decided by the claim that holds the record, not by the one that finds it.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the record may be claimed by this owner.
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError>;

    /// Stores the answer and ends the lease; the record expires `retention.ttl` from now.
    ///
    /// Held if the record is in flight under this owner (a lapsed lease that nobody took over included), or was
    /// completed by this very owner before: the first answer stays.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the answer may be stored.
    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError>;

    /// Ends the lease without an answer.
    ///
    /// Held if the record was in flight under this owner, a lapsed lease that nobody took over included. A repeated
    /// release is lost, which its caller may ignore: the record is not its own any more.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the record may be released.
    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError>;

    /// Extends the lease to `lease` from now.
    ///
    /// Held if the record is in flight under this owner, a lapsed lease that nobody took over included.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the lease may be extended.
    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError>;

    /// Waits until the record may have changed, at most so long; may return early.
    ///
    /// Holds no connection while it waits. A store that is not told of changes sleeps a while and returns.
    async fn changed(&self, id: &RecordId, at_most: Duration);

    /// Deletes up to `limit` records that are gone for every caller, and tells how many it deleted.
    ///
    /// Never touches a record in flight, unknown, or before its expiry; any number of sweepers may run.
    ///
    /// # Errors
    ///
    /// When the store cannot say; some may be deleted.
    async fn sweep(&self, limit: u32) -> Result<u64, StoreError>;

    /// Reads the record without changing it; `None` if it is absent or past its expiry.
    ///
    /// # Errors
    ///
    /// When the store cannot say.
    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError>;

    /// Lets an operator decide: gives an answer to work whose outcome is unknown, or forgets the record.
    ///
    /// [`Settle::Complete`] takes only a record that is unknown, failed or lapsed; one in flight or completed is
    /// refused. [`Settle::Forget`] takes any; the holder of one in flight then finds its lease lost.
    ///
    /// # Errors
    ///
    /// When the store cannot say; the record may be settled.
    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError>;
}

/// A request to hold a record.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Who claims.
    pub owner: Owner,
    /// What is asked for, in every version and secret still in use.
    pub fingerprints: Fingerprints,
    /// How long the claim holds unless it is renewed.
    pub lease: Duration,
    /// How long the record outlives its lease, bound to its payload.
    pub binding: Duration,
    /// What others find when the lease lapses.
    pub on_crash: OnCrash,
    /// Whether a failed record may be claimed for another payload.
    pub rebind: bool,
}

/// What happens to work whose holder crashed or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrash {
    /// The next caller takes over: at least once.
    #[default]
    Retry,
    /// Nobody runs it again until an operator has settled the outcome: at most once.
    Reject,
}

/// The answer to a claim.
#[derive(Debug, Clone)]
pub enum Claimed {
    /// The record is yours: run the work.
    Granted {
        /// 1 for the first run, one more for each take-over or retry.
        attempt: u32,
    },
    /// Somebody else holds it.
    InFlight {
        /// How long their lease still lasts.
        lease_left: Duration,
    },
    /// The work is done.
    Completed {
        /// What was answered.
        answer: Answer,
        /// How long it will still be replayed.
        expires_in: Duration,
    },
    /// The record is bound to another payload.
    Mismatch,
    /// The record's fingerprint is of a version or secret that the claim did not bring: it cannot be compared.
    Incomparable,
    /// The key was used, its answer has expired, and it is refused.
    Expired,
    /// Whether the work was done is not known; it waits to be settled.
    Unknown,
}

/// Whether a step was taken under a claim that still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lost lease means that the step was not taken"]
pub enum Fenced {
    /// The record was yours; the step is taken.
    Held,
    /// The record is not yours any more; nothing was changed.
    Lost,
}

/// How a claim ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// As if this claim had not been granted, since nothing ran under it.
    ///
    /// A first attempt is forgotten: the next claim is attempt 1, with any payload. A later one was bound by an earlier
    /// one that may have run: the record is free, and for so long bound to its payload. The store decides that within
    /// the step, since only it knows the attempt for sure.
    Undo(Duration),
    /// Free to run again, for so long bound to its payload.
    KeepBinding(Duration),
    /// The outcome is unknown; nobody may run it until it is settled.
    Unknown,
}

/// How long an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long it is replayed, from now.
    pub ttl: Duration,
    /// How long after that the key is still refused; `None`: it runs as new.
    pub tombstone_ttl: Option<Duration>,
}

/// What an operator decides about a record.
#[derive(Debug, Clone)]
pub enum Settle {
    /// The work was done, and this is its answer.
    Complete {
        /// What retries will be answered.
        answer: Answer,
        /// How long.
        retention: Retention,
    },
    /// The record never was.
    Forget,
}

/// The answer to a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is settled.
    Done,
    /// There is no such record.
    Absent,
    /// It is in flight or completed; nothing was changed.
    Refused,
}

/// The store could not say.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Why the store could not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It cannot be reached, or broke off; trying again may help.
    Unavailable,
    /// It did not answer in time.
    TimedOut,
    /// It has no room for a new record; live ones still answer.
    Full,
    /// What it holds, or what it answered, is not what this release understands.
    Corrupt,
    /// It is not set up: no table, no permission, a wrong version.
    Misconfigured,
    /// It refused to commit a transaction, of which nothing is left: a conflict with another, or a constraint that was not
    /// checked before.
    CommitRefused,
}

impl StoreError {
    /// An error without a cause.
    pub const fn new(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// An error with its cause.
    pub fn with_source(
        kind: StoreErrorKind,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// What kind it is.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the same step may succeed if it is repeated.
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::TimedOut)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Unavailable => "the store cannot be reached",
            StoreErrorKind::TimedOut => "the store did not answer in time",
            StoreErrorKind::Full => "the store has no room for a new record",
            StoreErrorKind::Corrupt => "the store holds what this release cannot read",
            StoreErrorKind::Misconfigured => "the store is not set up for idem",
            StoreErrorKind::CommitRefused => "the database refused to commit",
        })
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

macro_rules! forward {
    ($($pointer:ident)*) => {$(
        #[async_trait]
        impl<S: Store + ?Sized> Store for $pointer<S> {
            async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
                (**self).claim(id, claim).await
            }

            async fn complete(
                &self,
                id: &RecordId,
                owner: Owner,
                answer: &Answer,
                retention: Retention,
            ) -> Result<Fenced, StoreError> {
                (**self).complete(id, owner, answer, retention).await
            }

            async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
                (**self).release(id, owner, how).await
            }

            async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
                (**self).renew(id, owner, lease).await
            }

            async fn changed(&self, id: &RecordId, at_most: Duration) {
                (**self).changed(id, at_most).await;
            }

            async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
                (**self).sweep(limit).await
            }

            async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
                (**self).look_up(id).await
            }

            async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
                (**self).settle(id, how).await
            }
        }
    )*};
}
forward!(Arc Box);
