//! The captured request: read once, for idem and for the handler's own extractors.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use actix_web::dev::{Payload, RequestHead};
use actix_web::error::PayloadError;
use actix_web::http::header::EXPECT;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest};
use bytes::Bytes;
use idem_core::http::policy::HttpPolicy;
use idem_core::http::request::{CapturedRequest, Headers, capture_limit};

use super::body::Incoming;
use super::edge;
use super::rejection::Rejection;
use crate::http::options::{AllHeaders, CaptureOptions};
use crate::http::request::{ClaimedBy, Request, Unread, read};

/// Wraps the extractors of a handler, as a tuple, and captures the request on its way.
///
/// The body is read within a limit, and an equal one is handed to `E`; each of a handler's extractors may be the one that
/// reads it. The attribute does this for you; by hand it looks like this:
///
/// ```
/// use actix_web::{HttpResponse, web};
/// use idem::Idempotency;
/// use idem::actix::{Captured, HttpCall};
/// use std::time::Duration;
/// # struct User { id: u64 }
/// # impl actix_web::FromRequest for User {
/// #     type Error = actix_web::Error;
/// #     type Future = std::future::Ready<Result<Self, Self::Error>>;
/// #     fn from_request(_: &actix_web::HttpRequest, _: &mut actix_web::dev::Payload) -> Self::Future {
/// #         std::future::ready(Ok(Self { id: 1 }))
/// #     }
/// # }
///
/// async fn create_order(
///     captured: Captured<(web::Data<Idempotency>, User, web::Json<Vec<u64>>)>,
/// ) -> HttpResponse {
///     let ((idem, user, articles), _, request) = captured.into_parts();
///     HttpCall::new(&idem, "orders.create", request)
///         // Who is asking; `.shared()` if that is nobody in particular.
///         .scope(&user.id)
///         .ttl(Duration::from_hours(24))
///         .run_local(async move { HttpResponse::Ok().body(format!("{} articles", articles.len())) })
///         .await
/// }
/// # let _ = actix_web::App::new().route("/orders", web::post().to(create_order));
/// ```
///
/// # Limits
///
/// A body over the limit is refused with 413, before anything is claimed. The limit is the engine's
/// (`max_request_bytes`, 1 MiB) or, where `O` names one, that. Since the engine is known only after the body has been
/// read, up to the largest limit of any engine of the process is read; the engine's own is checked when the call runs.
/// The limits of actix-web's own extractors hold as well: 2 MiB of `web::Json`, 256 KiB of `web::Bytes`.
///
/// GET, HEAD, OPTIONS and TRACE pass with their bodies unread.
#[must_use]
pub struct Captured<E, O = AllHeaders> {
    extracted: E,
    http: HttpRequest,
    request: Request,
    options: PhantomData<fn() -> O>,
}

impl<E, O> Captured<E, O> {
    /// The values of the handler's own extractors, actix-web's request, and what idem needs to know of it.
    pub fn into_parts(self) -> (E, HttpRequest, Request) {
        (self.extracted, self.http, self.request)
    }
}

impl<E: fmt::Debug, O> fmt::Debug for Captured<E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captured").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<E, O> FromRequest for Captured<E, O>
where
    E: FromRequest + 'static,
    O: CaptureOptions,
{
    type Error = actix_web::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Self::Error>>>>;

    fn from_request(http: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (http, payload) = (http.clone(), payload.take());
        Box::pin(async move {
            let (captured, mut payload) =
                capture(http.head(), payload, O::MAX_REQUEST_BYTES, O::HEADERS).await?;
            let extracted = E::from_request(&http, &mut payload).await.map_err(Into::into)?;
            let claimed = http.extensions().get::<ClaimedBy>().cloned();
            let request = Request::new(captured, claimed);
            let request = if O::MAX_REQUEST_BYTES.is_some() { request.within_limit() } else { request };
            Ok(Self { extracted, http, request, options: PhantomData })
        })
    }
}

/// Reads what idem needs to know of a request, and makes its body anew.
async fn capture(
    head: &RequestHead,
    payload: Payload,
    limit: Option<usize>,
    headers: Headers,
) -> Result<(CapturedRequest, Payload), actix_web::Error> {
    let captured = edge::captured(head, headers.widened()).ok_or(Rejection::Unreadable)?;
    if captured.is_safe() {
        return Ok((captured, payload));
    }
    let limit = limit.unwrap_or_else(capture_limit);
    let (bytes, payload) = buffered(head, payload, limit)
        .await
        .map_err(|unread| Rejection::of(&unread, &HttpPolicy::of_the_house()))?;
    Ok((captured.with_body(bytes), payload))
}

/// Reads a body within a limit, and makes it anew.
pub(super) async fn buffered(
    head: &RequestHead,
    payload: Payload,
    limit: usize,
) -> Result<(Bytes, Payload), Unread<PayloadError>> {
    let body = Incoming::new(payload, &head.headers);
    let (bytes, _) = read(body, limit, head.headers.contains_key(EXPECT)).await?;
    let payload = if bytes.is_empty() { Payload::None } else { Payload::from(bytes.clone()) };
    Ok((bytes, payload))
}
