//! What a layer can be told of its requests.

use axum::extract::Request;
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http::request::Parts;
use http_body_util::BodyExt as _;
use idem::tower::IdempotencyLayer;
use idem::{Idempotency, Key, MemoryStore, Scope};

use crate::client::{post as post_to, request, send};

#[derive(Clone)]
struct User {
    name: &'static str,
}

fn engine() -> (Idempotency, MemoryStore) {
    let store = MemoryStore::new();
    (Idempotency::new(store.clone()), store)
}

#[tokio::test]
async fn an_operation_is_service_method_and_route_and_has_no_identifier_in_it() {
    let (idem, store) = engine();
    let charges = Router::new().route("/charges/{id}", any(async || "done"));
    let router: Router =
        Router::new().nest("/v1", charges).layer(IdempotencyLayer::new(&idem).routes("billing").shared());
    for id in ["7", "8"] {
        send(&router, post_to(&format!("/v1/charges/{id}"), id, "")).await.assert_fresh(200, "done");
        let id = idem.record_id("billing POST /v1/charges/{id}", &Scope::SHARED, &Key::new(id).unwrap());
        assert!(idem.inspect(&id).await.unwrap().is_some());
    }
    // Another identifier under one key is another request.
    send(&router, post_to("/v1/charges/9", "7", "")).await.assert_problem(422, "idempotency_conflict");
    // Another method is another operation.
    let put = request("PUT", "/v1/charges/9", "", &[("idempotency-key", "7")]);
    send(&router, put).await.assert_fresh(200, "done");
    assert_eq!(store.len(), 3);
}

#[tokio::test]
async fn a_request_that_no_route_matches_passes_without_a_record() {
    let (idem, store) = engine();
    let router: Router = Router::new()
        .route("/charges", post(async || "done"))
        .fallback(async || "nothing here")
        .layer(IdempotencyLayer::new(&idem).routes("billing").shared());
    for _ in 0..2 {
        send(&router, post_to("/elsewhere", "k-1", "")).await.assert_fresh(200, "nothing here");
    }
    assert!(store.is_empty());
}

#[tokio::test]
async fn the_scope_is_an_extension_that_authentication_put_there() {
    let (idem, store) = engine();
    let layer = IdempotencyLayer::new(&idem).operation("charges.create").scope_of(|user: &User| user.name);
    let router: Router = Router::new().route("/charges", post(async || "done")).layer(layer);
    let alice = router.clone().layer(Extension(User { name: "alice" }));
    let bob = router.clone().layer(Extension(User { name: "bob" }));
    send(&alice, post_to("/charges", "k-1", "a")).await.assert_fresh(200, "done");
    send(&bob, post_to("/charges", "k-1", "b")).await.assert_fresh(200, "done");
    send(&alice, post_to("/charges", "k-1", "a")).await.assert_replay(200, "done");
    assert_eq!(store.len(), 2);
    // Nobody has said who is asking: that is not shared by accident.
    send(&router, post_to("/charges", "k-1", "a")).await.assert_problem(500, "idempotency_scope_invalid");
}

#[tokio::test]
async fn key_scope_and_options_may_come_from_anywhere_in_the_request() {
    let (idem, store) = engine();
    let layer = IdempotencyLayer::new(&idem)
        .operations(|parts: &Parts| parts.uri.path().strip_prefix("/hooks/").map(|_| "hooks.receive"))
        .scope(|parts| parts.uri.path().rsplit('/').next().map(str::to_owned))
        .call(|call, request| call.key(&request.body()[..4].escape_ascii().to_string()))
        .call(|call, request| {
            if request.headers().contains_key("x-delivery") {
                call.key_header(Some("x-delivery"))
            } else {
                call
            }
        });
    let router: Router = Router::new().route("/hooks/{sender}", post(async |body: String| body)).layer(layer);
    send(&router, request("POST", "/hooks/a", "id=1", &[])).await.assert_fresh(200, "id=1");
    send(&router, request("POST", "/hooks/a", "id=1", &[])).await.assert_replay(200, "id=1");
    send(&router, request("POST", "/hooks/b", "id=1", &[])).await.assert_fresh(200, "id=1");
    send(&router, request("POST", "/hooks/a", "id=1", &[("x-delivery", "d-1")]))
        .await
        .assert_fresh(200, "id=1");
    send(&router, request("POST", "/hooks/a", "id=1", &[("x-delivery", "d-1")]))
        .await
        .assert_replay(200, "id=1");
    assert_eq!(store.len(), 3);
}

