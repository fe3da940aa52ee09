//! What an operator sees.

use std::time::Duration;

use crate::conformance::check::{Expect as _, Verdict, check, equal};
use crate::conformance::trial::{
    LONG, OPERATION, SHORT, SLACK, Trial, answer, claim, fingerprint, keep, keep_then_refuse, shape,
};
use crate::record::{Record, RecordId, State};
use crate::store::{Claim, OnCrash, Release};

fn is(record: &Record, id: &RecordId, state: State, attempt: u32) -> Verdict {
    equal(&record.state, &state)?;
    equal(&record.attempt, &attempt)?;
    equal(&record.operation.as_str(), &OPERATION.as_str())?;
    equal(&record.hint.as_str(), &id.hint().as_str())?;
    equal(&record.fingerprint.to_bytes(), &fingerprint(1, 0, "payload").to_bytes())?;
    check(
        record.lease_left.is_some() == (state == State::InFlight),
        "a lease is told exactly while it lasts",
    )?;
    check(
        record.expires_in.is_none() == (state == State::Unknown),
        "an expiry is told unless it is unknown",
    )?;
    check(
        record.answer.is_some() == (state == State::Completed),
        "an answer is told exactly if it is completed",
    )
}

/// A record that nobody claimed, or that was forgotten, is not found.
pub(crate) async fn an_absent_record_is_not_found(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    check(t.look_up(&id).await?.is_none(), "it is not found")?;
    t.end(&id, claim("payload"), Release::Undo(LONG)).await?;
    check(t.look_up(&id).await?.is_none(), "it is not found")
}

/// Each state is told as what it is, with what belongs to it and nothing else.
pub(crate) async fn every_state_is_told_as_what_it_is(t: &Trial) -> Verdict {
    let in_flight = t.id("key-in-flight")?;
    t.begin(&in_flight, claim("payload")).await?;
    let record = t.find(&in_flight).await?;
    is(&record, &in_flight, State::InFlight, 1)?;
    check(record.lease_left.is_some_and(|left| left <= LONG), "the lease is as long as was asked for")?;
    check(
        record.expires_in.is_some_and(|left| left > LONG && left <= LONG * 2),
        "it outlives the lease by the binding",
    )?;

    let failed = t.id("key-failed")?;
    t.end(&failed, claim("payload"), Release::KeepBinding(LONG)).await?;
    is(&t.find(&failed).await?, &failed, State::Failed, 1)?;

    let completed = t.id("key-completed")?;
    t.finish(&completed, claim("payload"), &answer("done"), keep(LONG)).await?;
    let record = t.find(&completed).await?;
    is(&record, &completed, State::Completed, 1)?;
    equal(&record.answer, &Some(answer("done")))?;

    let unknown = t.id("key-unknown")?;
    t.end(&unknown, claim("payload"), Release::Unknown).await?;
    is(&t.find(&unknown).await?, &unknown, State::Unknown, 1)?;

    let expired = t.id("key-expired")?;
    t.finish(&expired, claim("payload"), &answer("done"), keep_then_refuse(SHORT, LONG)).await?;
    let crashed = t.id("key-crashed")?;
    t.begin(&crashed, Claim { lease: SHORT, on_crash: OnCrash::Reject, ..claim("payload") }).await?;
    let lapsed = t.id("key-lapsed")?;
    t.lapse(&lapsed, claim("payload")).await?;
    is(&t.find(&expired).await?, &expired, State::Expired, 1)?;
    is(&t.find(&crashed).await?, &crashed, State::Unknown, 1)?;
    is(&t.find(&lapsed).await?, &lapsed, State::Lapsed, 1)?;
    t.claim(&lapsed, &claim("payload")).await?.is_granted(2)?;
    is(&t.find(&lapsed).await?, &lapsed, State::InFlight, 2)
}

/// The age counts from the first attempt, and begins anew with a new record.
pub(crate) async fn the_age_counts_from_the_first_attempt(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    let second = claim("payload");
    t.claim(&id, &second).await?.is_granted(2)?;
    t.pass(SHORT).await;
    check(t.find(&id).await?.age + SLACK >= SHORT + SHORT, "all that passed since the first attempt counts")?;
    t.forget(&id).await?;
    let before = std::time::Instant::now();
    t.begin(&id, claim("payload")).await?;
    check(t.find(&id).await?.age <= before.elapsed() + SLACK, "a new record is new")
}

/// Looking changes nothing: neither the record nor the time that it has left.
pub(crate) async fn a_look_up_changes_nothing(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    let first = t.find(&id).await?;
    t.pass(SHORT * 4).await;
    let second = t.find(&id).await?;
    let shorter = |then: Option<Duration>, now: Option<Duration>| matches!((then, now), (Some(then), Some(now)) if now + SHORT * 4 <= then + SLACK);
    check(shorter(first.lease_left, second.lease_left), "the time that has passed of the lease is gone")?;
    check(shorter(first.expires_in, second.expires_in), "the time that has passed of the record is gone")?;
    equal(&shape(Some(second)), &shape(Some(first)))?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()
}
