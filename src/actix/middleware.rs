//! The middleware, as its user writes it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use actix_web::HttpMessage as _;
use actix_web::dev::ServiceRequest;
use bytes::Bytes;
use idem_core::engine::Idempotency;
use idem_core::key::ToKey;
use idem_core::operation::Operation;

use super::service::Rules;
use crate::http::HttpCall;
use crate::http::rules::{OperationUnsaid, Said, ScopeUnsaid};

/// Makes the requests to an app, a scope or a resource happen once for each key; handlers need not know of it.
///
/// It is what the layer of `idem::tower` is, by the same code, and the chapter `idem::guide::layer` tells how the two get
/// along with the attribute and with whatever else is wrapped around handlers. Two things have to be said before it can be wrapped around
/// anything: which operation a request asks for, and whose keys its requests bring. Everything else has the engine's
/// defaults, and can be set for each request with [`call`](Self::call).
///
/// ```
/// use actix_web::{App, HttpResponse, web};
/// use idem::actix::IdempotencyMiddleware;
/// use idem::{Idempotency, MemoryStore};
/// use std::time::Duration;
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
/// }
///
/// // One for all workers: made here, and not in the function that makes each worker's `App`.
/// let once = IdempotencyMiddleware::new(&Idempotency::new(MemoryStore::new()))
///     .routes("billing")
///     .scope_of(|user: &User| user.id)
///     .call(|call, _, _| call.ttl(Duration::from_hours(24)));
/// let app = move || {
///     App::new()
///         .route("/charges", web::post().to(async || HttpResponse::Created().body("charged")))
///         .wrap(once.clone())
///     // What is wrapped later stands outside: authentication, which puts the `User` into the request's extensions.
/// };
/// # let _ = app();
/// ```
///
/// # Errors of what is inside
///
/// Errors of handlers and of their extractors are responses when they come here, and are judged by their status. An `Err`
/// is what other middleware inside has failed with: it is passed on as it is, nothing is stored, and the key stays bound
/// to its request, as after a 500.
#[must_use]
pub struct IdempotencyMiddleware<O = OperationUnsaid, W = ScopeUnsaid> {
    pub(super) rules: Arc<Rules>,
    said: PhantomData<fn() -> (O, W)>,
}

impl IdempotencyMiddleware {
    /// Begins a middleware over an engine.
    pub fn new(engine: &Idempotency) -> Self {
        Self { rules: Arc::new(Rules::new(engine.clone())), said: PhantomData }
    }
}

impl<O, W> IdempotencyMiddleware<O, W> {
    fn ruled<O2, W2>(self, rule: impl FnOnce(&mut Rules)) -> IdempotencyMiddleware<O2, W2> {
        let mut rules = Arc::unwrap_or_clone(self.rules);
        rule(&mut rules);
        IdempotencyMiddleware { rules: Arc::new(rules), said: PhantomData }
    }

    /// Names the one operation that all requests ask for.
    ///
    /// Records of one operation meet: a key that was used for one path is a mismatch (422) for another.
    pub fn operation(self, name: impl Into<Operation>) -> IdempotencyMiddleware<Said, W> {
        let name = name.into();
        self.operations(move |_| Some(name.clone()))
    }

    /// Finds the operation that a request asks for; `None` passes the request on without a record.
    ///
    /// Name the kind of work, `"payments.create"`, and nothing that is different for each request, such as an
    /// identifier in the path: what the request says of it is in the fingerprint already.
    pub fn operations<N: Into<Operation>>(
        self,
        operation: impl Fn(&ServiceRequest) -> Option<N> + Send + Sync + 'static,
    ) -> IdempotencyMiddleware<Said, W> {
        self.ruled(|rules| rules.find_operation(move |request| operation(request).map(Into::into)))
    }

    /// Names operations by method and matched pattern, after the name of this service: `billing POST /charges/{id}`.
    ///
    /// The service's name keeps it apart from others that have the same routes and use the same store. A route that is
    /// renamed orphans its live records. A request whose path no pattern matches is passed on without a record.
    pub fn routes(self, service: impl Into<String>) -> IdempotencyMiddleware<Said, W> {
        let service = service.into();
        self.operations(move |request| {
            Some(format!("{service} {} {}", request.method(), request.match_pattern()?))
        })
    }

