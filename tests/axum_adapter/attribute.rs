//! The same through the attribute: who is asking, what runs before the claim, and what a handler can say.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{FromRef, FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post as posting};
use axum::{Extension, Json, Router};
use futures_util::Stream;
use idem::Idempotency;
use idem::axum::{Mark, idempotent};
use serde::{Deserialize, Serialize};

use super::harness::{Answered, Counting, request, send, with_header};

/// The state of an application; the engine is a part of it that handlers can extract alone.
#[derive(Clone)]
struct App {
    idem: Idempotency,
    store: Counting,
    ledger: Arc<AtomicU32>,
    revoked: Arc<Mutex<HashSet<String>>>,
}

impl FromRef<App> for Idempotency {
    fn from_ref(app: &App) -> Self {
        app.idem.clone()
    }
}

/// Whoever is named by the part of the token before its dot.
struct User {
    id: String,
}

impl FromRequestParts<App> for User {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let token = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        let id = token.and_then(|token| token.strip_prefix("Bearer ")?.split('.').next());
        match id {
            None => Err((StatusCode::UNAUTHORIZED, "who are you?")),
            Some(id) if app.revoked.lock().unwrap().contains(id) => {
                Err((StatusCode::FORBIDDEN, "not any more"))
            }
            Some(id) => Ok(Self { id: id.to_owned() }),
        }
    }
}

#[derive(Deserialize)]
struct ChargeRequest {
    amount: u64,
}

#[derive(Serialize)]
struct Charge {
    id: u32,
    amount: u64,
}

enum ChargeError {
    Declined,
    Down,
}

impl IntoResponse for ChargeError {
    fn into_response(self) -> Response {
        match self {
            Self::Declined => (StatusCode::PAYMENT_REQUIRED, "declined").into_response(),
            Self::Down => StatusCode::BAD_GATEWAY.into_response(),
        }
    }
}

