//! Sweeping: gives space back, and changes nothing that a caller could see.

use crate::conformance::check::{Expect as _, Failure, Reply, Verdict, check, equal};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, keep, keep_then_refuse};
use crate::record::State;
use crate::store::{Claim, OnCrash, Release};

/// Makes `many` completed records that have expired.
async fn expired(t: &Trial, many: usize) -> Verdict {
    for n in 0..many {
        t.finish(&t.id(&format!("expired-{n}"))?, claim("payload"), &answer("done"), keep(SHORT)).await?;
    }
    t.pass(SHORT).await;
    Ok(())
}

/// What is gone for every caller is deleted: expired answers, ended bindings, ended tombstones.
pub(crate) async fn a_sweep_deletes_what_is_gone(t: &Trial) -> Verdict {
    let live = t.id("live")?;
    t.finish(&live, claim("payload"), &answer("live"), keep(LONG)).await?;
    let before = t.held().await;
    t.end(&t.id("failed")?, claim("payload"), Release::KeepBinding(SHORT)).await?;
    t.begin(&t.id("lapsed")?, Claim { lease: SHORT, binding: SHORT, ..claim("payload") }).await?;
    t.finish(&t.id("refused")?, claim("payload"), &answer("done"), keep_then_refuse(SHORT, SHORT)).await?;
    expired(t, 20).await?;
    t.pass(SHORT).await;
    t.sweep_all().await?;
    equal(&t.held().await, &before)?;
    t.claim(&live, &claim("payload")).await?.is_completed(&answer("live"))
}

/// Nothing is touched that is in flight, lapsed but bound, failed but bound, unknown, before its expiry, or refused.
pub(crate) async fn a_sweep_spares_what_is_live(t: &Trial) -> Verdict {
    let ids =
        ["in-flight", "lapsed", "failed", "completed", "refused", "unknown", "crashed"].map(|key| t.id(key));
    let [in_flight, lapsed, failed, completed, refused, unknown, crashed] = ids;
    let records = [
        (in_flight?, State::InFlight),
        (lapsed?, State::Lapsed),
        (failed?, State::Failed),
        (completed?, State::Completed),
        (refused?, State::Expired),
        (unknown?, State::Unknown),
        (crashed?, State::Unknown),
    ];
    let [in_flight, lapsed, failed, completed, refused, unknown, crashed] =
        records.each_ref().map(|(id, _)| id);
    t.begin(in_flight, claim("payload")).await?;
    t.begin(lapsed, Claim { lease: SHORT, ..claim("payload") }).await?;
    t.end(failed, claim("payload"), Release::KeepBinding(LONG)).await?;
    t.finish(completed, claim("payload"), &answer("done"), keep(LONG)).await?;
    t.finish(refused, claim("payload"), &answer("done"), keep_then_refuse(SHORT, LONG)).await?;
    t.end(unknown, claim("payload"), Release::Unknown).await?;
    let reject = Claim { lease: SHORT, binding: SHORT, on_crash: OnCrash::Reject, ..claim("payload") };
    t.begin(crashed, reject).await?;
    t.pass(SHORT * 4).await;
    t.sweep_all().await?;
    for (id, state) in &records {
        equal(&t.state(id).await?, &Some(*state))?;
    }
    Ok(())
}

/// A sweep deletes no more than its limit; a limit of zero deletes nothing.
pub(crate) async fn a_sweep_respects_its_limit(t: &Trial) -> Verdict {
    expired(t, 30).await?;
    let before = t.held().await;
    equal(&t.store().sweep(0).await?, &0)?;
    equal(&t.held().await, &before)?;
    let swept = t.store().sweep(7).await?;
    check(swept <= 7, "at most seven are deleted")?;
    equal(&t.held().await, &before.map(|held| held - swept))?;
    t.sweep_all().await?;
    check(t.held().await.unwrap_or(0) == 0, "nothing is left")
}

/// Any number of sweepers may run: each record is deleted, and counted, once.
pub(crate) async fn sweepers_share_the_work(t: &Trial) -> Verdict {
    expired(t, 200).await?;
    let before = t.held().await;
    let sweepers: Vec<_> = (0..4)
        .map(|_| {
            let store = t.store();
            tokio::spawn(async move {
                let mut sum = 0;
                loop {
                    match store.sweep(16).await? {
                        0 => return Ok::<_, Failure>(sum),
                        swept => sum += swept,
                    }
                }
            })
        })
        .collect();
    let mut sum = 0;
    for sweeper in sweepers {
        sum += sweeper.await??;
    }
    sum += t.sweep_all().await?;
    check(sum <= 200, "no record is counted twice")?;
    if let Some(before) = before {
        equal(&sum, &before)?;
        equal(&t.held().await, &Some(0))?;
    }
    Ok(())
}

/// Sweeping in a loop disturbs neither those who renew nor those who claim and complete.
pub(crate) async fn sweeping_beside_live_claims_touches_none(t: &Trial) -> Verdict {
    expired(t, 100).await?;
    let sweeper = {
        let store = t.store();
        tokio::spawn(async move {
            loop {
                if let Err(error) = store.sweep(3).await {
                    return Failure::from(error);
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let verdict = live_claims(t).await;
    let stopped = sweeper.is_finished();
    sweeper.abort();
    if stopped {
        return Err(sweeper.await?);
    }
    verdict
}

async fn live_claims(t: &Trial) -> Verdict {
    let mut tasks = Vec::new();
    for n in 0..8 {
        let (store, id, next) = (t.store(), t.id(&format!("renewed-{n}"))?, t.id(&format!("completed-{n}"))?);
        tasks.push(tokio::spawn(async move {
            let ours = Claim { lease: SHORT, ..claim("payload") };
            Reply(store.claim(&id, &ours).await?).is_granted(1)?;
            for _ in 0..50 {
                store.renew(&id, ours.owner, SHORT).await?.is_held()?;
                tokio::task::yield_now().await;
            }
            let theirs = claim("payload");
            Reply(store.claim(&next, &theirs).await?).is_granted(1)?;
            store.complete(&next, theirs.owner, &answer("done"), keep(LONG)).await?.is_held()?;
            store.renew(&id, ours.owner, LONG).await?.is_held()
        }));
    }
    for task in tasks {
        task.await??;
    }
    t.pass(SHORT).await;
    for n in 0..8 {
        t.claim(&t.id(&format!("renewed-{n}"))?, &claim("payload")).await?.is_in_flight()?;
        t.claim(&t.id(&format!("completed-{n}"))?, &claim("payload")).await?.is_completed(&answer("done"))?;
    }
    Ok(())
}
