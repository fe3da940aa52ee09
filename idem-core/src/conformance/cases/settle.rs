//! What an operator can do.

use crate::conformance::check::{Expect as _, Verdict, check, equal};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, keep, keep_then_refuse};
use crate::record::State;
use crate::store::{Claim, OnCrash, Release, Settled};

/// An unknown outcome is given an answer: it is replayed, and the late holder changes nothing.
pub(crate) async fn an_unknown_outcome_can_be_given_an_answer(t: &Trial) -> Verdict {
    let released = t.id("released")?;
    let first = t.end(&released, claim("payload"), Release::Unknown).await?;
    let lapsed = t.id("lapsed")?;
    let second = t.lapse(&lapsed, Claim { on_crash: OnCrash::Reject, ..claim("payload") }).await?;
    for (id, late) in [(released, first), (lapsed, second)] {
        equal(&t.settle(&id, &answer("settled"), keep(LONG)).await?, &Settled::Done)?;
        t.claim(&id, &claim("payload")).await?.is_completed(&answer("settled"))?;
        t.is_fenced(&id, &late).await?;
    }
    Ok(())
}

/// Work that failed or lapsed is given an answer, and its late holder changes nothing.
pub(crate) async fn a_failed_or_lapsed_record_can_be_given_an_answer(t: &Trial) -> Verdict {
    let failed = t.id("failed")?;
    let first = t.end(&failed, claim("payload"), Release::KeepBinding(LONG)).await?;
    let lapsed = t.id("lapsed")?;
    let second = t.lapse(&lapsed, claim("payload")).await?;
    for (id, late) in [(failed, first), (lapsed, second)] {
        equal(&t.settle(&id, &answer("settled"), keep(LONG)).await?, &Settled::Done)?;
        t.claim(&id, &claim("payload")).await?.is_completed(&answer("settled"))?;
        t.is_fenced(&id, &late).await?;
    }
    Ok(())
}

/// What runs, and what is done, is not given another answer.
pub(crate) async fn a_record_in_flight_or_completed_is_not_given_an_answer(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    equal(&t.settle(&id, &answer("settled"), keep(LONG)).await?, &Settled::Refused)?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("ours"), keep(LONG)).await?.is_held()?;
    equal(&t.settle(&id, &answer("settled"), keep(LONG)).await?, &Settled::Refused)?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("ours"))
}

/// A key that is refused after its expiry is not given an answer either.
pub(crate) async fn an_expired_record_is_not_given_an_answer(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.finish(&id, claim("payload"), &answer("done"), keep_then_refuse(SHORT, LONG)).await?;
    t.pass(SHORT).await;
    let settled = t.settle(&id, &answer("settled"), keep(LONG)).await?;
    check(settled != Settled::Done, "it is not settled")?;
    t.claim(&id, &claim("payload")).await?.is_expired()
}

/// There is nothing to settle where there is no record, or none any more.
pub(crate) async fn an_absent_record_is_not_settled(t: &Trial) -> Verdict {
    let absent = t.id("absent")?;
    let completed = t.id("completed")?;
    t.finish(&completed, claim("payload"), &answer("done"), keep(SHORT)).await?;
    let failed = t.id("failed")?;
    t.end(&failed, claim("payload"), Release::KeepBinding(SHORT)).await?;
    t.pass(SHORT).await;
    for id in [absent, completed, failed] {
        equal(&t.settle(&id, &answer("settled"), keep(LONG)).await?, &Settled::Absent)?;
        equal(&t.forget(&id).await?, &Settled::Absent)?;
        t.claim(&id, &claim("other")).await?.is_granted(1)?;
    }
    Ok(())
}

/// The answer that an operator gave is bound to the record's payload and expires as any other.
pub(crate) async fn a_settled_answer_is_bound_and_expires(t: &Trial) -> Verdict {
    let bound = t.id("bound")?;
    t.end(&bound, claim("payload"), Release::Unknown).await?;
    equal(&t.settle(&bound, &answer("settled"), keep(LONG)).await?, &Settled::Done)?;
    t.claim(&bound, &claim("other")).await?.is_mismatch()?;
    let short = t.id("short")?;
    t.end(&short, claim("payload"), Release::Unknown).await?;
    equal(&t.settle(&short, &answer("settled"), keep(SHORT)).await?, &Settled::Done)?;
    let refused = t.id("refused")?;
    t.end(&refused, claim("payload"), Release::Unknown).await?;
    equal(&t.settle(&refused, &answer("settled"), keep_then_refuse(SHORT, LONG)).await?, &Settled::Done)?;
    t.pass(SHORT).await;
    t.claim(&short, &claim("payload")).await?.is_granted(1)?;
    t.claim(&refused, &claim("payload")).await?.is_expired()
}

/// Any record can be forgotten; its key then runs as new.
pub(crate) async fn any_record_can_be_forgotten(t: &Trial) -> Verdict {
    let in_flight = t.id("in-flight")?;
    t.begin(&in_flight, claim("payload")).await?;
    let failed = t.id("failed")?;
    t.end(&failed, claim("payload"), Release::KeepBinding(LONG)).await?;
    let completed = t.id("completed")?;
    t.finish(&completed, claim("payload"), &answer("done"), keep(LONG)).await?;
    let unknown = t.id("unknown")?;
    t.end(&unknown, claim("payload"), Release::Unknown).await?;
    let refused = t.id("refused")?;
    t.finish(&refused, claim("payload"), &answer("done"), keep_then_refuse(SHORT, LONG)).await?;
    let crashed = t.id("crashed")?;
    t.begin(&crashed, Claim { lease: SHORT, on_crash: OnCrash::Reject, ..claim("payload") }).await?;
    let lapsed = t.id("lapsed")?;
    t.lapse(&lapsed, claim("payload")).await?;
    for id in [in_flight, failed, completed, unknown, refused, crashed, lapsed] {
        equal(&t.forget(&id).await?, &Settled::Done)?;
        check(t.look_up(&id).await?.is_none(), "the record is absent")?;
        t.claim(&id, &claim("other")).await?.is_granted(1)?;
    }
    Ok(())
}

/// Forgetting a record in flight fences its holder, before and after somebody else claims it.
pub(crate) async fn forgetting_fences_the_holder(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let holder = t.begin(&id, claim("payload")).await?;
    equal(&t.forget(&id).await?, &Settled::Done)?;
    t.is_fenced(&id, &holder).await?;
    check(t.state(&id).await?.is_none(), "the record is absent")?;
    t.begin(&id, claim("payload")).await?;
    t.is_fenced(&id, &holder).await?;
    check(t.state(&id).await? == Some(State::InFlight), "the next holder is not disturbed")
}
