//! HTTP/2: streams that are reset, and trailers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::routing::post;
use idem::tower::IdempotencyLayer;
use idem::{Idempotency, MemoryStore};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

#[tokio::test]
async fn a_stream_that_is_reset_does_not_stop_the_handler_and_its_retry_replays() {
    let (begun, may_end) = (watch::Sender::new(0), Arc::new(Semaphore::new(0)));
    let runs = Arc::new(AtomicU32::new(0));
    let handler = {
        let (begun, may_end, runs) = (begun.clone(), may_end.clone(), runs.clone());
        async move || {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            begun.send_modify(|begun| *begun += 1);
            may_end.acquire().await.unwrap().forget();
            format!("charged in run {run}")
        }
    };
    let idem = Idempotency::new(MemoryStore::new());
    let layer = IdempotencyLayer::new(&idem).routes("test").shared();
    let router: Router = Router::new().route("/charges", post(handler)).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charges", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let charge = |key: &str| client.post(&url).header("idempotency-key", key).body("5").send();
    // Another stream of the same connection goes on.
    let neighbour = tokio::spawn(charge("k-2"));
    begun.subscribe().wait_for(|begun| *begun == 1).await.unwrap();
    let reset = tokio::spawn(charge("k-1"));
    begun.subscribe().wait_for(|begun| *begun == 2).await.unwrap();
    reset.abort();
    assert!(reset.await.unwrap_err().is_cancelled());
    may_end.add_permits(2);
    let neighbour = neighbour.await.unwrap().unwrap();
    assert_eq!((neighbour.version(), neighbour.status().as_u16()), (reqwest::Version::HTTP_2, 200));
    assert_eq!(neighbour.text().await.unwrap(), "charged in run 1");
    assert_eq!(idem.drain(std::time::Duration::from_secs(20)).await, 0);

    let again = charge("k-1").await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.text().await.unwrap(), "charged in run 2");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
