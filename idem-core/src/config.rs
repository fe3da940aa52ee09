//! Configuration of an engine.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Answer, Undecodable};
use crate::detach::Carry;
use crate::engine::Idempotency;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Secrets;
use crate::new_keys::Limit;
use crate::policy::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError, Policy};
use crate::record::RecordId;
use crate::store::Store;
use crate::transaction::TransactionalStore;
use crate::transactional::Transactional;

/// What an engine was built with.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) policy: Policy,
    pub(crate) store_timeout: Duration,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) max_new_keys: Option<Limit>,
    pub(crate) max_response_bytes: usize,
    #[cfg(feature = "http")]
    pub(crate) http: Arc<crate::http::policy::HttpPolicy>,
    pub(crate) secrets: Secrets,
    #[cfg(feature = "encryption")]
    pub(crate) keyring: crate::keyring::Keyring,
    pub(crate) carry: Option<Carry>,
}

impl Config {
    /// One mebibyte: the default limit of what is kept of an answer.
    pub const DEFAULT_MAX_BYTES: usize = 1024 * 1024;

    /// What calls start from.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The longest answer that is kept, in bytes; of a longer one only a tombstone is.
    pub fn max_response_bytes(&self) -> usize {
        self.max_response_bytes
    }

    /// What HTTP operations start from.
    #[cfg(feature = "http")]
    pub fn http(&self) -> &Arc<crate::http::policy::HttpPolicy> {
        &self.http
    }

    /// The answer as the store keeps it for this record.
    #[cfg_attr(not(feature = "encryption"), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn seal(&self, id: &RecordId, answer: Answer) -> Answer {
        #[cfg(feature = "encryption")]
        let answer = self.keyring.seal(id, answer);
        answer
    }

    /// The answer that the store kept for this record.
    #[cfg_attr(
        not(feature = "encryption"),
        allow(unused_variables, clippy::unused_self, clippy::unnecessary_wraps)
    )]
    pub(crate) fn open(&self, id: &RecordId, answer: Answer) -> Result<Answer, Undecodable> {
        #[cfg(feature = "encryption")]
        let answer = self.keyring.open(id, answer)?;
        Ok(answer)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            store_timeout: Duration::from_secs(5),
            max_in_flight: None,
            max_new_keys: None,
            max_response_bytes: Self::DEFAULT_MAX_BYTES,
            #[cfg(feature = "http")]
            http: Arc::default(),
            secrets: Secrets::none(),
            #[cfg(feature = "encryption")]
            keyring: crate::keyring::Keyring::none(),
            carry: None,
        }
    }
}

/// Builds an [`Idempotency`] engine, or a [`Transactional`] one, which knows its store.
#[derive(Debug)]
#[must_use]
pub struct Builder<S = ()> {
    store: Arc<dyn Store>,
    typed: S,
    pub(crate) config: Config,
}

impl Builder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, typed: (), config: Config::default() }
    }

    /// Builds the engine.
    ///
    /// # Errors
    ///
    /// When a duration or limit is zero, which would protect nothing, or an option has a value that it cannot have.
    pub fn build(self) -> Result<Idempotency, Error> {
        self.engine().map(|(engine, ())| engine)
    }
}

impl<S: TransactionalStore> Builder<Arc<S>> {
    pub(crate) fn typed(store: Arc<S>) -> Self {
        Self { store: store.clone(), typed: store, config: Config::default() }
    }

    /// Builds the engine.
    ///
    /// # Errors
    ///
    /// When a duration or limit is zero, which would protect nothing, or an option has a value that it cannot have.
    pub fn build(self) -> Result<Transactional<S>, Error> {
        self.engine().map(|(engine, store)| Transactional::over(engine, store))
    }
}

