//! Services that are not axum's: any body, any error.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use idem::tower::{IdempotencyLayer, Resumed, Said};
use idem::{Idempotency, MemoryStore};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::client::{post, request, send};

fn layer(store: &MemoryStore) -> IdempotencyLayer<Said, Said> {
    IdempotencyLayer::new(&Idempotency::new(store.clone())).operation("charges.create").shared()
}

#[derive(Debug, PartialEq)]
struct Gone;

/// An error is no response: it cannot be stored, and it is for whoever stands outside to make of it what it will.
#[tokio::test]
async fn an_error_of_the_inner_service_passes_and_counts_as_failed() {
    let (store, runs) = (MemoryStore::new(), Arc::new(AtomicU32::new(0)));
    let counted = runs.clone();
    let service = layer(&store).layer(service_fn(move |request: Request<Resumed<Body>>| {
        let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            drop(request);
            if run < 3 { Err(Gone) } else { Ok(Response::new(Full::new(Bytes::from("done")))) }
        }
    }));
    for _ in 0..2 {
        let failed = service.clone().oneshot(post("/", "k-1", "a")).await;
        assert_eq!(failed.err(), Some(Gone));
    }
    // Free, but bound to its request.
    send(&service, post("/", "k-1", "b")).await.assert_problem(422, "idempotency_conflict");
    send(&service, post("/", "k-1", "a")).await.assert_fresh(200, "done");
    send(&service, post("/", "k-1", "a")).await.assert_replay(200, "done");
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_panic_passes_and_counts_as_failed() {
    let store = MemoryStore::new();
    let service = layer(&store).layer(service_fn(async |request: Request<Resumed<Body>>| {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_ne!(body, "panic", "as the test wants it");
        Ok::<_, Infallible>(Response::new(Full::new(body)))
    }));
    let panicked = tokio::spawn(service.clone().oneshot(post("/", "k-1", "panic"))).await;
    assert!(panicked.unwrap_err().is_panic());
    send(&service, post("/", "k-1", "fine")).await.assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn a_service_gets_ready_before_each_call_and_its_own_readiness_is_used() {
    let store = MemoryStore::new();
    let limited = tower::ServiceBuilder::new().concurrency_limit(1).service(service_fn(
        async |request: Request<Resumed<Body>>| {
            Ok::<_, Infallible>(Response::new(Full::new(
                request.into_body().collect().await.unwrap().to_bytes(),
            )))
        },
    ));
    let service = layer(&store).layer(limited);
    for key in ["k-1", "k-1", "k-2", "k-3", "k-3"] {
        send(&service, post("/", key, key)).await;
    }
    assert_eq!(store.len(), 3);
    // A replay has given the room back that it did not use.
    send(&service, request("GET", "/", "room", &[])).await.assert_fresh(200, "room");
}
