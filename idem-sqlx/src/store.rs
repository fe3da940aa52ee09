//! The generic store: the contract in terms of steps and rows.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId, State};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use tokio::time::timeout;

use crate::database::{Database, Found, Round};
use crate::held::Held;
use crate::row::{Judgement, Phase, Row};
use crate::step::Step;
use crate::sweeper::Sweeper;
use crate::waiters::Waiters;

/// What is told of a claim in a transaction that is not committed yet. It has no lease; this is when to look again.
pub(crate) const LOCKED: Claimed = Claimed::InFlight { lease_left: Duration::from_secs(1) };

/// A store in an SQL database. Clones share it.
#[derive(Debug)]
pub struct SqlStore<B> {
    shared: Arc<Shared<B>>,
}

#[derive(Debug)]
struct Shared<B> {
    database: B,
    waiters: Arc<Waiters>,
    /// What transactions of this process hold.
    held: Arc<Held>,
    /// Whether the last transaction found its work done, so that the next had better look before it begins.
    replaying: AtomicBool,
    timeout: Duration,
}

/// Takes the steps that decide a claim.
pub(crate) trait Claiming {
    type Error;

    fn claim(&mut self, step: Step) -> impl Future<Output = Result<Found, Self::Error>> + Send;
    fn take(&mut self, step: Step) -> impl Future<Output = Result<u64, Self::Error>> + Send;
    fn unreadable(error: StoreError) -> Self::Error;
}

/// Claims, and claims again as long as what it finds changes under its hands.
pub(crate) async fn decide<C: Claiming>(
    claiming: &mut C,
    id: &RecordId,
    claim: &Claim,
) -> Result<Claimed, C::Error> {
    loop {
        match claiming.claim(Step::claim(id, claim)).await? {
            Found::Nothing => return Ok(Claimed::Granted { attempt: 1 }),
            Found::Record(row) => match row.judge(claim) {
                Judgement::Refused(answer) => return Ok(answer),
                Judgement::Unreadable => return Err(C::unreadable(no_answer())),
                Judgement::Free { attempt, fingerprint } => {
                    let step = Step::take_over(id, claim, &row, attempt, &fingerprint);
                    if claiming.take(step).await? == 1 {
                        return Ok(Claimed::Granted { attempt });
                    }
                }
            },
            Found::Vanished => {}
            Found::Locked(before) => {
                return match before.map(|row| row.judge(claim)) {
                    Some(Judgement::Refused(answer)) => Ok(answer),
                    Some(Judgement::Unreadable) => Err(C::unreadable(no_answer())),
                    Some(Judgement::Free { .. }) | None => Ok(LOCKED),
                };
            }
        }
        // Somebody was faster: look again at what they made of it.
    }
}

/// Claims under a lease: each step is a transaction of its own.
struct Leasing<'a, B>(&'a B, &'a RecordId);

impl<B: Database> Claiming for Leasing<'_, B> {
    type Error = StoreError;

    fn claim(&mut self, step: Step) -> impl Future<Output = Result<Found, StoreError>> + Send {
        self.0.claim(self.1, step)
    }

    fn take(&mut self, step: Step) -> impl Future<Output = Result<u64, StoreError>> + Send {
        self.0.take(step)
    }

    fn unreadable(error: StoreError) -> StoreError {
        error
    }
}

impl<B> Clone for SqlStore<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B: Database> SqlStore<B> {
    pub(crate) fn new(database: B, timeout: Duration) -> Self {
        let waiters = Arc::<Waiters>::default();
        let held = Held::new(Arc::clone(&waiters));
        let replaying = AtomicBool::new(false);
        Self { shared: Arc::new(Shared { database, waiters, held, replaying, timeout }) }
    }

    pub(crate) fn database(&self) -> &B {
        &self.shared.database
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// Starts a task that deletes expired records about every `interval`, until it is stopped or dropped.
    ///
    /// Expiry does not wait for it: it only gives space back.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn_sweeper(&self, interval: Duration) -> Sweeper {
        Sweeper::spawn(self.clone(), interval)
    }

