//! A memory store with one fault, as others' stores have had them.

mod claims;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::clock::{Clock as _, ManualClock};
use idem_core::fingerprint::Fingerprints;
use idem_core::memory::MemoryStore;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId, State};
use idem_core::store::{
    Claim, Claimed, Fenced, OnCrash, Release, Retention, Settle, Settled, Store, StoreError,
};

use crate::faults::Fault;

const HOUR: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub(crate) struct Faulty {
    inner: MemoryStore,
    fault: Fault,
    clock: ManualClock,
    known: Mutex<HashMap<[u8; 32], Known>>,
    folded: Mutex<HashMap<String, RecordId>>,
}

/// What the faulty store remembers of a record, although it should not need to.
#[derive(Debug, Clone)]
struct Known {
    id: RecordId,
    /// The last claim that was granted, and when.
    claim: Claim,
    granted_at: Duration,
    attempt: u32,
    /// Everybody who was ever granted the record, with the attempt.
    owners: HashMap<Owner, u32>,
    completed: Option<(Owner, Answer, Retention)>,
    /// Who released it.
    released: Option<Owner>,
    record: Option<Record>,
}

impl Faulty {
    pub(crate) fn new(fault: Fault, clock: ManualClock) -> Self {
        let inner = MemoryStore::builder().clock(clock.clone()).build();
        Self { inner, fault, clock, known: Mutex::default(), folded: Mutex::default() }
    }

