//! Many callers at once.

use std::time::Duration;

use crate::conformance::check::{Expect as _, Failure, Reply, Verdict, check, equal};
use crate::conformance::trial::{LONG, OPERATION};
use crate::conformance::trial::{Trial, answer, claim, keep};
use crate::record::RecordId;
use crate::store::{Claim, Claimed, Fenced, Release};

const RACERS: usize = 64;

/// Of the replies to one record's claims, one is a grant of that attempt and all others are in flight.
fn one_winner(replies: &[Claimed], attempt: u32) -> Verdict {
    let grants = replies.iter().filter(|reply| matches!(reply, Claimed::Granted { .. })).count();
    equal(&grants, &1)?;
    for reply in replies {
        match reply {
            Claimed::Granted { attempt: granted } => equal(granted, &attempt)?,
            Claimed::InFlight { .. } => {}
            other => return Err(Failure::new(format!("expected one winner, found {other:?}"))),
        }
    }
    Ok(())
}

fn racers(id: &RecordId) -> Vec<(RecordId, Claim)> {
    (0..RACERS).map(|_| (id.clone(), claim("payload"))).collect()
}

/// Of 64 callers that claim one record at once, one is granted it and the others find it in flight.
pub(crate) async fn a_race_for_a_record_has_one_winner(t: &Trial) -> Verdict {
    for round in 0..20 {
        let id = t.id(&format!("race-{round}"))?;
        one_winner(&t.race(racers(&id)).await?, 1)?;
    }
    Ok(())
}

/// Races for many records do not disturb each other.
pub(crate) async fn races_for_many_records_have_one_winner_each(t: &Trial) -> Verdict {
    let mut claims = Vec::new();
    for _ in 0..8 {
        for record in 0..32 {
            claims.push((t.id(&format!("record-{record}"))?, claim("payload")));
        }
    }
    let replies = t.race(claims).await?;
    for record in 0..32 {
        let of_record: Vec<_> = replies.iter().skip(record).step_by(32).cloned().collect();
        one_winner(&of_record, 1)?;
    }
    Ok(())
}

/// Of 64 callers that find a lapsed lease, one takes over.
pub(crate) async fn a_race_to_take_over_has_one_winner(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    one_winner(&t.race(racers(&id)).await?, 2)
}

/// Of 64 callers that find a failed record, one runs it again.
pub(crate) async fn a_race_to_retry_a_failed_record_has_one_winner(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    one_winner(&t.race(racers(&id)).await?, 2)
}

/// One owner that repeats its claim many times at once is granted each time, at one attempt.
pub(crate) async fn racing_repeats_of_one_owner_are_one_attempt(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = claim("payload");
    for reply in t.race((0..16).map(|_| (id.clone(), ours.clone())).collect()).await? {
        Reply(reply).is_granted(1)?;
    }
    Ok(())
}

/// Of a late completion and a take-over at the same time, one comes first and the other sees it.
pub(crate) async fn a_late_completion_and_a_take_over_exclude_each_other(t: &Trial) -> Verdict {
    for round in 0..50 {
        let id = t.id(&format!("race-{round}"))?;
        let late = t.begin(&id, Claim { lease: Duration::ZERO, ..claim("payload") }).await?;
        let (store, of) = (t.store(), id.clone());
        let completes =
            tokio::spawn(async move { store.complete(&of, late.owner, &answer("late"), keep(LONG)).await });
        // On a store that answers without waiting, the completion only comes between if it is let.
        for _ in 0..round % 4 {
            tokio::task::yield_now().await;
        }
        let rival = claim("payload");
        let taken = t.claim(&id, &rival).await?;
        match completes.await?? {
            Fenced::Held => taken.is_completed(&answer("late"))?,
            Fenced::Lost => {
                taken.is_granted(2)?;
                t.complete(&id, &rival, &answer("rival"), keep(LONG)).await?.is_held()?;
            }
        }
    }
    Ok(())
}

/// A claim whose caller went away may or may not have happened; the record is usable either way.
pub(crate) async fn a_dropped_claim_leaves_the_store_usable(t: &Trial) -> Verdict {
    for round in 0..20 {
        let id = t.id(&format!("dropped-{round}"))?;
        let ours = claim("payload");
        let dropped = tokio::time::timeout(Duration::from_micros(round * 50), t.claim(&id, &ours)).await;
        drop(dropped);
        t.claim(&id, &ours).await?.is_granted(1)?;
        t.claim(&id, &claim("payload")).await?.is_in_flight()?;
        let done = answer("done");
        let completion = t.complete(&id, &ours, &done, keep(LONG));
        drop(tokio::time::timeout(Duration::from_micros(round * 50), completion).await);
        t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
        t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))?;
    }
    let id = t.id_of(&OPERATION, "never-polled")?;
    let ours = claim("payload");
    drop(t.claim(&id, &ours));
    check(t.look_up(&id).await?.is_none(), "a claim that was never polled did nothing")
}
