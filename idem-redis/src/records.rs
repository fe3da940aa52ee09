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
use crate::clock::Clock;
use crate::fault::unexpected;
use crate::layout::{self, Apart, Found, millis};
use crate::line::{Ask, Lines};
use crate::place::Place;
use crate::replicas::Replicas;
use crate::script::{Script, Scripts, Value};
use crate::server;

/// How much longer than its record says, and than a step can take, an answer of its own key is kept.
const SLACK: Duration = Duration::from_mins(1);

/// The records on a server. Each step has a time by which it has to be done.
#[derive(Debug)]
pub(crate) struct Records {
    lines: Lines,
    /// `None` where none is waited for.
    replicas: Option<Replicas>,
    scripts: Scripts,
    clock: Clock,
    choices: Choices,
}

/// What came of a claim without a script.
#[expect(clippy::large_enum_variant, reason = "it is looked into at once, and kept nowhere")]
enum Plainly {
    Claimed,
    Found(Found),
    /// Nothing, that is to be told without the server's clock.
    Cannot,
}

/// An answer as its record is to have it.
pub(crate) struct Part {
    bytes: Vec<u8>,
    apart: Option<Apart>,
}

impl Records {
    pub(crate) fn new(place: &Arc<Place>, choices: Choices) -> Self {
        let Choices { connections, limits, replicas, .. } = choices;
        Self {
            lines: Lines::new(place, connections, limits),
            replicas: (replicas > 0).then(|| Replicas::new(place, replicas, limits)),
            scripts: Scripts::new(),
            clock: Clock::default(),
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
        self.choices.allow_eviction
    }

    /// What the server tells of itself.
    pub(crate) async fn info(&self) -> Result<Reply, StoreError> {
        self.lines.of(&[0; 32]).ask(&Ask::Plain(&redis::cmd("INFO")), self.deadline()).await
    }

    /// Looks at the server's clock; if that cannot be, the first reply that has its time will do.
    pub(crate) async fn look_at_clock(&self) {
        let asked = Instant::now();
        let told = self.lines.of(&[0; 32]).ask(&Ask::Plain(&redis::cmd("TIME")), self.deadline()).await;
        if let Some(now) = told.ok().as_ref().and_then(server::millis) {
            self.clock.is(now, asked);
        }
    }

    /// Claims a record that is absent, or reads what is there.
    pub(crate) async fn claim(
        &self,
        id: &RecordId,
        claim: &Claim,
        by: Instant,
    ) -> Result<Option<Found>, StoreError> {
        match self.claim_plainly(id, claim, by).await? {
            Plainly::Claimed => Ok(None),
            Plainly::Found(found) => Ok(Some(found)),
            Plainly::Cannot => self.claim_by_script(id, claim, by).await,
        }
    }

    /// Claims without a script, which takes the server a third of the time, if what there is can be told without its clock.
    async fn claim_plainly(&self, id: &RecordId, claim: &Claim, by: Instant) -> Result<Plainly, StoreError> {
        let life = layout::life(claim);
        let Some(about) = self.clock.about() else { return Ok(Plainly::Cannot) };
        // What stays for ever has no expiry to count from, and who waits for replicas has to know whether it wrote.
        if !(2..layout::NEVER_MILLIS).contains(&life) || self.replicas.is_some() {
            return Ok(Plainly::Cannot);
        }
        let (key, record) = (self.choices.names.record(id), layout::fresh(id, claim, life));
        let mut set = redis::Cmd::with_capacity(6, key.len() + record.len() + 40);
        set.arg("SET").arg(key).arg(record).arg("NX").arg("GET").arg("PX").arg(life - 1);
        match self.lines.of(id.digest()).ask(&Ask::Plain(&set), by).await {
            Ok(Reply::Nil) => Ok(Plainly::Claimed),
            Ok(Reply::BulkString(raw)) => {
                let mut found = layout::read(Bytes::from(raw), about, None)?;
                if !found.tells_without_clock(claim) {
                    return Ok(Plainly::Cannot);
                }
                // It is there, so it has not expired, whatever is told of the clock.
                found.row.now = found.row.now.min(found.row.expires_at - 1);
                Ok(Plainly::Found(found))
            }
            Ok(_) => Err(unexpected()),
            // It may still tell what there is.
            Err(error) if error.kind() == StoreErrorKind::Full => Ok(Plainly::Cannot),
            Err(error) => Err(error),
        }
    }

    async fn claim_by_script(
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
        let asked = Instant::now();
        match self.run_safely(&self.scripts.claim, id, &values, by).await? {
            Reply::Int(1) => Ok(None),
            reply => self.found(reply, asked)?.ok_or_else(unexpected).map(Some),
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
        part: &Part,
        retention: Retention,
        by: Instant,
    ) -> Result<i64, StoreError> {
        self.answer(&self.scripts.complete, id, owner, part, retention, by).await
    }

    /// Gives an answer to a record that has no holder; 1 if it is done, 2 if it has one, 0 if it is absent.
    pub(crate) async fn settle(
        &self,
        id: &RecordId,
        nobody: Owner,
        part: &Part,
        retention: Retention,
        by: Instant,
    ) -> Result<i64, StoreError> {
        self.answer(&self.scripts.settle, id, nobody, part, retention, by).await
    }

    async fn answer(
        &self,
        script: &Script,
        id: &RecordId,
        owner: Owner,
        part: &Part,
        retention: Retention,
        by: Instant,
    ) -> Result<i64, StoreError> {
        let values = [
            Value::Bytes(owner.as_bytes()),
            Value::Bytes(&part.bytes),
            Value::Int(millis(retention.ttl)),
            Value::Int(layout::retained(retention)),
            self.channel(),
        ];
        number(&self.run_safely(script, id, &values, by).await?)
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
        let values = [Value::Int(what.created()), self.channel()];
        self.find(&self.scripts.forget, id, &values, by).await
    }

    /// Notes that the end of a flight is awaited; `false` if the record is not in flight.
    pub(crate) async fn expect(&self, id: &RecordId) -> Result<bool, StoreError> {
        Ok(number(&self.run(&self.scripts.expect, id, &[], self.deadline()).await?)? == 1)
    }

    pub(crate) async fn look_up(&self, id: &RecordId, by: Instant) -> Result<Option<Found>, StoreError> {
        self.find(&self.scripts.look_up, id, &[], by).await
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
    pub(crate) async fn put(
        &self,
        id: &RecordId,
        answer: &Answer,
        retention: Retention,
        by: Instant,
    ) -> Result<Part, StoreError> {
        if answer.as_bytes().len() <= self.choices.answers_within {
            return Ok(Part { bytes: layout::within(answer), apart: None });
        }
        let apart = Apart::random();
        let lasts = retention.ttl.saturating_add(SLACK).saturating_add(self.choices.limits.step);
        let mut set = redis::Cmd::with_capacity(5, answer.as_bytes().len() + 200);
        set.arg("SET").arg(self.choices.names.answer(id, apart)).arg(&answer.as_bytes()[..]);
        set.arg("PX").arg(millis(lasts));
        match self.lines.of(id.digest()).ask(&Ask::Plain(&set), by).await {
            Ok(_) => Ok(Part { bytes: layout::elsewhere(apart), apart: Some(apart) }),
            // A server without memory takes no new keys, but what its records have to take.
            Err(error) if error.kind() == StoreErrorKind::Full => {
                Ok(Part { bytes: layout::within(answer), apart: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives back the space of an answer that no record has.
    pub(crate) async fn take_back(&self, id: &RecordId, part: &Part, by: Instant) {
        self.drop_answer(id, part.apart, by).await;
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
        let key = &self.choices.names.record(id);
        self.lines.of(id.digest()).ask(&Ask::Script { script, key, values, wait: None }, by).await
    }

    /// Runs a script whose work must not be lost, on replicas, too, if that is wanted.
    async fn run_safely(
        &self,
        script: &Script,
        id: &RecordId,
        values: &[Value<'_>],
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let Some(replicas) = &self.replicas else { return self.run(script, id, values, by).await };
        let key = &self.choices.names.record(id);
        replicas.ask(&Ask::Script { script, key, values, wait: Some(replicas.wait) }, by).await
    }

    /// Runs a script that replies with a record, if there is one.
    async fn find(
        &self,
        script: &Script,
        id: &RecordId,
        values: &[Value<'_>],
        by: Instant,
    ) -> Result<Option<Found>, StoreError> {
        let asked = Instant::now();
        self.found(self.run(script, id, values, by).await?, asked)
    }

    /// The record in a reply that has one.
    fn found(&self, reply: Reply, asked: Instant) -> Result<Option<Found>, StoreError> {
        let mut parts = match reply {
            Reply::Int(0) => return Ok(None),
            Reply::Array(parts) => parts.into_iter(),
            _ => return Err(unexpected()),
        };
        let (now, raw, expires) = match (parts.next(), parts.next(), parts.next()) {
            (Some(Reply::Int(now)), Some(Reply::BulkString(raw)), None) => (now, raw, None),
            (Some(Reply::Int(now)), Some(Reply::BulkString(raw)), Some(Reply::Int(expires))) => {
                (now, raw, Some(expires))
            }
            _ => return Err(unexpected()),
        };
        self.clock.is(now, asked);
        layout::read(Bytes::from(raw), now, expires).map(Some)
    }

    fn channel(&self) -> Value<'_> {
        Value::Bytes(self.choices.names.channel().as_bytes())
    }
}

/// The number in a reply that is one.
fn number(reply: &Reply) -> Result<i64, StoreError> {
    if let Reply::Int(number) = reply { Ok(*number) } else { Err(unexpected()) }
}
