//! The call of an axum handler: from the captured request to the response.

use std::fmt;
use std::time::Duration;

use axum::response::Response;
use http::HeaderValue;
use http::header::HeaderName;
use http::response::Parts;
use idem_core::answer::Answer;
use idem_core::call::Call;
use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind, ReplayError};
use idem_core::fingerprint::{Digest, FingerprintError};
use idem_core::http::key::{IDEMPOTENCY_KEY, Syntax};
use idem_core::http::problem::{REPLAYED, key_help};
use idem_core::http::response::decode;
use idem_core::key::{Key, KeyError, ToKey};
use idem_core::operation::{Operation, Site};
use idem_core::outcome::Outcome;
use idem_core::policy::{Expired, InFlight, Mark, Missing, OnCrash, OnDisconnect, OnStoreError, Verdict};
use idem_core::run::Run;
use serde::Serialize;

use super::captured::Request;
use super::keep::{Plan, StoreIf, plan, store};
use super::rejection::{Refused, too_large};

/// One request to an axum handler, on its way through the engine; made of a [`Captured`](super::Captured) request.
///
/// Unless it is told otherwise, the key is that of the `Idempotency-Key` header, the fingerprint that of the request
/// (method, path, query, media type and body), and all callers share one scope. The attribute writes this for you.
///
/// Every outcome is a response: the handler's, the stored one with `Idempotent-Replayed: true`, or a problem document
/// (RFC 9457).
#[must_use = "a call does nothing until it is run"]
pub struct HttpCall {
    call: Call,
    request: Request,
    key: KeyFrom,
    fingerprint: FingerprintFrom,
    store_if: Option<StoreIf>,
}

/// Where the key comes from.
enum KeyFrom {
    Header(Result<HeaderName, KeyError>, Syntax),
    Call,
}

/// Where the fingerprint comes from.
enum FingerprintFrom {
    Request,
    RawRequest,
    Call,
}

/// What is left to decide once the work has ended.
struct Keeper {
    store_if: Option<StoreIf>,
    limit: usize,
}

impl HttpCall {
    /// Begins the call of an operation.
    pub fn new(engine: &Idempotency, operation: impl Into<Operation>, request: Request) -> Self {
        Self::of(engine.call(operation), request)
    }

    /// Begins the call of an annotated handler.
    #[doc(hidden)]
    pub fn at(engine: &Idempotency, site: &'static Site, request: Request) -> Self {
        Self::of(engine.call_at(site), request)
    }

    fn of(call: Call, request: Request) -> Self {
        Self {
            call,
            request,
            key: KeyFrom::Header(Ok(IDEMPOTENCY_KEY), Syntax::Lenient),
            fingerprint: FingerprintFrom::Request,
            store_if: None,
        }
    }

    fn with_call(mut self, change: impl FnOnce(Call) -> Call) -> Self {
        self.call = change(self.call);
        self
    }

    /// Takes the key from a header. Default: `Idempotency-Key`.
    ///
    /// A request that was captured with [`Tuned`](super::Tuned) and without all headers knows `Idempotency-Key` only.
    pub fn key_header(mut self, name: Option<&str>) -> Self {
        let name = match name {
            None => Ok(IDEMPOTENCY_KEY),
            Some(name) => {
                HeaderName::try_from(name).map_err(|_| KeyError::Malformed("a header name to read it from"))
            }
        };
        let syntax = match self.key {
            KeyFrom::Header(_, syntax) => syntax,
            KeyFrom::Call => Syntax::Lenient,
        };
        self.key = KeyFrom::Header(name, syntax);
        self
    }

    /// Sets which forms of the key header are accepted. Default: quoted and bare.
    pub fn key_syntax(mut self, accepted: Syntax) -> Self {
        if let KeyFrom::Header(_, syntax) = &mut self.key {
            *syntax = accepted;
        }
        self
    }

    /// Sets the key to a value of the handler's own: a field of the body, a part of the path.
    pub fn key<K: ToKey + ?Sized>(self, key: &K) -> Self {
        self.key_result(Key::new(key))
    }

    /// Sets the key, or why there is none.
    pub fn key_result(mut self, key: Result<Key, KeyError>) -> Self {
        self.key = KeyFrom::Call;
        self.with_call(|call| call.key_result(key))
    }

