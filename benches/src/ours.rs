//! Calls as the engine makes them of a store: claim and complete, or a claim that is a replay.

use std::sync::Arc;
use std::time::Duration;

use idem::core::answer::{Answer, Codec};
use idem::core::fingerprint::{Fingerprints, Secrets, of_raw};
use idem::core::owner::Owner;
use idem::core::record::RecordId;
use idem::core::store::{Claim, Claimed, Fenced, Retention, Store};
use idem::{Key, OnCrash, Scope};

use crate::contest::{Contender, id};

const DAY: Retention = Retention { ttl: Duration::from_hours(24), tombstone_ttl: None };

/// How many answers there are to replay.
pub(crate) const KEPT: u64 = 2_000;

struct Ours {
    store: Arc<dyn Store>,
    fingerprints: Fingerprints,
    answer: Answer,
}

impl Ours {
    fn id(kind: &str, n: u64) -> RecordId {
        let key = Key::new(&format!("{kind}-{n}")).expect("a key");
        RecordId::new(&Scope::SHARED, &"charges.create".into(), &key)
    }

    async fn claim(&self, id: &RecordId, owner: Owner) -> Claimed {
        let claim = Claim {
            owner,
            fingerprints: self.fingerprints.clone(),
            lease: Duration::from_secs(30),
            binding: DAY.ttl,
            on_crash: OnCrash::Retry,
            rebind: false,
        };
        self.store.claim(id, &claim).await.expect("a claim")
    }

    async fn fresh(&self, id: &RecordId) {
        let owner = Owner::random();
        let claimed = self.claim(id, owner).await;
        assert!(matches!(claimed, Claimed::Granted { attempt: 1 }), "{claimed:?}");
        let stored = self.store.complete(id, owner, &self.answer, DAY).await.expect("a completion");
        assert_eq!(stored, Fenced::Held);
    }

    async fn replay(&self, n: u64) {
        let claimed = self.claim(&Self::id("kept", n % KEPT), Owner::random()).await;
        let Claimed::Completed { answer, .. } = claimed else { panic!("{claimed:?}") };
        assert_eq!(answer, self.answer);
    }
}

/// A store's fresh calls, replays, and both in turn, with answers of `len` bytes.
pub(crate) async fn contenders(
    name: &str,
    store: impl Store,
    len: usize,
) -> (Contender, Contender, Contender) {
    let ours = Arc::new(Ours {
        store: Arc::new(store),
        fingerprints: Secrets::default().seal(of_raw(b"a payload")),
        answer: Answer::json(Codec::JsonOk, &"x".repeat(len)).expect("an answer"),
    });
    for n in 0..KEPT {
        ours.fresh(&Ours::id("kept", n)).await;
    }
    let (fresh, replay, mixed) = (Arc::clone(&ours), Arc::clone(&ours), ours);
    (
        Contender::new(name, move |n| {
            let ours = Arc::clone(&fresh);
            async move { ours.fresh(&Ours::id("fresh", n)).await }
        }),
        Contender::new(name, move |n| {
            let ours = Arc::clone(&replay);
            async move { ours.replay(n).await }
        }),
        Contender::new(name, move |n| {
            let ours = Arc::clone(&mixed);
            async move {
                // Neither always in turn nor alike for all callers.
                if id(0, n)[0] < 128 {
                    ours.replay(n).await;
                } else {
                    ours.fresh(&Ours::id("mixed", n)).await;
                }
            }
        }),
    )
}
