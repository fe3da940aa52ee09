//! The call of a handler, as its user writes it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::response::Parts;
use idem_core::call::Call;
use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind};
use idem_core::fingerprint::{Digest, FingerprintError};
use idem_core::http::policy::HttpPolicy;
use idem_core::key::{Key, KeyError, ToKey};
use idem_core::operation::Operation;
use idem_core::policy::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError};
use idem_core::run::Run;
use serde::Serialize;

use super::keep::Keeper;
use super::manners::Manners;
use super::refused::too_large;
use super::request::Request;

/// One request to a handler, on its way through the engine; made of a captured [`Request`].
///
/// Unless it is told otherwise, the key is that of the `Idempotency-Key` header, the fingerprint that of the request
/// (method, path, query, media type and body), and all callers share one scope. The attribute writes this for you.
///
/// Every outcome is a response: the handler's, the stored one with `Idempotent-Replayed: true`, or a problem document
/// (RFC 9457).
#[must_use = "a call does nothing until it is run"]
pub struct HttpCall<S = ()> {
    call: Call<S>,
    request: Request,
    http: Arc<HttpPolicy>,
    /// Whether the key comes from a header of the request.
    from_header: bool,
    fingerprint: FingerprintFrom,
    before_extractors: bool,
}

/// Where the fingerprint comes from.
enum FingerprintFrom {
    Request,
    RawRequest,
    Call,
}

impl HttpCall {
    /// Begins the call of an operation.
    pub fn new(engine: &Idempotency, operation: impl Into<Operation>, request: Request) -> Self {
        Self::of(engine.call(operation), request)
    }
}

impl<S> HttpCall<S> {
    /// Goes on with a call that an engine has begun; one of a [`Transactional`](crate::Transactional) engine can
    /// [`transact`](HttpCall::transact).
    ///
    /// Key and fingerprint come from the request, whatever was said of them before.
    pub fn of(call: Call<S>, request: Request) -> Self {
        let http = call.engine().config().http().clone();
        Self {
            call,
            request,
            http,
            from_header: true,
            fingerprint: FingerprintFrom::Request,
            before_extractors: false,
        }
    }

    fn with_call(mut self, change: impl FnOnce(Call<S>) -> Call<S>) -> Self {
        self.call = change(self.call);
        self
    }

    /// Changes what the operation chooses of its key, its fingerprint and its answers. Default: the engine's choices.
    ///
    /// ```
    /// # use idem::axum::{Format, HttpCall, Syntax};
    /// # fn strictly(call: HttpCall) -> HttpCall {
    /// call.http(|http| http.syntax(Syntax::Strict).format(Format::UuidV7).mismatch_status(409))
    /// # }
    /// ```
    ///
    /// A longer request than the engine's limit (`max_request_bytes`) has to be allowed where it is captured, too. For
    /// headers that count (`fingerprint_headers`) it has to be captured with all of its headers.
    pub fn http(mut self, change: impl FnOnce(HttpPolicy) -> HttpPolicy) -> Self {
        self.http = Arc::new(change(Arc::unwrap_or_clone(self.http)));
        self
    }

    /// Takes the key from a header. Default: the engine's, which is `Idempotency-Key`.
    ///
    /// A request that was captured without all headers knows `Idempotency-Key` only.
    pub fn key_header(mut self, name: Option<&str>) -> Self {
        self.from_header = true;
        match name {
            Some(name) => self.http(|http| http.key_header(name)),
            None => self,
        }
    }

    /// Sets the key to a value of the handler's own: a field of the body, a part of the path.
    pub fn key<K: ToKey + ?Sized>(self, key: &K) -> Self {
        self.key_result(Key::new(key))
    }

    /// Sets the key, or why there is none.
    pub fn key_result(mut self, key: Result<Key, KeyError>) -> Self {
        self.from_header = false;
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

    /// Decides by the response's status and headers whether it is stored. See [`HttpPolicy::store_if`].
    pub fn store_if(self, stored: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.http(|http| http.store_if(stored))
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

    /// Says that extractors run after the claim, as they do under a layer.
    #[cfg(any(feature = "actix-web", feature = "tower"))]
    pub(crate) fn before_extractors(mut self) -> Self {
        self.before_extractors = true;
        self
    }

    /// The run of a layer that has claimed the request, and what is said here of its response.
    pub(super) fn claimed(&mut self) -> Option<(Run, Arc<HttpPolicy>)> {
        let run = self.request.claimed.take()?;
        Some((run, self.http.clone()))
    }

    /// Whether the request asks for nothing to be done, so that it has no record.
    pub(super) fn is_safe(&self) -> bool {
        self.request.captured.is_safe()
    }

    /// The call without its record: whatever key there is, it is not looked at.
    pub(super) fn without_record(mut self) -> Self {
        self.fingerprint = FingerprintFrom::Call;
        self.key_result(Err(KeyError::Missing)).missing(Missing::Run)
    }

    /// Checks the limit and takes key and fingerprint from the request, where they come from there.
    pub(super) fn ready(self) -> (Manners, Result<(Call<S>, Keeper), Error>) {
        let Self { call, request, http, from_header, fingerprint, before_extractors } = self;
        let Request { captured, within_limit, claimed: _ } = request;
        let key = from_header.then(|| captured.key(http.key_rules()));
        let line = matches!(key, Some(Ok(_))).then(|| captured.key_line(&http.key_rules().header)).flatten();
        let manners = Manners::new(http.clone(), from_header, line, call.operation());
        let call = match key {
            Some(key) => call.key_result(key),
            None => call,
        };
        let keeper = Keeper::new(manners.clone(), &call, before_extractors);
        let limit = http.request_limit();
        let misuse = |why| Error::new(ErrorKind::Misuse).with_detail(why);
        let operation = call.operation().as_str();
        let digest = match fingerprint {
            _ if !within_limit && captured.body().len() > limit => Err(too_large(Some(limit))),
            _ if let Some(fault) = http.fault() => Err(misuse(fault)),
            FingerprintFrom::Call => return (manners, Ok((call, keeper))),
            _ if !captured.keeps(http.headers_that_count()) => Err(misuse(
                "the request was captured without the headers of `fingerprint_headers`; capture it with all headers",
            )),
            FingerprintFrom::Request => {
                Ok(captured.fingerprint(operation, http.headers_that_count(), call.engine().json_memo()))
            }
            FingerprintFrom::RawRequest => Ok(captured.fingerprint_raw(operation, http.headers_that_count())),
        };
        (manners, digest.map(|digest| (call.fingerprint_digest(Ok(digest)), keeper)))
    }
}

impl<S> fmt::Debug for HttpCall<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCall")
            .field("operation", self.call.operation())
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
