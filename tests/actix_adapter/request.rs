//! What is read of a request: its key, and its body within limits.

use actix_web::{HttpResponse, web};
use idem::actix::idempotent;

use super::server::{Server, State, send, serve};

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn read(state: web::Data<State>, body: web::Bytes) -> HttpResponse {
    HttpResponse::Ok().body(format!("{} {}", state.run(), body.len()))
}

fn routes(config: &mut web::ServiceConfig) {
    config.app_data(web::PayloadConfig::new(4096)).route("/read", web::post().to(read));
}

fn start() -> Server {
    serve(&State::configured(|builder| builder.max_request_bytes(1000)), routes)
}

fn chunked(size: usize) -> reqwest::Body {
    let chunks = (0..size / 100).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 100]));
    reqwest::Body::wrap_stream(futures_util::stream::iter(chunks))
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_claims_nothing() {
    let server = start();
    server.post("/read", "k-1", "x".repeat(1001)).await.assert_problem(413, "idempotency_request_too_large");
    server.post("/read", "k-1", chunked(1100)).await.assert_problem(413, "idempotency_request_too_large");
    // Also one that is over what any engine reads.
    let huge = vec![b'x'; 2 * 1024 * 1024];
    server.post("/read", "k-1", huge).await.assert_problem(413, "idempotency_request_too_large");
    server.post("/read", "k-1", chunked(1000)).await.assert_fresh(200, "1 1000");
}

#[tokio::test]
async fn a_key_that_is_none_is_400() {
    let server = start();
    send(server.request("POST", "/read").body("a")).await.assert_problem(400, "idempotency_key_required");
    for key in ["", "a b", "\"a", "a,b", "\u{e9}"] {
        server.post("/read", key, "a").await.assert_problem(400, "idempotency_key_invalid");
    }
    let two = server.request("POST", "/read").header("idempotency-key", "a").header("idempotency-key", "a");
    send(two.body("a")).await.assert_problem(400, "idempotency_key_invalid");
    assert_eq!(server.state.runs(), 0);
}

#[tokio::test]
async fn a_limit_of_the_applications_own_holds_too() {
    let state = State::new();
    let server = serve(&state, routes);
    let refused = server.post("/read", "k-1", "x".repeat(5000)).await;
    assert_eq!((refused.status, state.runs()), (413, 0), "{refused:?}");
    server.post("/read", "k-1", "x".repeat(4096)).await.assert_fresh(200, "1 4096");
}
