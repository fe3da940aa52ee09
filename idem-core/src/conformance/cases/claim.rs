//! Claims and attempts.

use std::time::Instant;

use crate::conformance::check::{Expect as _, Failure, Verdict, check};
use crate::conformance::trial::{LONG, SHORT, SLACK, Trial, answer, claim, keep, shape};
use crate::store::{Claim, Claimed, Release};

/// A record that nobody knows is granted, at attempt 1, and is held against others.
pub(crate) async fn a_new_record_is_granted_and_held(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.claim(&id, &claim("payload")).await?.is_granted(1)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()
}

/// Who finds a record in flight is told how long its lease still lasts.
pub(crate) async fn in_flight_tells_how_long_the_lease_lasts(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let start = Instant::now();
    t.begin(&id, claim("payload")).await?;
    t.pass(SHORT).await;
    match t.claim(&id, &claim("payload")).await?.0 {
        Claimed::InFlight { lease_left } => {
            check(lease_left <= LONG.saturating_sub(SHORT) + SLACK, "the lease has become shorter")?;
            check(
                lease_left + SHORT + start.elapsed() + SLACK >= LONG,
                "the lease is as long as it was asked for",
            )
        }
        other => Err(Failure::new(format!("expected in flight, found {other:?}"))),
    }
}

/// A claim whose reply was lost is repeated with the same owner, and granted at the same attempt.
pub(crate) async fn a_repeated_claim_is_granted_again(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    t.claim(&id, &ours).await?.is_granted(1)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()
}

/// A repeated claim renews the lease.
pub(crate) async fn a_repeated_claim_renews_the_lease(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, Claim { lease: SHORT, ..claim("payload") }).await?;
    t.claim(&id, &Claim { lease: LONG, ..ours }).await?.is_granted(1)?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("payload")).await?.is_in_flight()
}

/// After its lease has lapsed, and while nobody took over, an owner that repeats its claim is granted the same attempt.
pub(crate) async fn a_repeated_claim_after_the_lapse_is_the_same_attempt(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.lapse(&id, claim("payload")).await?;
    t.claim(&id, &Claim { lease: LONG, ..ours }).await?.is_granted(1)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()
}

/// A take-over that is repeated is still the second attempt.
pub(crate) async fn a_repeated_take_over_is_the_same_attempt(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    let successor = claim("payload");
    t.claim(&id, &successor).await?.is_granted(2)?;
    t.claim(&id, &successor).await?.is_granted(2)
}

/// A claim that is not granted changes nothing: neither the record nor its lease.
pub(crate) async fn a_refused_claim_changes_nothing(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.begin(&id, claim("payload")).await?;
    let before = shape(t.look_up(&id).await?);
    t.claim(&id, &Claim { lease: LONG * 2, binding: LONG * 2, ..claim("payload") }).await?.is_in_flight()?;
    t.claim(&id, &Claim { lease: LONG * 2, binding: LONG * 2, ..claim("other") }).await?.is_mismatch()?;
    let after = t.find(&id).await?;
    check(after.lease_left.is_some_and(|left| left <= LONG), "the lease is not extended")?;
    check(after.expires_in.is_some_and(|left| left <= LONG * 2), "the binding is not extended")?;
    check(shape(Some(after)) == before, "the record is what it was")
}

/// Every take-over and every retry is one attempt more; what was forgotten begins anew.
pub(crate) async fn attempts_count_take_overs_and_retries(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    let second = Claim { lease: SHORT, ..claim("payload") };
    t.claim(&id, &second).await?.is_granted(2)?;
    t.pass(SHORT).await;
    let third = claim("payload");
    t.claim(&id, &third).await?.is_granted(3)?;
    t.release(&id, &third, Release::KeepBinding(LONG)).await?.is_held()?;
    // The same owner again is a new attempt as well, since it gave the record back.
    t.claim(&id, &third).await?.is_granted(4)?;
    t.forget(&id).await?;
    t.claim(&id, &claim("payload")).await?.is_granted(1)
}

/// A record that was completed is replayed to everybody, its owner included, and tells how long it will be.
pub(crate) async fn a_completed_record_is_replayed(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let start = Instant::now();
    let ours = t.finish(&id, claim("payload"), &answer("done"), keep(LONG)).await?;
    t.claim(&id, &ours).await?.is_completed(&answer("done"))?;
    for _ in 0..3 {
        let reply = t.claim(&id, &claim("payload")).await?;
        reply.is_completed(&answer("done"))?;
        if let Claimed::Completed { expires_in, .. } = reply.0 {
            check(expires_in <= LONG, "it expires no later than its ttl")?;
            check(expires_in + start.elapsed() + SLACK >= LONG, "it expires no sooner than its ttl")?;
        }
    }
    Ok(())
}