#[tokio::test]
async fn what_is_excepted_and_what_is_safe_passes_unread_and_the_store_is_not_asked() {
    let (idem, store) = engine();
    let unread = async |request: Request| format!("{:?}", http_body::Body::size_hint(request.body()).exact());
    let layer = IdempotencyLayer::new(&idem)
        .operation("all")
        .shared()
        .max_request_bytes(3)
        .except(|parts| parts.uri.path() == "/search")
        .except(|parts| parts.headers.contains_key("x-dry-run"));
    let router: Router =
        Router::new().route("/search", post(unread)).route("/charges", get(unread).post(unread)).layer(layer);
    let long = "longer than the limit";
    for path in ["/search", "/charges"] {
        let method = if path == "/search" { "POST" } else { "GET" };
        let sent = request(method, path, long, &[("idempotency-key", "no key,at all")]);
        send(&router, sent).await.assert_fresh(200, "Some(21)");
    }
    let sent = request("POST", "/charges", long, &[("x-dry-run", "1"), ("idempotency-key", "k-1")]);
    send(&router, sent).await.assert_fresh(200, "Some(21)");
    send(&router, post_to("/charges", "k-1", long))
        .await
        .assert_problem(413, "idempotency_request_too_large");
    assert!(store.is_empty());
}

#[tokio::test]
async fn options_may_differ_from_route_to_route() {
    let (idem, store) = engine();
    let strict = IdempotencyLayer::new(&idem).routes("test").shared();
    let lenient = strict.clone().call(|call, _| call.missing(idem::Missing::Run));
    let router: Router = Router::new()
        .route("/strict", post(async || "done").layer(strict))
        .route("/lenient", post(async || "done").layer(lenient));
    send(&router, request("POST", "/strict", "", &[])).await.assert_problem(400, "idempotency_key_required");
    send(&router, request("POST", "/lenient", "", &[])).await.assert_fresh(200, "done");
    assert!(store.is_empty());
}

#[tokio::test]
async fn the_inner_service_gets_an_equal_request() {
    let (idem, _) = engine();
    let seen = async |request: Request| {
        let (parts, body) = request.into_parts();
        let extension = parts.extensions.get::<User>().map(|user| user.name);
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned();
        format!(
            "{} {} {:?} {:?} {:?} {:?} {:?}",
            parts.method,
            parts.uri,
            parts.version,
            parts.headers,
            extension,
            trailers,
            body.to_bytes()
        )
    };
    let sent = || {
        let frames = [
            http_body::Frame::data(Bytes::from_static(b"{\"a\":")),
            http_body::Frame::data(Bytes::from_static(b"1}")),
            http_body::Frame::trailers(
                [("x-sum".parse().unwrap(), "7".parse().unwrap())].into_iter().collect(),
            ),
        ];
        let body = http_body_util::StreamBody::new(futures_util::stream::iter(
            frames.into_iter().map(Ok::<_, std::convert::Infallible>),
        ));
        let mut sent = request(
            "PATCH",
            "/echo?b=2&a=1",
            axum::body::Body::new(body),
            &[("idempotency-key", "k-1"), ("x-twice", "1"), ("x-twice", "2")],
        );
        *sent.version_mut() = http::Version::HTTP_2;
        sent.extensions_mut().insert(User { name: "alice" });
        sent
    };
    let bare: Router = Router::new().route("/echo", any(seen));
    let layered = bare.clone().layer(IdempotencyLayer::new(&idem).routes("test").shared());
    let expected = send(&bare, sent()).await;
    assert!(expected.text().contains(r#"{"x-sum": "7"}"#), "{expected:?}");
    send(&layered, sent()).await.assert_fresh(200, expected.text());
}
