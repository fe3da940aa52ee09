//! The service that a layer makes of another.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use idem_core::http::request::{CapturedRequest, Headers, is_safe};
use idem_core::operation::Operation;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::passage::Passage;
use crate::http::body::is_over_a_limit;
use crate::http::request::{BROKEN, ClaimedBy, Unread, read};
use crate::http::rules;
use crate::http::{HttpCall, Refused, Reply as _, Request as Captured, Resumed, too_large};

/// What a layer was told, in terms of `http` requests.
pub(super) type Rules = rules::Rules<Parts, Request<Bytes>>;

/// A service whose requests happen once for each key; made by an [`IdempotencyLayer`](super::IdempotencyLayer).
///
/// It has the errors of the inner service and makes none of its own: what idem has to say is a response. An error of the
/// inner service counts as a failed run: it is passed on, nothing is stored, and the key stays bound to its request.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> IdempotencyService<S> {
    pub(super) fn new(inner: S, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }
}

impl<S: fmt::Debug> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<Resumed<B>>, Response = Response<R>, Future: Send, Error: Send>
        + Clone
        + Send
        + 'static,
    S::Future: 'static,
    S::Error: 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Unpin + Send + 'static,
    B::Error: 'static,
    R: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
    R::Error: 'static,
{
    type Response = Response<Resumed<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        match operation(&self.rules, &parts) {
            None => {
                let request = Request::from_parts(parts, Resumed::unread(body));
                ResponseFuture { course: Course::Passing { future: self.inner.call(request) } }
            }
            Some(operation) => {
                // The one that is ready is used, and its clone gets ready for the next request.
                let next = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, next);
                let future = Box::pin(once(inner, self.rules.clone(), operation, parts, body));
                ResponseFuture { course: Course::Claiming { future } }
            }
        }
    }
}

/// The operation that a request asks for; `None` if it is not for this layer to claim it.
fn operation(rules: &Rules, parts: &Parts) -> Option<Operation> {
    if is_safe(&parts.method) || parts.extensions.get::<ClaimedBy>().is_some() {
        return None;
    }
    rules.operation(parts)
}

/// Reads a request and calls the inner service once for its key.
async fn once<S, B, R>(
    mut inner: S,
    rules: Arc<Rules>,
    operation: Operation,
    parts: Parts,
    body: B,
) -> Result<Response<Resumed<R>>, S::Error>
where
    S: Service<Request<Resumed<B>>, Response = Response<R>, Future: Send, Error: Send> + Send + 'static,
    S::Future: 'static,
    S::Error: 'static,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
    B::Error: Send + 'static,
    R: Body<Error: Send> + Unpin + Send + 'static,
{
    let expects = parts.headers.contains_key(EXPECT);
    let (bytes, trailers) = match read(body, rules.max_request_bytes(), expects).await {
        Ok(read) => read,
        Err(unread) => return refuse(&rules, unread),
    };
    let captured = CapturedRequest::new(&parts.method, uri(&parts), &parts.headers, Headers::All);
    let captured = Captured::new(captured.with_body(bytes.clone()), None).within_limit();
    let call = HttpCall::of(rules.engine.call(operation), captured).before_extractors();
    let call = rules.scoped(call, &parts);
    let request = Request::from_parts(parts, bytes);
    let call = rules.changed(call, &request);
    call.run_with(move |run| {
        let mut request = request.map(|bytes| Resumed::again(bytes, trailers));
        if let Some(run) = run.filter(|run| run.is_protected()) {
            request.extensions_mut().insert(ClaimedBy(run.clone()));
        }
        let called = inner.call(request);
        async move { Passage(called.await) }
    })
    .await
}

/// What is answered to a request whose body was not read; nothing was claimed.
fn refuse<R, E, F>(rules: &Rules, unread: Unread<F>) -> Result<Response<Resumed<R>>, E>
where
    R: Body + Unpin,
    F: Into<Box<dyn Error + Send + Sync>>,
{
    let limit = match unread {
        Unread::TooLarge(limit) => Some(limit),
        Unread::Broken(error) => {
            if !is_over_a_limit(&*error.into()) {
                return Passage::of_bytes(broken());
            }
            None
        }
    };
    Passage::of_bytes(Refused::render(rules.engine.config().http(), too_large(limit)))
}

fn broken() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(BROKEN.as_bytes()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(feature = "axum")]
use super::axum::original_uri as uri;

#[cfg(not(feature = "axum"))]
fn uri(parts: &Parts) -> &http::Uri {
    &parts.uri
}

pin_project! {
    /// The response in the making.
    pub struct ResponseFuture<F, R, E>
    where
        R: Body,
    {
        #[pin]
        course: Course<F, R, E>,
    }
}

pin_project! {
    #[project = CourseProjection]
    enum Course<F, R, E>
    where
        R: Body,
    {
        Passing { #[pin] future: F },
        Claiming { future: Claiming<R, E> },
    }
}

type Claiming<R, E> = Pin<Box<dyn Future<Output = Result<Response<Resumed<R>>, E>> + Send>>;

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<Resumed<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().course.project() {
            CourseProjection::Passing { future } => {
                let response = ready!(future.poll(cx))?;
                Poll::Ready(Ok(response.map(Resumed::unread)))
            }
            CourseProjection::Claiming { future } => future.as_mut().poll(cx),
        }
    }
}

impl<F, R: Body, E> fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
