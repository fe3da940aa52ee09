//! Answers that cannot be kept, and streams of HTTP/2 that are reset, over real connections.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use hyper_util::rt::TokioIo;
use idem::tower::{HttpCall, IdempotencyLayer, Mark};
use idem::{Idempotency, MemoryStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};

const MIB: usize = 1024 * 1024;

/// Serves `POST /charges` of this handler behind a layer.
async fn serve<F>(
    handler: impl Fn(Request) -> F + Clone + Send + Sync + 'static,
    change: impl Fn(HttpCall) -> HttpCall + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = Response> + Send + 'static,
{
    let idem = Idempotency::new(MemoryStore::new());
    let layer = IdempotencyLayer::new(&idem).routes("test").shared().call(move |call, _| change(call));
    let router: Router = Router::new().route("/charges", post(handler)).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// Charges under the key `k-1`, and would take another protocol; returns when the response has begun.
async fn charge(address: SocketAddr) -> reqwest::Response {
    try_charge(address).await.unwrap()
}

async fn try_charge(address: SocketAddr) -> reqwest::Result<reqwest::Response> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("http://{address}/charges")).header("idempotency-key", "k-1");
    request.header("connection", "upgrade").header("upgrade", "echo").send().await
}

/// A retry, which gets neither a second run nor half an answer.
async fn assert_gone(address: SocketAddr) {
    let refused = charge(address).await;
    assert_eq!(
        (refused.status().as_u16(), refused.headers().contains_key("idempotent-replayed")),
        (410, false)
    );
    let problem: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(problem["code"], "idempotency_response_unavailable");
}

type Chunk = Result<Bytes, io::Error>;

fn marked(response: impl IntoResponse, mark: Option<Mark>) -> Response {
    match mark {
        Some(mark) => (Extension(mark), response).into_response(),
        None => response.into_response(),
    }
}

/// Serves a handler whose body is what the test sends it, once.
async fn streaming(
    content_type: &'static str,
    mark: Option<Mark>,
) -> (SocketAddr, mpsc::UnboundedSender<Chunk>) {
    let (sender, receiver) = mpsc::unbounded_channel::<Chunk>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let handler = move |_| {
        let mut receiver = receiver.lock().unwrap().take().expect("the handler runs once");
        let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        ready(marked(([("content-type", content_type)], Body::from_stream(stream)), mark))
    };
    (serve(handler, |call| call).await, sender)
}

#[tokio::test]
async fn an_event_stream_passes_at_once_and_leaves_a_tombstone() {
    for content_type in
        ["text/event-stream", "Text/Event-Stream; charset=utf-8", "multipart/x-mixed-replace; boundary=b"]
    {
        let (address, events) = streaming(content_type, None).await;
        let mut response = charge(address).await;
        assert_gone(address).await;
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            events.send(Ok(event.into())).unwrap();
            assert_eq!(response.chunk().await.unwrap().unwrap(), event);
        }
        drop(events);
        assert_eq!(response.chunk().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_slow_stream_marked_as_a_tombstone_passes_at_once() {
    let (address, chunks) = streaming("application/json", Some(Mark::Tombstone)).await;
    let mut response = charge(address).await;
    chunks.send(Ok("1".into())).unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "1");
    assert_gone(address).await;
}

#[tokio::test]
async fn a_stream_that_grows_too_long_goes_on_while_it_is_written() {
    let (address, chunks) = streaming("application/x-ndjson", None).await;
    chunks.send(Ok(vec![1; MIB].into())).unwrap();
    chunks.send(Ok(vec![2; 1].into())).unwrap();
    let mut response = charge(address).await;
    assert_gone(address).await;
    chunks.send(Ok(vec![3; 5].into())).unwrap();
    drop(chunks);
    let mut whole = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        whole.extend_from_slice(&chunk);
    }
    assert!(whole == [vec![1; MIB], vec![2; 1], vec![3; 5]].concat());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_neither_stored_nor_made_again() {
    let (address, chunks) = streaming("application/json", None).await;
    chunks.send(Ok("{\"a\":".into())).unwrap();
    chunks.send(Err(io::Error::other("the database went away"))).unwrap();
    // The connection may end before the head of the response is sent.
    let whole = match try_charge(address).await {
        Ok(response) => response.bytes().await,
        Err(error) => Err(error),
    };
    assert!(whole.is_err(), "half an answer must not look like a whole one");
    assert_gone(address).await;
}

/// Takes the connection over, and sends back what comes on it.
fn echo(mut request: Request, mark: Option<Mark>) -> Response {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
        tokio::io::copy(&mut reader, &mut writer).await
    });
    marked((StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "echo")]), mark)
}

#[tokio::test]
async fn an_upgrade_is_for_the_first_caller_and_leaves_a_tombstone_also_if_it_is_marked_final() {
    let changes: [fn(HttpCall) -> HttpCall; 2] = [|call| call, |call| call.store_if(|_| true)];
    for (change, mark) in [(changes[0], None), (changes[0], Some(Mark::Final)), (changes[1], None)] {
        let address = serve(move |request| ready(echo(request, mark)), change).await;
        let response = charge(address).await;
        assert_eq!(
            (response.status().as_u16(), response.headers()["upgrade"].to_str().unwrap()),
            (101, "echo")
        );
        let mut connection = response.upgrade().await.unwrap();
        assert_gone(address).await;
        connection.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        connection.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
    }
}

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
