//! Requests to a service, and its whole responses.

use axum::body::{Body, Bytes};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use tower::{Service, ServiceExt as _};

/// `POST path` with a key and a body.
pub(super) fn post(path: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    request("POST", path, body, &[("idempotency-key", key)])
}

pub(super) fn request(
    method: &str,
    path: &str,
    body: impl Into<Body>,
    headers: &[(&str, &str)],
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}

/// A whole response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Sends a request to a service, which must not fail.
pub(super) async fn send<S, B>(service: &S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>, Error: std::fmt::Debug> + Clone,
    B: BodyExt<Data = Bytes, Error: std::fmt::Debug>,
{
    let response = service.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() }
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    #[track_caller]
    pub(super) fn assert_fresh(&self, status: u16, text: &str) {
        assert_eq!((self.status.as_u16(), self.text(), self.is_replayed()), (status, text, false));
    }

    #[track_caller]
    pub(super) fn assert_replay(&self, status: u16, text: &str) {
        assert_eq!((self.status.as_u16(), self.text(), self.is_replayed()), (status, text, true));
    }

    #[track_caller]
    pub(super) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!((problem["code"].as_str(), self.is_replayed()), (Some(code), false));
    }
}
