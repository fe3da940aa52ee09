//! A call: one request to do an operation, on its way through the engine.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::background;
use crate::detach::Detach;
use crate::engine::Idempotency;
use crate::error::{Error, ErrorKind, ReplayError};
use crate::fingerprint::{Digest, FingerprintError, Fingerprints, Hasher};
use crate::flight::{Boarding, End, Flight};
use crate::key::{Key, KeyError, Scope, ToKey};
use crate::lease::Abort;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::owner::Owner;
use crate::policy::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError, Policy, Verdict};
use crate::record::RecordId;
use crate::run::{RUN, Run};
use crate::store::{Claim, Claimed};
use crate::sync::{Instant, Spawner};
use crate::telemetry::Watch;
use crate::value::Keep;

/// One request to do an operation: give it a key and a fingerprint, then run it.
///
/// Made by [`Idempotency::call`]. What is wrong with the key, the scope or the fingerprint is told by `run`.
#[derive(Debug)]
#[must_use = "a call does nothing until it is run"]
pub struct Call {
    engine: Idempotency,
    operation: Operation,
    key: Result<Key, KeyError>,
    scope: Result<Scope, KeyError>,
    payload: Payload,
    policy: Policy,
    refused: Option<Error>,
}

/// What is known of what was asked for.
#[derive(Debug)]
enum Payload {
    Unsaid,
    Uncompared,
    Digest(Digest),
    Failed(FingerprintError),
}

/// What a call becomes.
enum Begun {
    Flight(Arc<Flight>),
    Unprotected,
}

impl Call {
    pub(crate) fn new(engine: Idempotency, operation: Operation) -> Self {
        let policy = *engine.config().policy();
        Self {
            engine,
            operation,
            key: Err(KeyError::Missing),
            scope: Ok(Scope::SHARED),
            payload: Payload::Unsaid,
            policy,
            refused: None,
        }
    }

    pub(crate) fn refused(mut self, error: Error) -> Self {
        self.refused = Some(error);
        self
    }

    /// Sets the idempotency key: text, an integer, a `Uuid`, an `Option` or a tuple of those; see [`ToKey`].
    pub fn key<K: ToKey + ?Sized>(self, key: &K) -> Self {
        self.key_result(Key::new(key))
    }

    /// Sets the idempotency key, or why there is none.
    pub fn key_result(mut self, key: Result<Key, KeyError>) -> Self {
        self.key = key;
        self
    }

    /// Says who is asking; records of two scopes never meet. Default: [shared](Self::shared).
    pub fn scope<K: ToKey + ?Sized>(mut self, scope: &K) -> Self {
        self.scope = Scope::new(scope);
        self
    }

    /// Lets all callers share one scope: right for message ids, a leak for keys that strangers choose.
    pub fn shared(mut self) -> Self {
        self.scope = Ok(Scope::SHARED);
        self
    }

