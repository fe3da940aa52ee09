//! Waiting for a change.

use std::time::Duration;

use crate::conformance::check::{Expect as _, Verdict};
use crate::conformance::trial::{LONG, Trial, answer, claim, keep, soon};
use crate::store::{Release, Settle};

/// A waiter returns soon after the record is completed, released or forgotten, however long it would have waited.
pub(crate) async fn a_waiter_returns_when_the_record_changes(t: &Trial) -> Verdict {
    let (completed, failed, forgotten, settled) =
        (t.id("completed")?, t.id("failed")?, t.id("forgotten")?, t.id("settled")?);
    let first = t.begin(&completed, claim("payload")).await?;
    let second = t.begin(&failed, claim("payload")).await?;
    let third = t.begin(&forgotten, claim("payload")).await?;
    t.begin(&settled, claim("payload")).await?;
    let waiters: Vec<_> = [&completed, &failed, &forgotten, &settled]
        .into_iter()
        .cycle()
        .take(16)
        .map(|id| {
            let (store, id) = (t.store(), id.clone());
            tokio::spawn(async move { store.changed(&id, LONG).await })
        })
        .collect();
    // Most of them wait by then; the promise holds for those that do not as well.
    tokio::time::sleep(Duration::from_millis(20)).await;
    t.complete(&completed, &first, &answer("done"), keep(LONG)).await?.is_held()?;
    t.release(&failed, &second, Release::KeepBinding(LONG)).await?.is_held()?;
    t.release(&forgotten, &third, Release::Undo(LONG)).await?.is_held()?;
    t.store().settle(&settled, &Settle::Forget).await?;
    for waiter in waiters {
        soon(async {
            // A waiter that panicked returned, too, but not well; the next line of this case finds that out.
            let _ = waiter.await;
        })
        .await?;
    }
    t.claim(&completed, &claim("payload")).await?.is_completed(&answer("done"))
}

/// A waiter returns at its limit, although nothing has changed, and holds up nobody meanwhile.
pub(crate) async fn a_waiter_returns_at_its_limit(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    for at_most in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(50)] {
        soon(t.store().changed(&id, at_most)).await?;
    }
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()
}

/// Who waits for a record that is not in flight does not wait long: a change just before the wait is not missed.
pub(crate) async fn a_change_before_the_wait_is_not_missed(t: &Trial) -> Verdict {
    let absent = t.id("absent")?;
    let completed = t.id("completed")?;
    t.finish(&completed, claim("payload"), &answer("done"), keep(LONG)).await?;
    let failed = t.id("failed")?;
    t.end(&failed, claim("payload"), Release::KeepBinding(LONG)).await?;
    let unknown = t.id("unknown")?;
    t.end(&unknown, claim("payload"), Release::Unknown).await?;
    for id in [absent, completed, failed, unknown] {
        soon(t.store().changed(&id, LONG)).await?;
    }
    Ok(())
}
