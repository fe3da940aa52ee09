//! Idempotent handlers for axum 0.8.
//!
//! ```
//! use axum::extract::State;
//! use axum::http::StatusCode;
//! use axum::routing::post;
//! use axum::{Json, Router};
//! use idem::axum::idempotent;
//! use idem::{Idempotency, MemoryStore};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone)]
//! struct App {
//!     idem: Idempotency,
//! }
//!
//! #[derive(Deserialize)]
//! struct ChargeRequest {
//!     amount: u64,
//! }
//!
//! #[derive(Serialize)]
//! struct Charge {
//!     amount: u64,
//! }
//! # struct User { id: u64 }
//! # impl<S: Sync> axum::extract::FromRequestParts<S> for User {
//! #     type Rejection = StatusCode;
//! #     async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, StatusCode> {
//! #         Ok(Self { id: 7 })
//! #     }
//! # }
//!
//! #[idempotent(key = header, ttl = "24h", scope = user.id, engine = app.idem)]
//! async fn create_charge(
//!     State(app): State<App>,
//!     user: User,
//!     Json(request): Json<ChargeRequest>,
//! ) -> (StatusCode, Json<Charge>) {
//!     // Runs once for each user and Idempotency-Key.
//!     (StatusCode::CREATED, Json(Charge { amount: request.amount }))
//! }
//!
//! let app = App { idem: Idempotency::new(MemoryStore::new()) };
//! let router: Router = Router::new().route("/charges", post(create_charge)).with_state(app);
//! # drop(router);
//! ```
//!
//! The request is captured on its way to the handler's own extractors, so that key, path, query, media type and body are
//! seen as they came; of the response status, headers and body bytes are stored. So neither request nor response types
//! need anything from idem. The annotated function takes a [`Captured`] last argument and returns a response: test it
//! through its router. [`HttpCall`] is the same without the attribute.
//!
//! # What a client gets
//!
//! | situation | response |
//! |---|---|
//! | first request with a key | the handler's |
//! | the same request again | the stored one: same status, same bytes, with `Idempotent-Replayed: true` |
//! | the same key, another request | 422 |
//! | the same request while the first runs | 409 with `Retry-After`, or the stored response after a wait (`in_flight = wait("5s")`) |
//! | no key, or none that can be used | 400 |
//! | a body over the limit (`max_request_bytes`, 1 MiB) | 413 |
//! | the store cannot be reached | 503 with `Retry-After` |
//! | GET, HEAD, OPTIONS, TRACE | the handler's; the key is ignored |
//!
//! Errors are problem documents (RFC 9457), see [`problem`](idem_core::http::problem); [`Refused`] is there for layers
//! that write their own. What makes a request the same is told at
//! [`fingerprint`](idem_core::http::request::CapturedRequest::fingerprint); Host and headers do not count.
//!
//! # What a handler can say of its response
//!
//! 2xx, 3xx and most 4xx are stored and replayed; 401, 403, 407, 408, 409, 421, 423, 425, 426, 428, 429 and 5xx are not,
//! and a retry runs again. A handler that knows better marks its response with a [`Mark`], by extension or from anywhere
//! within through [`current`](crate::current):
//!
//! ```
//! use axum::Extension;
//! use axum::http::StatusCode;
//! use axum::response::IntoResponse;
//! use idem::axum::Mark;
//!
//! fn out_of_stock() -> impl IntoResponse {
//!     (StatusCode::CONFLICT, Extension(Mark::Final), "out of stock")
//! }
//! ```
//!
//! # What cannot be kept
//!
//! Answers over the limit (`max_response_bytes`, 1 MiB), event streams (`text/event-stream`), upgrades and bodies that
//! break off reach their first caller as they are; of them only status and `Location` are kept, and a retry is told so
//! with 410. Any other response is read to its end before its first byte is sent: mark a slow stream of another media
//! type [`Mark::Tombstone`], and it passes at once.
//!
//! # Behind what it belongs
//!
//! Extractors run before the key is claimed, so a request that they reject claims nothing. Layers that compress
//! responses or add headers of their own belong outside: a replayed response passes through them as the first did.
//! Authentication belongs outside, too, or into an extractor: a replay is for those who still have access.

mod captured;
mod rejection;
mod reply;

pub use crate::http::options::{AllHeaders, CaptureOptions, Tuned};
pub use crate::http::{Apart, HttpCall, Refused, Reply, Request, Resumed};
pub use captured::{Captured, Nothing, Via};
pub use idem_core::http::key::{Format, Syntax};
pub use idem_core::http::policy::HttpPolicy;
pub use idem_core::http::replay::Replay;
pub use idem_core::policy::Mark;
#[doc = include_str!("../docs/attribute-axum.md")]
pub use idem_macros::idempotent_axum as idempotent;
pub use rejection::{Rejection, refuse};

/// What the attribute's expansion calls. Not for others.
#[doc(hidden)]
pub mod __private {
    use axum::response::IntoResponse;
    pub use axum::response::Response;
    use idem_core::call::Call;
    pub use idem_core::transaction::Writes;

    pub use super::{Captured, HttpCall, Nothing, Request, Tuned, refuse};
    pub use crate::http::told::{Told, Unfailing};

    /// A captured request that keeps no header but `Idempotency-Key`: all that most handlers need.
    pub type CapturedBriefly<E> = Captured<E, Tuned<{ usize::MAX }>>;

    /// Begins the call of an annotated handler.
    pub fn call<S>(begun: Call<S>, request: Request) -> HttpCall<S> {
        HttpCall::of(begun, request)
    }

    /// Makes a handler's value a response.
    pub fn into_response<R: IntoResponse>(value: R) -> Response {
        value.into_response()
    }
}
