//! Expiry: decided when a record is read, by the store's clock.

use std::time::{Duration, Instant};

use crate::conformance::check::{Expect as _, Verdict, check};
use crate::conformance::trial::{LONG, SHORT, SLACK, Trial, answer, claim, keep, keep_then_refuse};
use crate::record::State;
use crate::store::{Claim, Release};

/// An answer whose ttl has ended is gone for every method, although nobody swept it.
pub(crate) async fn an_expired_answer_is_absent_before_it_is_swept(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.finish(&id, claim("payload"), &answer("done"), keep(SHORT)).await?;
    t.pass(SHORT).await;
    check(t.look_up(&id).await?.is_none(), "it is not found")?;
    t.is_fenced(&id, &ours).await?;
    let next = t.begin(&id, claim("payload")).await?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &next, &answer("anew"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("anew"))
}

/// The ttl counts from the completion: slow work does not eat its own replay window.
pub(crate) async fn the_ttl_counts_from_the_completion(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    t.pass(SHORT * 4).await;
    let start = Instant::now();
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
    let left = t.find(&id).await?.expires_in.unwrap_or_default();
    check(left <= LONG, "it is kept no longer than its ttl")?;
    check(left + start.elapsed() + SLACK >= LONG, "it is kept for its whole ttl")
}

/// A replay does not extend the ttl.
pub(crate) async fn a_replay_does_not_extend_the_ttl(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.finish(&id, claim("payload"), &answer("done"), keep(LONG)).await?;
    t.pass(SHORT * 4).await;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))?;
    let left = t.find(&id).await?.expires_in.unwrap_or(Duration::MAX);
    check(left <= LONG.saturating_sub(SHORT * 4) + SLACK, "the time that has passed is gone")
}

/// The ttl is one thing, lease and binding another: an answer outlives both.
pub(crate) async fn an_answer_outlives_lease_and_binding(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    // On a slow machine lease and binding may be over before the completion; so the first may be lost.
    for _ in 0..100 {
        let ours = Claim { lease: SHORT, binding: SHORT, ..claim("payload") };
        t.claim(&id, &ours).await?.is_granted(1)?;
        if t.complete(&id, &ours, &answer("done"), keep(LONG)).await? == crate::store::Fenced::Held {
            break;
        }
    }
    t.pass(SHORT + SHORT).await;
    t.sweep_all().await?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))
}

/// With a `tombstone_ttl` the key is refused after its expiry, and the answer is gone.
pub(crate) async fn a_tombstone_refuses_the_key(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.finish(&id, claim("payload"), &answer("done"), keep_then_refuse(SHORT, LONG)).await?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("payload")).await?.is_expired()?;
    t.claim(&id, &ours).await?.is_expired()?;
    t.is_fenced(&id, &ours).await?;
    t.sweep_all().await?;
    t.claim(&id, &claim("payload")).await?.is_expired()?;
    let record = t.find(&id).await?;
    check(record.state == State::Expired, "the record has expired")?;
    check(record.answer.is_none(), "the answer is gone")
}

/// Before its expiry an answer with a `tombstone_ttl` is replayed as any other, and expires at its ttl.
pub(crate) async fn an_answer_with_a_tombstone_is_replayed_until_its_ttl(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.finish(&id, claim("payload"), &answer("done"), keep_then_refuse(LONG, LONG)).await?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))?;
    check(t.find(&id).await?.expires_in.is_some_and(|left| left <= LONG), "it expires at its ttl")
}

/// A tombstone ends, too: then the key runs as new.
pub(crate) async fn a_tombstone_ends(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.finish(&id, claim("payload"), &answer("done"), keep_then_refuse(SHORT, SHORT)).await?;
    t.pass(SHORT + SHORT).await;
    check(t.look_up(&id).await?.is_none(), "it is not found")?;
    t.claim(&id, &claim("other")).await?.is_granted(1)
}

