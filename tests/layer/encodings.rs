//! Compression outside of the layer, and inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::routing::post;
use idem::tower::{IdempotencyLayer, Said};
use idem::{Idempotency, MemoryStore};
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;

use crate::client::{post as post_to, request, send};

fn router() -> (Router, IdempotencyLayer<Said, Said>, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let handler = async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        "0123456789".repeat(100)
    };
    let idem = Idempotency::new(MemoryStore::new());
    (Router::new().route("/", post(handler)), IdempotencyLayer::new(&idem).routes("test").shared(), runs)
}

/// The recommended order: what is stored is not compressed, and each caller gets what it accepts.
#[tokio::test]
async fn with_compression_outside_each_caller_gets_the_encoding_that_it_accepts() {
    let (router, layer, runs) = router();
    let router = router.layer(layer).layer(CompressionLayer::new());
    let accepting =
        |encoding| request("POST", "/", "", &[("idempotency-key", "k-1"), ("accept-encoding", encoding)]);
    let first = send(&router, accepting("gzip")).await;
    let again = send(&router, accepting("gzip")).await;
    let plain = send(&router, accepting("identity")).await;
    assert_eq!(first.headers["content-encoding"], "gzip");
    assert_eq!((first.status, &first.body, first.is_replayed()), (again.status, &again.body, false));
    assert_eq!(
        (again.is_replayed(), &again.headers["content-encoding"]),
        (true, &first.headers["content-encoding"])
    );
    plain.assert_replay(200, &"0123456789".repeat(100));
    assert!(!plain.headers.contains_key("content-encoding"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// It works, but whoever comes second gets the encoding that the first one asked for.
#[tokio::test]
async fn with_compression_inside_the_compressed_bytes_are_stored_with_their_encoding() {
    let (router, layer, runs) = router();
    let router = router.layer(CompressionLayer::new()).layer(layer);
    let accepting =
        |encoding| request("POST", "/", "", &[("idempotency-key", "k-1"), ("accept-encoding", encoding)]);
    let first = send(&router, accepting("gzip")).await;
    assert_eq!(first.headers["content-encoding"], "gzip");
    for encoding in ["gzip", "identity"] {
        let again = send(&router, accepting(encoding)).await;
        assert_eq!((again.status, &again.body, again.is_replayed()), (first.status, &first.body, true));
        assert_eq!(again.headers["content-encoding"], "gzip");
        assert_eq!(again.headers["vary"], first.headers["vary"]);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Compressed requests are compared as they come to the layer: unpack them outside, or a retry that is packed
/// differently is another request.
#[tokio::test]
async fn a_compressed_request_is_compared_as_it_reaches_the_layer() {
    let packed = |body: &[u8]| {
        let mut request = post_to("/", "k-1", body.to_vec());
        request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        request
    };
    // The same empty content, packed with two values of the field that names the system.
    let empty = |system| {
        let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, system, 3, 0];
        bytes.extend([0; 8]);
        bytes
    };
    let (bare, layer, _) = router();
    let outside = bare.clone().layer(layer.clone()).layer(RequestDecompressionLayer::new());
    assert!(!send(&outside, packed(&empty(3))).await.is_replayed());
    assert!(send(&outside, packed(&empty(255))).await.is_replayed());
    let (bare, layer, _) = router();
    let inside = bare.layer(RequestDecompressionLayer::new()).layer(layer);
    assert!(!send(&inside, packed(&empty(3))).await.is_replayed());
    send(&inside, packed(&empty(255))).await.assert_problem(422, "idempotency_conflict");
}
