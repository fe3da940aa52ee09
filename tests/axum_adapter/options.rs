//! Options that a handler sets for itself, whatever its engine says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::post as posting;
use idem::axum::{Captured, HttpCall, Replay, Tuned, idempotent};
use idem::core::http::problem;
use idem::{Error, ErrorKind, Idempotency, MemoryStore};

use super::harness::{Answered, post, request, send, with_header};

#[derive(Clone)]
struct App {
    idem: Idempotency,
    replays: Arc<AtomicU32>,
}

impl App {
    /// An engine with options that the handlers overrule.
    fn new() -> Self {
        let builder = Idempotency::builder(MemoryStore::new())
            .mismatch_status(418)
            .key_header("X-Of-The-Engine")
            .docs_url("https://example.org/engine")
            .on_replay(|_| panic!("the handler has a hook of its own"))
            .store_if(|_| false)
            .max_request_bytes(4);
        Self { idem: builder.build().unwrap(), replays: Arc::default() }
    }

    async fn send(&self, path: &str, request: Request<Body>) -> Answered {
        let router = Router::new()
            .route("/charges", posting(charge))
            .route("/engine", posting(as_the_engine_says))
            .route("/brief", posting(captured_briefly))
            .with_state(self.clone());
        let (mut parts, body) = request.into_parts();
        parts.uri = path.parse().unwrap();
        send(router, Request::from_parts(parts, body)).await
    }
}

fn count(app: &App) -> impl Fn(&Replay<'_>) + Send + Sync + 'static {
    let replays = app.replays.clone();
    move |replay| {
        assert_eq!((replay.operation(), replay.parts().status), ("charges", StatusCode::OK));
        replays.fetch_add(1, Ordering::SeqCst);
    }
}

fn house_style(error: &Error) -> Response<Bytes> {
    let mut response = problem::render(error);
    response.headers_mut().insert("x-style", "house".parse().unwrap());
    response
}

const DOCS: &str = "https://example.org/charges";
const LIMIT: usize = 8;

#[idempotent(
    key = header("X-Charge-Key"), ttl = "24h", scope = shared, operation = "charges", engine = app.idem,
    syntax = strict, format = uuidv7, max_len = 36, fingerprint_headers = ["X-Version"],
    mismatch_status = 409, docs_url = DOCS, render_errors = house_style, on_replay = count(&app),
    store_if = |parts| parts.status.is_success(), max_request_bytes = LIMIT, max_response_bytes = 5,
    echo_key, echo_expiry, expiry_header = "X-Expires"
)]
async fn charge(State(app): State<App>, body: String) -> String {
    let _ = &app;
    body
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn as_the_engine_says(State(app): State<App>, body: String) -> String {
    let _ = &app;
    body
}

async fn captured_briefly(
    State(app): State<App>,
    captured: Captured<String, Tuned<{ usize::MAX }>>,
) -> axum::response::Response {
    let (_, request) = captured.into_parts();
    let call = HttpCall::new(&app.idem, "brief", request).shared().key(&1);
    let work = async { StatusCode::OK.into_response() };
    call.http(|http| http.mismatch_status(500)).run(work).await
}

const KEY: &str = "\"018f4a5e-8c2b-7d3a-9b1c-2f6e8a4d0c57\"";

fn keyed(key: &str, body: &'static str) -> Request<Body> {
    with_header(request("POST", "/", body), "x-charge-key", key)
}

#[tokio::test]
async fn a_handlers_own_options_overrule_those_of_its_engine() {
    let app = App::new();
    for key in ["018f4a5e-8c2b-7d3a-9b1c-2f6e8a4d0c57", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\""] {
        let refused = app.send("/charges", keyed(key, "a")).await;
        refused.assert_problem(400, "idempotency_key_invalid");
        assert_eq!(refused.headers["x-style"], "house");
        assert_eq!(refused.headers["link"], format!("<{DOCS}>; rel=\"describedby\""));
    }
    let version = |body, version| with_header(keyed(KEY, body), "x-version", version);
    let first = app.send("/charges", version("a", "1")).await;
    assert_eq!((first.status.as_u16(), first.text()), (200, "a"));
    for name in ["x-charge-key", "x-expires"] {
        assert!(first.headers.contains_key(name), "{first:?}");
    }
    app.send("/charges", version("a", "1")).await.assert_replays(&first);
    assert_eq!(app.replays.load(Ordering::SeqCst), 1);
    for other in [version("b", "1"), version("a", "2"), keyed(KEY, "a")] {
        let refused = app.send("/charges", other).await;
        refused.assert_problem(409, "idempotency_conflict");
        assert_eq!(refused.headers["x-charge-key"], KEY);
    }
}

#[tokio::test]
async fn a_handlers_own_limits_may_be_larger_or_smaller_than_its_engines() {
    let app = App::new();
    let too_large = app.send("/charges", keyed(KEY, "123456789")).await;
    assert_eq!((too_large.status.as_u16(), app.idem.store().sweep(1).await.unwrap()), (413, 0));
    let whole = app.send("/charges", keyed(KEY, "12345678")).await;
    assert_eq!((whole.status.as_u16(), whole.text()), (200, "12345678"));
    assert!(!whole.headers.contains_key("idempotency-expires"), "a tombstone is not replayed");
    let unavailable = app.send("/charges", keyed(KEY, "12345678")).await;
    unavailable.assert_problem(410, "idempotency_response_unavailable");
}

#[tokio::test]
async fn what_a_handler_leaves_open_is_as_its_engine_says() {
    let app = App::new();
    let keyed = |body: &'static str| with_header(request("POST", "/", body), "x-of-the-engine", "k-1");
    assert_eq!(app.send("/engine", keyed("a")).await.text(), "a");
    // Nothing is stored, so the key is bound and free.
    let again = app.send("/engine", keyed("a")).await;
    assert_eq!((again.status.as_u16(), again.is_replayed()), (200, false));
    let refused = app.send("/engine", keyed("b")).await;
    refused.assert_problem(418, "idempotency_conflict");
    assert_eq!(refused.headers["link"], "<https://example.org/engine>; rel=\"describedby\"");
    app.send("/engine", keyed("12345")).await.assert_problem(413, "idempotency_request_too_large");
    app.send("/engine", post("k-1", "a")).await.assert_problem(400, "idempotency_key_required");
}

#[tokio::test]
async fn an_option_that_cannot_be_is_an_error_of_the_server_and_runs_nothing() {
    let app = App::new();
    let refused = app.send("/brief", request("POST", "/", "a")).await;
    refused.assert_problem(500, "idempotency_misuse");
    assert!(Idempotency::builder(MemoryStore::new()).docs_url("no URL").build().is_err());
    let kind = Idempotency::builder(MemoryStore::new()).max_len(0).build().unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Misuse);
}
