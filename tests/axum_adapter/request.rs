//! What is captured of a request, and what is refused before anything is claimed.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::{Method, Version};
use axum::response::{IntoResponse, Response};
use axum::routing::post as posting;
use axum::{Extension, Json, Router};
use http_body_util::BodyExt;
use idem::axum::{Captured, HttpCall, Nothing, Syntax, Tuned};
use idem::core::http::key::Syntax as CoreSyntax;
use idem::{Idempotency, MemoryStore, Missing};
use serde::Deserialize;

use super::harness::{Answered, App, post, request, send, with_header};

const MIB: usize = 1024 * 1024;

fn echo() -> App {
    App::new(|run, body: Bytes| async move { format!("run {run}, {} bytes", body.len()).into_response() })
}

/// A body whose length is not known before it ends.
fn chunked(bytes: usize) -> Body {
    let chunks = (0..bytes.div_ceil(MIB / 16)).map(move |at| {
        let len = (bytes - at * (MIB / 16)).min(MIB / 16);
        Ok::<_, Infallible>(Bytes::from(vec![b'x'; len]))
    });
    Body::from_stream(futures_util::stream::iter(chunks))
}

#[tokio::test]
async fn a_quoted_and_a_bare_key_are_the_same_key() {
    let app = echo();
    let first = app.post("order-1", "a").await;
    assert_eq!(first.text(), "run 1, 1 bytes");
    app.post("\"order-1\"", "a").await.assert_replays(&first);
    app.post("\"order-1\";v=1", "a").await.assert_replays(&first);
    assert_eq!(app.post("ORDER-1", "a").await.text(), "run 2, 1 bytes");
    app.post("order-1", "b").await.assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn a_missing_or_invalid_key_is_refused_and_the_store_is_not_asked() {
    let app = echo();
    app.send(request("POST", "/charges", "a")).await.assert_problem(400, "idempotency_key_required");
    let long = "k".repeat(256);
    for key in
        ["", "  ", "\"\"", "\" \"", "a b", "a,b", "\"a", "a\"", "k\u{e9}", "a\tb", "\"\\x\"", "\"a\";", &long]
    {
        let answered = app.post(key, "a").await;
        answered.assert_problem(400, "idempotency_key_invalid");
        assert!(key.trim().len() < 3 || !answered.text().contains(key), "the problem repeats the key");
    }
    let twice = with_header(post("order-1", "a"), "idempotency-key", "order-1");
    app.send(twice).await.assert_problem(400, "idempotency_key_invalid");
    assert_eq!((app.runs(), app.store.claims()), (0, 0));
}

#[tokio::test]
async fn with_missing_run_the_handler_runs_without_a_record_but_an_invalid_key_is_still_refused() {
    let app = echo().calling(|call| call.missing(Missing::Run));
    for run in 1..=2 {
        let answered = app.send(request("POST", "/charges", "a")).await;
        assert_eq!(answered.text(), format!("run {run}, 1 bytes"));
    }
    app.post("a b", "a").await.assert_problem(400, "idempotency_key_invalid");
    assert_eq!((app.runs(), app.store.claims()), (2, 0));
}

#[tokio::test]
async fn with_missing_derive_an_equal_request_is_a_retry() {
    let app = echo().calling(|call| call.missing(Missing::Derive));
    let first = app.send(request("POST", "/charges", "a")).await;
    app.send(request("POST", "/charges", "a")).await.assert_replays(&first);
    assert_eq!(app.send(request("POST", "/charges", "b")).await.text(), "run 2, 1 bytes");
}

#[tokio::test]
async fn safe_methods_ignore_the_key_and_the_store_is_not_asked() {
    let app = echo();
    for (run, method) in (1..).zip(["GET", "GET", "HEAD", "OPTIONS", "TRACE"]) {
        for key in ["order-1", "malformed key,"] {
            let request = with_header(request(method, "/charges", ""), "idempotency-key", key);
            assert_eq!(app.send(request).await.status, 200, "{method} {run}");
        }
    }
    assert_eq!((app.runs(), app.store.claims()), (10, 0));
    for method in ["PUT", "PATCH", "DELETE"] {
        let first = app.send(with_header(request(method, "/charges", ""), "idempotency-key", method)).await;
        app.send(with_header(request(method, "/charges", ""), "idempotency-key", method))
            .await
            .assert_replays(&first);
    }
}

#[tokio::test]
async fn the_body_of_a_safe_method_is_not_limited_by_idem() {
    let app = echo();
    let answered =
        send(app.router().layer(DefaultBodyLimit::disable()), request("GET", "/charges", chunked(3 * MIB)))
            .await;
    assert_eq!(answered.text(), format!("run 1, {} bytes", 3 * MIB));
}

#[tokio::test]
async fn path_query_method_and_media_type_count() {
    let app = echo();
    let first =
        app.send(with_header(request("POST", "/charges?dry=1&a=2", "{}"), "idempotency-key", "k-1")).await;
    let again = |method: &str, uri: &str| with_header(request(method, uri, "{}"), "idempotency-key", "k-1");
    app.send(again("POST", "/charges?a=2&dry=1")).await.assert_replays(&first);
    for (method, uri) in [
        ("POST", "/charges?dry=0&a=2"),
        ("POST", "/charges"),
        ("PUT", "/charges?dry=1&a=2"),
        ("POST", "/v1/charges?dry=1&a=2"),
    ] {
        app.send(again(method, uri)).await.assert_problem(422, "idempotency_conflict");
    }
    let typed = with_header(again("POST", "/charges?dry=1&a=2"), "content-type", "application/json");
    app.send(typed).await.assert_problem(422, "idempotency_conflict");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn under_nested_routers_the_path_that_the_client_sent_counts() {
    let app = echo();
    let to = |uri: &str| with_header(request("POST", uri, "a"), "idempotency-key", "k-1");
    let first = app.send(to("/v1/charges")).await;
    app.send(to("/v1/charges")).await.assert_replays(&first);
    app.send(to("/v2/charges")).await.assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn json_is_compared_by_meaning_and_raw_bodies_byte_for_byte() {
    let json = |key: &str, media_type: &str, body: &'static str| {
        with_header(post(key, body), "content-type", media_type)
    };
    let app = echo();
    let first = app.send(json("k-1", "application/json", r#"{"a":1,"b":[2,3]}"#)).await;
    app.send(json("k-1", "application/json; charset=utf-8", r#"{ "b": [2.0, 3e0], "\u0061": 1 }"#))
        .await
        .assert_replays(&first);
    app.send(json("k-1", "APPLICATION/JSON", r#"{"a":1,"b":[3,2]}"#))
        .await
        .assert_problem(422, "idempotency_conflict");

    let raw = echo().calling(HttpCall::fingerprint_raw);
    let first = raw.send(json("k-1", "application/json", r#"{"a":1}"#)).await;
    raw.send(json("k-1", "application/json", r#"{"a":1}"#)).await.assert_replays(&first);
    raw.send(json("k-1", "application/json", r#"{"a": 1}"#))
        .await
        .assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn a_fingerprint_of_the_handlers_own_replaces_the_request() {
    let app = echo().calling(|call| call.fingerprint(&("amount", 5)));
    let first = app.post("k-1", "sent at 10:00").await;
    app.post("k-1", "sent at 10:01").await.assert_replays(&first);
}

#[tokio::test]
async fn scopes_do_not_see_each_other() {
    let app = echo();
    let other = app.clone().calling(|call| call.scope("acme"));
    let first = app.post("k-1", "a").await;
    assert_eq!(other.post("k-1", "b").await.text(), "run 2, 1 bytes");
    app.post("k-1", "a").await.assert_replays(&first);
}

#[tokio::test]
async fn the_key_comes_from_where_the_handler_says() {
    let named = echo().calling(|call| call.key_header(Some("X-Request-Key")));
    let sent = |value: &str| with_header(request("POST", "/charges", "a"), "x-request-key", value);
    let first = named.send(sent("k-1")).await;
    named.send(sent("k-1")).await.assert_replays(&first);
    named.post("k-1", "a").await.assert_problem(400, "idempotency_key_required");

    let own = echo().calling(|call| call.key(&("order", 7)));
    let first = own.send(request("POST", "/charges", "a")).await;
    own.send(request("POST", "/charges", "a")).await.assert_replays(&first);

    let strict = echo().calling(|call| call.http(|http| http.syntax(Syntax::Strict)));
    strict.post("k-1", "a").await.assert_problem(400, "idempotency_key_invalid");
    assert_eq!(strict.post("\"k-1\"", "a").await.status, 200);
    assert_eq!(CoreSyntax::default(), Syntax::Lenient);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_the_store_is_not_asked() {
    let app = echo();
    for body in [Body::from(vec![b'x'; MIB + 1]), chunked(MIB + 1)] {
        let answered = app.send(post("k-1", body)).await;
        answered.assert_problem(413, "idempotency_request_too_large");
        assert_eq!(answered.json()["retryable"], false);
    }
    assert_eq!((app.runs(), app.store.claims()), (0, 0));
    assert!(app.store.is_empty());
    let first = app.send(post("k-1", chunked(MIB))).await;
    assert_eq!(first.text(), format!("run 1, {MIB} bytes"));
    app.send(post("k-1", vec![b'x'; MIB])).await.assert_replays(&first);
}

#[tokio::test]
async fn the_engines_own_limit_holds_whether_it_is_smaller_or_larger() {
    let small = echo().configured(|builder| builder.max_request_bytes(10));
    let large = echo().configured(|builder| builder.max_request_bytes(3 * MIB));
    small.post("k-1", "12345678901").await.assert_problem(413, "idempotency_request_too_large");
    assert_eq!(small.post("k-1", "1234567890").await.status, 200);
    assert_eq!(small.store.claims(), 1);
    let unlimited = || large.router().layer(DefaultBodyLimit::disable());
    assert_eq!(send(unlimited(), post("k-1", chunked(3 * MIB))).await.status, 200);
    send(unlimited(), post("k-2", chunked(3 * MIB + 1)))
        .await
        .assert_problem(413, "idempotency_request_too_large");
    echo().send(post("k-1", chunked(2 * MIB - 1))).await.assert_problem(413, "idempotency_request_too_large");
}

#[tokio::test]
async fn a_smaller_limit_of_axum_holds_as_well() {
    let app = echo();
    let limited = || app.router().layer(DefaultBodyLimit::max(100));
    for body in [Body::from("x".repeat(101)), chunked(MIB / 2)] {
        send(limited(), post("k-1", body)).await.assert_problem(413, "idempotency_request_too_large");
    }
    assert_eq!((app.runs(), app.store.claims()), (0, 0));
    assert_eq!(send(limited(), post("k-1", "x".repeat(100))).await.status, 200);
}

#[tokio::test]
async fn a_handler_can_have_a_limit_and_headers_of_its_own() {
    async fn small(State(idem): State<Idempotency>, captured: Captured<Bytes, Tuned<5>>) -> Response {
        let (_, request) = captured.into_parts();
        HttpCall::new(&idem, "small", request).run(async { "ok".into_response() }).await
    }
    async fn large(
        State(idem): State<Idempotency>,
        captured: Captured<Bytes, Tuned<{ 2 * MIB }, true>>,
    ) -> Response {
        let (_, request) = captured.into_parts();
        let call = HttpCall::new(&idem, "large", request).key_header(Some("x-key"));
        call.run(async { "ok".into_response() }).await
    }
    let router = Router::new()
        .route("/small", posting(small))
        .route("/large", posting(large))
        .layer(DefaultBodyLimit::disable())
        .with_state(Idempotency::new(MemoryStore::new()));
    let to = |uri: &str, header, body: Body| with_header(request("POST", uri, body), header, "k-1");
    let sent = async |request| send(router.clone(), request).await;
    assert_eq!(sent(to("/small", "idempotency-key", "12345".into())).await.status, 200);
    sent(to("/small", "idempotency-key", "123456".into()))
        .await
        .assert_problem(413, "idempotency_request_too_large");
    assert_eq!(sent(to("/large", "x-key", chunked(2 * MIB))).await.status, 200);
    sent(to("/large", "x-key", chunked(2 * MIB + 1)))
        .await
        .assert_problem(413, "idempotency_request_too_large");
}

#[tokio::test]
async fn a_request_body_that_breaks_off_is_400_and_claims_nothing() {
    let app = echo();
    let chunks = [Ok(Bytes::from_static(b"abc")), Err(std::io::Error::other("gone"))];
    let answered = app.send(post("k-1", Body::from_stream(futures_util::stream::iter(chunks)))).await;
    assert_eq!(answered.status, 400);
    assert_eq!((app.runs(), app.store.claims()), (0, 0));
}

#[derive(Deserialize)]
struct Charge {
    amount: u32,
}

#[tokio::test]
async fn what_an_extractor_rejects_is_its_own_response_and_claims_nothing() {
    async fn create(State(app): State<App>, captured: Captured<Json<Charge>>) -> Response {
        let (Json(charge), request) = captured.into_parts();
        HttpCall::new(&app.idem, "create", request)
            .run(async move { charge.amount.to_string().into_response() })
            .await
    }
    async fn plain(Json(charge): Json<Charge>) -> Response {
        charge.amount.to_string().into_response()
    }
    let app = echo();
    let router =
        Router::new().route("/idem", posting(create)).route("/plain", posting(plain)).with_state(app.clone());
    let to = |uri: &str, media_type: &str, body: &'static str| {
        let request = with_header(request("POST", uri, body), "idempotency-key", "k-1");
        with_header(request, "content-type", media_type)
    };
    for (media_type, body) in [
        ("text/plain", "{}"),
        ("application/json", "{"),
        ("application/json", r#"{"amount":"x"}"#),
        ("application/json", ""),
    ] {
        let ours = send(router.clone(), to("/idem", media_type, body)).await;
        let theirs = send(router.clone(), to("/plain", media_type, body)).await;
        assert_eq!((ours.status, &ours.body), (theirs.status, &theirs.body));
        assert!(ours.status.is_client_error());
    }
    assert!(app.store.is_empty() && app.store.claims() == 0);
    let first = send(router.clone(), to("/idem", "application/json", r#"{"amount":5}"#)).await;
    assert_eq!(first.text(), "5");
    send(router, to("/idem", "application/json", r#"{ "amount": 5 }"#)).await.assert_replays(&first);
}

/// Every kind of last argument, each behind a path of its own.
fn kinds() -> Router {
    macro_rules! kind {
        ($router:ident, $path:literal, $ty:ty, $value:pat => $shown:expr) => {{
            async fn handle(State(idem): State<Idempotency>, captured: Captured<$ty>) -> Response {
                let ($value, request) = captured.into_parts();
                HttpCall::new(&idem, $path, request).run(async move { $shown.into_response() }).await
            }
            $router = $router.route($path, posting(handle));
        }};
    }
    let mut router = Router::new();
    kind!(router, "/nothing", Nothing, _ => "nothing");
    kind!(router, "/option", Option<Json<Charge>>, charge => format!("{:?}", charge.map(|Json(charge)| charge.amount)));
    kind!(router, "/result", Result<Json<Charge>, JsonRejection>, charge => charge.is_ok().to_string());
    kind!(router, "/string", String, text => text);
    kind!(router, "/bytes", Bytes, bytes => bytes);
    kind!(router, "/form", Form<Charge>, Form(charge) => charge.amount.to_string());
    kind!(router, "/query", Query<Charge>, Query(charge) => charge.amount.to_string());
    kind!(router, "/method", Method, method => method.to_string());
    kind!(router, "/path/{id}", Path<u32>, Path(id) => id.to_string());
    kind!(router, "/body", Body, body => Body::new(body));
    router.with_state(Idempotency::new(MemoryStore::new()))
}

#[tokio::test]
async fn the_last_argument_may_be_any_extractor() {
    for (path, media_type, body, shown) in [
        ("/nothing", "text/plain", "x", "nothing"),
        ("/option", "application/json", r#"{"amount":5}"#, "Some(5)"),
        ("/option", "", "", "None"),
        ("/result", "application/json", r#"{"amount":5}"#, "true"),
        ("/result", "application/json", "{", "false"),
        ("/string", "text/plain", "héllo", "héllo"),
        ("/bytes", "text/plain", "bytes", "bytes"),
        ("/form", "application/x-www-form-urlencoded", "amount=5", "5"),
        ("/query?amount=5", "text/plain", "x", "5"),
        ("/method", "text/plain", "x", "POST"),
        ("/path/7", "text/plain", "x", "7"),
        ("/body", "text/plain", "streamed", "streamed"),
    ] {
        let sent = || {
            let request = with_header(request("POST", path, body), "idempotency-key", "k-1");
            if media_type.is_empty() { request } else { with_header(request, "content-type", media_type) }
        };
        let first = send(kinds(), sent()).await;
        assert_eq!(first.text(), shown, "{path}");
        let router = kinds();
        let first = send(router.clone(), sent()).await;
        send(router, sent()).await.assert_replays(&first);
    }
}

#[tokio::test]
async fn the_handlers_extractor_sees_an_equal_request() {
    #[derive(Clone, Debug, PartialEq)]
    struct Session(u32);
    type Seen = Arc<Mutex<Option<(http::request::Parts, Bytes, Option<http::HeaderMap>)>>>;

    async fn handle(
        State((idem, seen)): State<(Idempotency, Seen)>,
        captured: Captured<Request>,
    ) -> Response {
        let (whole, request) = captured.into_parts();
        let (parts, body) = whole.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned();
        *seen.lock().unwrap() = Some((parts, body.to_bytes(), trailers));
        HttpCall::new(&idem, "whole", request).run(async { "ok".into_response() }).await
    }
    let seen = Seen::default();
    let router = Router::new()
        .route("/whole", posting(handle))
        .layer(Extension(Session(7)))
        .with_state((Idempotency::new(MemoryStore::new()), seen.clone()));
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-sum", "1".parse().unwrap());
    let expected = trailers.clone();
    let body = Body::new(Body::from("0123").with_trailers(std::future::ready(Some(Ok(trailers)))));
    let mut sent = with_header(request("POST", "/whole?a=1", body), "idempotency-key", "k-1");
    *sent.version_mut() = Version::HTTP_2;
    let sent = with_header(with_header(sent, "x-twice", "1"), "x-twice", "2");
    let headers = sent.headers().clone();
    assert_eq!(send(router, sent).await.status, 200);
    let (parts, body, trailers) = seen.lock().unwrap().take().unwrap();
    assert_eq!(
        (parts.method, parts.uri.to_string().as_str(), parts.version),
        (Method::POST, "/whole?a=1", Version::HTTP_2)
    );
    assert_eq!(parts.headers, headers);
    assert_eq!(parts.extensions.get::<Session>(), Some(&Session(7)));
    assert_eq!((body, trailers), (Bytes::from_static(b"0123"), Some(expected)));
}

#[tokio::test]
async fn debug_shows_neither_key_nor_body() {
    async fn handle(State(idem): State<Idempotency>, captured: Captured<String>) -> Response {
        let shown = format!("{captured:?}");
        let (_, request) = captured.into_parts();
        let call = HttpCall::new(&idem, "debug", request);
        let shown = format!("{shown} {call:?}");
        call.run(async move { shown.into_response() }).await
    }
    let router =
        Router::new().route("/debug", posting(handle)).with_state(Idempotency::new(MemoryStore::new()));
    let sent =
        with_header(request("POST", "/debug?token=hush", "secret body"), "idempotency-key", "secret-key");
    let answered: Answered = send(router, sent).await;
    assert!(answered.text().contains("/debug"), "{}", answered.text());
    assert!(!answered.text().contains("secret") && !answered.text().contains("hush"), "{}", answered.text());
}