#[idempotent(key = header, ttl = "24h", scope = user.id, engine = app.idem)]
async fn charge(
    State(app): State<App>,
    user: User,
    Json(ChargeRequest { amount }): Json<ChargeRequest>,
) -> Result<(StatusCode, [(&'static str, String); 1], Json<Charge>), ChargeError> {
    let id = app.ledger.fetch_add(1, Ordering::SeqCst) + 1;
    let attempt = idem::current().map_or(0, |run| run.attempt());
    match amount {
        402 => Err(ChargeError::Declined),
        502 if attempt == 1 => Err(ChargeError::Down),
        500 => panic!("the ledger is on fire"),
        _ => {
            let location = format!("/charges/{id}?by={}", user.id);
            Ok((StatusCode::CREATED, [("location", location)], Json(Charge { id, amount })))
        }
    }
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = idem)]
async fn any_method(State(idem): State<Idempotency>, Query(query): Query<Vec<(String, String)>>) -> String {
    let _ = &idem;
    format!("{} {:?}", idem::current().is_some(), query)
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn events(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    app.ledger.fetch_add(1, Ordering::SeqCst);
    Sse::new(futures_util::stream::iter([
        // What the error is, only the declared stream says.
        Ok(Event::default().data("1")),
        Ok(Event::default().data("2")),
    ]))
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn export(State(app): State<App>, size: String) -> Result<Bytes, (StatusCode, Extension<Mark>)> {
    app.ledger.fetch_add(1, Ordering::SeqCst);
    match size.parse() {
        Ok(size) => Ok(vec![b'x'; size].into()),
        Err(_) => Err((StatusCode::CONFLICT, Extension(Mark::Final))),
    }
}

struct Service {
    app: App,
    router: Router,
}

impl Service {
    fn new() -> Self {
        let store = Counting::new();
        let idem = Idempotency::new(store.clone());
        let app = App { idem, store, ledger: Arc::default(), revoked: Arc::default() };
        let router = Router::new()
            .nest("/v1", Router::new().route("/charges", posting(charge)))
            .nest("/v2", Router::new().route("/charges", posting(charge)))
            .route("/any", any(any_method))
            .route("/events", posting(events))
            .route("/exports", posting(export))
            .with_state(app.clone());
        Self { app, router }
    }

    async fn send(&self, request: Request<Body>) -> Answered {
        send(self.router.clone(), request).await
    }

    async fn charge(&self, token: &str, key: &str, body: &str) -> Answered {
        let request =
            with_header(request("POST", "/v1/charges", body.to_owned()), "content-type", "application/json");
        let request = with_header(request, "authorization", &format!("Bearer {token}"));
        self.send(with_header(request, "idempotency-key", key)).await
    }

    async fn post(&self, uri: &str, key: &str, body: &str) -> Answered {
        self.send(with_header(request("POST", uri, body.to_owned()), "idempotency-key", key)).await
    }

    fn charged(&self) -> u32 {
        self.app.ledger.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn one_charge_whatever_the_token_and_another_for_another_user() {
    let service = Service::new();
    let first = service.charge("alice.1", "k-1", r#"{"amount": 5}"#).await;
    assert_eq!(
        (first.status.as_u16(), &first.headers["location"]),
        (201, &"/charges/1?by=alice".parse().unwrap())
    );
    let again = service.charge("alice.2", "\"k-1\"", r#"{"amount":5e0}"#).await;
    // What the client may write differently the extractor has to accept, too.
    assert_eq!((again.status.as_u16(), service.charged()), (422, 1));
    let again = service.charge("alice.2", "\"k-1\"", "{\n\"amount\":5}").await;
    again.assert_replays(&first);
    assert_eq!(again.headers["location"], first.headers["location"]);
    service.charge("alice.1", "k-1", r#"{"amount":6}"#).await.assert_problem(422, "idempotency_conflict");
    let bob = service.charge("bob", "k-1", r#"{"amount":6}"#).await;
    assert_eq!((bob.status.as_u16(), bob.is_replayed(), service.charged()), (201, false, 2));
}

#[tokio::test]
async fn declines_are_replayed_failures_run_again_and_panics_free_the_key() {
    let service = Service::new();
    let declined = service.charge("alice", "k-402", r#"{"amount":402}"#).await;
    service.charge("alice", "k-402", r#"{"amount":402}"#).await.assert_replays(&declined);
    assert_eq!((declined.status.as_u16(), service.charged()), (402, 1));

    assert_eq!(service.charge("alice", "k-502", r#"{"amount":502}"#).await.status, 502);
    let second = service.charge("alice", "k-502", r#"{"amount":502}"#).await;
    assert_eq!((second.status.as_u16(), service.charged()), (201, 3));
    service.charge("alice", "k-502", r#"{"amount":502}"#).await.assert_replays(&second);

    let router = service.router.clone();
    let panicked = tokio::spawn(async move {
        let service = Service { router, ..Service::new() };
        service.charge("alice", "k-500", r#"{"amount":500}"#).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    service.app.idem.drain(std::time::Duration::from_secs(10)).await;
    service.charge("alice", "k-500", r#"{"amount":1}"#).await.assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn whoever_is_not_let_in_claims_nothing_and_is_not_shown_a_stored_answer() {
    let service = Service::new();
    for body in [r#"{"amount":5}"#, "{"] {
        let stranger =
            service.send(with_header(request("POST", "/v1/charges", body), "idempotency-key", "k-1")).await;
        assert_eq!((stranger.status.as_u16(), stranger.text()), (401, "who are you?"));
    }
    assert_eq!(service.charge("alice", "k-1", r#"{"amount":"#).await.status, 400);
    assert_eq!((service.app.store.claims(), service.charged()), (0, 0));
    assert_eq!(service.charge("alice", "k-1", r#"{"amount":5}"#).await.status, 201);
    service.app.revoked.lock().unwrap().insert("alice".to_owned());
    let claims = service.app.store.claims();
    assert_eq!(service.charge("alice", "k-1", r#"{"amount":5}"#).await.status, 403);
    assert_eq!(service.app.store.claims(), claims);
}

#[tokio::test]
async fn a_handler_for_any_method_is_protected_where_something_is_asked_for() {
    let service = Service::new();
    for _ in 0..2 {
        let read =
            service.send(with_header(request("GET", "/any?a=1", ""), "idempotency-key", "no, key")).await;
        assert_eq!((read.text(), read.is_replayed()), ("false [(\"a\", \"1\")]", false));
    }
    assert_eq!(service.app.store.claims(), 0);
    let first = service.post("/any?a=1&b=2", "k-1", "").await;
    assert_eq!(first.text(), "true [(\"a\", \"1\"), (\"b\", \"2\")]");
    service.post("/any?b=2&a=1", "k-1", "").await.assert_replays(&first);
    service.post("/any?a=1", "k-1", "").await.assert_problem(422, "idempotency_conflict");
    service.post("/any?a=1", "no, key", "").await.assert_problem(400, "idempotency_key_invalid");
    service.send(request("POST", "/any", "")).await.assert_problem(400, "idempotency_key_required");
}

#[tokio::test]
async fn one_handler_under_two_paths_tells_them_apart() {
    let service = Service::new();
    let at = |version: &str| {
        let request = with_header(
            request("POST", &format!("/{version}/charges"), r#"{"amount":5}"#),
            "authorization",
            "Bearer a",
        );
        with_header(with_header(request, "content-type", "application/json"), "idempotency-key", "k-1")
    };
    assert_eq!(service.send(at("v1")).await.status, 201);
    service.send(at("v2")).await.assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn streams_and_long_answers_reach_their_first_caller_and_are_not_made_again() {
    let service = Service::new();
    assert_eq!(service.post("/events", "k-1", "").await.text(), "data: 1\n\ndata: 2\n\n");
    service.post("/events", "k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!(service.post("/exports", "k-1", "2000000").await.body.len(), 2_000_000);
    service.post("/exports", "k-1", "2000000").await.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!(service.charged(), 2);
}

#[tokio::test]
async fn a_mark_in_an_error_is_obeyed() {
    let service = Service::new();
    let first = service.post("/exports", "k-1", "many").await;
    service.post("/exports", "k-1", "many").await.assert_replays(&first);
    assert_eq!((first.status.as_u16(), service.charged()), (409, 1));
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_before_anything_is_claimed() {
    let service = Service::new();
    service
        .post("/exports", "k-1", &"1".repeat(1024 * 1024 + 1))
        .await
        .assert_problem(413, "idempotency_request_too_large");
    assert_eq!((service.app.store.claims(), service.charged()), (0, 0));
}

#[idempotent(key = header("X-Request-Key"), ttl = "24h", scope = shared, engine = idem)]
async fn own_header(State(idem): State<Idempotency>) -> &'static str {
    "done"
}

#[idempotent(key = wanted.id, ttl = "24h", scope = shared, engine = idem)]
async fn own_key(State(idem): State<Idempotency>, Query(wanted): Query<Wanted>) -> &'static str {
    "done"
}

#[derive(Deserialize)]
struct Wanted {
    id: Option<String>,
}

#[tokio::test]
async fn a_caller_without_a_key_is_told_where_this_operation_looks_for_it() {
    let router = Router::new()
        .route("/header", posting(own_header))
        .route("/value", posting(own_key))
        .with_state(Idempotency::new(idem::MemoryStore::new()));
    for (uri, place) in
        [("/header", "a header `x-request-key`"), ("/value", "the value that this operation takes")]
    {
        let answered = send(router.clone(), request("POST", uri, "")).await;
        let detail = String::from_utf8_lossy(&answered.body).into_owned();
        assert_eq!(answered.status, 400, "{detail}");
        assert!(detail.contains(place), "{detail}");
        assert!(!detail.contains("an Idempotency-Key header"), "{detail}");
    }
}
