//! What the tests of stores share.
#![allow(dead_code)]

pub(crate) mod process;

use std::time::Duration;

use idem_core::answer::{Answer, Codec};
use idem_core::fingerprint::{Fingerprints, Secrets, of_value};
use idem_core::key::{Key, Scope};
use idem_core::owner::Owner;
use idem_core::record::RecordId;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Store};

pub(crate) const HOUR: Duration = Duration::from_hours(1);
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const DAY: Retention = Retention { ttl: Duration::from_hours(24), tombstone_ttl: None };

pub(crate) fn id(key: &str) -> RecordId {
    RecordId::new(&Scope::SHARED, &"tests".into(), &Key::new(key).unwrap())
}

pub(crate) fn fingerprints(payload: &str) -> Fingerprints {
    Secrets::default().seal(of_value(payload).unwrap())
}

pub(crate) fn claim(payload: &str) -> Claim {
    Claim {
        owner: Owner::random(),
        fingerprints: fingerprints(payload),
        lease: LEASE,
        binding: HOUR,
        on_crash: OnCrash::Retry,
        rebind: false,
    }
}

pub(crate) fn answer(text: &str) -> Answer {
    Answer::json(Codec::JsonOk, text).unwrap()
}

/// Claims a record that is free, and tells by whom and at which attempt.
pub(crate) async fn granted(store: &dyn Store, id: &RecordId, claim: &Claim) -> u32 {
    match store.claim(id, claim).await {
        Ok(Claimed::Granted { attempt }) => attempt,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Runs a record from claim to answer.
pub(crate) async fn completed(store: &dyn Store, id: &RecordId, retention: Retention) {
    let claim = claim("payload");
    granted(store, id, &claim).await;
    assert_eq!(store.complete(id, claim.owner, &answer("done"), retention).await.unwrap(), Fenced::Held);
}

pub(crate) async fn released(store: &dyn Store, id: &RecordId, how: Release) {
    let claim = claim("payload");
    granted(store, id, &claim).await;
    assert_eq!(store.release(id, claim.owner, how).await.unwrap(), Fenced::Held);
}
