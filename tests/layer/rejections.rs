//! What an inner service answers before its handler has begun.

use axum::extract::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use idem::tower::{IdempotencyLayer, Mark};
use idem::{Idempotency, MemoryStore, OnCrash};

use crate::client::{post as request, send};

fn router(
    store: &MemoryStore,
    change: impl Fn(idem::tower::HttpCall) -> idem::tower::HttpCall + Send + Sync + 'static,
) -> Router {
    let idem = Idempotency::builder(store.clone()).build().unwrap();
    let by_status = async |status: String| StatusCode::from_bytes(status.as_bytes()).unwrap();
    let marked = async |status: String| -> Response {
        (StatusCode::from_bytes(status.as_bytes()).unwrap(), Extension(Mark::Final)).into_response()
    };
    Router::new()
        .route("/status", post(by_status))
        .route("/final", post(marked))
        .route("/json", post(async |Json(number): Json<u32>| number.to_string()))
        .layer(IdempotencyLayer::new(&idem).routes("test").shared().call(move |call, _| change(call)))
}

#[tokio::test]
async fn what_may_be_an_extractors_answer_is_not_stored_and_leaves_the_key_free_and_unbound() {
    let store = MemoryStore::new();
    let router = router(&store, |call| call.on_crash(OnCrash::Reject));
    for status in ["400", "413", "415", "422"] {
        for _ in 0..2 {
            let answer = send(&router, request("/status", "k-1", status)).await;
            assert_eq!((answer.status.as_str(), answer.is_replayed()), (status, false));
            assert!(store.is_empty(), "{status} leaves nothing");
        }
    }
    send(&router, request("/status", "k-1", "201")).await.assert_fresh(201, "");
    send(&router, request("/status", "k-1", "201")).await.assert_replay(201, "");
}

#[tokio::test]
async fn a_request_that_an_extractor_cannot_read_may_be_mended_under_its_key() {
    let store = MemoryStore::new();
    let router = router(&store, |call| call);
    let send_json = async |body: &'static str| {
        let mut request = request("/json", "k-1", body);
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        send(&router, request).await
    };
    assert_eq!(send_json("tru").await.status, 400);
    assert_eq!(send_json(r#""seven""#).await.status, 422);
    assert_eq!(send(&router, request("/json", "k-1", "7")).await.status, 415);
    send_json("7").await.assert_fresh(200, "7");
    send_json("7").await.assert_replay(200, "7");
}

#[tokio::test]
async fn a_handler_that_marks_such_an_answer_final_has_it_stored() {
    let store = MemoryStore::new();
    let router = router(&store, |call| call);
    for status in ["400", "413", "415", "422"] {
        send(&router, request("/final", status, status)).await;
        let again = send(&router, request("/final", status, status)).await;
        assert_eq!((again.status.as_str(), again.is_replayed()), (status, true));
    }
}

#[tokio::test]
async fn a_predicate_may_have_them_stored_too() {
    let store = MemoryStore::new();
    let router = router(&store, |call| call.store_if(|parts| parts.status == 422));
    send(&router, request("/status", "k-1", "422")).await.assert_fresh(422, "");
    send(&router, request("/status", "k-1", "422")).await.assert_replay(422, "");
    send(&router, request("/status", "k-2", "400")).await.assert_fresh(400, "");
    send(&router, request("/status", "k-2", "201")).await.assert_fresh(201, "");
}