/// A lease, binding, ttl or tombstone of zero is over at once; zero never means "for ever" or "not set".
pub(crate) async fn a_zero_duration_is_over_at_once(t: &Trial) -> Verdict {
    let lease = t.id("lease")?;
    t.begin(&lease, Claim { lease: Duration::ZERO, ..claim("payload") }).await?;
    t.claim(&lease, &claim("payload")).await?.is_granted(2)?;
    let renewal = t.id("renewal")?;
    let ours = t.begin(&renewal, claim("payload")).await?;
    t.renew(&renewal, &ours, Duration::ZERO).await?.is_held()?;
    t.claim(&renewal, &claim("payload")).await?.is_granted(2)?;
    let both = t.id("lease-and-binding")?;
    t.begin(&both, Claim { lease: Duration::ZERO, binding: Duration::ZERO, ..claim("payload") }).await?;
    t.claim(&both, &claim("other")).await?.is_granted(1)?;
    let binding = t.id("binding")?;
    t.end(&binding, claim("payload"), Release::KeepBinding(Duration::ZERO)).await?;
    t.claim(&binding, &claim("other")).await?.is_granted(1)?;
    let ttl = t.id("ttl")?;
    t.finish(&ttl, claim("payload"), &answer("done"), keep(Duration::ZERO)).await?;
    t.claim(&ttl, &claim("other")).await?.is_granted(1)?;
    let refused = t.id("ttl-with-tombstone")?;
    t.finish(&refused, claim("payload"), &answer("done"), keep_then_refuse(Duration::ZERO, LONG)).await?;
    t.claim(&refused, &claim("payload")).await?.is_expired()?;
    let tombstone = t.id("tombstone")?;
    t.finish(&tombstone, claim("payload"), &answer("done"), keep_then_refuse(SHORT, Duration::ZERO)).await?;
    t.pass(SHORT).await;
    t.claim(&tombstone, &claim("payload")).await?.is_granted(1)
}

/// A duration beyond the store's clock is cut to the longest it can keep; it never wraps, fails or panics.
pub(crate) async fn a_huge_duration_is_cut(t: &Trial) -> Verdict {
    let years = |n: u64| Duration::from_hours(24 * 366 * n);
    let nanos = Duration::from_nanos(u64::MAX);
    let spans =
        [years(100), years(8_000), years(300_000), nanos, Duration::from_millis(u64::MAX), Duration::MAX];
    for (n, span) in spans.into_iter().enumerate() {
        let lease = t.id(&format!("lease-{n}"))?;
        let ours = t.begin(&lease, Claim { lease: span, binding: span, ..claim("payload") }).await?;
        let renewal = t.id(&format!("renewal-{n}"))?;
        let renewed = t.begin(&renewal, claim("payload")).await?;
        t.renew(&renewal, &renewed, span).await?.is_held()?;
        let failed = t.id(&format!("failed-{n}"))?;
        t.end(&failed, claim("payload"), Release::KeepBinding(span)).await?;
        let completed = t.id(&format!("completed-{n}"))?;
        t.finish(&completed, claim("payload"), &answer("done"), keep_then_refuse(span, span)).await?;
        let refused = t.id(&format!("refused-{n}"))?;
        t.finish(&refused, claim("payload"), &answer("done"), keep_then_refuse(SHORT, span)).await?;
        t.pass(SHORT).await;
        t.sweep_all().await?;
        t.claim(&lease, &claim("payload")).await?.is_in_flight()?;
        t.claim(&renewal, &claim("payload")).await?.is_in_flight()?;
        t.claim(&failed, &claim("other")).await?.is_mismatch()?;
        t.claim(&completed, &claim("payload")).await?.is_completed(&answer("done"))?;
        t.claim(&refused, &claim("payload")).await?.is_expired()?;
        let kept = years(50);
        check(t.find(&lease).await?.lease_left.is_some_and(|left| left > kept), "the lease is long")?;
        for id in [&failed, &completed, &refused] {
            check(t.find(id).await?.expires_in.is_none_or(|left| left > kept), "the expiry is far away")?;
        }
        t.complete(&lease, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
    }
    Ok(())
}