    /// Says who is asking, by the head of the request; records of two scopes never meet.
    ///
    /// A stable identity, never a token: a token that is rotated between two attempts would run the work twice. `None`
    /// is refused with 500: put the middleware behind what finds out who is asking.
    pub fn scope<K: ToKey>(
        self,
        scope: impl Fn(&ServiceRequest) -> K + Send + Sync + 'static,
    ) -> IdempotencyMiddleware<O, Said> {
        self.ruled(|rules| rules.find_scope(move |call, request| call.scope(&scope(request))))
    }

    /// Says who is asking, by an extension of the request that authentication has put there.
    ///
    /// A request without it is refused with 500: authentication has to stand outside of this middleware.
    pub fn scope_of<E, K>(
        self,
        scope: impl Fn(&E) -> K + Send + Sync + 'static,
    ) -> IdempotencyMiddleware<O, Said>
    where
        E: 'static,
        K: ToKey,
    {
        self.scope(move |request| request.extensions().get::<E>().map(&scope))
    }

    /// Lets all callers share one scope: a leak for keys that strangers choose.
    pub fn shared(self) -> IdempotencyMiddleware<O, Said> {
        self.ruled(|rules| rules.find_scope(|call, _| call.shared()))
    }

    /// Sets the options of each call: key, fingerprint, times, policies, whatever [`HttpCall`] has.
    ///
    /// The closure sees the request and its body, and is called before anything is claimed. Said twice, both hold, in
    /// this order.
    ///
    /// ```
    /// use idem::actix::IdempotencyMiddleware;
    /// use idem::{Idempotency, InFlight, MemoryStore};
    /// use std::time::Duration;
    ///
    /// let idem = Idempotency::new(MemoryStore::new());
    /// let once =
    ///     IdempotencyMiddleware::new(&idem).operation("hooks.receive").shared().call(|call, request, _body| {
    ///         let call = call.ttl(Duration::from_hours(7 * 24)).in_flight(InFlight::Wait(Duration::from_secs(5)));
    ///         // Some senders name their deliveries in a header of their own.
    ///         let named = request.headers().contains_key("x-delivery");
    ///         if named { call.key_header(Some("x-delivery")) } else { call }
    ///     });
    /// # let _ = actix_web::App::new().wrap(once);
    /// ```
    pub fn call(
        self,
        change: impl Fn(HttpCall, &ServiceRequest, &Bytes) -> HttpCall + Send + Sync + 'static,
    ) -> Self {
        self.ruled(|rules| rules.change(move |call, (request, body)| change(call, request, body)))
    }

    /// Leaves requests alone: they are passed on without a record, whatever key they bring. Said twice, both hold.
    ///
    /// GET, HEAD, OPTIONS and TRACE are left alone in any case. Leave out routes whose handlers claim in a transaction of
    /// their own, since a record of this middleware adds nothing to theirs.
    pub fn except(self, except: impl Fn(&ServiceRequest) -> bool + Send + Sync + 'static) -> Self {
        self.ruled(|rules| rules.except(except))
    }

    /// Sets the longest body that is read and compared, in bytes; a longer one is 413, before anything is claimed.
    /// Default: the engine's, which is 1 MiB.
    ///
    /// The limits of actix-web's own extractors hold as well: 2 MiB of `web::Json`, 256 KiB of `web::Bytes`.
    pub fn max_request_bytes(self, max_request_bytes: usize) -> Self {
        self.ruled(|rules| rules.limit(max_request_bytes))
    }
}

impl<O, W> Clone for IdempotencyMiddleware<O, W> {
    fn clone(&self) -> Self {
        Self { rules: self.rules.clone(), said: PhantomData }
    }
}

impl<O, W> fmt::Debug for IdempotencyMiddleware<O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyMiddleware").field("rules", &self.rules).finish()
    }
}
