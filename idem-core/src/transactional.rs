//! The engine of a store that has transactions.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::call::Call;
use crate::config::Builder;
use crate::engine::Idempotency;
use crate::operation::{Operation, Site};
use crate::transaction::TransactionalStore;

/// An [`Idempotency`] engine that knows its store's transactions: claim, writes and answer commit together.
///
/// It does all that an [`Idempotency`] does, and its calls can also [`transact`](Call::transact). Clones share it.
pub struct Transactional<S> {
    engine: Idempotency,
    store: Arc<S>,
}

impl<S: TransactionalStore> Transactional<S> {
    /// An engine with the default configuration.
    pub fn new(store: S) -> Self {
        let store = Arc::new(store);
        Self { engine: Idempotency::new(store.clone()), store }
    }

    /// Configures an engine.
    pub fn builder(store: S) -> Builder<Arc<S>> {
        Builder::typed(Arc::new(store))
    }

    pub(crate) fn over(engine: Idempotency, store: Arc<S>) -> Self {
        Self { engine, store }
    }

    /// Begins a call of `operation`; give it a key and a fingerprint, then run or transact it.
    pub fn call(&self, operation: impl Into<Operation>) -> Call<Arc<S>> {
        self.engine.call(operation).over(self.store.clone())
    }

    /// Begins the call of an annotated function.
    #[doc(hidden)]
    pub fn call_at(&self, site: &'static Site) -> Call<Arc<S>> {
        self.engine.call_at(site).over(self.store.clone())
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The engine, for what needs no transaction.
    pub fn engine(&self) -> &Idempotency {
        &self.engine
    }
}

impl<S> Deref for Transactional<S> {
    type Target = Idempotency;

    fn deref(&self) -> &Idempotency {
        &self.engine
    }
}

impl<S> Clone for Transactional<S> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), store: self.store.clone() }
    }
}

impl<S: fmt::Debug> fmt::Debug for Transactional<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactional").field("engine", &self.engine).finish_non_exhaustive()
    }
}
