//! What a record is bound to, and in which order things are decided.

use crate::conformance::check::{Expect as _, Verdict};
use crate::conformance::trial::{LONG, SHORT, Trial, answer, claim, fingerprint, keep, keep_then_refuse};
use crate::fingerprint::Fingerprints;
use crate::record::RecordId;
use crate::store::{Claim, OnCrash, Release};

/// Another payload is a mismatch, whoever brings it and however often, and the right one is not disturbed.
async fn others_mismatch(t: &Trial, id: &RecordId, ours: &Claim) -> Verdict {
    t.claim(id, &claim("other")).await?.is_mismatch()?;
    t.claim(id, &Claim { fingerprints: claim("other").fingerprints, ..ours.clone() }).await?.is_mismatch()?;
    t.claim(id, &claim("payloae")).await?.is_mismatch()
}

/// Another payload is a mismatch while the work runs, not "in flight".
pub(crate) async fn another_payload_is_a_mismatch_while_in_flight(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, claim("payload")).await?;
    others_mismatch(t, &id, &ours).await?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()
}

/// Another payload is a mismatch after the lease has lapsed.
pub(crate) async fn another_payload_is_a_mismatch_after_the_lapse(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.lapse(&id, claim("payload")).await?;
    others_mismatch(t, &id, &ours).await?;
    t.claim(&id, &claim("payload")).await?.is_granted(2)
}

/// Another payload is a mismatch after the work failed.
pub(crate) async fn another_payload_is_a_mismatch_after_a_failure(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    others_mismatch(t, &id, &ours).await?;
    t.claim(&id, &claim("payload")).await?.is_granted(2)
}

/// Another payload is a mismatch after the work is done: the answer is not replayed to it.
pub(crate) async fn another_payload_is_a_mismatch_after_completion(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.finish(&id, claim("payload"), &answer("done"), keep(LONG)).await?;
    others_mismatch(t, &id, &ours).await?;
    t.claim(&id, &claim("payload")).await?.is_completed(&answer("done"))
}

/// Another payload is a mismatch while the outcome is unknown, released so or lapsed.
pub(crate) async fn another_payload_is_a_mismatch_while_unknown(t: &Trial) -> Verdict {
    let released = t.id("released")?;
    let ours = t.end(&released, claim("payload"), Release::Unknown).await?;
    others_mismatch(t, &released, &ours).await?;
    let lapsed = t.id("lapsed")?;
    let ours = t.lapse(&lapsed, Claim { on_crash: OnCrash::Reject, ..claim("payload") }).await?;
    others_mismatch(t, &lapsed, &ours).await?;
    t.claim(&lapsed, &claim("payload")).await?.is_unknown()
}

/// Expiry is decided before the fingerprint: an expired key takes any payload, and is bound to that one.
pub(crate) async fn expiry_is_decided_before_the_fingerprint(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.finish(&id, claim("payload"), &answer("done"), keep(SHORT)).await?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("other")).await?.is_granted(1)?;
    t.claim(&id, &claim("payload")).await?.is_mismatch()?;
    t.claim(&id, &claim("other")).await?.is_in_flight()
}

/// A key that is refused after its expiry is refused whatever the payload and its version.
pub(crate) async fn a_refused_key_is_refused_whatever_the_payload(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.finish(&id, claim("payload"), &answer("done"), keep_then_refuse(SHORT, LONG)).await?;
    t.pass(SHORT).await;
    t.claim(&id, &claim("payload")).await?.is_expired()?;
    t.claim(&id, &claim("other")).await?.is_expired()?;
    t.claim(&id, &of(Fingerprints::new(fingerprint(9, 9, "payload")))).await?.is_expired()
}

fn of(fingerprints: Fingerprints) -> Claim {
    Claim { fingerprints, ..claim("payload") }
}

/// A fingerprint of a version or a secret that the record does not know is incomparable, never a mismatch, in flight
/// and completed alike.
pub(crate) async fn the_version_is_decided_before_the_fingerprint(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    let ours = t.begin(&id, of(Fingerprints::new(fingerprint(1, 7, "payload")))).await?;
    for (version, secret) in [(2, 7), (1, 8), (1, 0)] {
        for payload in ["payload", "other"] {
            let foreign = of(Fingerprints::new(fingerprint(version, secret, payload)));
            t.claim(&id, &foreign).await?.is_incomparable()?;
        }
    }
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &of(Fingerprints::new(fingerprint(2, 7, "payload")))).await?.is_incomparable()?;
    t.claim(&id, &of(Fingerprints::new(fingerprint(1, 8, "other")))).await?.is_incomparable()?;
    t.claim(&id, &of(Fingerprints::new(fingerprint(1, 7, "payload")))).await?.is_completed(&answer("done"))
}

