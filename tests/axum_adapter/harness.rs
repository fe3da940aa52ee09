//! An application around one handler, and a store that counts what it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::response::Response;
use axum::routing::any;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use idem::axum::{Captured, HttpCall};
use idem::core::answer::Answer;
use idem::core::owner::Owner;
use idem::core::record::Record;
use idem::core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, StoreError, StoreErrorKind,
};
use idem::{Builder, Idempotency, MemoryStore, RecordId, Store};
use tower::ServiceExt;

/// A memory store that counts claims, and can be switched off.
#[derive(Clone, Debug)]
pub(super) struct Counting {
    store: MemoryStore,
    claims: Arc<AtomicU32>,
    down: Arc<AtomicU32>,
}

impl Counting {
    pub(super) fn new() -> Self {
        Self { store: MemoryStore::new(), claims: Arc::default(), down: Arc::default() }
    }

    /// How often it was asked for a key.
    pub(super) fn claims(&self) -> u32 {
        self.claims.load(Ordering::SeqCst)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    pub(super) fn go_down(&self) {
        self.down.store(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Store for Counting {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) == 1 {
            return Err(StoreError::new(StoreErrorKind::Unavailable));
        }
        self.store.claim(id, claim).await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        self.store.complete(id, owner, answer, retention).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.store.release(id, owner, how).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        self.store.renew(id, owner, lease).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        self.store.changed(id, at_most).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.store.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.store.look_up(id).await
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.store.settle(id, how).await
    }
}

type Work = dyn Fn(u32, Bytes) -> BoxFuture<'static, Response> + Send + Sync;
type Change = dyn Fn(HttpCall) -> HttpCall + Send + Sync;

/// An application with one handler, which is `work`; it is told how often it ran and the body.
#[derive(Clone)]
pub(super) struct App {
    pub(super) idem: Idempotency,
    pub(super) store: Counting,
    runs: Arc<AtomicU32>,
    work: Arc<Work>,
    change: Arc<Change>,
}

impl App {
    pub(super) fn new<F>(work: impl Fn(u32, Bytes) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let store = Counting::new();
        Self {
            idem: Idempotency::new(store.clone()),
            store,
            runs: Arc::default(),
            work: Arc::new(move |run, body| Box::pin(work(run, body))),
            change: Arc::new(|call| call),
        }
    }

    /// Configures the engine.
    pub(super) fn configured(mut self, configure: impl FnOnce(Builder) -> Builder) -> Self {
        self.idem = configure(Idempotency::builder(self.store.clone())).build().unwrap();
        self
    }

    /// Changes each call.
    pub(super) fn calling(mut self, change: impl Fn(HttpCall) -> HttpCall + Send + Sync + 'static) -> Self {
        self.change = Arc::new(change);
        self
    }

    /// How often the handler ran.
    pub(super) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    pub(super) fn router(&self) -> Router {
        let charges = Router::new().route("/charges", any(handler));
        Router::new()
            .merge(charges.clone())
            .nest("/v1", charges.clone())
            .nest("/v2", charges)
            .with_state(self.clone())
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Answered {
        send(self.router(), request).await
    }

    /// Sends `POST /charges` with a key and a body.
    pub(super) async fn post(&self, key: &str, body: &str) -> Answered {
        self.send(post(key, body.to_owned())).await
    }
}

async fn handler(State(app): State<App>, captured: Captured<Bytes>) -> Response {
    let (body, request) = captured.into_parts();
    let call = (app.change)(HttpCall::new(&app.idem, "charges.create", request));
    call.run(async move {
        let run = app.runs.fetch_add(1, Ordering::SeqCst) + 1;
        (app.work)(run, body).await
    })
    .await
}

/// A request that is changed by `with`.
pub(super) fn request(method: &str, uri: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(body.into()).unwrap()
}

pub(super) fn post(key: &str, body: impl Into<Body>) -> Request<Body> {
    with_header(request("POST", "/charges", body), "idempotency-key", key)
}

pub(super) fn with_header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    request
}

pub(super) async fn send(router: Router, request: Request<Body>) -> Answered {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let collected = body.collect().await.unwrap();
    Answered {
        status: parts.status,
        headers: parts.headers,
        trailers: collected.trailers().cloned(),
        body: collected.to_bytes(),
    }
}

/// A whole response.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) body: Bytes,
}

impl Answered {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts that it is a problem with this status and code.
    #[track_caller]
    pub(super) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json()["code"], code);
        assert!(!self.is_replayed());
    }

    /// Asserts that it is the stored answer to what `first` was.
    #[track_caller]
    pub(super) fn assert_replays(&self, first: &Self) {
        assert!(!first.is_replayed(), "{first:?}");
        assert!(self.is_replayed(), "{self:?}");
        assert_eq!(self.status, first.status);
        assert_eq!(self.body, first.body);
    }

    /// The lines of a header, as bytes.
    pub(super) fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
    }
}
