//! Handlers of every shape, through their router.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header, request::Parts};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Form, Json, Router};
use idem::axum::idempotent;
use idem::{Idempotency, MemoryStore};
use serde::Deserialize;
use tower::ServiceExt;

#[derive(Clone)]
struct App {
    idem: Idempotency,
    ran: Arc<std::sync::atomic::AtomicU32>,
}

impl App {
    fn run(&self) -> u32 {
        self.ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    }
}

struct User {
    id: u64,
}

impl<S: Sync> FromRequestParts<S> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        parts.headers.get(header::AUTHORIZATION).map(|_| Self { id: 7 }).ok_or(StatusCode::UNAUTHORIZED)
    }
}

// Neither `Serialize` nor anything else.
#[derive(Deserialize)]
struct Charge {
    amount: u64,
}

struct AppError;

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        StatusCode::PAYMENT_REQUIRED.into_response()
    }
}

#[idempotent(key = header, ttl = "24h", scope = user.id, engine = app.idem)]
async fn destructured(
    State(app): State<App>,
    user: User,
    Json(Charge { amount }): Json<Charge>,
) -> Result<(StatusCode, Json<u64>), AppError> {
    app.run();
    if amount == 0 {
        return Err(AppError);
    }
    Ok((StatusCode::CREATED, Json(amount)))
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn opaque(State(app): State<App>, text: String) -> impl IntoResponse {
    // Borrows from the body; the response must be made inside.
    let words: Vec<&str> = text.split(' ').collect();
    app.run();
    words.first().map_or("none", |_| "some")
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn opaque_result(State(app): State<App>, body: Bytes) -> Result<impl IntoResponse, AppError> {
    app.run();
    if body.is_empty() {
        return Err(AppError);
    }
    Ok(([("x-len", body.len().to_string())], body))
}

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn no_arguments() -> &'static str {
    "done"
}

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn no_answer() {}

#[idempotent(key = header("X-Request-Key"), ttl = "24h", scope = shared, engine = app.idem)]
async fn parts_last(Path(id): Path<u64>, State(app): State<App>) -> String {
    app.run();
    id.to_string()
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, fingerprint = raw)]
async fn request_last(State(app): State<App>, request: Request) -> Response {
    app.run();
    let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
    Response::new(Body::from(bytes))
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn optional(State(app): State<App>, charge: Option<Json<Charge>>) -> Json<bool> {
    app.run();
    Json(charge.is_some())
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn fallible(
    State(app): State<App>,
    charge: Result<Json<Charge>, JsonRejection>,
) -> (StatusCode, String) {
    app.run();
    match charge {
        Ok(Json(charge)) => (StatusCode::OK, charge.amount.to_string()),
        Err(rejection) => (StatusCode::BAD_REQUEST, rejection.body_text()),
    }
}

type Answer = Result<Json<u64>, AppError>;
type Body1 = Json<Charge>;

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn aliases(State(app): State<App>, Json(mut charge): Body1) -> Answer {
    app.run();
    charge.amount += 1;
    Ok(Json(charge.amount))
}

trait Amount {
    fn amount(&self) -> u64;
}

impl Amount for Charge {
    fn amount(&self) -> u64 {
        self.amount
    }
}

#[idempotent(key = header, ttl = "24h", scope = shared, operation = "generic", engine = app.idem)]
async fn generic<T>(State(app): State<App>, Json(body): Json<T>) -> Json<u64>
where
    T: Amount + Send + 'static,
{
    app.run();
    Json(body.amount())
}

#[idempotent(key = (&charge.amount, method.as_str()), ttl = "24h", scope = shared, engine = app.idem, fingerprint = (charge.amount, "v1"))]
async fn key_from_the_body(method: Method, State(app): State<App>, Json(charge): Json<Charge>) -> Json<u64> {
    app.run();
    Json(charge.amount)
}

#[idempotent(
    key = header, ttl = "24h", scope = (user.id, "x"), operation = "everything", engine = app.idem, lease = "10s",
    max_run = "5m", in_flight = wait("5s"), expired = reject, tombstone_ttl = "30d", on_crash = reject,
    on_disconnect = finish, on_store_error = reject, missing = run, rebind,
    store_if = |response| response.status.is_success()
)]
async fn everything(user: User, Extension(app): Extension<App>, Form(charge): Form<Charge>) -> Json<u64> {
    app.run();
    Json(charge.amount)
}

struct Handlers;

