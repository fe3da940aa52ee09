//! A decorator that counts the steps of a store and makes them fail on command.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Claim,
    Complete,
    Release,
    Renew,
    LookUp,
    Changed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The step does not reach the store.
    Lost(StoreErrorKind),
    /// The step is taken, but its reply is lost.
    ReplyLost(StoreErrorKind),
    /// The step does not reach the store, and nobody says so.
    Hang,
    /// The step takes so long.
    Slow(Duration),
    /// The step is taken at once, and its reply takes so long.
    SlowReply(Duration),
    /// The step is taken at once, and its reply takes so long of the process's own time, in ten waits: while the process
    /// stands still only one of them goes by.
    SlowReplyInWaits(Duration),
    /// The step is taken so much later, also if nobody waits for it any more. Claims only.
    Late(Duration),
    /// The connection breaks, and the step is taken so much later all the same. Claims only.
    BrokenLate(Duration),
}

#[derive(Debug, Clone)]
pub(crate) struct Faulty<S>(Arc<Inner<S>>);

#[derive(Debug)]
struct Inner<S> {
    store: S,
    counts: watch::Sender<HashMap<Step, usize>>,
    /// How many more times each step fails, and how.
    faults: Mutex<HashMap<Step, VecDeque<(usize, Fault)>>>,
    /// The longest answer that is taken, in bytes.
    longest_answer: AtomicUsize,
    /// Every answer that was offered, taken or not.
    offered: Mutex<Vec<Answer>>,
}

impl<S: Store> Faulty<S> {
    pub(crate) fn new(store: S) -> Self {
        Self(Arc::new(Inner {
            store,
            counts: watch::Sender::new(HashMap::new()),
            faults: Mutex::default(),
            longest_answer: AtomicUsize::new(usize::MAX),
            offered: Mutex::default(),
        }))
    }

    /// Takes no answer that is longer than that, as if it were full.
    pub(crate) fn take_answers_up_to(&self, bytes: usize) {
        self.0.longest_answer.store(bytes, Ordering::SeqCst);
    }

    /// Makes the next `times` of `step` fail.
    pub(crate) fn fail(&self, step: Step, times: usize, fault: Fault) {
        self.0.faults.lock().unwrap().insert(step, VecDeque::from([(times, fault)]));
    }

    /// Makes the `times` of `step` after those fail, too.
    pub(crate) fn then_fail(&self, step: Step, times: usize, fault: Fault) {
        self.0.faults.lock().unwrap().entry(step).or_default().push_back((times, fault));
    }

    /// Every answer that was offered so far, taken or not.
    #[cfg(feature = "encryption")]
    pub(crate) fn offered(&self) -> Vec<Answer> {
        self.0.offered.lock().unwrap().clone()
    }

    pub(crate) fn heal(&self) {
        self.0.faults.lock().unwrap().clear();
    }

    pub(crate) fn count(&self, step: Step) -> usize {
        self.0.counts.borrow().get(&step).copied().unwrap_or_default()
    }

    /// Waits until `step` was begun `times` times in all.
    pub(crate) async fn reached(&self, step: Step, times: usize) {
        self.0
            .counts
            .subscribe()
            .wait_for(|counts| counts.get(&step).copied().unwrap_or_default() >= times)
            .await
            .unwrap();
    }

    async fn step<T>(
        &self,
        step: Step,
        take: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fault = {
            let mut faults = self.0.faults.lock().unwrap();
            faults.get_mut(&step).and_then(|faults| {
                while faults.front().is_some_and(|(times, _)| *times == 0) {
                    faults.pop_front();
                }
                let (times, fault) = faults.front_mut()?;
                *times -= 1;
                Some(*fault)
            })
        };
        self.0.counts.send_modify(|counts| *counts.entry(step).or_default() += 1);
        match fault {
            None => take.await,
            Some(Fault::Lost(kind)) => Err(StoreError::new(kind)),
            Some(Fault::BrokenLate(_)) => Err(StoreError::new(StoreErrorKind::Unavailable)),
            Some(Fault::ReplyLost(kind)) => {
                take.await?;
                Err(StoreError::new(kind))
            }
            Some(Fault::Slow(pause)) => {
                tokio::time::sleep(pause).await;
                take.await
            }
            Some(Fault::SlowReply(pause)) => {
                let taken = take.await;
                tokio::time::sleep(pause).await;
                taken
            }
            Some(Fault::SlowReplyInWaits(pause)) => {
                let taken = take.await;
                for _ in 0..10 {
                    tokio::time::sleep(pause / 10).await;
                }
                taken
            }
            Some(Fault::Hang | Fault::Late(_)) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl<S: Store> Store for Faulty<S> {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        if let Some((1.., Fault::Late(late) | Fault::BrokenLate(late))) =
            self.0.faults.lock().unwrap().get(&Step::Claim).and_then(VecDeque::front)
        {
            let (inner, late, id, claim) = (self.0.clone(), *late, id.clone(), claim.clone());
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                inner.store.claim(&id, &claim).await
            });
        }
        self.step(Step::Claim, self.0.store.claim(id, claim)).await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        self.0.offered.lock().unwrap().push(answer.clone());
        if answer.as_bytes().len() > self.0.longest_answer.load(Ordering::SeqCst) {
            return self.step(Step::Complete, async { Err(StoreError::new(StoreErrorKind::Full)) }).await;
        }
        self.step(Step::Complete, self.0.store.complete(id, owner, answer, retention)).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.step(Step::Release, self.0.store.release(id, owner, how)).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        self.step(Step::Renew, self.0.store.renew(id, owner, lease)).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        let wait = async {
            self.0.store.changed(id, at_most).await;
            Ok(())
        };
        let _ = self.step(Step::Changed, wait).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.0.store.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.step(Step::LookUp, self.0.store.look_up(id)).await
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.0.store.settle(id, how).await
    }
}
