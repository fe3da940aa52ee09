//! The captured request: read once, for idem and for the handler's own extractors.

use std::fmt;
use std::marker::PhantomData;

use axum::RequestExt as _;
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request as AxumRequest};
use http::header::EXPECT;
use idem_core::http::request::{CapturedRequest, Headers, capture_limit, is_safe};

use super::rejection::Rejection;
use super::reply::body_of;
use crate::http::body::Resumed;
use crate::http::options::{AllHeaders, CaptureOptions};
use crate::http::request::{ClaimedBy, Request, Unread, read};

/// Wraps the last extractor of a handler, and captures the request on its way.
///
/// The body is read within a limit, and an equal request (method, URI, version, headers, extensions, body and trailers)
/// is handed to `E`. The attribute does this for you; by hand it looks like this:
///
/// ```
/// use axum::Json;
/// use axum::extract::State;
/// use axum::response::{IntoResponse, Response};
/// use idem::Idempotency;
/// use idem::axum::{Captured, HttpCall};
/// use std::time::Duration;
/// # struct User { id: u64 }
/// # impl<S: Sync> axum::extract::FromRequestParts<S> for User {
/// #     type Rejection = axum::http::StatusCode;
/// #     async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, Self::Rejection> {
/// #         Ok(Self { id: 1 })
/// #     }
/// # }
///
/// async fn create_order(
///     State(idem): State<Idempotency>,
///     user: User,
///     captured: Captured<Json<Vec<u64>>>,
/// ) -> Response {
///     let (Json(articles), request) = captured.into_parts();
///     HttpCall::new(&idem, "orders.create", request)
///         // Who is asking; `.shared()` if that is nobody in particular.
///         .scope(&user.id)
///         .ttl(Duration::from_hours(24))
///         .run(async move { format!("{} articles", articles.len()).into_response() })
///         .await
/// }
/// # let _: axum::Router<Idempotency> = axum::Router::new().route("/orders", axum::routing::post(create_order));
/// ```
///
/// # Limits
///
/// A body over the limit is refused with 413, before anything is claimed. The limit is the engine's
/// (`max_request_bytes`, 1 MiB) or, where `O` names one, that. Since the engine is known only after the body has been
/// read, up to the largest limit of any engine of the process is read; the engine's own is checked when the call runs. A
/// smaller `DefaultBodyLimit` of axum, which is 2 MB unless it is set, holds as well.
///
/// GET, HEAD, OPTIONS and TRACE pass with their bodies unread.
#[must_use]
pub struct Captured<E, O = AllHeaders> {
    last: E,
    request: Request,
    options: PhantomData<fn() -> O>,
}

impl<E, O> Captured<E, O> {
    /// The value of the handler's own extractor, and what idem needs to know of the request.
    pub fn into_parts(self) -> (E, Request) {
        (self.last, self.request)
    }
}

impl<E: fmt::Debug, O> fmt::Debug for Captured<E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captured").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Tells the compiler that an extractor came through [`Captured`]; axum's own marker would conflict with its blanket
/// implementation for extractors that only need the parts.
pub struct Via<M>(PhantomData<M>);

impl<M> fmt::Debug for Via<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Via")
    }
}

impl<S, M, E, O> FromRequest<S, Via<M>> for Captured<E, O>
where
    S: Send + Sync,
    E: FromRequest<S, M>,
    O: CaptureOptions,
{
    type Rejection = Rejection<E::Rejection>;

    async fn from_request(request: AxumRequest, state: &S) -> Result<Self, Self::Rejection> {
        let claimed = request.extensions().get::<ClaimedBy>().cloned();
        let (request, captured) = capture(request, O::MAX_REQUEST_BYTES, O::HEADERS).await?;
        let last = E::from_request(request, state).await.map_err(Rejection::Extractor)?;
        let request = Request::new(captured, claimed);
        let request = if O::MAX_REQUEST_BYTES.is_some() { request.within_limit() } else { request };
        Ok(Self { last, request, options: PhantomData })
    }
}

async fn capture<R>(
    request: AxumRequest,
    limit: Option<usize>,
    headers: Headers,
) -> Result<(AxumRequest, CapturedRequest), Rejection<R>> {
    let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |original| &original.0);
    let captured = CapturedRequest::new(request.method(), uri, request.headers(), headers.widened());
    if is_safe(request.method()) {
        return Ok((request, captured));
    }
    let limit = limit.unwrap_or_else(capture_limit);
    let (parts, body) = request.with_limited_body().into_parts();
    match read(body, limit, parts.headers.contains_key(EXPECT)).await {
        Ok((bytes, trailers)) => {
            let request = AxumRequest::from_parts(parts, body_of(Resumed::again(bytes.clone(), trailers)));
            Ok((request, captured.with_body(bytes)))
        }
        Err(Unread::TooLarge(limit)) => Err(Rejection::too_large(limit)),
        Err(Unread::Broken(error)) => Err(Rejection::broken(error)),
    }
}

/// Stands for the last argument of a handler that has none.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl<S: Send + Sync> FromRequestParts<S> for Nothing {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(_: &mut http::request::Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self)
    }
}
