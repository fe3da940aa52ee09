//! Crashes under `OnCrash::Reject`: at most once.

use std::time::Duration;

use crate::conformance::check::{Expect as _, Verdict, check};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, keep};
use crate::record::State;
use crate::store::{Claim, OnCrash};

fn at_most_once() -> Claim {
    Claim { on_crash: OnCrash::Reject, ..claim("payload") }
}

/// A lease that lapses under `Reject` leaves the outcome unknown: nobody takes over.
pub(crate) async fn a_crash_under_reject_leaves_the_outcome_unknown(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.begin(&id, Claim { lease: SHORT, ..at_most_once() }).await?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("payload")).await?.is_unknown()?;
    t.claim(&id, &at_most_once()).await?.is_unknown()?;
    let record = t.find(&id).await?;
    check(record.state == State::Unknown, "the outcome is unknown")?;
    check(record.expires_in.is_none(), "it stays until it is settled")
}

/// An unexpired lease under `Reject` is in flight as any other.
pub(crate) async fn a_lease_under_reject_is_in_flight_until_it_lapses(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, at_most_once()).await?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))
}

/// An unknown outcome never expires, whatever its binding was and however often it is swept.
pub(crate) async fn an_unknown_outcome_never_expires(t: &Trial) -> Verdict {
    let lapsed = t.id("lapsed")?;
    t.begin(&lapsed, Claim { lease: SHORT, binding: Duration::ZERO, ..at_most_once() }).await?;
    let released = t.id("released")?;
    let short = Claim { lease: SHORT, binding: Duration::ZERO, ..at_most_once() };
    t.end(&released, short, crate::store::Release::Unknown).await?;
    t.pass(SHORT * 4).await;
    t.sweep_all().await?;
    for id in [lapsed, released] {
        t.claim(&id, &claim("payload")).await?.is_unknown()?;
        t.claim(&id, &claim("other")).await?.is_mismatch()?;
    }
    Ok(())
}

/// The holder itself is not shut out by its lapse: it may claim again, renew, or complete.
pub(crate) async fn the_holder_may_go_on_after_a_lapse_under_reject(t: &Trial) -> Verdict {
    let id = t.id("claims")?;
    let ours = t.lapse(&id, at_most_once()).await?;
    t.claim(&id, &Claim { lease: LONG, ..ours }).await?.is_granted(1)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    let id = t.id("renews")?;
    let ours = t.lapse(&id, at_most_once()).await?;
    t.renew(&id, &ours, LONG).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    let id = t.id("completes")?;
    let ours = t.lapse(&id, at_most_once()).await?;
    t.complete(&id, &ours, &answer("late"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("late"))
}

/// What a crash means is decided by the claim that holds the record, not by the one that finds it.
pub(crate) async fn the_holders_claim_decides_what_a_crash_means(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    t.claim(&id, &Claim { lease: SHORT, ..at_most_once() }).await?.is_granted(2)?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("payload")).await?.is_unknown()
}
