//! The layer, as its user writes it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use idem_core::engine::Idempotency;
use idem_core::key::ToKey;
use idem_core::operation::Operation;
use tower_layer::Layer;

use super::service::{IdempotencyService, Rules};
use crate::http::HttpCall;
use crate::http::rules::{OperationSaid, OperationUnsaid, Said, ScopeSaid, ScopeUnsaid};

/// Makes the requests to a service happen once for each key, whatever the service is.
///
/// Two things have to be said before it is a layer: which operation a request asks for, and whose keys its requests
/// bring. Everything else has the engine's defaults, and can be set for each request with [`call`](Self::call).
///
/// ```
/// use axum::Router;
/// use axum::routing::post;
/// use idem::tower::IdempotencyLayer;
/// use idem::{Idempotency, MemoryStore};
/// use std::time::Duration;
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
/// }
///
/// let idem = Idempotency::new(MemoryStore::new());
/// let layer = IdempotencyLayer::new(&idem)
///     .routes("billing")
///     .scope_of(|user: &User| user.id)
///     .call(|call, _| call.ttl(Duration::from_hours(24)));
/// let router: Router = Router::new().route("/charges", post(async || "charged")).layer(layer);
/// # drop(router);
/// ```
#[must_use]
pub struct IdempotencyLayer<O = OperationUnsaid, W = ScopeUnsaid> {
    rules: Arc<Rules>,
    said: PhantomData<fn() -> (O, W)>,
}

impl IdempotencyLayer {
    /// Begins a layer over an engine.
    pub fn new(engine: &Idempotency) -> Self {
        Self { rules: Arc::new(Rules::new(engine.clone())), said: PhantomData }
    }
}

impl<O, W> IdempotencyLayer<O, W> {
    fn ruled<O2, W2>(self, rule: impl FnOnce(&mut Rules)) -> IdempotencyLayer<O2, W2> {
        let mut rules = Arc::unwrap_or_clone(self.rules);
        rule(&mut rules);
        IdempotencyLayer { rules: Arc::new(rules), said: PhantomData }
    }

    /// Names the one operation that all requests ask for.
    ///
    /// Records of one operation meet: a key that was used for one path is a mismatch (422) for another.
    pub fn operation(self, name: impl Into<Operation>) -> IdempotencyLayer<Said, W> {
        let name = name.into();
        self.operations(move |_| Some(name.clone()))
    }

    /// Finds the operation that a request asks for; `None` passes the request on without a record.
    ///
    /// Name the kind of work, `"payments.create"`, and nothing that is different for each request, such as an
    /// identifier in the path: what the request says of it is in the fingerprint already.
    pub fn operations<N: Into<Operation>>(
        self,
        operation: impl Fn(&Parts) -> Option<N> + Send + Sync + 'static,
    ) -> IdempotencyLayer<Said, W> {
        self.ruled(|rules| rules.find_operation(move |parts| operation(parts).map(Into::into)))
    }

    /// Names operations by method and matched route of axum, after the name of this service: `billing POST
    /// /charges/{id}`.
    ///
    /// The service's name keeps it apart from others that have the same routes and use the same store. A route that is
    /// renamed orphans its live records. A request that no route matches is passed on without a record.
    #[cfg(feature = "axum")]
    pub fn routes(self, service: impl Into<String>) -> IdempotencyLayer<Said, W> {
        let service = service.into();
        self.operations(move |parts| super::axum::route(&service, parts))
    }

    /// Says who is asking, by the head of the request; records of two scopes never meet.
    ///
    /// A stable identity, never a token: a token that is rotated between two attempts would run the work twice. `None`
    /// is refused with 500: put the layer behind what finds out who is asking.
    pub fn scope<K: ToKey>(
        self,
        scope: impl Fn(&Parts) -> K + Send + Sync + 'static,
    ) -> IdempotencyLayer<O, Said> {
        self.ruled(|rules| rules.find_scope(move |call, parts| call.scope(&scope(parts))))
    }

    /// Says who is asking, by an extension of the request that authentication has put there.
    ///
    /// A request without it is refused with 500: authentication has to stand outside of this layer.
    pub fn scope_of<E, K>(self, scope: impl Fn(&E) -> K + Send + Sync + 'static) -> IdempotencyLayer<O, Said>
    where
        E: Send + Sync + 'static,
        K: ToKey,
    {
        self.scope(move |parts| parts.extensions.get::<E>().map(&scope))
    }

    /// Lets all callers share one scope: a leak for keys that strangers choose.
    pub fn shared(self) -> IdempotencyLayer<O, Said> {
        self.ruled(|rules| rules.find_scope(|call, _| call.shared()))
    }

    /// Sets the options of each call: key, fingerprint, times, policies, whatever [`HttpCall`] has.
    ///
    /// The closure sees the whole request, body included, and is called before anything is claimed. Said twice, both
    /// hold, in this order.
    ///
    /// ```
    /// use idem::tower::IdempotencyLayer;
    /// use idem::{Idempotency, InFlight, MemoryStore};
    /// use std::time::Duration;
    ///
    /// let idem = Idempotency::new(MemoryStore::new());
    /// let layer = IdempotencyLayer::new(&idem).operation("hooks.receive").shared().call(|call, request| {
    ///     let call = call.ttl(Duration::from_hours(7 * 24)).in_flight(InFlight::Wait(Duration::from_secs(5)));
    ///     // Some senders name their deliveries in a header of their own.
    ///     if request.headers().contains_key("x-delivery") { call.key_header(Some("x-delivery")) } else { call }
    /// });
    /// # drop(layer);
    /// ```
    pub fn call(
        self,
        change: impl Fn(HttpCall, &Request<Bytes>) -> HttpCall + Send + Sync + 'static,
    ) -> Self {
        self.ruled(|rules| rules.change(change))
    }

    /// Leaves requests alone: they are passed on without a record, whatever key they bring. Said twice, both hold.
    ///
    /// GET, HEAD, OPTIONS and TRACE are left alone in any case. Leave out routes whose handlers claim in a transaction of
    /// their own, since a record of this layer adds nothing to theirs.
    pub fn except(self, except: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.ruled(|rules| rules.except(except))
    }

    /// Sets the longest body that is read and compared, in bytes; a longer one is 413, before anything is claimed.
    /// Default: the engine's, which is 1 MiB.
    pub fn max_request_bytes(self, max_request_bytes: usize) -> Self {
        self.ruled(|rules| rules.limit(max_request_bytes))
    }
}

impl<S, O: OperationSaid, W: ScopeSaid> Layer<S> for IdempotencyLayer<O, W> {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService::new(inner, self.rules.clone())
    }
}

impl<O, W> Clone for IdempotencyLayer<O, W> {
    fn clone(&self) -> Self {
        Self { rules: self.rules.clone(), said: PhantomData }
    }
}

impl<O, W> fmt::Debug for IdempotencyLayer<O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").field("rules", &self.rules).finish()
    }
}
