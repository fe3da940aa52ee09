//! What a caller sends and sees.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::Server;

/// A request in the making.
#[must_use]
pub(crate) struct Sending(reqwest::RequestBuilder);

impl Sending {
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Adds a header line; of any bytes that a header can hold.
    pub(crate) fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        Self(self.0.header(name, HeaderValue::from_bytes(value.as_ref()).unwrap()))
    }

    pub(crate) fn body(self, body: impl Into<reqwest::Body>) -> Self {
        Self(self.0.body(body))
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.header("content-type", "application/json").body(body.to_owned())
    }

    pub(crate) async fn send(self) -> Answer {
        let response = self.0.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, body: response.bytes().await.unwrap() }
    }
}

impl Server {
    /// A request by the usual caller.
    pub(crate) fn request(&self, method: &str, path: &str) -> Sending {
        self.request_by("Bearer alice.1", method, path)
    }

    pub(crate) fn request_by(&self, token: &str, method: &str, path: &str) -> Sending {
        self.anonymous(method, path).header("authorization", token)
    }

    pub(crate) fn anonymous(&self, method: &str, path: &str) -> Sending {
        let url = format!("http://{}{path}", self.address);
        Sending(self.client.request(method.parse().unwrap(), url))
    }

    pub(crate) fn post(&self, path: &str, key: &str, body: impl Into<reqwest::Body>) -> Sending {
        self.request("POST", path).key(key).body(body)
    }

    pub(crate) async fn charge(&self, key: &str, body: &str) -> Answer {
        self.post("/charges", key, body.to_owned()).send().await
    }

    /// Sends a request in the background.
    pub(crate) fn begin(&self, path: &str, key: &str, body: &str) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(self.post(path, key, body.to_owned()).send())
    }

    /// Opens a connection and sends a whole request on it, byte for byte.
    pub(crate) async fn raw(&self, path: &str, lines: &[&[u8]], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer alice.1\r\n"
        )
        .into_bytes();
        for line in lines {
            request.extend_from_slice(line);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body);
        stream.write_all(&request).await.unwrap();
        stream
    }

    /// What is answered to a request that is sent byte for byte, byte for byte.
    pub(crate) async fn raw_bytes(&self, path: &str, lines: &[&[u8]], body: &[u8]) -> Vec<u8> {
        let mut stream = self.raw(path, lines, body).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    }

    pub(crate) async fn raw_answer(&self, path: &str, lines: &[&[u8]], body: &[u8]) -> String {
        String::from_utf8_lossy(&self.raw_bytes(path, lines, body).await).into_owned()
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn retry_after(&self) -> Option<&str> {
        self.headers.get("retry-after").map(|value| value.to_str().unwrap())
    }

    /// Asserts that a handler answered so, now.
    #[track_caller]
    pub(crate) fn assert_fresh(&self, status: u16, body: &str) {
        assert_eq!((self.status, String::from_utf8_lossy(&self.body).as_ref()), (status, body));
        assert!(!self.headers.contains_key("idempotent-replayed"), "{self:?}");
    }

    /// Asserts that it is the stored answer to what was answered `first`.
    #[track_caller]
    pub(crate) fn assert_replays(&self, first: &Self) {
        assert!(!first.headers.contains_key("idempotent-replayed"), "{first:?}");
        assert!(self.is_replayed(), "{self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
    }

    /// Asserts that idem answered instead of the handler, with this status and code.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        let shown = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{shown}");
        assert_eq!(self.headers["content-type"], "application/problem+json", "{shown}");
        assert_eq!(self.json()["code"], code);
        assert!(!self.headers.contains_key("idempotent-replayed"), "{self:?}");
    }

    #[track_caller]
    pub(crate) fn assert_conflict(&self) {
        self.assert_problem(422, "idempotency_conflict");
        assert_eq!(self.retry_after(), None);
    }

    #[track_caller]
    pub(crate) fn assert_in_flight(&self) {
        self.assert_problem(409, "idempotency_in_flight");
    }

    /// Asserts that it says when to come back: in whole seconds, soon.
    #[track_caller]
    pub(crate) fn assert_retry_after(&self) {
        let seconds: u64 = self.retry_after().expect("`Retry-After`").parse().unwrap();
        assert!((1..=2).contains(&seconds), "{seconds}");
    }
}

/// Waits until something holds; at most as long as a busy machine may need.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "not so in 20 seconds: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
