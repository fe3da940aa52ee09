//! Trials: one store under test, and the words in which cases speak of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Subject;
use super::check::{Expect as _, Failure, Reply, Verdict, equal};
use crate::answer::{Answer, AnswerKind, Codec};
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::key::{Key, Scope};
use crate::operation::Operation;
use crate::owner::Owner;
use crate::record::{Record, RecordId, State};
use crate::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Settle, Settled, Store, StoreError};

/// A span that ends within a case: the case waits for it.
pub(super) const SHORT: Duration = Duration::from_millis(100);
/// A span that does not end within a case, however slow the machine is.
pub(super) const LONG: Duration = Duration::from_hours(6);
/// What clocks of two machines and rounding to milliseconds may differ by.
pub(super) const SLACK: Duration = Duration::from_millis(50);
/// How long a case waits for what has to come soon.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// One store under test.
pub(crate) struct Trial {
    store: Arc<dyn Store>,
    subject: Box<dyn Erased>,
    scope: Scope,
}

#[async_trait]
trait Erased: Send + Sync {
    async fn pass(&self, span: Duration);
    async fn held(&self) -> Option<u64>;
}

struct Pair<S: Subject> {
    subject: S,
    store: Arc<S::Store>,
}

#[async_trait]
impl<S: Subject> Erased for Pair<S> {
    async fn pass(&self, span: Duration) {
        self.subject.pass(span).await;
    }

    async fn held(&self) -> Option<u64> {
        self.subject.held(&self.store).await
    }
}

pub(super) const OPERATION: Operation = Operation::from_static("conformance");

