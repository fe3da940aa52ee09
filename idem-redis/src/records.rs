//! Records: the scripts of each step, their values and what they reply.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idem_core::answer::Answer;
use idem_core::fingerprint::Fingerprint;
use idem_core::owner::Owner;
use idem_core::record::RecordId;
use idem_core::store::{Claim, Release, Retention, StoreError, StoreErrorKind};
use redis::Value as Reply;
use tokio::time::Instant;

use crate::builder::Choices;
use crate::fault::unexpected;
use crate::layout::{self, Apart, Found, millis};
use crate::line::{Ask, Lines};
use crate::place::Place;
use crate::replicas::Replicas;
use crate::script::{ANSWER_IS_MISSING, Keys, Script, Scripts, Value};

/// How much longer than its record says, and than a step can take, an answer of its own key is kept.
const SLACK: Duration = Duration::from_mins(1);

/// The records on a server. Each step has a time by which it has to be done.
#[derive(Debug)]
pub(crate) struct Records {
    lines: Lines,
    /// `None` where none is waited for.
    replicas: Option<Replicas>,
    scripts: Scripts,
    choices: Choices,
}

impl Records {
    pub(crate) fn new(place: &Arc<Place>, choices: Choices) -> Self {
        let Choices { connections, limits, replicas, .. } = choices;
        Self {
            lines: Lines::new(place, connections, limits),
            replicas: (replicas > 0).then(|| Replicas::new(place, replicas, limits)),
            scripts: Scripts::new(),
            choices,
        }
    }

    pub(crate) fn close(&self) {
        self.lines.close();
        if let Some(replicas) = &self.replicas {
            replicas.close();
        }
    }

