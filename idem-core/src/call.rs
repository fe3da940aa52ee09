//! A call: one request to do an operation, on its way through the engine.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::Idempotency;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::{Digest, FingerprintError, Fingerprints, Hasher};
use crate::flight::Flight;
use crate::key::{Key, KeyError, Scope, ToKey};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::owner::Owner;
use crate::policy::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError, Policy};
use crate::record::RecordId;
use crate::run::Run;
use crate::store::Claim;
use crate::value::Keep;

/// One request to do an operation: give it a key and a fingerprint, then run it.
///
/// Made by [`Idempotency::call`]. What is wrong with the key, the scope or the fingerprint is told by `run`. A call that
/// knows its store, `Call<Arc<S>>`, is made by a [`Transactional`](crate::transactional::Transactional) engine.
#[derive(Debug)]
#[must_use = "a call does nothing until it is run"]
pub struct Call<S = ()> {
    store: S,
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
pub(crate) enum Begun {
    Flight(Arc<Flight>),
    Unprotected,
}

impl Call {
    pub(crate) fn new(engine: Idempotency, operation: Operation) -> Self {
        let policy = *engine.config().policy();
        Self {
            store: (),
            engine,
            operation,
            key: Err(KeyError::Missing),
            scope: Ok(Scope::SHARED),
            payload: Payload::Unsaid,
            policy,
            refused: None,
        }
    }
}

impl<S> Call<S> {
    /// The same call, over what is known of its store.
    pub(crate) fn over<O>(self, store: O) -> Call<O> {
        let Self { store: _, engine, operation, key, scope, payload, policy, refused } = self;
        Call { store, engine, operation, key, scope, payload, policy, refused }
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
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

    /// What it has chosen so far.
    pub fn policy(&self) -> &Policy {
        &self.policy
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
        self.execute(Keep::ok().judging(work), |stored| Keep::ok().replay(stored.answer())).await
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
        self.execute_inline(Keep::ok().judging(work), |stored| Keep::ok().replay(stored.answer())).await
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
        self.execute(Keep::both().judging(work), |stored| Keep::both().replay(stored.answer())).await
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
        self.execute_inline(Keep::both().judging(work), |stored| Keep::both().replay(stored.answer())).await
    }

    /// Checks what was given, and makes the record's identity and the claim.
    pub(crate) fn begin(self) -> Result<Begun, Error> {
        let Self { store: _, engine, operation, key, scope, payload, policy, refused } = self;
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
        let slot = engine.0.new_keys.as_ref().map(|keys| keys.slot(&scope));
        Ok(Begun::Flight(Flight::new(engine, id, claim, policy, slot)))
    }
}