    pub(crate) fn held(&self) -> u64 {
        self.inner.len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, id: &RecordId) -> Option<Known> {
        self.lock().get(id.digest()).cloned()
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    async fn state(&self, id: &RecordId) -> Result<Option<State>, StoreError> {
        Ok(self.inner.look_up(id).await?.map(|record| record.state))
    }

    async fn forget(&self, id: &RecordId) -> Result<(), StoreError> {
        self.inner.settle(id, &Settle::Forget).await.map(|_| ())
    }

    /// Which record it takes this one for.
    fn fold(&self, id: &RecordId) -> RecordId {
        let name = match self.fault {
            Fault::IgnoresOperation => id.hint().as_str().to_lowercase(),
            Fault::IgnoresScopeAndCase => format!("{}/{}", id.operation(), id.hint().as_str().to_lowercase()),
            _ => return id.clone(),
        };
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        folded.entry(name).or_insert_with(|| id.clone()).clone()
    }

    fn span(&self, span: Duration) -> Duration {
        match self.fault {
            Fault::WrapsDurations => Duration::from_millis(u64::from(span.as_millis() as u32)),
            Fault::TakesZeroForNotSet if span.is_zero() => HOUR,
            _ => span,
        }
    }

    fn retention(&self, known: Option<&Known>, retention: Retention) -> Retention {
        let mut retention = Retention {
            ttl: self.span(retention.ttl),
            tombstone_ttl: retention.tombstone_ttl.map(|span| self.span(span)),
        };
        match (self.fault, known) {
            (Fault::TakesTheLeaseForTheTtl, Some(known)) => retention.ttl = known.claim.lease,
            (Fault::CountsTheTtlFromTheClaim, Some(known)) => {
                retention.ttl =
                    retention.ttl.saturating_sub(self.clock.now().saturating_sub(known.granted_at));
            }
            (Fault::HasNoTombstones, _) => retention.tombstone_ttl = None,
            (Fault::RefusesForEver, _) if retention.tombstone_ttl.is_some() => {
                retention.tombstone_ttl = Some(Duration::MAX);
            }
            (Fault::RefusesAtOnce, _) if retention.tombstone_ttl.is_some() => retention.ttl = Duration::ZERO,
            _ => {}
        }
        retention
    }

    /// Whom this store takes the caller of a step for.
    fn fence(&self, id: &RecordId, owner: Owner, anybody: Fault) -> Owner {
        let Some(known) = self.known(id) else { return owner };
        let holder = known.claim.owner;
        let passes = match self.fault {
            Fault::FencesByAttempt => known.owners.get(&owner) == Some(&known.attempt),
            Fault::FencesByAnyFormerOwner => known.owners.contains_key(&owner),
            Fault::FencesByHalfAToken => owner.as_bytes()[..8] == holder.as_bytes()[..8],
            fault => fault == anybody,
        };
        if passes { holder } else { owner }
    }
}

#[async_trait]
impl Store for Faulty {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        let id = &self.fold(id);
        let claim = &self.distort(claim);
        let before = self.inner.look_up(id).await?;
        if self.has(Fault::LooksThenClaims) {
            tokio::task::yield_now().await;
        }
        if let Some(claimed) = self.preempt(id, claim, before.as_ref()).await? {
            return Ok(claimed);
        }
        let claimed = self.inner.claim(id, claim).await?;
        let claimed = self.twist(id, claim, before, claimed).await?;
        if let Claimed::Granted { attempt } = claimed {
            let record = self.inner.look_up(id).await?;
            let granted_at = self.clock.now();
            let mut all = self.lock();
            let known = all.entry(*id.digest()).or_insert_with(|| Known {
                id: id.clone(),
                claim: claim.clone(),
                granted_at,
                attempt,
                owners: HashMap::new(),
                completed: None,
                released: None,
                record: None,
            });
            *known = Known { claim: claim.clone(), granted_at, attempt, record, ..known.clone() };
            known.owners.insert(claim.owner, attempt);
        }
        Ok(claimed)
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let id = &self.fold(id);
        let known = self.known(id);
        let state = self.state(id).await?;
        let retention = self.retention(known.as_ref(), retention);
        let mut owner = self.fence(id, owner, Fault::CompletesForAnybody);
        let completed_it =
            known.is_some_and(|known| known.completed.is_some_and(|(completed, ..)| completed == owner));
        let mut answer = answer.clone();
        match self.fault {
            Fault::LosesALateCompletion if matches!(state, Some(State::Lapsed | State::Unknown)) => {
                return Ok(Fenced::Lost);
            }
            Fault::LosesARepeatedCompletion if completed_it => return Ok(Fenced::Lost),
            Fault::CompletesForEver if completed_it => return Ok(Fenced::Held),
            Fault::KeepsTheLastAnswer if completed_it && state == Some(State::Completed) => {
                let claim = self.known(id).map(|known| known.claim);
                self.forget(id).await?;
                if let Some(claim) = claim {
                    let _ = self.inner.claim(id, &claim).await?;
                }
            }
            Fault::LooksThenCompletes if state == Some(State::Lapsed) => {
                tokio::task::yield_now().await;
                if let Some(known) = self.known(id) {
                    owner = known.claim.owner;
                }
            }
            Fault::StoresText => {
                let text = String::from_utf8_lossy(answer.as_bytes()).into_owned();
                answer = Answer::from_bytes(text.into_bytes());
            }
            Fault::CutsAnswers => {
                let bytes = answer.as_bytes();
                answer = Answer::from_bytes(bytes.slice(..bytes.len().min(65_536)));
            }
            _ => {}
        }
        let fenced = self.inner.complete(id, owner, &answer, retention).await?;
        if fenced == Fenced::Held
            && let Some(known) = self.lock().get_mut(id.digest())
        {
            known.completed = Some((owner, answer, retention));
        }
        Ok(fenced)
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        let id = &self.fold(id);
        let known = self.known(id);
        let owner = self.fence(id, owner, Fault::ReleasesForAnybody);
        let state = self.state(id).await?;
        let binding = known.as_ref().map_or(HOUR, |known| known.claim.binding);
        let how = match (self.fault, how) {
            (Fault::ReleasesByForgetting, Release::KeepBinding(_)) => Release::Undo(HOUR),
            (Fault::BindsForEver, Release::KeepBinding(_)) => Release::KeepBinding(Duration::MAX),
            (Fault::BindsAsTheClaimSaid, Release::KeepBinding(_)) => Release::KeepBinding(binding),
            (Fault::BindsTheUndone, Release::Undo(_)) | (Fault::KnowsNothingUnknown, Release::Unknown) => {
                Release::KeepBinding(HOUR)
            }
            (_, Release::KeepBinding(span)) => Release::KeepBinding(self.span(span)),
            (_, how) => how,
        };
        match self.fault {
            Fault::UndoesEarlierAttempts
                if matches!(how, Release::Undo(_)) && state == Some(State::InFlight) =>
            {
                self.forget(id).await?;
                return Ok(Fenced::Held);
            }
            Fault::LosesALateRelease if state == Some(State::Lapsed) => return Ok(Fenced::Lost),
            Fault::ReleasesTheCompleted if state == Some(State::Completed) => {
                self.forget(id).await?;
                return Ok(Fenced::Held);
            }
            Fault::ReleasesAgain if known.is_some_and(|known| known.released == Some(owner)) => {
                return Ok(Fenced::Held);
            }
            _ => {}
        }
        let fenced = self.inner.release(id, owner, how).await?;
        if fenced == Fenced::Held
            && let Some(known) = self.lock().get_mut(id.digest())
        {
            known.released = Some(owner);
        }
        Ok(fenced)
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        let id = &self.fold(id);
        let owner = self.fence(id, owner, Fault::RenewsForAnybody);
        let mut lease = self.span(lease);
        let record = self.inner.look_up(id).await?;
        match self.fault {
            Fault::RenewsNothing => return Ok(Fenced::Held),
            Fault::LosesALateRenewal
                if record.as_ref().is_some_and(|record| record.state != State::InFlight) =>
            {
                return Ok(Fenced::Lost);
            }
            Fault::AddsRenewalsUp => {
                lease += record.and_then(|record| record.lease_left).unwrap_or_default();
            }
            _ => {}
        }
        self.inner.renew(id, owner, lease).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        match self.fault {
            Fault::WaitsForEver => std::future::pending().await,
            Fault::SleepsInsteadOfWaiting => tokio::time::sleep(at_most).await,
            Fault::WaitsBeyondItsLimit => self.inner.changed(id, Duration::MAX).await,
            _ => self.inner.changed(id, at_most).await,
        }
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        match self.fault {
            Fault::SweepsNothing => return Ok(0),
            Fault::SweepsWithoutLimit => return self.inner.sweep(u32::MAX).await,
            Fault::CountsWhatItSweepsTwice => return Ok(self.inner.sweep(limit).await? * 2),
            Fault::SweepsTheLive(state) => {
                let all: Vec<_> = self.lock().values().map(|known| known.id.clone()).collect();
                for id in all {
                    if self.state(&id).await? == Some(state) {
                        self.forget(&id).await?;
                    }
                }
            }
            Fault::ReplaysUntilItIsSwept => self.lock().clear(),
            _ => {}
        }
        self.inner.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let id = &self.fold(id);
        let known = self.known(id);
        let mut record = self.inner.look_up(id).await?;
        match (self.fault, &mut record, known) {
            (Fault::FindsTheAbsent, record @ None, Some(known)) => *record = known.record,
            (Fault::TellsLapsedAsInFlight, Some(record), _) if record.state == State::Lapsed => {
                record.state = State::InFlight;
            }
            (Fault::TellsTheAnswerOfTheExpired, Some(record), Some(known))
                if record.state == State::Expired =>
            {
                record.answer = known.completed.map(|(_, answer, _)| answer);
            }
            (Fault::TellsTheAgeOfTheAttempt, Some(record), Some(known)) => {
                record.age = self.clock.now().saturating_sub(known.granted_at);
            }
            (Fault::RenewsWhenLookedAt, Some(record), Some(known)) => {
                record.lease_left = record.lease_left.map(|_| known.claim.lease);
            }
            _ => {}
        }
        Ok(record)
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        let id = &self.fold(id);
        let Settle::Complete { answer, retention } = how else {
            if self.has(Fault::ForgetsNothing) {
                return Ok(Settled::Done);
            }
            return Ok(match self.inner.settle(id, how).await? {
                Settled::Absent if self.has(Fault::SettlesTheAbsent) => Settled::Done,
                settled => settled,
            });
        };
        let retention = self.retention(self.known(id).as_ref(), *retention);
        let before = self.inner.look_up(id).await?;
        let over = match self.fault {
            Fault::SettlesNothing => return Ok(Settled::Refused),
            Fault::SettlesAnything => before,
            Fault::SettlesWithoutBinding => {
                before.filter(|record| matches!(record.state, State::Unknown | State::Failed | State::Lapsed))
            }
            _ => None,
        };
        if over.is_some() {
            let unbound = Claim {
                owner: Owner::random(),
                fingerprints: Fingerprints::none(),
                lease: HOUR,
                binding: HOUR,
                on_crash: OnCrash::Retry,
                rebind: false,
            };
            self.forget(id).await?;
            let _ = self.inner.claim(id, &unbound).await?;
            let _ = self.inner.complete(id, unbound.owner, answer, retention).await?;
            return Ok(Settled::Done);
        }
        self.inner.settle(id, &Settle::Complete { answer: answer.clone(), retention }).await
    }
}
