//! A server of actix-web around a few handlers, and a client that talks to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::Condition;
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpServer, web};
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use idem::actix::{IdempotencyMiddleware, Said};
use idem::{Builder, Idempotency, MemoryStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// What handlers know: the engine, and how often any of them ran.
#[derive(Clone)]
pub(super) struct State {
    pub(super) idem: Idempotency,
    pub(super) store: MemoryStore,
    pub(super) gate: Gate,
    runs: Arc<AtomicU32>,
}

impl State {
    pub(super) fn new() -> Self {
        Self::configured(|builder| builder)
    }

    pub(super) fn configured(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let store = MemoryStore::new();
        let idem = configure(Idempotency::builder(store.clone())).build().unwrap();
        Self { idem, store, gate: Gate::new(), runs: Arc::default() }
    }

    /// Counts a run.
    pub(super) fn run(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    /// Waits until nothing goes on in the background.
    pub(super) async fn settled(&self) {
        assert_eq!(self.idem.drain(Duration::from_secs(20)).await, 0, "something still goes on");
    }
}

/// A gate in front of the end of a handler.
#[derive(Clone)]
pub(super) struct Gate {
    begun: watch::Sender<u32>,
    may_end: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { begun: watch::Sender::new(0), may_end: Arc::new(Semaphore::new(0)) }
    }

    /// Says that a handler has begun, and waits until it may end.
    pub(super) async fn pass(&self) {
        self.begun.send_modify(|begun| *begun += 1);
        self.may_end.acquire().await.unwrap().forget();
    }

    /// Waits until so many handlers have begun.
    pub(super) async fn begun(&self, times: u32) {
        self.begun.subscribe().wait_for(|begun| *begun >= times).await.unwrap();
    }

    /// Lets so many handlers end.
    pub(super) fn open(&self, times: usize) {
        self.may_end.add_permits(times);
    }
}

/// A running server; it ends with its value.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) state: State,
    pub(super) handle: ServerHandle,
    /// Ready when the server has stopped.
    pub(super) stopped: JoinHandle<std::io::Result<()>>,
    client: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(tokio::spawn(self.handle.stop(false)));
    }
}

/// Serves what `routes` says; handlers find the state in `web::Data`.
pub(super) fn serve(state: &State, routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static) -> Server {
    let unused = IdempotencyMiddleware::new(&state.idem).operation("unused").shared();
    start(state, false, unused, routes)
}

/// As [`serve`], with a middleware around the whole application.
pub(super) fn serve_wrapped(
    state: &State,
    once: IdempotencyMiddleware<Said, Said>,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Server {
    start(state, true, once, routes)
}

fn start(
    state: &State,
    is_wrapped: bool,
    once: IdempotencyMiddleware<Said, Said>,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Server {
    let data = web::Data::new(state.clone());
    let app = move || {
        let once = Condition::new(is_wrapped, once.clone());
        App::new().app_data(data.clone()).configure(routes.clone()).wrap(once)
    };
    let server = HttpServer::new(app).workers(2).disable_signals().bind_auto_h2c(("127.0.0.1", 0)).unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Server { address, state: state.clone(), handle, stopped: tokio::spawn(server), client }
}

impl Server {
    pub(super) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method.parse().unwrap(), format!("http://{}{path}", self.address))
    }

    pub(super) async fn post(&self, path: &str, key: &str, body: impl Into<reqwest::Body>) -> Answer {
        send(self.request("POST", path).header("idempotency-key", key).body(body)).await
    }

    pub(super) async fn post_json(&self, path: &str, key: &str, body: &str) -> Answer {
        let request = self.request("POST", path).header("content-type", "application/json");
        send(request.header("idempotency-key", key).body(body.to_owned())).await
    }

    /// Opens a connection and sends a request on it; the answer is not read.
    pub(super) async fn begin(&self, path: &str, key: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nidempotency-key: {key}\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// What is answered, byte for byte.
    pub(super) async fn raw(&self, path: &str, key: &str, body: &str) -> Vec<u8> {
        let mut answer = Vec::new();
        self.begin(path, key, body).await.read_to_end(&mut answer).await.unwrap();
        answer
    }
}

/// Sends a request; it has to be answered.
pub(super) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, body: response.bytes().await.unwrap() }
}

/// A whole response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// The lines of a header, as bytes.
    pub(super) fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
    }

    /// Asserts that a handler answered so, now.
    #[track_caller]
    pub(super) fn assert_fresh(&self, status: u16, body: &str) {
        assert_eq!((self.status, String::from_utf8_lossy(&self.body).as_ref()), (status, body));
        assert!(!self.headers.contains_key("idempotent-replayed"), "{self:?}");
    }

    /// Asserts that it is the stored answer to what was answered `first`.
    #[track_caller]
    pub(super) fn assert_replays(&self, first: &Self) {
        assert!(!first.is_replayed() && self.is_replayed(), "{first:?} {self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
    }

    /// Asserts that idem answered instead of the handler, with this status and code.
    #[track_caller]
    pub(super) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&self.body).unwrap()["code"], code);
        assert!(!self.is_replayed(), "{self:?}");
    }
}