    /// Says what is asked for; another value under the same key is a mismatch.
    pub fn fingerprint<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let mut hasher = Hasher::new(self.operation.as_str());
        let digest = hasher.value("value", value).map(|()| hasher.finish());
        self.fingerprint_digest(digest)
    }

    /// Says what is asked for by a digest that is already made.
    pub fn fingerprint_digest(mut self, digest: Result<Digest, FingerprintError>) -> Self {
        self.payload = match digest {
            Ok(digest) => Payload::Digest(digest),
            Err(error) => Payload::Failed(error),
        };
        self
    }

    /// **Unsafe**: compares nothing, so that any payload under a used key gets the stored answer.
    pub fn unfingerprinted(mut self) -> Self {
        self.payload = Payload::Uncompared;
        self
    }

    /// Sets how long the answer is replayed, from completion; see [`Policy::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = ttl;
        self
    }

    /// Sets how long the claim holds unless it is renewed; see [`Policy::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.policy.lease = lease;
        self
    }

    /// Sets how long the work may run; see [`Policy::max_run`].
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.policy.max_run = max_run;
        self
    }

    /// Sets what a caller gets while another holds the key; see [`Policy::in_flight`].
    pub fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.policy.in_flight = in_flight;
        self
    }

    /// Sets what happens to a key whose answer has expired; see [`Policy::expired`].
    pub fn expired(mut self, expired: Expired) -> Self {
        self.policy.expired = expired;
        self
    }

    /// Sets how long an expired key is refused; see [`Policy::tombstone_ttl`].
    pub fn tombstone_ttl(mut self, tombstone_ttl: Duration) -> Self {
        self.policy.tombstone_ttl = tombstone_ttl;
        self
    }

    /// Sets what happens to work whose holder crashed or failed; see [`Policy::on_crash`].
    pub fn on_crash(mut self, on_crash: OnCrash) -> Self {
        self.policy.on_crash = on_crash;
        self
    }

    /// Sets what a caller that goes away does to the work; see [`Policy::on_disconnect`].
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.policy.on_disconnect = on_disconnect;
        self
    }

    /// Sets what happens if the store cannot be asked; see [`Policy::on_store_error`].
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.policy.on_store_error = on_store_error;
        self
    }

    /// Sets what happens without a key; see [`Policy::missing`].
    pub fn missing(mut self, missing: Missing) -> Self {
        self.policy.missing = missing;
        self
    }

    /// Lets a failed key be used again with another payload; see [`Policy::rebind`].
    pub fn rebind(mut self, rebind: bool) -> Self {
        self.policy.rebind = rebind;
        self
    }

    /// The operation that is called.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// The engine that will run it.
    pub fn engine(&self) -> &Idempotency {
        &self.engine
    }

    /// Runs the work once and stores its `Ok` as JSON; an `Err` is not stored, and the key stays bound to its payload.
    ///
    /// The work goes on if the caller goes away. Use [`run_inline`](Self::run_inline) for work that borrows.
    ///
    /// # Errors
    ///
    /// When the work did not run and there is no answer to replay: [`ErrorKind`] says why. The key is claimed by this
    /// call only if it is [`ErrorKind::Aborted`] or [`ErrorKind::LeaseLost`], and even then no longer.
    pub async fn run<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Run) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
    {
        self.execute(Keep::ok().judging(work), |answer| Keep::ok().replay(answer)).await
    }

    /// As [`run`](Self::run), in the caller's own future: for work that borrows, or is not `Send`.
    ///
    /// If the future is dropped while the work runs, that counts as a crash: the key is held until its lease ends.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_inline<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
    {
        self.execute_inline(Keep::ok().judging(work), |answer| Keep::ok().replay(answer)).await
    }

    /// As [`run`](Self::run), and an `Err` is final, too: it is stored and replayed.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_storing_err<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Run) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Serialize + DeserializeOwned + Send + 'static,
    {
        self.execute(Keep::both().judging(work), |answer| Keep::both().replay(answer)).await
    }

    /// As [`run_inline`](Self::run_inline), and an `Err` is final, too: it is stored and replayed.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_inline_storing_err<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
    {
        self.execute_inline(Keep::both().judging(work), |answer| Keep::both().replay(answer)).await
    }

    /// Runs work that says itself what becomes of the record: for adapters.
    ///
    /// The work goes on if the caller goes away, unless [`OnDisconnect::Cancel`] is set.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and what `replay` makes of a stored answer that it cannot use.
    pub async fn execute<R, F, Fut, D>(self, work: F, replay: D) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Run) -> Fut + Send + 'static,
        Fut: Future<Output = (R, Verdict)> + Send + 'static,
        R: Send + 'static,
        D: FnOnce(&Answer) -> Result<R, ReplayError>,
    {
        if self.policy.on_disconnect == OnDisconnect::Cancel {
            return Box::pin(self.execute_inline(work, replay)).await;
        }
        let watch = Watch::new(&self.operation);
        watch
            .over(async {
                let flight = match self.begin()? {
                    Begun::Flight(flight) => flight,
                    Begun::Unprotected => return Ok(Box::pin(unprotected(work)).await),
                };
                watch.record(&flight);
                let mut patience = Patience::new(&flight);
                let mut work = work;
                loop {
                    let carry = flight.engine().config().carry.as_ref();
                    match Detach::new(flight.clone(), carry, whole(flight.clone(), work)).await {
                        Step::Ended(end) => return conclude(&flight, end, replay).await,
                        Step::Refused(claimed, unused) => match patience.refused(&flight, claimed).await? {
                            Some(answer) => return replayed(&flight, &answer, replay),
                            None => work = unused,
                        },
                        Step::Unclaimed(error, unused) => {
                            unclaimed(&flight, error)?;
                            return Ok(Box::pin(unprotected(unused)).await);
                        }
                        Step::Abandoned => return Err(flight.refusal(&Claimed::Granted { attempt: 0 })),
                    }
                }
            })
            .await
    }

    /// As [`execute`](Self::execute), in the caller's own future: for work that borrows, or is not `Send`.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    pub async fn execute_inline<R, F, Fut, D>(self, work: F, replay: D) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = (R, Verdict)>,
        D: FnOnce(&Answer) -> Result<R, ReplayError>,
    {
        let watch = Watch::new(&self.operation);
        watch
            .over(async {
                let flight = match self.begin()? {
                    Begun::Flight(flight) => flight,
                    Begun::Unprotected => return Ok(Box::pin(unprotected(work)).await),
                };
                watch.record(&flight);
                let mut patience = Patience::new(&flight);
                loop {
                    let carry = flight.engine().config().carry.as_ref();
                    match Detach::new(flight.clone(), carry, claim_or_undo(flight.clone())).await {
                        Ok(Boarding::Granted(grant)) => {
                            let cancel = CancelOnDrop::new(&flight);
                            let end = flight.run(grant, work, true).await;
                            cancel.disarm();
                            return match end {
                                End::Fresh(result) => Ok(Outcome::Fresh(result)),
                                end => Box::pin(conclude(&flight, end, replay)).await,
                            };
                        }
                        Ok(Boarding::Refused(claimed)) => {
                            if let Some(answer) = patience.refused(&flight, claimed).await? {
                                return replayed(&flight, &answer, replay);
                            }
                        }
                        Err(error) => {
                            unclaimed(&flight, error)?;
                            return Ok(Box::pin(unprotected(work)).await);
                        }
                    }
                }
            })
            .await
    }

    /// Checks what was given, and makes the record's identity and the claim.
    fn begin(self) -> Result<Begun, Error> {
        let Self { engine, operation, key, scope, payload, policy, refused } = self;
        if let Some(error) = refused {
            return Err(error);
        }
        let error = |kind: ErrorKind| Error::new(kind).at_operation(&operation);
        if let Some(fault) = policy.fault() {
            return Err(error(ErrorKind::Misuse).with_detail(fault));
        }
        if operation.as_str().is_empty() || operation.as_str().len() > Operation::MAX_LEN {
            return Err(error(ErrorKind::Misuse).with_detail("an operation's name has 1 to 255 bytes"));
        }
        if matches!(key, Err(KeyError::Missing)) && policy.missing == Missing::Run {
            return Ok(Begun::Unprotected);
        }
        let digest = match payload {
            Payload::Digest(digest) => Some(digest),
            Payload::Uncompared => None,
            Payload::Failed(cause) => return Err(error(ErrorKind::FingerprintFailed).with_source(cause)),
            Payload::Unsaid => {
                return Err(error(ErrorKind::Misuse).with_detail(
                    "the call has no fingerprint; give it one with `.fingerprint(&request)`, or say `.unfingerprinted()`",
                ));
            }
        };
        let key = match (key, policy.missing, digest) {
            (Ok(key), ..) => key,
            (Err(KeyError::Missing), Missing::Derive, Some(digest)) => {
                Key::derived(&digest).map_err(|cause| error(ErrorKind::KeyInvalid).with_source(cause))?
            }
            (Err(KeyError::Missing), Missing::Derive, None) => {
                return Err(error(ErrorKind::Misuse)
                    .with_detail("`missing = derive` needs a fingerprint to derive the key from"));
            }
            (Err(KeyError::Missing), ..) => return Err(error(ErrorKind::KeyRequired)),
            (Err(cause), ..) => {
                return Err(error(ErrorKind::KeyInvalid).with_detail(cause.to_string()).with_source(cause));
            }
        };
        let scope = scope.map_err(|cause| {
            error(ErrorKind::ScopeInvalid).with_detail(cause.to_string()).with_source(cause)
        })?;
        let fingerprints = match digest {
            Some(digest) => engine.config().secrets.seal(digest),
            None => Fingerprints::none(),
        };
        let claim = Claim {
            owner: Owner::random(),
            fingerprints,
            lease: policy.lease,
            binding: policy.ttl,
            on_crash: policy.on_crash,
            rebind: policy.rebind,
        };
        let id = RecordId::new(&scope, &operation, &key);
        Ok(Begun::Flight(Flight::new(engine, id, claim, policy)))
    }
}

