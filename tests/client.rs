//! `idem::client` against an axum server, over a way that loses, delays, cuts and repeats.
#![cfg(all(feature = "axum", feature = "client", feature = "memory"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use idem::axum::idempotent;
use idem::client::{ErrorKind, KeyedRequest, Retries, Sender};
use idem::{Idempotency, MemoryStore};
use idem_testkit::{Fault, UnreliableWay};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A server, and how often its handlers ran.
#[derive(Clone)]
struct Server {
    idem: Idempotency,
    runs: Arc<AtomicU32>,
    go_on: Arc<Notify>,
    address: String,
}

impl Server {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            idem: Idempotency::new(MemoryStore::new()),
            runs: Arc::default(),
            go_on: Arc::default(),
            address: listener.local_addr().unwrap().to_string(),
        };
        let routes = Router::new()
            .route("/orders", post(order))
            .route("/slow", post(slow))
            .route("/fails-at-first", post(fails_at_first))
            .route("/says/{status}", post(says))
            .with_state(server.clone());
        tokio::spawn(axum::serve(listener, routes).into_future());
        server
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    fn ran(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[idempotent(key = header, ttl = "1h", scope = shared, engine = server.idem)]
async fn order(State(server): State<Server>, Json(order): Json<Value>) -> (StatusCode, Json<Value>) {
    server.ran();
    (StatusCode::CREATED, Json(json!({ "ordered": order, "padding": "x".repeat(2000) })))
}

#[idempotent(key = header, ttl = "1h", scope = shared, engine = server.idem)]
async fn slow(State(server): State<Server>, _: String) -> &'static str {
    server.ran();
    server.go_on.notified().await;
    "at last"
}

#[idempotent(key = header, ttl = "1h", scope = shared, engine = server.idem)]
async fn fails_at_first(State(server): State<Server>, _: String) -> Result<&'static str, StatusCode> {
    if server.ran() < 3 { Err(StatusCode::BAD_GATEWAY) } else { Ok("in the end") }
}

/// Not idempotent: each attempt is seen.
async fn says(State(server): State<Server>, Path(status): Path<u16>) -> Response {
    if server.ran() > 1 {
        return "and now it works".into_response();
    }
    let headers = [(header::RETRY_AFTER, "1"), (header::CONTENT_TYPE, "application/problem+json")];
    let retryable = status != 500;
    (StatusCode::from_u16(status).unwrap(), headers, json!({ "retryable": retryable }).to_string())
        .into_response()
}

fn request(address: &str, path: &str) -> KeyedRequest {
    let request = reqwest::Client::new().post(format!("http://{address}{path}"));
    KeyedRequest::new(request.json(&json!({ "article": "tea" })).build().unwrap()).unwrap()
}

/// Does not wait for long.
fn sender() -> Sender {
    let retries =
        Retries::default().first_wait(Duration::from_millis(4)).longest_wait(Duration::from_millis(20));
    Sender::new(reqwest::Client::new()).retries(retries)
}

/// Has a way do something to the first request alone.
fn at_first(fault: Fault) -> impl Fn(u64) -> Fault + Send + Sync + 'static {
    move |number| if number == 0 { fault } else { Fault::None }
}

#[tokio::test]
async fn a_request_without_trouble_is_sent_once() {
    let server = Server::start().await;
    let request = request(&server.address, "/orders");
    let response = sender().send(&request).await.unwrap();
    assert_eq!(
        (response.status(), response.attempts(), response.is_replayed()),
        (StatusCode::CREATED, 1, false)
    );
    let again = sender().send(&request).await.unwrap();
    assert_eq!((again.status(), again.attempts(), again.is_replayed()), (StatusCode::CREATED, 1, true));
    assert_eq!(again.body(), response.body());
    assert_eq!(server.runs(), 1);
}

