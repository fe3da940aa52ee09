//! The service that a middleware makes of what it is wrapped around.

use std::cell::Cell;
use std::fmt;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready};
use actix_web::error::InternalError;
use actix_web::{Error, HttpMessage as _};
use bytes::Bytes;
use idem_core::http::request::Headers;
use idem_core::operation::Operation;

use super::captured::buffered;
use super::edge;
use super::middleware::IdempotencyMiddleware;
use super::passage::{Passage, Passed};
use super::rejection::Rejection;
use crate::http::request::ClaimedBy;
use crate::http::rules::{OperationSaid, ScopeSaid};
use crate::http::{HttpCall, Request, rules};

/// What a middleware was told, in terms of actix-web's requests; a whole one is a request with its body beside it.
pub(super) type Rules = rules::Rules<ServiceRequest, (ServiceRequest, Bytes)>;

/// A service whose requests happen once for each key; made by an [`IdempotencyMiddleware`].
pub struct IdempotencyService<S> {
    inner: Rc<S>,
    rules: Arc<Rules>,
}

impl<S, B, O, W> Transform<S, ServiceRequest> for IdempotencyMiddleware<O, W>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
    O: OperationSaid,
    W: ScopeSaid,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Transform = IdempotencyService<S>;
    type InitError = ();
    type Future = Ready<Result<IdempotencyService<S>, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(IdempotencyService { inner: Rc::new(inner), rules: self.rules.clone() }))
    }
}

impl<S, B> Service<ServiceRequest> for IdempotencyService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        match operation(&self.rules, &request) {
            None => {
                let called = self.inner.call(request);
                Box::pin(async move { Ok(called.await?.map_into_left_body()) })
            }
            Some(operation) => {
                let called = once(self.inner.clone(), self.rules.clone(), operation, request);
                Box::pin(async move { Ok(called.await?.map_into_right_body()) })
            }
        }
    }
}

/// The operation that a request asks for; `None` if it is not for this middleware to claim it.
fn operation(rules: &Rules, request: &ServiceRequest) -> Option<Operation> {
    if request.method().is_safe() || request.extensions().contains::<ClaimedBy>() {
        return None;
    }
    rules.operation(request)
}

/// Reads a request and calls the inner service once for its key.
async fn once<S, B>(
    inner: Rc<S>,
    rules: Arc<Rules>,
    operation: Operation,
    mut request: ServiceRequest,
) -> Result<ServiceResponse, Error>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    let Some(captured) = edge::captured(request.head(), Headers::All) else {
        return Ok(request.error_response(Rejection::Unreadable));
    };
    let payload = request.take_payload();
    let body = match buffered(request.head(), payload, rules.max_request_bytes()).await {
        Ok((bytes, payload)) => {
            request.set_payload(payload);
            bytes
        }
        Err(unread) => {
            let rejection = Rejection::of(&unread, rules.engine.config().http());
            return Ok(request.error_response(rejection));
        }
    };
    let captured = Request::new(captured.with_body(body.clone()), None).within_limit();
    let call = HttpCall::of(rules.engine.call(operation), captured).before_extractors();
    let call = rules.scoped(call, &request);
    let whole = (request, body);
    let call = rules.changed(call, &whole);
    // There is one request, since routing needs it to itself: whoever runs or answers it takes it from here.
    let waiting = Rc::new(Cell::new(Some(whole.0)));
    let taken = waiting.clone();
    let passed = call
        .run_local_with(move |run| {
            let request = taken.take();
            if let (Some(request), Some(run)) = (&request, run.filter(|run| run.is_protected())) {
                request.extensions_mut().insert(ClaimedBy(run.clone()));
            }
            async move {
                match request {
                    Some(request) => Passage::of(inner.call(request).await),
                    None => Passage::lost(),
                }
            }
        })
        .await?;
    match (passed, waiting.take()) {
        (Passed { request: Some(request), response }, _) => Ok(ServiceResponse::new(request, response)),
        (Passed { request: None, response }, Some(request)) => Ok(request.into_response(response)),
        // The run was aborted, and its request has gone with it.
        (Passed { request: None, response }, None) => {
            Err(InternalError::from_response("the run was aborted", response).into())
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}
