//! Every kind of extractor and of answer, and what a handler can say of its answer.

use std::fmt;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::{
    Either, FromRequest, HttpRequest, HttpResponse, Responder, ResponseError, get, post, put, web,
};
use futures_util::StreamExt as _;
use idem::actix::{Mark, idempotent};
use idem::{Idempotency, current};
use serde::{Deserialize, Serialize};

use super::server::{Server, State, send, serve};

/// Whoever is named by the part of the token before its dot.
struct User {
    id: String,
}

impl FromRequest for User {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        ready(match token.and_then(|token| token.split('.').next()) {
            Some(id) => Ok(Self { id: id.to_owned() }),
            None => Err(actix_web::error::ErrorUnauthorized("who are you?")),
        })
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

#[derive(Debug)]
enum ChargeError {
    Declined,
    Down,
}

impl fmt::Display for ChargeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl ResponseError for ChargeError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Declined => StatusCode::PAYMENT_REQUIRED,
            Self::Down => StatusCode::BAD_GATEWAY,
        }
    }
}

#[post("/charges")]
#[idempotent(key = header, ttl = "24h", scope = user.id, engine = state.idem)]
async fn charge(
    state: web::Data<State>,
    user: User,
    web::Json(ChargeRequest { amount }): web::Json<ChargeRequest>,
) -> Result<impl Responder, ChargeError> {
    let (id, attempt) = (state.run(), current().map_or(0, |run| run.attempt()));
    match amount {
        402 => Err(ChargeError::Declined),
        502 if attempt == 1 => Err(ChargeError::Down),
        500 => panic!("the ledger is on fire"),
        _ => Ok(HttpResponse::Created()
            .insert_header(("location", format!("/charges/{id}?by={}", user.id)))
            .json(Charge { id, amount })),
    }
}

/// The route stands below, too, and the key is a part of the path.
#[idempotent(key = order.as_str(), ttl = "24h", scope = shared, engine = state.idem)]
#[put("/orders/{order}")]
async fn order(
    state: web::Data<State>,
    order: web::Path<String>,
    web::Query(query): web::Query<Vec<(String, String)>>,
    mut body: web::Payload,
) -> String {
    let mut length = 0;
    while let Some(chunk) = body.next().await {
        length += chunk.unwrap().len();
    }
    format!("{}: {order} {query:?} {length}", state.run())
}

