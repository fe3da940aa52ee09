//! Claims: how a test makes, wins and ends them.

use std::time::Duration;

use idem_core::answer::{Answer, Codec};
use idem_core::fingerprint::{Fingerprints, Secrets, of_value};
use idem_core::key::{Key, Scope};
use idem_core::owner::Owner;
use idem_core::record::RecordId;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Store};

/// An hour.
pub const HOUR: Duration = Duration::from_hours(1);
/// A lease that does not end while a test runs.
pub const LEASE: Duration = Duration::from_secs(30);
/// An answer is replayed for a day, and then forgotten.
pub const DAY: Retention = Retention { ttl: Duration::from_hours(24), tombstone_ttl: None };

/// The record of a key.
///
/// # Panics
///
/// When there is no such key.
pub fn id(key: &str) -> RecordId {
    RecordId::new(&Scope::SHARED, &"tests".into(), &Key::new(key).expect("a key"))
}

/// The fingerprint of a payload.
///
/// # Panics
///
/// When it is too much for one.
pub fn fingerprints(payload: &str) -> Fingerprints {
    Secrets::default().seal(of_value(payload).expect("a payload"))
}

/// A claim under a new owner.
pub fn claim(payload: &str) -> Claim {
    Claim {
        owner: Owner::random(),
        fingerprints: fingerprints(payload),
        lease: LEASE,
        binding: HOUR,
        on_crash: OnCrash::Retry,
        rebind: false,
    }
}

/// An answer that says something.
///
/// # Panics
///
/// When it is too much for one.
pub fn answer(text: &str) -> Answer {
    Answer::json(Codec::JsonOk, text).expect("an answer")
}

/// Claims a record that is free, and tells at which attempt.
///
/// # Panics
///
/// When it is not free.
pub async fn granted(store: &dyn Store, id: &RecordId, claim: &Claim) -> u32 {
    match store.claim(id, claim).await {
        Ok(Claimed::Granted { attempt }) => attempt,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Runs a record from claim to answer.
///
/// # Panics
///
/// When it is not free.
pub async fn completed(store: &dyn Store, id: &RecordId, retention: Retention) {
    let claim = claim("payload");
    granted(store, id, &claim).await;
    let stored = store.complete(id, claim.owner, &answer("done"), retention).await;
    assert_eq!(stored.expect("a completion"), Fenced::Held);
}

/// Claims a record that is free, and gives it up.
///
/// # Panics
///
/// When it is not free.
pub async fn released(store: &dyn Store, id: &RecordId, how: Release) {
    let claim = claim("payload");
    granted(store, id, &claim).await;
    assert_eq!(store.release(id, claim.owner, how).await.expect("a release"), Fenced::Held);
}
