//! Fencing: what an owner can do, and what a stale one cannot.

use std::time::Duration;

use crate::conformance::check::{Expect as _, Verdict, check, equal};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, keep};
use crate::owner::Owner;
use crate::store::{Claim, Release};

/// Who was taken over can neither complete nor renew nor release, and the successor does not notice.
pub(crate) async fn a_late_owner_changes_nothing_after_a_take_over(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let late = t.lapse(&id, claim("payload")).await?;
    let successor = claim("payload");
    t.claim(&id, &successor).await?.is_granted(2)?;
    t.is_fenced(&id, &late).await?;
    t.complete(&id, &successor, &answer("successor"), keep(LONG)).await?.is_held()?;
    t.is_fenced(&id, &late).await?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("successor"))
}

/// A late owner's claim does not get the record back while its successor holds it.
pub(crate) async fn a_late_owner_finds_its_successor_in_flight(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let late = t.lapse(&id, claim("payload")).await?;
    t.claim(&id, &claim("payload")).await?.is_granted(2)?;
    t.claim(&id, &late).await?.is_in_flight()
}

/// An owner whose record was released and claimed anew is stale, although the attempt is the same.
pub(crate) async fn a_stale_owner_changes_nothing_after_release_and_reclaim(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let stale = t.end(&id, claim("payload"), Release::Undo(LONG)).await?;
    let ours = t.begin(&id, claim("payload")).await?;
    t.is_fenced(&id, &stale).await?;
    t.complete(&id, &ours, &answer("ours"), keep(LONG)).await?.is_held()?;
    t.is_fenced(&id, &stale).await
}

/// An owner whose record failed and is run again is stale.
pub(crate) async fn a_stale_owner_changes_nothing_after_a_retry(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let stale = t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    t.is_fenced(&id, &stale).await?;
    let ours = claim("payload");
    t.claim(&id, &ours).await?.is_granted(2)?;
    t.is_fenced(&id, &stale).await?;
    t.complete(&id, &ours, &answer("ours"), keep(LONG)).await?.is_held()
}

/// Whoever does not know the owner's token can change nothing, in whatever state.
pub(crate) async fn a_stranger_changes_nothing(t: &Trial) -> Verdict {
    let stranger = claim("payload");
    let [absent, in_flight, lapsed, failed, completed, unknown] =
        ["absent", "in-flight", "lapsed", "failed", "completed", "unknown"].map(|key| t.id(key));
    t.is_fenced(&absent?, &stranger).await?;
    let in_flight = in_flight?;
    t.begin(&in_flight, claim("payload")).await?;
    t.is_fenced(&in_flight, &stranger).await?;
    let lapsed = lapsed?;
    t.lapse(&lapsed, claim("payload")).await?;
    t.is_fenced(&lapsed, &stranger).await?;
    let failed = failed?;
    t.end(&failed, claim("payload"), Release::KeepBinding(LONG)).await?;
    t.is_fenced(&failed, &stranger).await?;
    let completed = completed?;
    t.finish(&completed, claim("payload"), &answer("done"), keep(LONG)).await?;
    t.is_fenced(&completed, &stranger).await?;
    let unknown = unknown?;
    t.end(&unknown, claim("payload"), Release::Unknown).await?;
    t.is_fenced(&unknown, &stranger).await
}

/// An owner token is compared whole: one that differs in its last bit is another.
pub(crate) async fn owners_are_compared_to_the_last_bit(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, Claim { owner: Owner::from_bytes([0xff; 16]), ..claim("payload") }).await?;
    for at in [0, 7, 8, 15] {
        let mut bytes = [0xff; 16];
        bytes[at] = 0xfe;
        t.is_fenced(&id, &Claim { owner: Owner::from_bytes(bytes), ..claim("payload") }).await?;
    }
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()
}

/// An owner whose lease has lapsed completes its work while nobody took over.
pub(crate) async fn a_late_completion_holds_if_nobody_took_over(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let late = t.lapse(&id, claim("payload")).await?;
    t.complete(&id, &late, &answer("late"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("late"))
}

/// An owner whose lease has lapsed releases its record while nobody took over.
pub(crate) async fn a_late_release_holds_if_nobody_took_over(t: &Trial) -> Verdict {
    for (key, how, attempt) in
        [("forget", Release::Undo(LONG), 1), ("keep-binding", Release::KeepBinding(LONG), 2)]
    {
        let id = t.id(key)?;
        let late = t.lapse(&id, claim("payload")).await?;
        t.release(&id, &late, how).await?.is_held()?;
        t.claim(&id, &claim("payload")).await?.is_granted(attempt)?;
    }
    Ok(())
}

/// A completion whose reply was lost is repeated: it holds, and the first answer and its expiry stay.
pub(crate) async fn a_repeated_completion_keeps_the_first_answer(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.finish(&id, claim("payload"), &answer("first"), keep(LONG)).await?;
    t.complete(&id, &ours, &answer("second"), keep(LONG * 2)).await?.is_held()?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("first"))?;
    check(t.find(&id).await?.expires_in.is_some_and(|left| left <= LONG), "the expiry is not extended")
}

/// A completion that is repeated after the answer has expired is lost.
pub(crate) async fn a_completion_repeated_after_expiry_is_lost(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.finish(&id, claim("payload"), &answer("first"), keep(SHORT)).await?;
    t.pass(SHORT).await;
    t.complete(&id, &ours, &answer("second"), keep(LONG)).await?.is_lost()?;
    t.claim(&id, &claim("payload")).await?.is_granted(1)
}

/// What was completed cannot be renewed or released, not even by its owner.
pub(crate) async fn a_completed_record_is_neither_renewed_nor_released(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.finish(&id, claim("payload"), &answer("done"), keep(LONG)).await?;
    t.renew(&id, &ours, LONG * 2).await?.is_lost()?;
    for how in [Release::KeepBinding(Duration::ZERO), Release::Unknown, Release::Undo(LONG)] {
        t.release(&id, &ours, how).await?.is_lost()?;
    }
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))
}

/// A release that is repeated is lost: the record is not its owner's any more.
pub(crate) async fn a_repeated_release_is_lost(t: &Trial) -> Verdict {
    for (key, how) in [
        ("forget", Release::Undo(LONG)),
        ("keep-binding", Release::KeepBinding(LONG)),
        ("unknown", Release::Unknown),
    ] {
        let id = t.id(key)?;
        let ours = t.end(&id, claim("payload"), how).await?;
        let before = t.state(&id).await?;
        t.is_fenced(&id, &ours).await?;
        equal(&t.state(&id).await?, &before)?;
    }
    Ok(())
}