    /// No step takes longer than the store's time-out, whatever the database does.
    pub(crate) async fn in_time<T>(
        &self,
        step: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.shared.timeout;
        timeout(limit, step).await.unwrap_or_else(|_| {
            Err(StoreError::with_source(
                StoreErrorKind::TimedOut,
                format!("the database was locked or silent for {limit:?}"),
            ))
        })
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.shared.held
    }

    /// Reads what a transaction would be refused for, where the last one was: that needs no transaction.
    pub(crate) async fn replayed_before(
        &self,
        id: &RecordId,
        claim: &Claim,
    ) -> Result<Option<Claimed>, StoreError> {
        if !self.shared.replaying.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let row = self.in_time(self.shared.database.look_up(id, true)).await?;
        let refused = match row.map(|row| row.judge(claim)) {
            Some(Judgement::Refused(refused)) => Some(refused),
            _ => None,
        };
        self.shared.replaying.store(refused.is_some(), Ordering::Relaxed);
        Ok(refused)
    }

    pub(crate) fn note_replay(&self, refused: &Claimed) {
        self.shared.replaying.store(matches!(refused, Claimed::Completed { .. }), Ordering::Relaxed);
    }

    async fn fenced(&self, id: &RecordId, step: Step) -> Result<Fenced, StoreError> {
        let changed = self.in_time(self.shared.database.take(step)).await?;
        Ok(if changed == 1 { Fenced::Held } else { Fenced::Lost })
            .inspect(|fenced| self.wake_if(*fenced == Fenced::Held, id))
    }

    fn wake_if(&self, changed: bool, id: &RecordId) {
        if changed {
            self.shared.waiters.wake(id);
        }
    }
}

#[async_trait]
impl<B: Database> Store for SqlStore<B> {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        self.in_time(async {
            if self.shared.held.will_be_open(id).await {
                return Ok(LOCKED);
            }
            decide(&mut Leasing(&self.shared.database, id), id, claim).await
        })
        .await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        if self.fenced(id, Step::complete(id, owner, answer, retention)).await? == Fenced::Held {
            return Ok(Fenced::Held);
        }
        // Perhaps it was completed before, and the reply was lost.
        let row = self.in_time(self.shared.database.look_up(id, false)).await?;
        let mine = row.is_some_and(|row| {
            row.phase == Phase::Completed && row.owner == owner && row.expires_at > row.now
        });
        Ok(if mine { Fenced::Held } else { Fenced::Lost })
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.fenced(id, Step::release(id, owner, how)).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        let changed = self.in_time(self.shared.database.take(Step::renew(id, owner, lease))).await?;
        Ok(if changed == 1 { Fenced::Held } else { Fenced::Lost })
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        let Shared { database, waiters, held, .. } = &*self.shared;
        let look_up = || async { self.in_time(database.look_up(id, false)).await.ok().flatten() };
        let expect = self.in_time(async { Ok(database.expect(id, waiters).await) });
        let is_locked = || async {
            // Whoever holds it here rings the bell.
            held.contains(id) || self.in_time(database.is_locked(id)).await.unwrap_or(false)
        };
        waiters.wait(id, at_most, look_up, is_locked, async { expect.await.unwrap_or(false) }).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        let (mut round, mut deleted) = (Round::default(), 0);
        while deleted < u64::from(limit) && !round.over {
            let batch = (u64::from(limit) - deleted).min(B::SWEEP_BATCH.into()) as u32;
            deleted += self.in_time(self.shared.database.sweep(&mut round, batch)).await?;
        }
        Ok(deleted)
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let row = self.in_time(self.shared.database.look_up(id, true)).await?;
        let record = row.map(Row::into_record);
        match &record {
            Some(Record { state: State::Completed, answer: None, .. }) => Err(no_answer()),
            _ => Ok(record),
        }
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        let changed = self.in_time(self.shared.database.take(Step::settle(id, how))).await?;
        self.wake_if(changed == 1, id);
        if changed == 1 {
            return Ok(Settled::Done);
        }
        if matches!(how, Settle::Forget) {
            return Ok(Settled::Absent);
        }
        let there = self.in_time(self.shared.database.look_up(id, false)).await?.is_some();
        Ok(if there { Settled::Refused } else { Settled::Absent })
    }
}

fn no_answer() -> StoreError {
    StoreError::with_source(StoreErrorKind::Corrupt, "a completed record has no answer")
}
