//! The store: the contract in terms of records.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::Answer;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId, State};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use idem_core::stored::row::{Judgement, Row};
use idem_core::stored::waiters::Waiters;
use tokio::time::Instant;

use crate::builder::{Choices, RedisBuilder};
use crate::ear::Ear;
use crate::place::Place;
use crate::records::Records;
use crate::server;

#[doc = include_str!("../REDIS.md")]
#[derive(Debug, Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    records: Records,
    waiters: Arc<Waiters>,
    /// `None` where nothing is to be heard.
    ear: Option<Ear>,
}

impl RedisStore {
    /// Opens the place that a URL names, such as `redis://user:password@host:port/database`; see [`RedisBuilder::url`].
    ///
    /// # Errors
    ///
    /// Those of [`RedisBuilder::open`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::builder().url(url).open().await
    }

    /// Starts to say which server it is, and how it is used.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Starts with the primary that Sentinels know under a name. See [`RedisBuilder::sentinel`].
    pub fn sentinel<U: AsRef<str>>(name: &str, sentinels: impl IntoIterator<Item = U>) -> RedisBuilder {
        Self::builder().sentinel(name, sentinels)
    }

    /// Starts with the cluster of these nodes. See [`RedisBuilder::cluster`].
    pub fn cluster<U: AsRef<str>>(nodes: impl IntoIterator<Item = U>) -> RedisBuilder {
        Self::builder().cluster(nodes)
    }

    /// Gives up all connections; steps that wait for a reply do not get it.
    ///
    /// Later calls fail as [`Unavailable`](StoreErrorKind::Unavailable), on every clone.
    pub async fn close(&self) {
        if let Some(ear) = &self.shared.ear {
            ear.close().await;
        }
        self.shared.records.close();
    }

    pub(crate) fn new(place: &Arc<Place>, choices: Choices) -> Self {
        let names = &choices.names;
        let ear = choices.listen.then(|| Ear::new(place, names.channel(), names.around()));
        let (records, waiters) = (Records::new(place, choices), Arc::default());
        Self { shared: Arc::new(Shared { records, waiters, ear }) }
    }

    /// Looks at the server before anything is trusted to it.
    pub(crate) async fn check(&self, is_alone: bool) -> Result<(), StoreError> {
        let records = &self.shared.records;
        match records.info().await {
            Ok(told) => {
                if is_alone {
                    server::check_alone(&told)?;
                }
                server::check(&told, records.allow_eviction())
            }
            Err(error) if server::is_forbidden(&error) => {
                tracing::warn!(
                    "the Redis server does not say whether it may evict idempotency records: see to it"
                );
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The records, and by when a step that begins now has to be done.
    fn begin(&self) -> (&Records, Instant) {
        (&self.shared.records, self.shared.records.deadline())
    }

    /// Tells those who wait here if something changed; the script has told the others.
    fn wake_if(&self, changed: bool, id: &RecordId) {
        if changed {
            self.shared.waiters.wake(id);
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::with_source(StoreErrorKind::Corrupt, "a completed record has no answer")
}

const fn fenced(held: bool) -> Fenced {
    if held { Fenced::Held } else { Fenced::Lost }
}

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        let (records, by) = self.begin();
        let mut missed = false;
        loop {
            let Some(mut found) = records.claim(id, claim, by).await? else {
                return Ok(Claimed::Granted { attempt: 1 });
            };
            let mut judgement = found.row.judge(claim);
            if matches!(judgement, Judgement::Unreadable) && records.fetch(id, &mut found, by).await? {
                judgement = found.row.judge(claim);
            }
            match judgement {
                Judgement::Refused(answer) => return Ok(answer),
                Judgement::Free { attempt, fingerprint } => {
                    if records.take_over(id, claim, &found, (attempt, &fingerprint), by).await? {
                        return Ok(Claimed::Granted { attempt });
                    }
                }
                // Between the two looks it may have been forgotten, or have expired; twice is once too often.
                Judgement::Unreadable if !missed && found.apart.is_some() => missed = true,
                Judgement::Unreadable => return Err(no_answer()),
            }
            // Somebody was faster: look again at what they made of it.
        }
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        let (records, by) = self.begin();
        let stored = records.complete(id, owner, answer, retention, by).await?;
        self.wake_if(stored == 1, id);
        Ok(fenced(stored != 0))
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        let (records, by) = self.begin();
        let released = records.release(id, owner, how, by).await?;
        self.wake_if(released, id);
        Ok(fenced(released))
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        let (records, by) = self.begin();
        records.renew(id, owner, lease, by).await.map(fenced)
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        let Shared { records, waiters, ear } = &*self.shared;
        let look_up = || async { records.look_up(id, records.deadline()).await.ok()?.map(|found| found.row) };
        // Nothing here is claimed in a transaction.
        let is_locked = || async { false };
        let expect = async {
            let Some(ear) = ear else { return false };
            ear.hears(waiters).await && records.expect(id).await.unwrap_or(false)
        };
        waiters.wait(id, at_most, look_up, is_locked, expect).await;
    }

    /// Does nothing: the server deletes by itself what is gone.
    async fn sweep(&self, _limit: u32) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let (records, by) = self.begin();
        let mut missed = false;
        while let Some(mut found) = records.look_up(id, by).await? {
            if found.row.state() != State::Completed
                || found.row.answer.is_some()
                || records.fetch(id, &mut found, by).await?
            {
                return Ok(Some(Row::into_record(found.row)));
            }
            if missed || found.apart.is_none() {
                return Err(no_answer());
            }
            missed = true;
        }
        Ok(None)
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        let (records, by) = self.begin();
        let settled = match how {
            Settle::Complete { answer, retention } => {
                match records.settle(id, Owner::random(), answer, *retention, by).await? {
                    1 => Settled::Done,
                    2 => Settled::Refused,
                    _ => Settled::Absent,
                }
            }
            Settle::Forget => match records.look_up(id, by).await? {
                Some(found) => {
                    // If it is gone since, that may have been this very step, whose reply was lost.
                    let was = records.forget(id, &found, by).await?.unwrap_or(found);
                    records.drop_answer(id, was.apart, by).await;
                    Settled::Done
                }
                None => Settled::Absent,
            },
        };
        self.wake_if(settled == Settled::Done, id);
        Ok(settled)
    }
}
