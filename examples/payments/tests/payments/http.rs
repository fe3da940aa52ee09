//! Requests and answers.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::service::PATIENCE;

/// Somebody who sends requests.
#[derive(Clone)]
pub struct Caller {
    http: reqwest::Client,
    base: String,
    bearer: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

/// A request under way.
pub struct Pending(JoinHandle<Option<Answer>>);

/// A charge of 500 000 dong.
pub fn charge(source: &str) -> Value {
    json!({ "amount": 500_000, "currency": "vnd", "source": source })
}

/// A transfer.
pub fn transfer(from: &str, to: &str, amount: i64) -> Value {
    json!({ "from": from, "to": to, "amount": amount })
}

impl Caller {
    pub fn new(address: &str, bearer: &str) -> Self {
        Self {
            http: reqwest::Client::new(),
            base: format!("http://{address}"),
            bearer: Some(bearer.to_owned()),
        }
    }

    /// The same, but nobody knows who it is.
    pub fn anonymous(self) -> Self {
        Self { bearer: None, ..self }
    }

    pub async fn post(&self, path: &str, key: impl Into<Option<&str>>, body: &Value) -> Answer {
        self.try_post(path, key, body).await.unwrap()
    }

    async fn try_post(
        &self,
        path: &str,
        key: impl Into<Option<&str>>,
        body: &Value,
    ) -> Result<Answer, reqwest::Error> {
        let mut request = self.request(self.http.post(format!("{}{path}", self.base)));
        if let Some(key) = key.into() {
            request = request.header("Idempotency-Key", key);
        }
        send(request.json(body)).await
    }

    /// A charge from this source, under this key.
    pub async fn charge(&self, key: &str, source: &str) -> Answer {
        self.post("/charges", key, &charge(source)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        send(self.request(self.http.get(format!("{}{path}", self.base)))).await.unwrap()
    }

    /// The rows of the ledger.
    pub async fn rows(&self, path: &str) -> Vec<Value> {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    fn request(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.bearer {
            Some(bearer) => request.bearer_auth(bearer),
            None => request,
        }
    }

    /// Sends a request in the background.
    pub fn send(&self, path: &'static str, key: &str, source: &str) -> Pending {
        self.send_body(path, key, charge(source))
    }

    /// As [`send`](Self::send), with any body.
    pub fn send_body(&self, path: &'static str, key: &str, body: Value) -> Pending {
        let (caller, key) = (self.clone(), key.to_owned());
        Pending(tokio::spawn(async move { caller.try_post(path, key.as_str(), &body).await.ok() }))
    }

    /// Sends a request that takes long, and returns when its key is known to be claimed.
    ///
    /// Known by its twin: of two equal requests the one that is answered 409 tells that the other has the claim.
    pub async fn begin(&self, path: &'static str, key: &str, source: &str) -> Pending {
        self.begin_with(path, key, &charge(source)).await
    }

    /// As [`begin`](Self::begin), with any body.
    pub async fn begin_with(&self, path: &'static str, key: &str, body: &Value) -> Pending {
        let send = || self.send_body(path, key, body.clone());
        let (mut one, mut two) = (send(), send());
        let (refused, running) = tokio::select! {
            refused = &mut one.0 => (refused, two),
            refused = &mut two.0 => (refused, one),
        };
        let refused = refused.unwrap().expect("an answer");
        assert!(refused.is_refused("idempotency_in_flight"), "{refused:?}");
        running
    }

    /// Asks again and again until the answer is another than "in flight"; tells how often it was that.
    pub async fn retry(&self, path: &str, key: &str, body: &Value) -> (Answer, usize) {
        let refused = AtomicUsize::new(0);
        let answer = until("another answer than 409", || async {
            let answer = self.post(path, key, body).await;
            let in_flight = answer.is_refused("idempotency_in_flight");
            refused.fetch_add(usize::from(in_flight), Ordering::Relaxed);
            (!in_flight).then_some(answer)
        });
        (answer.await, refused.into_inner())
    }
}

async fn send(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { status, headers, body: response.text().await? })
}

impl Pending {
    /// Waits for the answer.
    pub async fn answer(self) -> Answer {
        self.0.await.unwrap().expect("an answer")
    }

    /// The answer if there is one in so short a time.
    pub async fn answer_within(&mut self, time: Duration) -> Option<Answer> {
        let answer = timeout(time, &mut self.0).await.ok()?;
        Some(answer.unwrap().expect("an answer"))
    }

    /// Waits until it is known that there will be no answer.
    pub async fn cut_off(self) {
        let answer = self.0.await.unwrap();
        assert!(answer.is_none(), "{answer:?}");
    }

    /// Hangs up.
    pub async fn hang_up(self) {
        self.0.abort();
        assert!(self.0.await.is_err(), "it was answered before");
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The `code` of a problem document, if it is one.
    pub fn code(&self) -> Option<String> {
        let is_problem = self.header("content-type") == Some("application/problem+json");
        is_problem.then(|| self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Whether it is a 409 for this reason; one that can be retried must say when.
    pub fn is_refused(&self, code: &str) -> bool {
        if self.status != 409 || self.code().as_deref() != Some(code) {
            return false;
        }
        if code == "idempotency_in_flight" {
            let seconds: u64 = self.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=5).contains(&seconds), "about a second, not the rest of the lease: {self:?}");
        }
        true
    }

    /// The same status, headers that matter and bytes, marked as a replay.
    pub fn assert_replays(&self, first: &Self) {
        assert!(self.is_replay(), "not marked as a replay: {self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
        for name in ["content-type", "location", "content-length"] {
            assert_eq!(self.header(name), first.header(name), "{name}");
        }
    }

    /// What a first run answers.
    pub fn assert_created(&self, attempt: u32) {
        assert_eq!(self.status, 201, "{self:?}");
        assert!(!self.is_replay(), "a replay: {self:?}");
        assert_eq!(self.json()["attempt"], attempt, "{self:?}");
    }
}

/// Asks until there is an answer.
pub async fn until<T, Fut>(event: &str, mut ask: impl FnMut() -> Fut) -> T
where
    Fut: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {event}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
