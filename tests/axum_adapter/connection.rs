//! What a real connection adds: clients that go away, and bodies that take their time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{AppendHeaders, IntoResponse, Response};
use idem::OnDisconnect;
use idem::core::key::{Key, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::harness::App;

const MIB: usize = 1024 * 1024;

/// A server, and what becomes of its requests.
struct Server {
    address: SocketAddr,
    /// Told when a request is dropped before its response was ready.
    dropped: Arc<Notify>,
    /// Told when the response of a request is ready.
    answered: Arc<Notify>,
}

/// Tells one of the two.
struct Guard {
    dropped: Option<Arc<Notify>>,
    answered: Arc<Notify>,
}

impl Guard {
    fn answered(mut self) {
        self.dropped = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dropped.as_ref().unwrap_or(&self.answered).notify_one();
    }
}

async fn serve(app: &App) -> Server {
    let (dropped, answered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let told = (dropped.clone(), answered.clone());
    let router = app.router().layer(from_fn(move |request: Request, next: Next| {
        let guard = Guard { dropped: Some(told.0.clone()), answered: told.1.clone() };
        async move {
            let response = next.run(request).await;
            guard.answered();
            response
        }
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    Server { address, dropped, answered }
}

fn head(key: &str, len: usize) -> String {
    format!(
        "POST /charges HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {key}\r\ncontent-length: {len}\r\n\r\n"
    )
}

/// Sends one request on a connection of its own and returns the raw response.
async fn exchange(address: SocketAddr, key: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = head(key, body.len()).replace("host:", "connection: close\r\nhost:");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    response
}

/// The lines before the body, sorted, without `date`.
fn lines(response: &[u8]) -> Vec<String> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut lines: Vec<_> =
        String::from_utf8_lossy(&response[..end]).split("\r\n").map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("date:"));
    lines.sort();
    lines
}

fn is_replayed(response: &[u8]) -> bool {
    lines(response).iter().any(|line| line == "idempotent-replayed: true")
}

/// A handler that says when it has begun and ends when it may; its effect is its number of runs.
struct Gate {
    app: App,
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Gate {
    fn new() -> Self {
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let app = App::new({
            let (begun, go) = (begun.clone(), go.clone());
            move |run, _| {
                let (begun, go) = (begun.clone(), go.clone());
                async move {
                    begun.notify_one();
                    go.notified().await;
                    format!("charged in run {run}").into_response()
                }
            }
        });
        Self { app, begun, go }
    }
}

#[derive(Clone, Copy)]
enum Leave {
    Fin,
    Rst,
}

async fn a_client_that_leaves(leave: Leave) {
    let Gate { app, begun, go } = Gate::new();
    let Server { address, dropped, .. } = serve(&app).await;
    for round in 1..=20 {
        let key = format!("order-{round}");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(head(&key, 1).as_bytes()).await.unwrap();
        client.write_all(b"a").await.unwrap();
        begun.notified().await;
        match leave {
            Leave::Fin => client.shutdown().await.unwrap(),
            Leave::Rst => client.set_zero_linger().unwrap(),
        }
        drop(client);
        dropped.notified().await;
        let running = exchange(address, &key, b"a").await;
        assert!(running.starts_with(b"HTTP/1.1 409 "), "{}", String::from_utf8_lossy(&running));
        go.notify_one();
        assert_eq!(app.idem.drain(Duration::from_secs(10)).await, 0);
        let retry = exchange(address, &key, b"a").await;
        assert!(is_replayed(&retry) && retry.ends_with(format!("charged in run {round}").as_bytes()));
        assert_eq!(app.runs(), round);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_the_handler_and_its_retry_replays() {
    a_client_that_leaves(Leave::Fin).await;
}

#[tokio::test]
async fn a_connection_that_is_reset_does_not_stop_the_handler_and_its_retry_replays() {
    a_client_that_leaves(Leave::Rst).await;
}

#[tokio::test]
async fn with_on_disconnect_cancel_the_handler_is_dropped_and_the_key_is_free_but_bound() {
    let Gate { app, begun, go } = Gate::new();
    let app = app.calling(|call| call.on_disconnect(OnDisconnect::Cancel));
    let Server { address, dropped, .. } = serve(&app).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(head("k-1", 1).as_bytes()).await.unwrap();
    client.write_all(b"a").await.unwrap();
    begun.notified().await;
    drop(client);
    dropped.notified().await;
    assert_eq!(app.idem.drain(Duration::from_secs(10)).await, 0);
    assert!(exchange(address, "k-1", b"b").await.starts_with(b"HTTP/1.1 422 "));
    go.notify_one();
    assert!(exchange(address, "k-1", b"a").await.ends_with(b"charged in run 2"));
}

#[tokio::test]
async fn an_upload_that_breaks_off_claims_nothing() {
    let app = App::new(|_, _| std::future::ready("ok".into_response()));
    let Server { address, answered, .. } = serve(&app).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(head("k-1", 100).as_bytes()).await.unwrap();
    client.write_all(&[b'x'; 50]).await.unwrap();
    client.set_zero_linger().unwrap();
    drop(client);
    // Reading the body fails, and that is answered to nobody.
    answered.notified().await;
    assert_eq!((app.runs(), app.store.claims()), (0, 0));
    assert!(!is_replayed(&exchange(address, "k-1", &[b'x'; 100]).await));
}

#[tokio::test]
async fn a_replayed_request_is_read_to_its_end() {
    let app = App::new(|_, body: Bytes| std::future::ready(body.len().to_string().into_response()));
    let Server { address, .. } = serve(&app).await;
    let body = vec![b'x'; 900 * 1024];
    let first = exchange(address, "k-1", &body).await;
    assert!(first.ends_with(b"921600"));
    let mut client = TcpStream::connect(address).await.unwrap();
    // Twice on one connection: it stays usable only if the first body was taken off it.
    for _ in 0..2 {
        client.write_all(head("k-1", body.len()).as_bytes()).await.unwrap();
        let (early, late) = body.split_at(body.len() / 2);
        client.write_all(early).await.unwrap();
        tokio::task::yield_now().await;
        client.write_all(late).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"921600") {
            assert_ne!(client.read_buf(&mut response).await.unwrap(), 0, "the connection ended early");
        }
        assert!(is_replayed(&response));
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn on_the_wire_a_replay_differs_from_the_first_response_by_its_marker_only() {
    let all: Vec<u8> = (0..=255).collect();
    let expected = all.clone();
    let app = App::new(move |_, _| {
        let links = AppendHeaders([("link", "</a>, </b>"), ("link", "</c>"), ("location", "/charges/1")]);
        let body = Body::from_stream(futures_util::stream::iter(
            all.chunks(100)
                .map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk)))
                .collect::<Vec<_>>(),
        ));
        std::future::ready((http::StatusCode::CREATED, links, body).into_response())
    });
    let Server { address, .. } = serve(&app).await;
    let first = exchange(address, "k-1", b"").await;
    let again = exchange(address, "k-1", b"").await;
    assert!(first.ends_with(&expected) && again.ends_with(&expected));
    assert!(!is_replayed(&first) && is_replayed(&again));
    let mut unmarked = lines(&again);
    unmarked.retain(|line| !line.starts_with("idempotent-replayed"));
    assert_eq!(unmarked, lines(&first));
    assert!(unmarked.contains(&"content-length: 256".to_owned()), "{unmarked:?}");
}

#[tokio::test]
async fn an_event_reaches_the_first_caller_before_the_stream_ends() {
    let (events, receiver) = tokio::sync::mpsc::unbounded_channel::<Result<Bytes, std::io::Error>>();
    let receiver = std::sync::Mutex::new(Some(receiver));
    let app = App::new(move |_, _| {
        let mut receiver = receiver.lock().unwrap().take().expect("the handler runs once");
        let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        std::future::ready(
            ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response(),
        )
    });
    let Server { address, .. } = serve(&app).await;
    let client = reqwest::Client::new();
    let post = || client.post(format!("http://{address}/charges")).header("idempotency-key", "k-1").send();
    let begun = tokio::time::timeout(Duration::from_secs(10), post()).await;
    let mut response = begun.expect("the response is held back").unwrap();
    events.send(Ok("data: 1\n\n".into())).unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: 1\n\n");
    let retry = post().await.unwrap();
    assert_eq!(retry.status(), 410);
}

#[tokio::test]
async fn a_chunked_upload_over_the_limit_is_413() {
    let app = App::new(|_, _| std::future::ready("ok".into_response()));
    let Server { address, .. } = serve(&app).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = "POST /charges HTTP/1.1\r\nhost: localhost\r\nidempotency-key: k-1\r\ntransfer-encoding: chunked\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = client.into_split();
    let upload = tokio::spawn(async move {
        // The server need not take all of it.
        for _ in 0..=MIB / 4096 {
            let _ = writer.write_all(format!("1000\r\n{}\r\n", "x".repeat(4096)).as_bytes()).await;
        }
        let _ = writer.write_all(b"0\r\n\r\n").await;
        writer
    });
    let mut response = Vec::new();
    while !response.starts_with(b"HTTP/1.1 413 ") {
        assert_ne!(reader.read_buf(&mut response).await.unwrap(), 0, "no response");
    }
    drop(upload.await.unwrap());
    assert_eq!((app.runs(), app.store.claims()), (0, 0));
}

#[tokio::test]
async fn a_panic_breaks_its_connection_and_the_retry_runs() {
    let app = App::new(|run, _| async move {
        assert!(run > 1, "the first run panics");
        Response::new("ok".into())
    });
    let Server { address, .. } = serve(&app).await;
    assert_eq!(exchange(address, "k-1", b"a").await, b"");
    assert_eq!(app.idem.drain(Duration::from_secs(10)).await, 0);
    let id = app.idem.record_id("charges.create", &Scope::SHARED, &Key::new("k-1").unwrap());
    assert_eq!(app.idem.inspect(&id).await.unwrap().unwrap().state, idem::State::Failed);
    assert!(exchange(address, "k-1", b"a").await.ends_with(b"ok"));
}

#[tokio::test]
async fn a_client_that_writes_first_and_reads_then_sees_the_413_and_keeps_its_connection() {
    let app = App::new(|_, _| std::future::ready("ok".into_response()));
    let Server { address, .. } = serve(&app).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let long = vec![b'x'; MIB + MIB / 2];
    for (body, end) in [(&long[..], "}"), (b"short", "ok")] {
        client.write_all(head("k-1", body.len()).as_bytes()).await.unwrap();
        client.write_all(body).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(end.as_bytes()) {
            assert_ne!(client.read_buf(&mut response).await.unwrap(), 0, "the connection ended");
        }
        let status = if end == "ok" { b"HTTP/1.1 200 " } else { b"HTTP/1.1 413 " };
        assert!(response.starts_with(status));
    }
    assert_eq!((app.runs(), app.store.claims()), (1, 1));
}