#[idempotent(key = header("X-Request-Key"), ttl = "24h", scope = shared, engine = state.idem, fingerprint = form.0.len())]
async fn form(state: web::Data<State>, form: web::Form<Vec<(String, String)>>) -> (String, StatusCode) {
    (format!("{} {:?}", state.run(), form.0), StatusCode::ACCEPTED)
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn lenient(
    state: web::Data<State>,
    json: Result<web::Json<ChargeRequest>, actix_web::Error>,
    token: Option<web::Header<actix_web::http::header::ContentLength>>,
    request: HttpRequest,
) -> Either<HttpResponse, web::Bytes> {
    state.run();
    match (json, token) {
        (Ok(json), Some(_)) => Either::Right(json.amount.to_string().into()),
        _ => Either::Left(HttpResponse::BadRequest().body(request.path().to_owned())),
    }
}

#[get("/reads")]
#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn reads(state: web::Data<State>, body: web::Bytes) -> String {
    format!("{} {} {}", state.run(), body.len(), current().is_some())
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn marks(state: web::Data<State>, how: String) -> HttpResponse {
    let run = state.run();
    let mark = |mark| current().unwrap().mark(mark);
    let mut response = HttpResponse::Conflict().body(run.to_string());
    match how.as_str() {
        "final" => drop(response.extensions_mut().insert(Mark::Final)),
        "tombstone" => drop(response.extensions_mut().insert(Mark::Tombstone)),
        "retryable" => {
            mark(Mark::Retryable);
            return HttpResponse::Ok().body(run.to_string());
        }
        _ => {}
    }
    response
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(charge)
        .service(order)
        .service(web::scope("/v2").service(charge))
        .route("/forms", web::post().to(form))
        .route("/lenient", web::post().to(lenient))
        .route("/marks", web::post().to(marks))
        .service(reads);
}

fn start() -> Server {
    serve(&State::new(), routes)
}

async fn charge_by(server: &Server, token: &str, path: &str, key: &str, body: &str) -> super::server::Answer {
    let request = server.request("POST", path).header("authorization", token);
    let request = request.header("content-type", "application/json").header("idempotency-key", key);
    send(request.body(body.to_owned())).await
}

#[tokio::test]
async fn one_charge_whatever_the_token_and_another_for_another_user() {
    let server = start();
    let first = charge_by(&server, "alice.1", "/charges", "k-1", r#"{"amount": 5}"#).await;
    first.assert_fresh(201, r#"{"id":1,"amount":5}"#);
    let again = charge_by(&server, "alice.2", "/charges", "\"k-1\"", r#"{ "amount" : 5 }"#).await;
    again.assert_replays(&first);
    assert_eq!(again.lines("location"), [b"/charges/1?by=alice"]);
    charge_by(&server, "bob.1", "/charges", "k-1", r#"{"amount": 5}"#)
        .await
        .assert_fresh(201, r#"{"id":2,"amount":5}"#);
    let other = charge_by(&server, "alice.1", "/charges", "k-1", r#"{"amount": 6}"#).await;
    other.assert_problem(422, "idempotency_conflict");
    // The path as the client sent it counts, also below a scope.
    let elsewhere = charge_by(&server, "alice.1", "/v2/charges", "k-1", r#"{"amount": 5}"#).await;
    elsewhere.assert_problem(422, "idempotency_conflict");
    assert_eq!(server.state.runs(), 2);
}

#[tokio::test]
async fn what_extractors_reject_claims_nothing() {
    let server = start();
    for (token, body, status) in [("", "{}", 401), ("alice.1", "{}", 400), ("alice.1", "nonsense", 400)] {
        let request = server.request("POST", "/charges").header("content-type", "application/json");
        let request = if token.is_empty() { request } else { request.header("authorization", token) };
        let rejected = send(request.header("idempotency-key", "k-1").body(body)).await;
        assert_eq!((rejected.status, rejected.is_replayed()), (status, false), "{rejected:?}");
    }
    let first = charge_by(&server, "alice.1", "/charges", "k-1", r#"{"amount": 5}"#).await;
    first.assert_fresh(201, r#"{"id":1,"amount":5}"#);
}

#[tokio::test]
async fn an_err_is_judged_by_its_status() {
    let server = start();
    let declined = charge_by(&server, "alice", "/charges", "k-1", r#"{"amount": 402}"#).await;
    declined.assert_fresh(402, "Declined");
    charge_by(&server, "alice", "/charges", "k-1", r#"{"amount": 402}"#).await.assert_replays(&declined);
    let down = charge_by(&server, "alice", "/charges", "k-2", r#"{"amount": 502}"#).await;
    down.assert_fresh(502, "Down");
    let other = charge_by(&server, "alice", "/charges", "k-2", r#"{"amount": 5}"#).await;
    other.assert_problem(422, "idempotency_conflict");
    let retry = charge_by(&server, "alice", "/charges", "k-2", r#"{"amount": 502}"#).await;
    retry.assert_fresh(201, r#"{"id":3,"amount":502}"#);
}

#[tokio::test]
async fn a_route_below_works_as_one_above_and_its_handler_reads_the_whole_body() {
    let server = start();
    let body = "x".repeat(300_000);
    let put = |path: &'static str, body: &str| {
        let request = server.request("PUT", path).body(body.to_owned());
        async move { send(request).await }
    };
    let first = put("/orders/7?b=2&a=1", &body).await;
    first.assert_fresh(200, r#"1: 7 [("b", "2"), ("a", "1")] 300000"#);
    put("/orders/7?a=1&b=2", &body).await.assert_replays(&first);
    put("/orders/7?a=1", &body).await.assert_problem(422, "idempotency_conflict");
    put("/orders/8?a=1", "").await.assert_fresh(200, r#"2: 8 [("a", "1")] 0"#);
}

#[tokio::test]
async fn a_key_from_another_header_and_a_fingerprint_of_ones_own() {
    let server = start();
    let post = |key: &str, body: &'static str| {
        let request = server.request("POST", "/forms").header("x-request-key", key.to_owned());
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        async move { send(request.body(body)).await }
    };
    let first = post("k-1", "a=1&b=2").await;
    first.assert_fresh(202, r#"1 [("a", "1"), ("b", "2")]"#);
    post("k-1", "a=3&b=4").await.assert_replays(&first);
    post("k-1", "a=3").await.assert_problem(422, "idempotency_conflict");
    let missing = send(server.request("POST", "/forms").header("idempotency-key", "k-1").body("")).await;
    assert_eq!(missing.status, 415, "{missing:?}");
}

#[tokio::test]
async fn extractors_that_may_fail_are_the_handlers_own() {
    let server = start();
    server.post_json("/lenient", "k-1", r#"{"amount": 5}"#).await.assert_fresh(200, "5");
    let first = server.post_json("/lenient", "k-2", "nonsense").await;
    first.assert_fresh(400, "/lenient");
    server.post_json("/lenient", "k-2", "nonsense").await.assert_replays(&first);
}

#[tokio::test]
async fn a_safe_method_ignores_its_key() {
    let server = start();
    for run in 1..=2 {
        let request = server.request("GET", "/reads").header("idempotency-key", "two words");
        send(request.body("abc")).await.assert_fresh(200, &format!("{run} 3 false"));
    }
}

#[tokio::test]
async fn what_a_handler_marks_is_obeyed() {
    let server = start();
    let first = server.post("/marks", "k-1", "final").await;
    server.post("/marks", "k-1", "final").await.assert_replays(&first);
    server.post("/marks", "k-2", "none").await.assert_fresh(409, "2");
    server.post("/marks", "k-2", "none").await.assert_fresh(409, "3");
    server.post("/marks", "k-3", "retryable").await.assert_fresh(200, "4");
    server.post("/marks", "k-3", "retryable").await.assert_fresh(200, "5");
    server.post("/marks", "k-4", "tombstone").await.assert_fresh(409, "6");
    let gone = server.post("/marks", "k-4", "tombstone").await;
    gone.assert_problem(410, "idempotency_response_unavailable");
}

/// The engine of the process, and no arguments at all.
#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn nothing() -> &'static str {
    "nothing"
}

#[tokio::test]
async fn a_handler_without_arguments_uses_the_engine_of_the_process() {
    let server = serve(&State::new(), |config| {
        config.route("/nothing", web::post().to(nothing));
    });
    server.post("/nothing", "k-1", "").await.assert_problem(500, "idempotency_misuse");
    idem::set_global(Idempotency::new(idem::MemoryStore::new())).unwrap();
    let first = server.post("/nothing", "k-1", "").await;
    first.assert_fresh(200, "nothing");
    server.post("/nothing", "k-1", "").await.assert_replays(&first);
}
