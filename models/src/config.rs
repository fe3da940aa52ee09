//! How big a world is looked at, and with which options.

use crate::record::Ticks;

/// What becomes of a key whose holder was not heard of again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnCrash {
    /// The next claim takes over, with the next attempt.
    Retry,
    /// The outcome is unknown; the lapsed holder may still bring its answer.
    Reject,
    /// The outcome is unknown, and the first rival told so shuts the lapsed holder out.
    RejectForGood,
}

/// The options of the operation, and the bounds that keep the search finite.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// What it is called in tables.
    pub name: &'static str,
    /// How many requests are under way at once, those stuck or paused for ever included.
    pub slots: usize,
    /// How many requests are made in all.
    pub requests: u8,
    /// How many different payloads they carry.
    pub payloads: u8,
    /// How long a claim is held.
    pub lease: Ticks,
    /// How long answers and bindings are kept.
    pub ttl: Ticks,
    /// How long an expired key is refused; 0: `expired = run`.
    pub tombstone: Ticks,
    /// What becomes of lapsed leases.
    pub on_crash: OnCrash,
    /// How often a holder renews before its ceiling.
    pub renewals: u8,
    /// How far the store's clock runs.
    pub ticks: Ticks,
    /// How many messages are lost or late.
    pub strays: u8,
    /// How often an operator settles or forgets.
    pub operator: u8,
}

impl Config {
    /// Two of three requests at a time, one payload, two lost or late messages, no renewals.
    pub const fn one_payload() -> Self {
        Self {
            name: "retry, 2 lost",
            slots: 2,
            requests: 3,
            payloads: 1,
            lease: 1,
            ttl: 1,
            tombstone: 0,
            on_crash: OnCrash::Retry,
            renewals: 0,
            ticks: 3,
            strays: 2,
            operator: 0,
        }
    }

    /// Two of three requests at a time, each with one of two payloads, one lost or late message.
    pub const fn two_payloads() -> Self {
        Self {
            name: "retry, 2 payloads",
            payloads: 2,
            renewals: 1,
            ticks: 4,
            strays: 1,
            ..Self::one_payload()
        }
    }

    /// Like [`two_payloads`](Self::two_payloads), with a longer clock and nothing lost.
    pub const fn two_payloads_long() -> Self {
        Self { name: "retry, long", ticks: 7, lease: 2, ttl: 2, ..Self::two_payloads() }
    }

    /// Three callers at once.
    pub const fn three_callers() -> Self {
        Self { name: "retry, 3 callers", slots: 3, requests: 4, strays: 0, ..Self::two_payloads() }
    }

    /// A clock that runs longer than any holder may renew.
    pub const fn patient() -> Self {
        Self {
            name: "retry, patient",
            slots: 1,
            requests: 2,
            payloads: 1,
            renewals: 1,
            ticks: 6,
            strays: 1,
            ..Self::one_payload()
        }
    }

    /// Expired keys are refused for a while.
    pub const fn tombstone() -> Self {
        Self { name: "expired = reject", tombstone: 1, ..Self::two_payloads() }
    }

    /// At most once, with an operator who may act once.
    pub const fn reject() -> Self {
        Self { name: "reject", on_crash: OnCrash::Reject, operator: 1, ..Self::two_payloads() }
    }

    /// Like [`reject`](Self::reject); who was reported as abandoned stays out.
    pub const fn reject_for_good() -> Self {
        Self { name: "reject for good", on_crash: OnCrash::RejectForGood, ..Self::reject() }
    }

    /// Every configuration in which the honest protocol is searched to the end.
    pub const fn all() -> [Self; 8] {
        [
            Self::one_payload(),
            Self::two_payloads(),
            Self::two_payloads_long(),
            Self::three_callers(),
            Self::patient(),
            Self::tombstone(),
            Self::reject(),
            Self::reject_for_good(),
        ]
    }

    /// Says whether a lapsed lease is an unknown outcome.
    pub fn rejects(&self) -> bool {
        self.on_crash != OnCrash::Retry
    }
}
