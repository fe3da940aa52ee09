//! What others got wrong: one change to the protocol each.

use crate::config::Config;
use crate::properties as p;

/// One fault, put into an otherwise honest protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// `complete` asks for a record in flight, not for its owner.
    CompleteWithoutOwner,
    /// `release` asks for a record in flight, not for its owner.
    ReleaseWithoutOwner,
    /// `renew` asks for a record in flight, not for its owner.
    RenewWithoutOwner,
    /// The fence is the attempt, which starts again when a released key is claimed anew.
    CounterForOwner,
    /// `claim` reads, decides, and then writes whatever is there by now.
    GetThenSet,
    /// `claim` tries to insert, and where the row it lost to has gone in between, runs unclaimed.
    RunUnclaimed,
    /// A claim writes no lease: at once it looks like an orphan.
    NoLease,
    /// A record in flight has no deadline at all.
    LeaseForever,
    /// The lease is the expiry of the record: what lapses is gone, binding and attempt with it.
    LeaseIsTtl,
    /// The sweeper removes whatever has no unexpired answer.
    SweepLive,
    /// The sweeper removes records whose lease has lapsed.
    SweepLapsed,
    /// `complete` writes over an answer that is already there.
    CompletionOverwrites,
    /// A renewal that arrives late also prolongs an answered record.
    RenewAnswered,
    /// A completion or renewal is accepted from a row that is expired and not yet swept.
    FenceIgnoresExpiry,
    /// In flight is told before the payloads are compared.
    InFlightBeforeMismatch,
    /// Who takes over or retries is not asked for its payload.
    TakeOverSkipsMismatch,
    /// The look-up after a lost lease hands out what is there, whoever it was for.
    LookUpSkipsMismatch,
    /// A failed record is removed, its binding with it.
    FailureForgets,
    /// A claim given back unused takes the binding of earlier attempts with it.
    UndoForgetsEarlier,
    /// Whether a claim given back may take the binding along is decided by a look, one step earlier.
    UndoDecidedByLook,
    /// `on_crash = reject` is taken for `retry`.
    OnCrashIgnored,
    /// Under `on_crash = reject` a lapsed record expires with its binding.
    UnknownExpires,
    /// The time to live counts from the claim.
    TtlFromClaim,
    /// Each replay starts the time to live anew.
    ReplayExtends,
    /// The sweeper removes an expired answer before the end of its tombstone.
    TombstoneSwept,
    /// The owner's own repeated claim is told that somebody holds the key.
    RepeatedClaimRefused,
    /// The owner's own repeated completion is told that it lost.
    RepeatedCompleteRefused,
    /// A take-over keeps the attempt of the crashed one.
    TakeOverKeepsAttempt,
    /// A completion that could not be written is taken for a failed handler.
    FailedWriteReleases,
    /// Renewal has no ceiling.
    RenewForever,
}

impl Mutant {
    /// Every mutant there is.
    pub const ALL: [Self; 30] = [
        Self::CompleteWithoutOwner,
        Self::ReleaseWithoutOwner,
        Self::RenewWithoutOwner,
        Self::CounterForOwner,
        Self::GetThenSet,
        Self::RunUnclaimed,
        Self::NoLease,
        Self::LeaseForever,
        Self::LeaseIsTtl,
        Self::SweepLive,
        Self::SweepLapsed,
        Self::CompletionOverwrites,
        Self::RenewAnswered,
        Self::FenceIgnoresExpiry,
        Self::InFlightBeforeMismatch,
        Self::TakeOverSkipsMismatch,
        Self::LookUpSkipsMismatch,
        Self::FailureForgets,
        Self::UndoForgetsEarlier,
        Self::UndoDecidedByLook,
        Self::OnCrashIgnored,
        Self::UnknownExpires,
        Self::TtlFromClaim,
        Self::ReplayExtends,
        Self::TombstoneSwept,
        Self::RepeatedClaimRefused,
        Self::RepeatedCompleteRefused,
        Self::TakeOverKeepsAttempt,
        Self::FailedWriteReleases,
        Self::RenewForever,
    ];

    /// Names the promise that it was made to break; it may break others too.
    pub fn breaks(self) -> &'static str {
        match self {
            Self::CompleteWithoutOwner | Self::ReleaseWithoutOwner | Self::CounterForOwner => p::STALE_OWNER,
            Self::RenewWithoutOwner
            | Self::GetThenSet
            | Self::RunUnclaimed
            | Self::NoLease
            | Self::SweepLive => p::ONE_LEASE,
            Self::LeaseForever => p::NOT_FOR_EVER,
            Self::CompletionOverwrites => p::ONE_ANSWER,
            Self::FenceIgnoresExpiry | Self::SweepLapsed => p::SWEEP_UNSEEN,
            Self::InFlightBeforeMismatch => p::MISMATCH_FIRST,
            Self::LeaseIsTtl
            | Self::TakeOverSkipsMismatch
            | Self::FailureForgets
            | Self::UndoForgetsEarlier
            | Self::UndoDecidedByLook => p::BOUND,
            Self::LookUpSkipsMismatch => p::TRUE_REPLAY,
            Self::OnCrashIgnored | Self::UnknownExpires => p::REJECT_ONCE,
            Self::RenewAnswered | Self::TtlFromClaim | Self::ReplayExtends | Self::TombstoneSwept => {
                p::WHOLE_TTL
            }
            Self::RepeatedClaimRefused | Self::RepeatedCompleteRefused => p::REPEATABLE,
            Self::TakeOverKeepsAttempt => p::ATTEMPTS,
            Self::FailedWriteReleases => p::FEW_EFFECTS,
            Self::RenewForever => p::CEILING,
        }
    }

    /// Picks the configuration in which it is let loose.
    pub fn config(self) -> Config {
        match self {
            Self::OnCrashIgnored | Self::UnknownExpires => Config::reject(),
            Self::TombstoneSwept => Config::tombstone(),
            Self::RenewForever => Config::patient(),
            Self::ReplayExtends => Config::two_payloads_long(),
            _ => Config::two_payloads(),
        }
    }
}