impl<S> Builder<S> {
    /// Sets how long answers are replayed, from their completion. Default: 24 hours.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.config.policy.ttl = ttl;
        self
    }

    /// Sets how long a claim holds unless it is renewed. Default: 30 seconds.
    ///
    /// It bounds how long a crash blocks a key; handlers may run longer, since claims are renewed.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.policy.lease = lease;
        self
    }

    /// Sets how long a handler may run before it is aborted and its key freed. Default: 15 minutes.
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.config.policy.max_run = max_run;
        self
    }

    /// Sets what a caller gets while another holds the key. Default: an error.
    pub fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.config.policy.in_flight = in_flight;
        self
    }

    /// Sets what happens to a key whose answer has expired. Default: it runs as new.
    pub fn expired(mut self, expired: Expired) -> Self {
        self.config.policy.expired = expired;
        self
    }

    /// Sets how long an expired key is refused under [`Expired::Reject`]. Default: 30 days.
    pub fn tombstone_ttl(mut self, tombstone_ttl: Duration) -> Self {
        self.config.policy.tombstone_ttl = tombstone_ttl;
        self
    }

    /// Sets what happens to work whose holder crashed or failed. Default: the next caller takes over.
    pub fn on_crash(mut self, on_crash: OnCrash) -> Self {
        self.config.policy.on_crash = on_crash;
        self
    }

    /// Sets what a caller that goes away does to its handler. Default: it finishes.
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.config.policy.on_disconnect = on_disconnect;
        self
    }

    /// Sets what happens if the store cannot be asked. Default: an error.
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.config.policy.on_store_error = on_store_error;
        self
    }

    /// Sets what happens to a call without a key. Default: an error.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.config.policy.missing = missing;
        self
    }

    /// Sets how long a step of the store may take. Default: 5 seconds.
    ///
    /// After that a claim is refused with 503, and a completion goes on in the background.
    pub fn store_timeout(mut self, store_timeout: Duration) -> Self {
        self.config.store_timeout = store_timeout;
        self
    }

    /// Sets how many handlers may run at once; live keys still replay beyond it. Default: no limit.
    pub fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.config.max_in_flight = Some(max_in_flight);
        self
    }

    /// Sets how many new keys a scope may use in a while, in this process. Default: no limit.
    ///
    /// So many at once, and then as they come in at an even rate: 600 an hour are one every six seconds. Beyond it a new
    /// key is refused with 429 and a `Retry-After`, and nothing is written. Replays and retries are not counted and go on;
    /// while a scope has none left, a key costs a look at the store first. A claim counts while it is on its way, until its
    /// key turns out to be an old one. The shared scope is one scope. At most 131,072 scopes are remembered; with more at it
    /// at once, those that claimed least recently begin anew.
    pub fn max_new_keys(mut self, keys: u32, per: Duration) -> Self {
        self.config.max_new_keys = Some(Limit { keys, per });
        self
    }

    /// Sets the longest answer that is kept, in bytes; of a longer one only a tombstone is. Default: 1 MiB.
    pub fn max_response_bytes(mut self, max_response_bytes: usize) -> Self {
        self.config.max_response_bytes = max_response_bytes;
        self
    }

    /// Keys the fingerprints with a secret, so that a leaked table does not give away low-entropy payloads.
    pub fn fingerprint_secrets(mut self, secrets: Secrets) -> Self {
        self.config.secrets = secrets;
        self
    }

    /// Encrypts answers before the store has them, and opens those that it kept. Default: they are stored in clear.
    #[cfg(feature = "encryption")]
    pub fn encrypt_answers(mut self, keyring: crate::keyring::Keyring) -> Self {
        self.config.keyring = keyring;
        self
    }

    /// Carries the application's task-locals into handlers that go on without their caller.
    pub fn carry(mut self, carry: Carry) -> Self {
        self.config.carry = Some(carry);
        self
    }

    fn engine(self) -> Result<(Idempotency, S), Error> {
        let fault = self.config.policy.fault().or_else(|| {
            if self.config.store_timeout.is_zero() {
                Some("a store_timeout of zero would never reach the store")
            } else if self.config.max_in_flight == Some(0) {
                Some("a max_in_flight of zero would run nothing")
            } else if self.config.max_new_keys.is_some_and(|limit| limit.keys == 0 || limit.per.is_zero()) {
                Some("max_new_keys needs a number of keys and a time, and neither may be zero")
            } else {
                None
            }
        });
        #[cfg(feature = "http")]
        let fault = fault.or_else(|| self.config.http.fault());
        match fault {
            Some(fault) => Err(Error::new(ErrorKind::Misuse).with_detail(fault)),
            None => Ok((Idempotency::with_config(self.store, self.config), self.typed)),
        }
    }
}