impl Handlers {
    #[idempotent(key = header, ttl = "24h", scope = shared, operation = "associated", engine = app.idem)]
    async fn associated(State(app): State<App>, query: Query<Vec<(String, String)>>) -> Json<usize> {
        app.run();
        Json(query.0.len())
    }
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, inline)]
async fn in_place(State(app): State<App>, headers: HeaderMap) -> StatusCode {
    app.run();
    assert!(headers.contains_key("idempotency-key"));
    StatusCode::NO_CONTENT
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
#[axum::debug_handler]
async fn debug_handler_below(State(app): State<App>, Json(charge): Json<Charge>) -> Json<u64> {
    app.run();
    Json(charge.amount)
}

#[axum::debug_handler]
#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn debug_handler_above(State(app): State<App>, Json(charge): Json<Charge>) -> Json<u64> {
    app.run();
    Json(charge.amount)
}

#[tracing::instrument(skip_all, fields(amount = charge.amount))]
#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn instrument_above(State(app): State<App>, Json(charge): Json<Charge>) -> Json<u64> {
    app.run();
    Json(charge.amount)
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
#[tracing::instrument(skip(app))]
async fn instrument_below(State(app): State<App>, body: String) -> Json<usize> {
    app.run();
    Json(body.len())
}

macro_rules! handlers {
    ($($name:ident: $body:ty => $answer:ty),*) => {
        $(
            #[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
            async fn $name(State(app): State<App>, body: $body) -> $answer {
                app.run();
                let _ = body;
                <$answer>::default()
            }
        )*
    };
}

handlers!(from_macro: Json<Charge> => String, from_macro_too: Bytes => ());

/// Sends the request twice; the handler must run once, and the answers must be equal.
async fn twice(router: Router<App>, content_type: &str, body: &str) -> String {
    let app = App { idem: Idempotency::new(MemoryStore::new()), ran: Arc::default() };
    let router = router.with_state(app.clone()).layer(Extension(app.clone()));
    let mut answers = Vec::new();
    for _ in 0..2 {
        let request = Request::post("/5")
            .header("idempotency-key", "k1")
            .header("x-request-key", "k1")
            .header(header::AUTHORIZATION, "x")
            .header(header::CONTENT_TYPE, content_type)
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let replayed = response.headers().contains_key("idempotent-replayed");
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        answers.push((status, bytes));
        assert_eq!(replayed, answers.len() == 2, "{answers:?}");
    }
    assert_eq!(answers[0], answers[1]);
    assert!(app.ran.load(std::sync::atomic::Ordering::SeqCst) <= 1);
    format!("{} {}", answers[0].0.as_u16(), String::from_utf8_lossy(&answers[0].1))
}

fn at<H: axum::handler::Handler<T, App>, T: 'static>(handler: H) -> Router<App> {
    Router::new().route("/{id}", post(handler))
}

#[tokio::test]
async fn each_of_them_runs_once() {
    super::set_global();
    let json = "application/json";
    let charge = r#"{"amount": 5}"#;
    assert_eq!(twice(at(destructured), json, charge).await, "201 5");
    assert_eq!(twice(at(destructured), json, r#"{"amount": 0}"#).await, "402 ");
    assert_eq!(twice(at(opaque), "text/plain", "a b").await, "200 some");
    assert_eq!(twice(at(opaque_result), "text/plain", "a b").await, "200 a b");
    assert_eq!(twice(at(no_arguments), "text/plain", "").await, "200 done");
    assert_eq!(twice(at(no_answer), "text/plain", "").await, "200 ");
    assert_eq!(twice(at(parts_last), "text/plain", "").await, "200 5");
    assert_eq!(twice(at(request_last), "text/plain", "abc").await, "200 abc");
    assert_eq!(twice(at(optional), json, charge).await, "200 true");
    assert_eq!(twice(at(fallible), json, "{").await.split(' ').next(), Some("400"));
    assert_eq!(twice(at(aliases), json, charge).await, "200 6");
    assert_eq!(twice(at(generic::<Charge>), json, charge).await, "200 5");
    assert_eq!(twice(at(key_from_the_body), json, charge).await, "200 5");
    assert_eq!(twice(at(everything), "application/x-www-form-urlencoded", "amount=5").await, "200 5");
    assert_eq!(twice(at(Handlers::associated), "text/plain", "").await, "200 0");
    assert_eq!(twice(at(in_place), "text/plain", "").await, "204 ");
    assert_eq!(twice(at(debug_handler_below), json, charge).await, "200 5");
    assert_eq!(twice(at(debug_handler_above), json, charge).await, "200 5");
    assert_eq!(twice(at(instrument_above), json, charge).await, "200 5");
    assert_eq!(twice(at(instrument_below), "text/plain", "abc").await, "200 3");
    assert_eq!(twice(at(from_macro), json, charge).await, "200 ");
    assert_eq!(twice(at(from_macro_too), json, charge).await, "200 ");
}
