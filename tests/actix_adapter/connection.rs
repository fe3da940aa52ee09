//! Clients that go away, handlers that panic, and servers that stop.

use std::rc::Rc;
use std::time::Duration;

use actix_web::web;
use idem::actix::idempotent;
use idem::current;
use reqwest::Version;

use super::server::{Server, State, serve};

/// A handler that cannot leave its thread.
#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn slow(state: web::Data<State>, body: String) -> String {
    let run = Rc::new(state.run());
    state.gate.pass().await;
    assert_ne!((body.as_str(), *run), ("panic", 1), "the ledger is on fire");
    format!("charged in run {run}, attempt {}", current().unwrap().attempt())
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem, on_disconnect = cancel)]
async fn cancelled(state: web::Data<State>) -> String {
    let run = state.run();
    state.gate.pass().await;
    format!("charged in run {run}")
}

fn routes(config: &mut web::ServiceConfig) {
    config.route("/slow", web::post().to(slow)).route("/cancelled", web::post().to(cancelled));
}

fn start() -> Server {
    serve(&State::new(), routes)
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_the_handler_and_its_retry_replays() {
    let server = start();
    let gate = &server.state.gate;
    for (turn, reset) in [(1, false), (2, true)] {
        let key = format!("k-{turn}");
        let stream = server.begin("/slow", &key, "").await;
        gate.begun(turn).await;
        if reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        server.post("/slow", &key, "").await.assert_problem(409, "idempotency_in_flight");
        gate.open(1);
        server.state.settled().await;
        let replay = server.post("/slow", &key, "").await;
        assert!(replay.is_replayed(), "{replay:?}");
        assert_eq!(replay.text(), format!("charged in run {turn}, attempt 1"));
    }
}

#[tokio::test]
async fn over_http_2_a_stream_that_is_reset_does_not_stop_the_handler() {
    let server = start();
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let url = format!("http://{}/slow", server.address);
    let post = || client.post(&url).header("idempotency-key", "k-1").body("a");
    let first = tokio::spawn(post().send());
    server.state.gate.begun(1).await;
    first.abort();
    server.state.gate.open(1);
    server.state.settled().await;
    let replay = post().send().await.unwrap();
    assert_eq!(
        (replay.version(), &replay.headers()["idempotent-replayed"]),
        (Version::HTTP_2, &"true".parse().unwrap())
    );
    assert_eq!(replay.text().await.unwrap(), "charged in run 1, attempt 1");
}

#[tokio::test]
async fn with_on_disconnect_cancel_the_handler_is_dropped_and_the_key_is_free() {
    let server = start();
    let stream = server.begin("/cancelled", "k-1", "").await;
    server.state.gate.begun(1).await;
    stream.set_zero_linger().unwrap();
    drop(stream);
    server.state.settled().await;
    server.state.gate.open(1);
    server.post("/cancelled", "k-1", "").await.assert_fresh(200, "charged in run 2");
}

#[tokio::test]
async fn a_panic_is_the_servers_own_and_the_key_is_free_at_once() {
    let server = start();
    server.state.gate.open(2);
    let answer = server.raw("/slow", "k-1", "panic").await;
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let other = server.post("/slow", "k-1", "something else").await;
    other.assert_problem(422, "idempotency_conflict");
    server.post("/slow", "k-1", "panic").await.assert_fresh(200, "charged in run 2, attempt 2");
}

#[tokio::test]
async fn a_server_that_is_drained_before_it_stops_stores_what_runs_without_its_callers() {
    let mut server = start();
    let gate = server.state.gate.clone();
    let mut callers = Vec::new();
    for turn in 0..40 {
        callers.push(server.begin("/slow", &format!("k-{turn}"), "").await);
    }
    gate.begun(40).await;
    // Half of the callers are gone.
    callers.truncate(20);
    server.handle.pause().await;
    gate.open(40);
    assert_eq!(server.state.idem.drain(Duration::from_secs(20)).await, 0);
    server.handle.stop(true).await;
    (&mut server.stopped).await.unwrap().unwrap();
    for mut caller in callers {
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut caller, &mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    // Another server over the same records: each has its answer.
    let next = serve(&server.state, routes);
    for turn in 0..40 {
        let replay = next.post("/slow", &format!("k-{turn}"), "").await;
        assert!(replay.is_replayed(), "{turn}: {replay:?}");
    }
    assert_eq!(server.state.runs(), 40);
}