    /// By when a step that begins now has to be done.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.choices.limits.step
    }

    pub(crate) fn allow_eviction(&self) -> bool {
        self.choices.limits.allow_eviction
    }

    /// What the server tells of itself.
    pub(crate) async fn info(&self) -> Result<Reply, StoreError> {
        self.lines.of(&[0; 32]).ask(&Ask::Plain(&redis::cmd("INFO")), self.deadline()).await
    }

    /// Claims a record that is absent, or reads what is there.
    pub(crate) async fn claim(
        &self,
        id: &RecordId,
        claim: &Claim,
        by: Instant,
    ) -> Result<Option<Found>, StoreError> {
        let values = [
            Value::Bytes(&layout::head(claim, 1, claim.fingerprints.current())),
            Value::Bytes(&layout::tail(id)),
            Value::Int(millis(claim.lease)),
            Value::Int(layout::life(claim)),
        ];
        match self.run_safely(&self.scripts.claim, id, &values, by).await? {
            Reply::Int(1) => Ok(None),
            reply => found(reply)?.ok_or_else(unexpected).map(Some),
        }
    }

    /// Takes a record that was found free, unless somebody was faster.
    pub(crate) async fn take_over(
        &self,
        id: &RecordId,
        claim: &Claim,
        found: &Found,
        (attempt, bound_to): (u32, &Fingerprint),
        by: Instant,
    ) -> Result<bool, StoreError> {
        let values = [
            Value::Bytes(&found.raw),
            Value::Bytes(&layout::head(claim, attempt, bound_to)),
            Value::Int(millis(claim.lease)),
            Value::Int(layout::life(claim)),
        ];
        Ok(number(&self.run_safely(&self.scripts.take_over, id, &values, by).await?)? == 1)
    }

    /// Stores an answer; 1 if it is, 2 if one was before, 0 if the record is not the owner's.
    pub(crate) async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
        by: Instant,
    ) -> Result<i64, StoreError> {
        self.answer(&self.scripts.complete, id, owner, answer, retention, by).await
    }

    /// Gives an answer to a record that has no holder; 1 if it is done, 2 if it has one, 0 if it is absent.
    pub(crate) async fn settle(
        &self,
        id: &RecordId,
        nobody: Owner,
        answer: &Answer,
        retention: Retention,
        by: Instant,
    ) -> Result<i64, StoreError> {
        self.answer(&self.scripts.settle, id, nobody, answer, retention, by).await
    }

    /// Puts an answer where it belongs and has the script say so in the record.
    ///
    /// An answer that has a key of its own may be lost between the two, with a primary that fails, or be evicted. So the
    /// script looks, and then it is kept within. What replicas have of the record they have of the answer, too, which was
    /// there before.
    async fn answer(
        &self,
        script: &Script,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
        by: Instant,
    ) -> Result<i64, StoreError> {
        let apart = self.put(id, answer, retention, by).await?;
        let store = async |apart: Option<Apart>| {
            let part = apart.map_or_else(|| layout::within(answer), layout::elsewhere);
            let keys = Keys {
                record: self.choices.names.record(id),
                answer: apart.map(|apart| self.choices.names.answer(id, apart)),
            };
            let values = [
                Value::Bytes(owner.as_bytes()),
                Value::Bytes(&part),
                Value::Int(millis(retention.ttl)),
                Value::Int(layout::retained(retention)),
                self.channel(),
            ];
            number(&self.run_safely_on(script, id, &keys, &values, by).await?)
        };
        let stored = store(apart).await?;
        if stored == ANSWER_IS_MISSING {
            // If it is somewhere all the same its time to live will end it: a try before, whose reply was lost, may have
            // been told of it.
            return store(None).await;
        }
        if stored != 1 {
            self.drop_answer(id, apart, by).await;
        }
        Ok(stored)
    }

    /// Ends a lease without an answer; `false` if the record is not the owner's.
    pub(crate) async fn release(
        &self,
        id: &RecordId,
        owner: Owner,
        how: Release,
        by: Instant,
    ) -> Result<bool, StoreError> {
        let (becomes, span) = match how {
            Release::Undo(binding) => (b"-", millis(binding)),
            Release::KeepBinding(binding) => (b"X", millis(binding)),
            Release::Unknown => (b"U", layout::NEVER_MILLIS),
        };
        let values =
            [Value::Bytes(owner.as_bytes()), Value::Bytes(becomes), Value::Int(span), self.channel()];
        // If it gets lost, the record is left to its lease.
        Ok(number(&self.run(&self.scripts.release, id, &values, by).await?)? == 1)
    }

    /// Extends a lease; `false` if the record is not the owner's.
    pub(crate) async fn renew(
        &self,
        id: &RecordId,
        owner: Owner,
        lease: Duration,
        by: Instant,
    ) -> Result<bool, StoreError> {
        let values = [Value::Bytes(owner.as_bytes()), Value::Int(millis(lease))];
        Ok(number(&self.run_safely(&self.scripts.renew, id, &values, by).await?)? == 1)
    }

    /// Deletes a record that was found, and tells what became of it meanwhile; `None` if it is gone already.
    ///
    /// It has no owner by which to know it again should the reply get lost, but the time when it was created.
    pub(crate) async fn forget(
        &self,
        id: &RecordId,
        what: &Found,
        by: Instant,
    ) -> Result<Option<Found>, StoreError> {
        let values = [Value::Bytes(what.created()), self.channel()];
        found(self.run(&self.scripts.forget, id, &values, by).await?)
    }

    /// Notes that the end of a flight is awaited; `false` if the record is not in flight.
    pub(crate) async fn expect(&self, id: &RecordId) -> Result<bool, StoreError> {
        Ok(number(&self.run(&self.scripts.expect, id, &[], self.deadline()).await?)? == 1)
    }

    pub(crate) async fn look_up(&self, id: &RecordId, by: Instant) -> Result<Option<Found>, StoreError> {
        found(self.run(&self.scripts.look_up, id, &[], by).await?)
    }

    /// Reads an answer that has a key of its own into the row; `false` if it has none, or it is not there any more.
    pub(crate) async fn fetch(
        &self,
        id: &RecordId,
        found: &mut Found,
        by: Instant,
    ) -> Result<bool, StoreError> {
        let Some(apart) = found.apart else { return Ok(false) };
        let mut get = redis::cmd("GET");
        get.arg(self.choices.names.answer(id, apart));
        match self.lines.of(id.digest()).ask(&Ask::Plain(&get), by).await? {
            Reply::BulkString(answer) => found.row.answer = Some(Answer::from_bytes(answer)),
            Reply::Nil => return Ok(false),
            _ => return Err(unexpected()),
        }
        Ok(true)
    }

    /// Puts an answer under a key of its own if it is large, and the server has memory for one.
    async fn put(
        &self,
        id: &RecordId,
        answer: &Answer,
        retention: Retention,
        by: Instant,
    ) -> Result<Option<Apart>, StoreError> {
        if answer.as_bytes().len() <= self.choices.answers_within {
            return Ok(None);
        }
        let apart = Apart::random();
        let lasts = retention.ttl.saturating_add(SLACK).saturating_add(self.choices.limits.step);
        let mut set = redis::Cmd::with_capacity(5, answer.as_bytes().len() + 200);
        set.arg("SET").arg(self.choices.names.answer(id, apart)).arg(&answer.as_bytes()[..]);
        set.arg("PX").arg(millis(lasts));
        match self.lines.of(id.digest()).ask(&Ask::Plain(&set), by).await {
            Ok(_) => Ok(Some(apart)),
            // A server without memory takes no new keys, but what its records have to take.
            Err(error) if error.kind() == StoreErrorKind::Full => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives back the space of an answer; where that fails, its time to live will.
    pub(crate) async fn drop_answer(&self, id: &RecordId, apart: Option<Apart>, by: Instant) {
        if let Some(apart) = apart {
            let mut unlink = redis::cmd("UNLINK");
            unlink.arg(self.choices.names.answer(id, apart));
            let _ = self.lines.of(id.digest()).ask(&Ask::Plain(&unlink), by).await;
        }
    }

    async fn run(
        &self,
        script: &Script,
        id: &RecordId,
        values: &[Value<'_>],
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let keys = &self.keys(id);
        self.lines.of(id.digest()).ask(&Ask::Script { script, keys, values, wait: None }, by).await
    }

    /// Runs a script whose work must not be lost, on replicas, too, if that is wanted.
    async fn run_safely(
        &self,
        script: &Script,
        id: &RecordId,
        values: &[Value<'_>],
        by: Instant,
    ) -> Result<Reply, StoreError> {
        self.run_safely_on(script, id, &self.keys(id), values, by).await
    }

    async fn run_safely_on(
        &self,
        script: &Script,
        id: &RecordId,
        keys: &Keys,
        values: &[Value<'_>],
        by: Instant,
    ) -> Result<Reply, StoreError> {
        match &self.replicas {
            None => {
                let ask = Ask::Script { script, keys, values, wait: None };
                self.lines.of(id.digest()).ask(&ask, by).await
            }
            Some(replicas) => {
                replicas.ask(&Ask::Script { script, keys, values, wait: Some(replicas.wait) }, by).await
            }
        }
    }

    fn keys(&self, id: &RecordId) -> Keys {
        Keys { record: self.choices.names.record(id), answer: None }
    }

    fn channel(&self) -> Value<'_> {
        Value::Bytes(self.choices.names.channel().as_bytes())
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