/// What came of a claim and, if it was granted, of the run.
enum Step<R, F> {
    Ended(End<R>),
    Refused(Claimed, F),
    Unclaimed(Error, F),
    /// Nobody is there to hear it.
    Abandoned,
}

/// Claims, runs and completes; goes on if the caller goes away, but does not begin the work then.
async fn whole<R, F, Fut>(flight: Arc<Flight>, work: F) -> Step<R, F>
where
    F: FnOnce(Run) -> Fut,
    Fut: Future<Output = (R, Verdict)>,
{
    match flight.claim().await {
        Ok(Boarding::Granted(grant)) if flight.is_abandoned() => {
            flight.undo(grant).await;
            Step::Abandoned
        }
        Ok(Boarding::Granted(grant)) => Step::Ended(flight.run(grant, work, false).await),
        Ok(Boarding::Refused(claimed)) => Step::Refused(claimed, work),
        Err(error) => Step::Unclaimed(error, work),
    }
}

/// Claims; gives the claim back if the caller has gone away meanwhile.
async fn claim_or_undo(flight: Arc<Flight>) -> Result<Boarding, Error> {
    match flight.claim().await? {
        Boarding::Granted(grant) if flight.is_abandoned() => {
            flight.undo(grant).await;
            Err(flight.refusal(&Claimed::Granted { attempt: 0 }))
        }
        boarding => Ok(boarding),
    }
}