impl Trial {
    pub(super) async fn new<S: Subject>(subject: S) -> Self {
        let store = Arc::new(subject.fresh().await);
        // A scope of its own, so that a store which is never emptied does for many cases.
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            subject: Box::new(Pair { subject, store }),
            scope: Scope::new(Owner::random().as_bytes()).unwrap_or(Scope::SHARED),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    pub(super) fn id(&self, key: &str) -> Result<RecordId, Failure> {
        self.id_of(&OPERATION, key)
    }

    pub(super) fn id_of(&self, operation: &Operation, key: &str) -> Result<RecordId, Failure> {
        let key = Key::new(key).map_err(|error| Failure::new(error.to_string()))?;
        Ok(RecordId::new(&self.scope, operation, &key))
    }

    pub(super) async fn pass(&self, span: Duration) {
        self.subject.pass(span).await;
    }

    pub(super) async fn held(&self) -> Option<u64> {
        self.subject.held().await
    }

    pub(super) async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Reply, StoreError> {
        self.store.claim(id, claim).await.map(Reply)
    }

    /// Claims a record for the first time.
    pub(super) async fn begin(&self, id: &RecordId, claim: Claim) -> Result<Claim, Failure> {
        self.claim(id, &claim).await?.is_granted(1)?;
        Ok(claim)
    }

    /// Claims a record for a short lease, and waits until it has lapsed.
    pub(super) async fn lapse(&self, id: &RecordId, claim: Claim) -> Result<Claim, Failure> {
        let claim = self.begin(id, Claim { lease: SHORT, ..claim }).await?;
        self.pass(SHORT).await;
        Ok(claim)
    }

    /// Claims a record and releases it.
    pub(super) async fn end(&self, id: &RecordId, claim: Claim, how: Release) -> Result<Claim, Failure> {
        let claim = self.begin(id, claim).await?;
        self.release(id, &claim, how).await?.is_held()?;
        Ok(claim)
    }

    /// Claims a record and completes it.
    pub(super) async fn finish(
        &self,
        id: &RecordId,
        claim: Claim,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Claim, Failure> {
        let claim = self.begin(id, claim).await?;
        self.complete(id, &claim, answer, retention).await?.is_held()?;
        Ok(claim)
    }

    pub(super) async fn complete(
        &self,
        id: &RecordId,
        claim: &Claim,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        self.store.complete(id, claim.owner, answer, retention).await
    }

    pub(super) async fn release(
        &self,
        id: &RecordId,
        claim: &Claim,
        how: Release,
    ) -> Result<Fenced, StoreError> {
        self.store.release(id, claim.owner, how).await
    }

    pub(super) async fn renew(
        &self,
        id: &RecordId,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Fenced, StoreError> {
        self.store.renew(id, claim.owner, lease).await
    }

    pub(super) async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.store.look_up(id).await
    }

    /// Looks up a record that is there.
    pub(super) async fn find(&self, id: &RecordId) -> Result<Record, Failure> {
        self.look_up(id).await?.ok_or_else(|| Failure::new("expected a record, found none"))
    }

    pub(super) async fn state(&self, id: &RecordId) -> Result<Option<State>, StoreError> {
        Ok(self.look_up(id).await?.map(|record| record.state))
    }

    pub(super) async fn settle(
        &self,
        id: &RecordId,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Settled, StoreError> {
        self.store.settle(id, &Settle::Complete { answer: answer.clone(), retention }).await
    }

    pub(super) async fn forget(&self, id: &RecordId) -> Result<Settled, StoreError> {
        self.store.settle(id, &Settle::Forget).await
    }

    /// Sweeps until there is nothing left to sweep; tells how much it was.
    pub(super) async fn sweep_all(&self) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            match self.store.sweep(1_000).await? {
                0 => return Ok(swept),
                more => swept += more,
            }
        }
    }

    /// Everything that an owner could do under a claim is refused and changes nothing.
    pub(super) async fn is_fenced(&self, id: &RecordId, claim: &Claim) -> Verdict {
        let before = shape(self.look_up(id).await?);
        self.renew(id, claim, LONG * 2).await?.is_lost()?;
        equal(&shape(self.look_up(id).await?), &before)?;
        self.complete(id, claim, &answer("stale"), keep(LONG)).await?.is_lost()?;
        equal(&shape(self.look_up(id).await?), &before)?;
        for how in [Release::KeepBinding(LONG), Release::Unknown, Release::Undo(LONG)] {
            self.release(id, claim, how).await?.is_lost()?;
            equal(&shape(self.look_up(id).await?), &before)?;
        }
        Ok(())
    }

    /// Makes these claims at once, each in a task of its own; the replies come in the order of the claims.
    pub(super) async fn race(&self, claims: Vec<(RecordId, Claim)>) -> Result<Vec<Claimed>, Failure> {
        let barrier = Arc::new(tokio::sync::Barrier::new(claims.len()));
        let racers: Vec<_> = claims
            .into_iter()
            .map(|(id, claim)| {
                let (store, barrier) = (self.store(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    store.claim(&id, &claim).await
                })
            })
            .collect();
        let mut replies = Vec::with_capacity(racers.len());
        for racer in racers {
            replies.push(racer.await??);
        }
        Ok(replies)
    }
}

/// What of a record does not change with time alone.
type Shape = (State, u32, [u8; Fingerprint::ENCODED_LEN], Option<Answer>);

pub(super) fn shape(record: Option<Record>) -> Option<Shape> {
    record.map(|record| (record.state, record.attempt, record.fingerprint.to_bytes(), record.answer))
}

/// A claim of a new owner for a payload, with spans that do not end.
pub(super) fn claim(payload: &str) -> Claim {
    Claim {
        owner: Owner::random(),
        fingerprints: Fingerprints::new(fingerprint(1, 0, payload)),
        lease: LONG,
        binding: LONG,
        on_crash: OnCrash::Retry,
        rebind: false,
    }
}

/// The fingerprint of a payload under a version and a secret.
pub(super) fn fingerprint(version: u8, secret: u32, payload: &str) -> Fingerprint {
    let mut bytes = [0; Fingerprint::ENCODED_LEN];
    bytes[0] = version;
    bytes[1..5].copy_from_slice(&secret.to_be_bytes());
    for (to, from) in bytes[5..].iter_mut().zip(payload.bytes().cycle()) {
        *to = from;
    }
    Fingerprint::from_bytes(&bytes).unwrap_or(Fingerprint::NONE)
}

pub(super) fn answer(text: &str) -> Answer {
    Answer::build(AnswerKind::Full, Codec::JsonOk, text.len(), |payload| {
        payload.extend_from_slice(text.as_bytes());
    })
}

pub(super) fn keep(ttl: Duration) -> Retention {
    Retention { ttl, tombstone_ttl: None }
}

pub(super) fn keep_then_refuse(ttl: Duration, refuse: Duration) -> Retention {
    Retention { ttl, tombstone_ttl: Some(refuse) }
}

/// Waits for what has to come soon.
pub(super) async fn soon(what: impl Future<Output = ()>) -> Verdict {
    match tokio::time::timeout(PATIENCE, what).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Failure::new(format!("expected an end within {PATIENCE:?}"))),
    }
}