#[tokio::test]
async fn whatever_the_network_does_to_it_a_request_runs_once_and_its_answer_arrives_whole() {
    let soon = Duration::from_millis(20);
    for (fault, attempts) in [
        (Fault::LoseRequest, 2),
        (Fault::LoseAnswer, 2),
        (Fault::CutAnswer, 2),
        (Fault::DeliverLate(soon), 2),
        (Fault::DelayRequest(soon), 1),
        (Fault::DelayAnswer(soon), 1),
    ] {
        let server = Server::start().await;
        let way = UnreliableWay::to(&server.address, at_first(fault)).await;
        let response = sender().send(&request(way.address(), "/orders")).await.unwrap();
        assert_eq!((response.status(), response.attempts()), (StatusCode::CREATED, attempts), "{fault:?}");
        assert!(serde_json::from_slice::<Value>(response.body()).is_ok(), "{fault:?}");
        assert_eq!(
            response.is_replayed(),
            matches!(fault, Fault::LoseAnswer | Fault::CutAnswer),
            "{fault:?}"
        );
        if let Fault::DeliverLate(_) = fault {
            // Now it comes, too, and finds what is there.
            tokio::time::sleep(2 * soon).await;
        }
        assert_eq!(server.runs(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_asked_for_again() {
    let server = Server::start().await;
    let way = UnreliableWay::to(&server.address, at_first(Fault::DelayAnswer(Duration::from_mins(1)))).await;
    let impatient = Retries::default().attempt_timeout(Duration::from_millis(300));
    let sender = Sender::new(reqwest::Client::new()).retries(impatient);
    let response = sender.send(&request(way.address(), "/orders")).await.unwrap();
    assert_eq!((response.attempts(), response.is_replayed(), server.runs()), (2, true, 1));
}

#[tokio::test]
async fn a_request_that_still_runs_is_waited_for_as_long_as_the_server_asks() {
    let server = Server::start().await;
    // The first attempt is in the middle of its work when its answer is lost to the client.
    let impatient =
        Retries::default().first_wait(Duration::from_millis(2)).attempt_timeout(Duration::from_millis(200));
    let sender = Sender::new(reqwest::Client::new()).retries(impatient);
    let request = request(&server.address, "/slow");
    let begun = Instant::now();
    let go_on = async {
        // While it runs, somebody is told 409 and waits for a second.
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.go_on.notify_one();
    };
    let (response, ()) = tokio::join!(sender.send(&request), go_on);
    let response = response.unwrap();
    assert_eq!((response.status(), &response.body()[..]), (StatusCode::OK, &b"at last"[..]));
    assert_eq!((response.attempts(), response.is_replayed(), server.runs()), (3, true, 1));
    assert!(begun.elapsed() >= Duration::from_secs(1), "`Retry-After: 1` was not honoured");
}

#[tokio::test]
async fn a_handler_that_fails_is_tried_until_it_does_not() {
    let server = Server::start().await;
    let response = sender().send(&request(&server.address, "/fails-at-first")).await.unwrap();
    assert_eq!(
        (&response.body()[..], response.attempts(), response.is_replayed()),
        (&b"in the end"[..], 3, false)
    );
}

#[tokio::test]
async fn what_is_retryable_is_tried_again_and_what_is_final_is_not() {
    for (status, attempts) in [(409, 2), (425, 2), (429, 2), (503, 2), (422, 1), (400, 1), (404, 1), (500, 1)]
    {
        let server = Server::start().await;
        let begun = Instant::now();
        let response = sender().send(&request(&server.address, &format!("/says/{status}"))).await.unwrap();
        assert_eq!((response.attempts(), server.runs()), (attempts, attempts), "{status}");
        assert_eq!(response.status().as_u16(), if attempts == 1 { status } else { 200 });
        assert_eq!(begun.elapsed() >= Duration::from_secs(1), attempts == 2, "{status}: `Retry-After: 1`");
    }
}

#[tokio::test]
async fn a_key_that_was_used_for_another_request_is_not_tried_again() {
    let server = Server::start().await;
    let (http, url) = (reqwest::Client::new(), format!("http://{}/orders", server.address));
    let keyed = |body: Value| {
        KeyedRequest::with_key("order-1001", http.post(&url).json(&body).build().unwrap()).unwrap()
    };
    sender().send(&keyed(json!(1))).await.unwrap();
    let response = sender().send(&keyed(json!(2))).await.unwrap();
    assert_eq!((response.status(), response.attempts()), (StatusCode::UNPROCESSABLE_ENTITY, 1));
    assert_eq!(server.runs(), 1);
}

#[tokio::test]
async fn when_time_is_over_the_error_says_what_is_known_and_nothing_of_the_request() {
    let server = Server::start().await;
    let hurried =
        Retries::default().first_wait(Duration::from_millis(2)).give_up_after(Duration::from_millis(300));
    let sender = Sender::new(reqwest::Client::new()).retries(hurried);

    let answered = sender.send(&request(&server.address, "/says/503?token=secret")).await.unwrap_err();
    assert_eq!((answered.kind(), answered.attempts()), (ErrorKind::Unanswered, 1));
    assert_eq!(answered.last_response().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answered.may_have_happened());
    assert!(answered.to_string().contains("(the last one was answered 503)"), "{answered}");

    let way = UnreliableWay::to(&server.address, |_| Fault::LoseRequest).await;
    let unheard = sender.send(&request(way.address(), "/orders?token=secret")).await.unwrap_err();
    assert_eq!(unheard.kind(), ErrorKind::Unanswered);
    assert!(unheard.attempts() > 1 && unheard.last_response().is_none(), "{unheard:?}");
    assert!(std::error::Error::source(&unheard).is_some());
    for error in [answered, unheard] {
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_body_that_can_be_sent_only_once_is_refused_before_anything_is_sent() {
    let server = Server::start().await;
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("a stream")]));
    let http = reqwest::Client::new();
    let request = http.post(format!("http://{}/orders", server.address)).body(body).build().unwrap();
    let error = KeyedRequest::new(request).unwrap_err();
    assert_eq!((error.kind(), error.attempts(), error.may_have_happened()), (ErrorKind::Stream, 0, false));
    assert!(error.to_string().contains("read it into bytes first"), "{error}");
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn what_cannot_be_sent_at_all_is_not_tried_again() {
    let request = reqwest::Client::new().post("gopher://127.0.0.1/orders").build().unwrap();
    let error = sender().send(&KeyedRequest::new(request).unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_happened()), (ErrorKind::Unsendable, false), "{error:?}");
}

#[tokio::test]
async fn an_answer_over_the_limit_is_an_error_and_not_asked_for_again() {
    let server = Server::start().await;
    let error =
        sender().max_response_bytes(100).send(&request(&server.address, "/orders")).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::ResponseTooLarge, 1));
    assert!(error.may_have_happened());
    assert_eq!(server.runs(), 1);
}

#[tokio::test]
async fn many_requests_over_a_bad_way_run_once_each() {
    const REQUESTS: usize = 200;
    let server = Server::start().await;
    let way = UnreliableWay::to(&server.address, Fault::seeded(1)).await;
    let mut sent = JoinSet::new();
    for _ in 0..REQUESTS {
        let (sender, request) = (sender(), request(way.address(), "/orders"));
        sent.spawn(async move { sender.send(&request).await.unwrap().status() });
    }
    assert_eq!(sent.join_all().await, [StatusCode::CREATED; REQUESTS]);
    assert_eq!(server.runs() as usize, REQUESTS);
    assert!(way.faults() as usize > REQUESTS / 4, "the way was not that bad: {way:?}");
}
