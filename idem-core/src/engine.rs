//! The engine: claims, runs, completes and replays.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::call::Call;
use crate::config::{Builder, Config};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::JsonMemo;
use crate::key::{Key, Scope};
use crate::lease::Leases;
use crate::new_keys::NewKeys;
use crate::operation::{Operation, Place, Site};
use crate::record::{Inspection, RecordId};
use crate::store::{Settle, Settled, Store, StoreError};
use crate::sync::Mutex;
use crate::tracker::Tracker;
use crate::within::within;

/// Makes work under an idempotency key happen once.
///
/// Cheap to clone; all clones share one store and one configuration. Calls need a Tokio runtime with its timers enabled, as
/// `#[tokio::main]` makes it: leases, time-outs and what goes on without its caller run there.
///
/// ```
/// # #[cfg(feature = "memory")] {
/// use idem_core::engine::Idempotency;
/// use idem_core::memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let idem = Idempotency::new(MemoryStore::new());
/// for replayed in [false, true] {
///     let outcome = idem
///         .call("greet")
///         .key("request-1")
///         .fingerprint("world")
///         .run(|_| async { Ok::<_, String>("hello world".to_owned()) })
///         .await?;
///     assert_eq!(outcome.is_replayed(), replayed);
///     assert_eq!(outcome.into_inner().unwrap(), "hello world");
/// }
/// # Ok::<_, idem_core::error::Error>(())
/// # }).unwrap();
/// # }
/// ```
#[derive(Clone)]
pub struct Idempotency(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) leases: Arc<Leases>,
    pub(crate) tracker: Arc<Tracker>,
    pub(crate) json_memo: JsonMemo,
    pub(crate) new_keys: Option<NewKeys>,
    /// Which place in the source does which unpinned operation.
    sites: Mutex<HashMap<String, Place>>,
    number: u64,
}

impl Idempotency {
    /// How many bodies the memo of canonical JSON remembers: 64 bytes each.
    const JSON_MEMO: usize = 4096;

    /// An engine with the default configuration.
    pub fn new(store: impl Store) -> Self {
        Self::with_config(Arc::new(store), Config::default())
    }

    /// Configures an engine.
    pub fn builder(store: impl Store) -> Builder {
        Builder::new(Arc::new(store))
    }

    pub(crate) fn with_config(store: Arc<dyn Store>, config: Config) -> Self {
        static ENGINES: AtomicU64 = AtomicU64::new(1);
        #[cfg(feature = "http")]
        config.http.announce();
        Self(Arc::new(Shared {
            leases: Leases::new(store.clone(), config.store_timeout),
            store,
            new_keys: config.max_new_keys.map(NewKeys::new),
            config,
            tracker: Arc::default(),
            json_memo: JsonMemo::new(Self::JSON_MEMO),
            sites: Mutex::new(HashMap::new()),
            number: ENGINES.fetch_add(1, Ordering::Relaxed),
        }))
    }

    /// Begins a call of `operation`; give it a key and a fingerprint, then run it.
    pub fn call(&self, operation: impl Into<Operation>) -> Call {
        Call::new(self.clone(), operation.into())
    }

    /// Begins the call of an annotated function.
    #[doc(hidden)]
    pub fn call_at(&self, site: &'static Site) -> Call {
        let call = self.call(site.operation());
        match self.check(site) {
            Ok(()) => call,
            Err(error) => call.refused(error),
        }
    }

    /// Refuses an unpinned operation that two places in the source do.
    fn check(&self, site: &'static Site) -> Result<(), Error> {
        if site.is_pinned() || site.was_checked_by(self.0.number) {
            return Ok(());
        }
        let operation = site.operation();
        let place = site.place();
        let first = *self.0.sites.lock().entry(operation.as_str().to_owned()).or_insert(place);
        if first == place {
            site.checked_by(self.0.number);
            return Ok(());
        }
        Err(Error::new(ErrorKind::Misuse).at_operation(&operation).with_detail(format!(
            "the functions at {first} and at {place} have this same name and would answer each other's requests; \
             give each its own with `operation = \"..\"`"
        )))
    }

    /// What this engine was built with.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The memo of canonical JSON, shared by all calls.
    pub fn json_memo(&self) -> &JsonMemo {
        &self.0.json_memo
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// How many handlers and background writes are under way.
    pub fn active(&self) -> usize {
        self.0.tracker.active()
    }

    /// Whether nothing is under way, the renewal of leases included: for tests that must end with nothing left.
    #[doc(hidden)]
    pub fn is_idle(&self) -> bool {
        self.active() == 0 && !self.0.leases.is_renewing()
    }

    /// Waits until no handler and no background write is under way, at most so long; tells how many still are.
    ///
    /// For a graceful shutdown: stop accepting requests first, then drain. Handlers whose callers are gone count.
    pub async fn drain(&self, at_most: Duration) -> usize {
        self.0.tracker.drained(at_most).await
    }

    /// Names the record of a key, to [inspect](Self::inspect), [settle](Self::settle) or [forget](Self::forget) it.
    ///
    /// # Errors
    ///
    /// When the key is none.
    pub fn record_id(&self, operation: impl Into<Operation>, scope: &Scope, key: &Key) -> RecordId {
        RecordId::new(scope, &operation.into(), key)
    }

    /// Tells an operator where a record stands; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached.
    pub async fn inspect(&self, id: &RecordId) -> Result<Option<Inspection>, Error> {
        let record = self.ask(self.0.store.look_up(id)).await.map_err(|error| error.at(id))?;
        Ok(record.map(Inspection::from))
    }

    /// Gives an answer to a record whose outcome is unknown, failed or lapsed.
    ///
    /// Make the answer with [`Answer::json`](crate::answer::Answer::json) for functions. Retries are then answered so for the engine's ttl.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached; the record may be settled.
    pub async fn settle(&self, id: &RecordId, answer: crate::answer::Answer) -> Result<Settled, Error> {
        let answer = self.0.config.seal(id, answer);
        let how = Settle::Complete { answer, retention: self.0.config.policy.retention() };
        self.ask(self.0.store.settle(id, &how)).await.map_err(|error| error.at(id))
    }

    /// Forgets a record, whatever its state: the next call with its key runs as new.
    ///
    /// The holder of a record in flight finds its lease lost, but what it did until then is done.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached; the record may be forgotten.
    pub async fn forget(&self, id: &RecordId) -> Result<Settled, Error> {
        self.ask(self.0.store.settle(id, &Settle::Forget)).await.map_err(|error| error.at(id))
    }

    async fn ask<T>(&self, step: impl Future<Output = Result<T, StoreError>>) -> Result<T, Error> {
        within(self.0.config.store_timeout, step).await.map_err(Error::from_store)
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("store", &self.0.store)
            .field("active", &self.active())
            .finish_non_exhaustive()
    }
}
