//! The store: the contract in terms of scripts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::answer::Answer;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId, State};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use idem_core::stored::row::{Judgement, Row};
use idem_core::stored::waiters::Waiters;
use redis::Value as Reply;

use crate::builder::{Choices, RedisBuilder};
use crate::ear::Ear;
use crate::fault::unexpected;
use crate::layout::{self, Apart, Found, millis};
use crate::line::{Ask, Lines};
use crate::place::Place;
use crate::replicas::Replicas;
use crate::script::{Script, Scripts, Value};
use crate::server;

/// How much longer than its record says an answer of its own key is kept: more than a step can take.
const SLACK: Duration = Duration::from_mins(1);

#[doc = include_str!("../REDIS.md")]
#[derive(Debug, Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lines: Lines,
    scripts: Scripts,
    choices: Choices,
    waiters: Arc<Waiters>,
    /// `None` where nothing is to be heard.
    ear: Option<Ear>,
    /// `None` where none is waited for.
    replicas: Option<Replicas>,
}

impl RedisStore {
    /// Opens the server of a URL, `redis://user:password@host:port/database`.
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
        self.shared.lines.close();
        if let Some(replicas) = &self.shared.replicas {
            replicas.close();
        }
    }

    pub(crate) fn new(place: &Arc<Place>, choices: Choices) -> Self {
        let lines = Lines::new(place, choices.connections, choices.limits);
        let names = &choices.names;
        let ear = choices.listen.then(|| Ear::new(place, names.channel(), names.around()));
        let replicas = (choices.replicas > 0).then(|| Replicas::new(place, choices.replicas, choices.limits));
        let (scripts, waiters) = (Scripts::new(), Arc::default());
        Self { shared: Arc::new(Shared { lines, scripts, choices, waiters, ear, replicas }) }
    }

    /// Looks at the server before anything is trusted to it.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let info = redis::cmd("INFO");
        match self.shared.lines.of(&[0; 32]).ask(&Ask::Plain(&info)).await {
            Ok(told) => server::check(&told, self.shared.choices.allow_eviction),
            Err(error) if is_forbidden(&error) => {
                tracing::warn!(
                    "the Redis server does not say whether it may evict idempotency records: see to it"
                );
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Tells those who wait here; the script has told the others.
    fn wake(&self, id: &RecordId) {
        self.shared.waiters.wake(id);
    }
}

/// Whether it is only this question that the user may not ask.
fn is_forbidden(error: &StoreError) -> bool {
    let told = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    error.kind() == StoreErrorKind::Misconfigured && told.contains("NOPERM")
}

impl Shared {
    async fn run(&self, script: &Script, id: &RecordId, values: &[Value<'_>]) -> Result<Reply, StoreError> {
        let key = &self.choices.names.record(id);
        self.lines.of(id.digest()).ask(&Ask::Script { script, key, values, wait: None }).await
    }

    /// Runs a script whose work must not be lost, on a replica, too, if that is wanted.
    async fn run_safely(
        &self,
        script: &Script,
        id: &RecordId,
        values: &[Value<'_>],
    ) -> Result<Reply, StoreError> {
        let Some(replicas) = &self.replicas else { return self.run(script, id, values).await };
        let key = &self.choices.names.record(id);
        replicas.ask(&Ask::Script { script, key, values, wait: Some(replicas.wait) }).await
    }

    /// Takes a record that was found free, unless somebody was faster.
    async fn take_over(
        &self,
        id: &RecordId,
        claim: &Claim,
        found: &Found,
        head: &[u8],
    ) -> Result<bool, StoreError> {
        let values = [
            Value::Bytes(&found.raw),
            Value::Bytes(head),
            Value::Int(millis(claim.lease)),
            Value::Int(layout::life(claim)),
        ];
        Ok(number(&self.run_safely(&self.scripts.take_over, id, &values).await?)? == 1)
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Found>, StoreError> {
        found(self.run(&self.scripts.look_up, id, &[]).await?)
    }

    /// Reads an answer that has a key of its own, where it is not in its row; tells whether it is there now.
    async fn fetch(&self, id: &RecordId, found: &mut Found) -> Result<bool, StoreError> {
        let Some(apart) = found.apart else { return Ok(false) };
        let mut get = redis::cmd("GET");
        get.arg(self.choices.names.answer(id, apart));
        match self.lines.of(id.digest()).ask(&Ask::Plain(&get)).await? {
            Reply::BulkString(answer) => found.row.answer = Some(Answer::from_bytes(answer)),
            Reply::Nil => return Ok(false),
            _ => return Err(unexpected()),
        }
        Ok(true)
    }

    /// Puts an answer under a key of its own if it is large, and returns what its record is to have of it.
    async fn put(
        &self,
        id: &RecordId,
        answer: &Answer,
        retention: Retention,
    ) -> Result<(Vec<u8>, Option<Apart>), StoreError> {
        if answer.as_bytes().len() <= self.choices.answers_within {
            return Ok((layout::within(answer), None));
        }
        let apart = Apart::random();
        let mut set = redis::Cmd::with_capacity(5, answer.as_bytes().len() + 200);
        set.arg("SET").arg(self.choices.names.answer(id, apart)).arg(&answer.as_bytes()[..]);
        set.arg("PX").arg(millis(retention.ttl.saturating_add(SLACK)));
        self.lines.of(id.digest()).ask(&Ask::Plain(&set)).await?;
        Ok((layout::elsewhere(apart), Some(apart)))
    }

    /// Gives back the space of an answer that no record has; where that fails, its time to live will.
    async fn drop_answer(&self, id: &RecordId, apart: Option<Apart>) {
        if let Some(apart) = apart {
            let mut unlink = redis::cmd("UNLINK");
            unlink.arg(self.choices.names.answer(id, apart));
            let _ = self.lines.of(id.digest()).ask(&Ask::Plain(&unlink)).await;
        }
    }

    fn channel(&self) -> Value<'_> {
        Value::Bytes(self.choices.names.channel().as_bytes())
    }

    /// Sees to it that those who wait for the end of this flight are woken whoever ends it; `false` if nobody can.
    async fn expect(&self, id: &RecordId) -> bool {
        let Some(ear) = &self.ear else { return false };
        ear.hears(&self.waiters).await
            && self.run(&self.scripts.expect, id, &[]).await.is_ok_and(|noted| noted == Reply::Int(1))
    }
}

/// The record in a reply that has one.
fn found(reply: Reply) -> Result<Option<Found>, StoreError> {
    match reply {
        Reply::Int(0) => Ok(None),
        Reply::Array(parts) => match <[Reply; 2]>::try_from(parts) {
            Ok([Reply::Int(now), Reply::BulkString(raw)]) => layout::read(Bytes::from(raw), now).map(Some),
            _ => Err(unexpected()),
        },
        _ => Err(unexpected()),
    }
}

/// The number in a reply that is one.
fn number(reply: &Reply) -> Result<i64, StoreError> {
    if let Reply::Int(number) = reply { Ok(*number) } else { Err(unexpected()) }
}

fn no_answer() -> StoreError {
    StoreError::with_source(StoreErrorKind::Corrupt, "a completed record has no answer")
}

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        let shared = &*self.shared;
        let mut missed = false;
        let new = layout::head(claim, 1, claim.fingerprints.current());
        let tail = layout::tail(id);
        let values = [
            Value::Bytes(&new),
            Value::Bytes(&tail),
            Value::Int(millis(claim.lease)),
            Value::Int(layout::life(claim)),
        ];
        loop {
            let reply = shared.run_safely(&shared.scripts.claim, id, &values).await?;
            if reply == Reply::Int(1) {
                return Ok(Claimed::Granted { attempt: 1 });
            }
            let mut found = found(reply)?.ok_or_else(unexpected)?;
            let mut judgement = found.row.judge(claim);
            if matches!(judgement, Judgement::Unreadable) && shared.fetch(id, &mut found).await? {
                judgement = found.row.judge(claim);
            }
            match judgement {
                Judgement::Refused(answer) => return Ok(answer),
                Judgement::Free { attempt, fingerprint } => {
                    let head = layout::head(claim, attempt, &fingerprint);
                    if shared.take_over(id, claim, &found, &head).await? {
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
        let shared = &*self.shared;
        let (part, apart) = shared.put(id, answer, retention).await?;
        let values = [
            Value::Bytes(owner.as_bytes()),
            Value::Bytes(&part),
            Value::Int(millis(retention.ttl)),
            Value::Int(layout::retained(retention)),
            shared.channel(),
        ];
        let stored = number(&shared.run_safely(&shared.scripts.complete, id, &values).await?)?;
        if stored == 1 {
            self.wake(id);
        } else {
            shared.drop_answer(id, apart).await;
        }
        Ok(if stored == 0 { Fenced::Lost } else { Fenced::Held })
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        let shared = &*self.shared;
        let (becomes, span) = match how {
            Release::Undo(binding) => (b"-", millis(binding)),
            Release::KeepBinding(binding) => (b"X", millis(binding)),
            Release::Unknown => (b"U", layout::until_settled()),
        };
        let values =
            [Value::Bytes(owner.as_bytes()), Value::Bytes(becomes), Value::Int(span), shared.channel()];
        let released = number(&shared.run(&shared.scripts.release, id, &values).await?)? == 1;
        if released {
            self.wake(id);
        }
        Ok(if released { Fenced::Held } else { Fenced::Lost })
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        let shared = &*self.shared;
        let values = [Value::Bytes(owner.as_bytes()), Value::Int(millis(lease))];
        let renewed = number(&shared.run_safely(&shared.scripts.renew, id, &values).await?)? == 1;
        Ok(if renewed { Fenced::Held } else { Fenced::Lost })
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        let shared = &*self.shared;
        let look_up = || async { shared.look_up(id).await.ok().flatten().map(|found| found.row) };
        // Nothing here is claimed in a transaction.
        let is_locked = || async { false };
        shared.waiters.wait(id, at_most, look_up, is_locked, shared.expect(id)).await;
    }

    /// Does nothing: the server deletes by itself what is gone.
    async fn sweep(&self, _limit: u32) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let shared = &*self.shared;
        let mut missed = false;
        while let Some(mut found) = shared.look_up(id).await? {
            if found.row.state() != State::Completed
                || found.row.answer.is_some()
                || shared.fetch(id, &mut found).await?
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
        let shared = &*self.shared;
        let settled = match how {
            Settle::Complete { answer, retention } => {
                let (part, apart) = shared.put(id, answer, *retention).await?;
                let nobody = Owner::random();
                let values = [
                    Value::Bytes(nobody.as_bytes()),
                    Value::Bytes(&part),
                    Value::Int(millis(retention.ttl)),
                    Value::Int(layout::retained(*retention)),
                    shared.channel(),
                ];
                let settled = number(&shared.run_safely(&shared.scripts.settle, id, &values).await?)?;
                if settled != 1 {
                    shared.drop_answer(id, apart).await;
                }
                match settled {
                    1 => Settled::Done,
                    2 => Settled::Refused,
                    _ => Settled::Absent,
                }
            }
            Settle::Forget => {
                match found(shared.run(&shared.scripts.forget, id, &[shared.channel()]).await?)? {
                    Some(found) => {
                        shared.drop_answer(id, found.apart).await;
                        Settled::Done
                    }
                    None => Settled::Absent,
                }
            }
        };
        if settled == Settled::Done {
            self.wake(id);
        }
        Ok(settled)
    }
}