/// A record written in an older version, or under an older secret, is recognised by a claim that still brings it.
pub(crate) async fn older_versions_and_secrets_are_recognised(t: &Trial) -> Verdict {
    for (key, version, secret) in [("version", 1, 4), ("secret", 2, 3)] {
        let id = t.id(key)?;
        let ours = t.begin(&id, of(Fingerprints::new(fingerprint(version, secret, "payload")))).await?;
        let both = |payload| {
            let current = Fingerprints::new(fingerprint(2, 4, payload));
            of(current.with(fingerprint(9, 9, payload)).with(fingerprint(version, secret, payload)))
        };
        t.claim(&id, &both("payload")).await?.is_in_flight()?;
        t.claim(&id, &both("other")).await?.is_mismatch()?;
        t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
        t.claim(&id, &both("payload")).await?.is_completed(&answer("done"))?;
        t.claim(&id, &both("other")).await?.is_mismatch()?;
    }
    Ok(())
}

/// A record is bound to the first of the fingerprints that its claim brought.
pub(crate) async fn a_record_is_bound_to_the_current_fingerprint(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.begin(&id, of(Fingerprints::new(fingerprint(2, 4, "payload")).with(fingerprint(1, 3, "payload"))))
        .await?;
    t.claim(&id, &of(Fingerprints::new(fingerprint(2, 4, "payload")))).await?.is_in_flight()?;
    t.claim(&id, &of(Fingerprints::new(fingerprint(1, 3, "payload")))).await?.is_incomparable()
}

/// No fingerprint, on either side, is equal to any.
pub(crate) async fn no_fingerprint_equals_any(t: &Trial) -> Verdict {
    let id = t.id("without")?;
    let ours = t.begin(&id, of(Fingerprints::none())).await?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &claim("other")).await?.is_completed(&answer("done"))?;
    let id = t.id("with")?;
    let ours = t.begin(&id, claim("payload")).await?;
    t.claim(&id, &of(Fingerprints::none())).await?.is_in_flight()?;
    t.complete(&id, &ours, &answer("done"), keep(LONG)).await?.is_held()?;
    t.claim(&id, &of(Fingerprints::none())).await?.is_completed(&answer("done"))
}

/// A take-over without a fingerprint does not free the record from its payload.
pub(crate) async fn a_take_over_keeps_the_binding(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.lapse(&id, claim("payload")).await?;
    t.claim(&id, &of(Fingerprints::none())).await?.is_granted(2)?;
    t.claim(&id, &claim("other")).await?.is_mismatch()?;
    t.claim(&id, &claim("payload")).await?.is_in_flight()
}

/// With `rebind`, a failed record is granted for another payload, and bound to it.
pub(crate) async fn rebinding_frees_a_failed_record(t: &Trial) -> Verdict {
    let id = t.id("key")?;
    t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    t.claim(&id, &Claim { rebind: true, ..claim("other") }).await?.is_granted(2)?;
    t.claim(&id, &claim("payload")).await?.is_mismatch()?;
    t.claim(&id, &claim("other")).await?.is_in_flight()?;
    let id = t.id("incomparable")?;
    t.end(&id, claim("payload"), Release::KeepBinding(LONG)).await?;
    let foreign = of(Fingerprints::new(fingerprint(9, 9, "other")));
    t.claim(&id, &foreign).await?.is_incomparable()?;
    t.claim(&id, &Claim { rebind: true, ..foreign }).await?.is_granted(2)
}

/// `rebind` frees no other record: what runs, lapsed, is done or is unknown stays bound.
pub(crate) async fn rebinding_frees_nothing_else(t: &Trial) -> Verdict {
    let rebinds = Claim { rebind: true, ..claim("other") };
    let in_flight = t.id("in-flight")?;
    t.begin(&in_flight, claim("payload")).await?;
    t.claim(&in_flight, &rebinds).await?.is_mismatch()?;
    let lapsed = t.id("lapsed")?;
    t.lapse(&lapsed, claim("payload")).await?;
    t.claim(&lapsed, &rebinds).await?.is_mismatch()?;
    let completed = t.id("completed")?;
    t.finish(&completed, claim("payload"), &answer("done"), keep(LONG)).await?;
    t.claim(&completed, &rebinds).await?.is_mismatch()?;
    let unknown = t.id("unknown")?;
    t.end(&unknown, claim("payload"), Release::Unknown).await?;
    t.claim(&unknown, &rebinds).await?.is_mismatch()
}