    /// Says who is asking; records of two scopes never meet. See [`Call::scope`].
    pub fn scope<K: ToKey + ?Sized>(self, scope: &K) -> Self {
        self.with_call(|call| call.scope(scope))
    }

    /// Lets all callers share one scope: a leak for keys that strangers choose. See [`Call::shared`].
    pub fn shared(self) -> Self {
        self.with_call(Call::shared)
    }

    /// Compares a value instead of the request: where a client's volatile fields must not count.
    pub fn fingerprint<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        self.fingerprint = FingerprintFrom::Call;
        self.with_call(|call| call.fingerprint(value))
    }

    /// Compares a digest instead of the request.
    pub fn fingerprint_digest(mut self, digest: Result<Digest, FingerprintError>) -> Self {
        self.fingerprint = FingerprintFrom::Call;
        self.with_call(|call| call.fingerprint_digest(digest))
    }

    /// Compares the body byte for byte, also if it is JSON or a form.
    pub fn fingerprint_raw(mut self) -> Self {
        self.fingerprint = FingerprintFrom::RawRequest;
        self
    }

    /// **Unsafe**: compares nothing. See [`Call::unfingerprinted`].
    pub fn unfingerprinted(mut self) -> Self {
        self.fingerprint = FingerprintFrom::Call;
        self.with_call(Call::unfingerprinted)
    }

    /// Decides by the response's status and headers whether it is stored; `false` leaves the key to a retry.
    ///
    /// Replaces the rules for statuses. A mark of the handler has precedence.
    pub fn store_if(mut self, stored: impl Fn(&Parts) -> bool + Send + 'static) -> Self {
        self.store_if = Some(Box::new(stored));
        self
    }

    /// Sets how long the answer is replayed. See [`Call::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with_call(|call| call.ttl(ttl))
    }

    /// Sets how long the claim holds unless it is renewed. See [`Call::lease`].
    pub fn lease(self, lease: Duration) -> Self {
        self.with_call(|call| call.lease(lease))
    }

    /// Sets how long the handler may run. See [`Call::max_run`].
    pub fn max_run(self, max_run: Duration) -> Self {
        self.with_call(|call| call.max_run(max_run))
    }

    /// Sets how long an expired key is refused. See [`Call::tombstone_ttl`].
    pub fn tombstone_ttl(self, tombstone_ttl: Duration) -> Self {
        self.with_call(|call| call.tombstone_ttl(tombstone_ttl))
    }

    /// Sets what a caller gets while another holds the key. See [`Call::in_flight`].
    pub fn in_flight(self, in_flight: InFlight) -> Self {
        self.with_call(|call| call.in_flight(in_flight))
    }

    /// Sets what happens to a key whose answer has expired. See [`Call::expired`].
    pub fn expired(self, expired: Expired) -> Self {
        self.with_call(|call| call.expired(expired))
    }

    /// Sets what happens to work whose holder crashed or failed. See [`Call::on_crash`].
    pub fn on_crash(self, on_crash: OnCrash) -> Self {
        self.with_call(|call| call.on_crash(on_crash))
    }

    /// Sets what a client that goes away does to the handler. See [`Call::on_disconnect`].
    pub fn on_disconnect(self, on_disconnect: OnDisconnect) -> Self {
        self.with_call(|call| call.on_disconnect(on_disconnect))
    }

    /// Sets what happens if the store cannot be asked. See [`Call::on_store_error`].
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        self.with_call(|call| call.on_store_error(on_store_error))
    }

    /// Sets what happens without a key. See [`Call::missing`].
    pub fn missing(self, missing: Missing) -> Self {
        self.with_call(|call| call.missing(missing))
    }

    /// Lets a failed key be used again with another payload. See [`Call::rebind`].
    pub fn rebind(self, rebind: bool) -> Self {
        self.with_call(|call| call.rebind(rebind))
    }

    /// Runs the handler once; it goes on if the client goes away.
    pub async fn run<F>(self, handler: F) -> Response
    where
        F: Future<Output = Response> + Send + 'static,
    {
        if self.request.captured.is_safe() {
            return handler.await;
        }
        let key_header = self.key_header_read();
        match self.ready() {
            Err(error) => Refused::respond(error),
            Ok((call, keeper)) => {
                let manners = Manners { marker: marker(&call), key_header };
                let outcome = call.execute(move |run| keeper.watch(run, handler), replay).await;
                manners.finish(outcome)
            }
        }
    }

    /// Runs the handler once, in the caller's own future: for handlers that borrow, or are not `Send`.
    ///
    /// If the client goes away, that counts as a crash: the key is held until its lease ends.
    pub async fn run_inline<F>(self, handler: F) -> Response
    where
        F: Future<Output = Response>,
    {
        if self.request.captured.is_safe() {
            return handler.await;
        }
        let key_header = self.key_header_read();
        match self.ready() {
            Err(error) => Refused::respond(error),
            Ok((call, keeper)) => {
                let manners = Manners { marker: marker(&call), key_header };
                let outcome = call.execute_inline(|run| keeper.watch(run, handler), replay).await;
                manners.finish(outcome)
            }
        }
    }

    /// The header that the key is read from; `None` if it comes from elsewhere.
    fn key_header_read(&self) -> Option<HeaderName> {
        match &self.key {
            KeyFrom::Header(name, _) => name.clone().ok(),
            KeyFrom::Call => None,
        }
    }

    /// Checks the limit and takes key and fingerprint from the request, where they come from there.
    fn ready(self) -> Result<(Call, Keeper), Error> {
        let Self { mut call, request: Request { captured, within_limit }, key, fingerprint, store_if } = self;
        let config = call.engine().config();
        let limit = config.max_request_bytes();
        if !within_limit && captured.body().len() > limit {
            return Err(too_large(Some(limit)));
        }
        let keeper = Keeper { store_if, limit: config.max_response_bytes() };
        if let KeyFrom::Header(name, syntax) = key {
            let key = name.and_then(|name| captured.key(&name, syntax));
            call = call.key_result(key);
        }
        let operation = call.operation().as_str();
        let digest = match fingerprint {
            FingerprintFrom::Request => captured.fingerprint(operation, call.engine().json_memo()),
            FingerprintFrom::RawRequest => captured.fingerprint_raw(operation),
            FingerprintFrom::Call => return Ok((call, keeper)),
        };
        Ok((call.fingerprint_digest(Ok(digest)), keeper))
    }
}

