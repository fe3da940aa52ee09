//! Leases, and what a record is bound to while they last and after.

use crate::conformance::check::{Expect as _, Failure, Verdict, check};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, keep};
use crate::record::{RecordId, State};
use crate::store::{Claim, Fenced};

/// A lease that has ended is taken over, at the next attempt, and the new one holds.
pub(crate) async fn a_lapsed_lease_is_taken_over(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    let successor = claim("payload");
    t.claim(&id, &successor).await?.is_granted(2)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &successor, &answer("second"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("second"))
}

/// A renewal makes the lease last longer.
pub(crate) async fn a_renewed_lease_holds(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, Claim { lease: SHORT, ..claim("payload") }).await?;
    t.renew(&id, &ours, LONG).await?.is_held()?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("payload")).await?.is_in_flight()
}

/// Renewals count from now; they do not add up.
pub(crate) async fn a_renewal_counts_from_now(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    for _ in 0..3 {
        t.renew(&id, &ours, LONG).await?.is_held()?;
    }
    let record = t.find(&id).await?;
    check(record.lease_left.is_some_and(|left| left <= LONG), "the lease is one lease long")
}

/// An owner whose lease has lapsed may renew it while nobody took over.
pub(crate) async fn a_lapsed_lease_is_renewed_if_nobody_took_over(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.lapse(&id, claim("payload")).await?;
    t.renew(&id, &ours, LONG).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()
}

/// The record outlives its lease by the binding: attempt and payload are not forgotten with the lease.
pub(crate) async fn a_record_outlives_its_lease(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    let record = t.find(&id).await?;
    check(record.state == State::Lapsed, "it has lapsed")?;
    check(record.expires_in.is_some_and(|left| left > SHORT), "it stays for its binding")?;
    t.claim(&id, &claim("other")).await?.is_mismatch()?;
    t.claim(&id, &claim("payload")).await?.is_granted(2)
}

/// A lapsed record is gone when its binding has ended, for its late holder as for everybody.
pub(crate) async fn a_lapsed_record_is_gone_after_its_binding(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let late = t.begin(&id, Claim { lease: SHORT, binding: SHORT, ..claim("payload") }).await?;
    t.pass(SHORT + SHORT).await;
    check(t.look_up(&id).await?.is_none(), "the record is absent")?;
    t.is_fenced(&id, &late).await?;
    t.claim(&id, &claim("other")).await?.is_granted(1)
}

/// A renewal moves the end of the binding along with that of the lease, for claims and sweepers alike.
pub(crate) async fn a_renewed_record_outlives_its_first_expiry(t: &Trial) -> Verdict {
    let (id, ours) = renewed(t).await?;
    t.pass(SHORT + SHORT).await;
    t.sweep_all().await?;
    check(t.state(&id).await? == Some(State::InFlight), "it is still in flight")?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()
}

/// A record claimed with a short lease and binding, and renewed before they ended.
async fn renewed(t: &Trial) -> Result<(RecordId, Claim), Failure> {
    // On a slow machine both may be over before the renewal is there; then it is lost, and another is tried.
    for round in 0..100 {
        let id = t.id(&format!("key-{round}"))?;
        let ours = t.begin(&id, Claim { lease: SHORT, binding: SHORT, ..claim("payload") }).await?;
        if t.renew(&id, &ours, LONG).await? == Fenced::Held {
            return Ok((id, ours));
        }
    }
    Err(Failure::new("expected one of a hundred renewals to be in time"))
}