/// Runs the work without a record.
async fn unprotected<R, F, Fut>(work: F) -> Outcome<R>
where
    F: FnOnce(Run) -> Fut,
    Fut: Future<Output = (R, Verdict)>,
{
    let run = Run::unprotected();
    let (result, _) = RUN.scope(run.clone(), async move { work(run).await }).await;
    Outcome::Unprotected(result)
}

/// Lets the call go on without a record if its policy says so.
fn unclaimed(flight: &Flight, error: Error) -> Result<(), Error> {
    let unsafe_run = flight.policy().on_store_error == OnStoreError::Run;
    if unsafe_run && error.kind() == ErrorKind::StoreUnavailable {
        tracing::warn!(record = %flight.id(), %error, "running without protection, as on_store_error = run says");
        return Ok(());
    }
    Err(error)
}

fn replayed<R>(
    flight: &Flight,
    answer: &Answer,
    replay: impl FnOnce(&Answer) -> Result<R, ReplayError>,
) -> Result<Outcome<R>, Error> {
    match replay(answer) {
        Ok(result) => Ok(Outcome::Replayed(result)),
        Err(error) => Err(Error::from_replay(error).at(flight.id())),
    }
}

/// What the caller gets when the run has ended.
async fn conclude<R>(
    flight: &Flight,
    end: End<R>,
    replay: impl FnOnce(&Answer) -> Result<R, ReplayError>,
) -> Result<Outcome<R>, Error> {
    match end {
        End::Fresh(result) => Ok(Outcome::Fresh(result)),
        End::Aborted(Abort::Over) => Err(Error::new(ErrorKind::Aborted).at(flight.id())),
        // Whoever lost the record answers what the record says.
        End::Aborted(Abort::Lost) => replayed(flight, &flight.verdict_of_record().await?, replay),
        End::Fenced { failed } => match (flight.verdict_of_record().await, failed) {
            (Ok(answer), _) => replayed(flight, &answer, replay),
            (Err(_), Some(result)) => Ok(Outcome::Fresh(result)),
            (Err(error), None) => Err(error),
        },
    }
}

/// How long a caller waits for another to finish.
struct Patience {
    deadline: Option<Instant>,
}

impl Patience {
    fn new(flight: &Flight) -> Self {
        const FAR: Duration = Duration::from_hours(24 * 365);
        Self {
            deadline: match flight.policy().in_flight {
                InFlight::Reject => None,
                InFlight::Wait(at_most) => Some(Instant::now() + at_most.min(FAR)),
            },
        }
    }

    /// What to do about a refused claim: replay the answer, or (`None`) claim again.
    async fn refused(&mut self, flight: &Flight, claimed: Claimed) -> Result<Option<Answer>, Error> {
        match (claimed, self.deadline) {
            (Claimed::Completed { answer, .. }, _) => Ok(Some(answer)),
            (Claimed::InFlight { lease_left }, Some(deadline)) if Instant::now() < deadline => {
                // When the lease ends the record may be had, and nobody announces that.
                let lapse = lease_left.saturating_add(Duration::from_millis(1));
                let left = deadline.saturating_duration_since(Instant::now());
                Box::pin(flight.changed(left.min(lapse))).await;
                Ok(None)
            }
            (refused, _) => Err(flight.refusal(&refused)),
        }
    }
}

/// Frees the key if the future is dropped while the work runs, where the policy says so.
struct CancelOnDrop(Option<(Arc<Flight>, Spawner)>);

impl CancelOnDrop {
    fn new(flight: &Arc<Flight>) -> Self {
        let cancels = flight.policy().on_disconnect == OnDisconnect::Cancel;
        let spawner = if cancels { Spawner::current() } else { None };
        Self(spawner.map(|spawner| (flight.clone(), spawner)))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some((flight, spawner)) = self.0.take() {
            background::cancel(&spawner, flight);
        }
    }
}