impl fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCall")
            .field("operation", self.call.operation())
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    async fn watch(self, run: Run, handler: impl Future<Output = Response>) -> (Response, Verdict) {
        let (mut parts, body) = handler.await.into_parts();
        // The response's own mark was set last.
        let mark = parts.extensions.remove::<Mark>().or_else(|| run.marked());
        if !run.is_protected() {
            return (Response::from_parts(parts, body), Verdict::Undo);
        }
        match plan(&parts, mark, self.store_if.as_ref()) {
            Plan::Store => store(parts, body, self.limit).await,
            Plan::Pass(verdict) => (Response::from_parts(parts, body), verdict),
        }
    }
}

fn replay(answer: &Answer) -> Result<Response, ReplayError> {
    decode(answer).map(|response| response.map(Into::into))
}

/// How what came of a call is told.
struct Manners {
    /// The header that marks a replay.
    marker: HeaderName,
    /// The header that the key is read from, if it is read from one.
    key_header: Option<HeaderName>,
}

impl Manners {
    fn finish(self, outcome: Result<Outcome<Response>, Error>) -> Response {
        match outcome {
            Ok(Outcome::Fresh(mut response) | Outcome::Unprotected(mut response)) => {
                // A handler that passes on what another service replayed to it has run all the same.
                response.headers_mut().remove(&self.marker);
                response
            }
            Ok(Outcome::Replayed(mut response)) => {
                response.headers_mut().insert(self.marker, HeaderValue::from_static("true"));
                response
            }
            Err(error) => {
                if is_our_fault(error.kind()) {
                    tracing::error!(%error, "the request cannot be answered");
                }
                Refused::respond(match key_help(&error, self.key_header.as_ref().map(HeaderName::as_str)) {
                    Some(help) => error.with_help(help),
                    None => error,
                })
            }
        }
    }
}

fn marker(call: &Call) -> HeaderName {
    let name = call.engine().config().replay_header();
    if name == REPLAYED.as_str() {
        return REPLAYED;
    }
    // The engine has checked the name when it was built.
    HeaderName::try_from(name).unwrap_or(REPLAYED)
}

/// What a caller can do nothing about; the problem document does not explain it, so the log must.
fn is_our_fault(kind: ErrorKind) -> bool {
    kind.status() == 500
}
