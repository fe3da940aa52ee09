//! Releases: claims that end without an answer.

use crate::conformance::check::{Expect as _, Verdict, check};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, keep};
use crate::record::State;
use crate::store::Release;

/// A first attempt that is undone was never granted: attempt 1 again, any payload.
pub(crate) async fn an_undone_first_attempt_was_never_granted(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.end(&id, claim("payload"), Release::Undo(LONG)).await?;
    check(t.look_up(&id).await?.is_none(), "the record is absent")?;
    t.claim(&id, &claim("other")).await?.is_granted(1)?;
    t.claim(&id, &claim("payload")).await?.is_mismatch()
}

/// Undoing a later attempt keeps what an earlier one bound, for as long as the release says.
pub(crate) async fn undoing_a_later_attempt_keeps_the_binding(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    let second = claim("payload");
    t.claim(&id, &second).await?.is_granted(2)?;
    t.release(&id, &second, Release::Undo(LONG)).await?.is_held()?;
    t.claim(&id, &claim("other")).await?.is_mismatch()?;
    let third = claim("payload");
    t.claim(&id, &third).await?.is_granted(3)?;
    t.release(&id, &third, Release::Undo(SHORT)).await?.is_held()?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("other")).await?.is_granted(1)
}

/// A failed record is free at once, not after its lease, and its next claim holds.
pub(crate) async fn a_failed_record_is_free_at_once(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    let retry = claim("payload");
    t.claim(&id, &retry).await?.is_granted(2)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &retry, &answer("done"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))
}

/// The binding of a failed record ends when it was said to; then the key runs as new.
pub(crate) async fn the_binding_of_a_failed_record_ends(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.end(&id, claim("payload"), Release::KeepBinding(SHORT)).await?;
    t.pass(SHORT).await;
    check(t.look_up(&id).await?.is_none(), "the record is absent")?;
    t.claim(&id, &claim("other")).await?.is_granted(1)
}

/// The binding of a failed record is as long as its release said, not as its claim did.
pub(crate) async fn a_failed_record_stays_as_long_as_its_release_said(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let short = crate::store::Claim { binding: SHORT, ..claim("payload") };
    t.end(&id, short, Release::KeepBinding(LONG)).await?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("other")).await?.is_mismatch()?;
    t.claim(&id, &claim("payload")).await?.is_granted(2)
}

/// An outcome released as unknown is refused to everybody, its owner included, until it is settled.
pub(crate) async fn an_unknown_outcome_is_refused_to_everybody(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.end(&id, claim("payload"), Release::Unknown).await?;
    t.claim(&id, &claim("payload")).await?.is_unknown()?;
    t.claim(&id, &ours).await?.is_unknown()?;
    t.complete(&id, &ours, &answer("late"), keep(LONG)).await?.is_lost()?;
    check(t.state(&id).await? == Some(State::Unknown), "the outcome is unknown")
}
