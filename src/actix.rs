//! Idempotent handlers for actix-web 4, and a middleware for whole applications.
//!
//! ```
//! use actix_web::{App, HttpResponse, web};
//! use idem::actix::idempotent;
//! use idem::{Idempotency, MemoryStore};
//! use serde::{Deserialize, Serialize};
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
//! # impl actix_web::FromRequest for User {
//! #     type Error = actix_web::Error;
//! #     type Future = std::future::Ready<Result<Self, Self::Error>>;
//! #     fn from_request(_: &actix_web::HttpRequest, _: &mut actix_web::dev::Payload) -> Self::Future {
//! #         std::future::ready(Ok(Self { id: 7 }))
//! #     }
//! # }
//!
//! #[idempotent(key = header, ttl = "24h", scope = user.id, engine = idem)]
//! async fn create_charge(
//!     idem: web::Data<Idempotency>,
//!     user: User,
//!     web::Json(request): web::Json<ChargeRequest>,
//! ) -> HttpResponse {
//!     // Runs once for each user and Idempotency-Key.
//!     HttpResponse::Created().json(Charge { amount: request.amount })
//! }
//!
//! // One engine for all workers: made here, and not in the function that makes each worker's `App`.
//! let idem = Idempotency::new(MemoryStore::new());
//! let app = move || {
//!     App::new()
//!         .app_data(web::Data::new(idem.clone()))
//!         .route("/charges", web::post().to(create_charge))
//! };
//! # let _ = app();
//! ```
//!
//! The request is captured on its way to the handler's extractors, so that key, path, query, media type and body are seen
//! as they came; of the response status, headers and body bytes are stored. So neither request nor response types need
//! anything from idem. The annotated function takes one [`Captured`] argument and returns an `HttpResponse`: test it
//! through its `App`. [`HttpCall`] is the same without the attribute.
//!
//! [`IdempotencyMiddleware`] does the same for every route of an application, a scope or a resource; handlers need not know
//! of it. The chapter `idem::guide::layer` tells where the two differ and how they get along on one route.
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
//! Errors are problem documents (RFC 9457), see [`problem`](idem_core::http::problem); the response has a [`Refused`]
//! among its extensions, for middleware that writes its own. What makes a request the same is told at
//! [`fingerprint`](idem_core::http::request::CapturedRequest::fingerprint); Host and headers do not count.
//!
//! # What a handler can say of its response
//!
//! 2xx, 3xx and most 4xx are stored and replayed, whether they are an `Ok` or an `Err`; 401, 403, 407, 408, 409, 421, 423,
//! 425, 426, 428, 429 and 5xx are not, and a retry runs again. A handler that knows better marks its response with a
//! [`Mark`], by extension or from anywhere within through [`current`](crate::current):
//!
//! ```
//! use actix_web::HttpResponse;
//! use idem::actix::Mark;
//!
//! fn out_of_stock() -> HttpResponse {
//!     let mut response = HttpResponse::Conflict().body("out of stock");
//!     response.extensions_mut().insert(Mark::Final);
//!     response
//! }
//! ```
//!
//! # What cannot be kept
//!
//! Answers over the limit (`max_response_bytes`, 1 MiB), event streams (`text/event-stream`), upgrades and bodies that
//! break off reach their first caller as they are; of them only status and `Location` are kept, and a retry is told so
//! with 410. Any other response is read to its end before its first byte is sent: mark a slow stream of another media
//! type [`Mark::Tombstone`], and it passes at once. A reason phrase of the handler's own reaches the first caller only.
//! Headers of one name keep their order, in a replay too; those of different names have none in actix-web.
//!
//! # Clients that go away, and shutdown
//!
//! Handlers of actix-web stay in the thread of their worker. One whose client goes away goes on there, as a local task;
//! where no local tasks can run, as in a test without `#[actix_web::test]`, it is dropped, and its key is held until its
//! lease ends.
//!
//! A worker that stops does not wait for local tasks. So drain the engine before the server is stopped:
//!
//! ```no_run
//! # use actix_web::{App, HttpServer};
//! # use idem::{Idempotency, MemoryStore};
//! # use std::time::Duration;
//! # #[actix_web::main]
//! # async fn main() -> std::io::Result<()> {
//! # let idem = Idempotency::new(MemoryStore::new());
//! # async fn asked_to_stop() {}
//! let server = HttpServer::new(App::new).bind(("127.0.0.1", 8080))?.disable_signals().run();
//! let handle = server.handle();
//! actix_web::rt::spawn(async move {
//!     asked_to_stop().await; // SIGTERM
//!     handle.pause().await; // no new connections
//!     idem.drain(Duration::from_secs(30)).await; // what runs is finished and stored
//!     handle.stop(true).await;
//! });
//! server.await
//! # }
//! ```
//!
//! # Behind what it belongs
//!
//! Extractors run before the key is claimed, so a request that they reject claims nothing. Middleware that compresses
//! responses or adds headers of its own belongs outside: a replayed response passes through it as the first did.
//! Authentication belongs outside, too, or into an extractor: a replay is for those who still have access.

mod body;
mod captured;
mod edge;
mod middleware;
mod passage;
mod rejection;
mod reply;
mod service;

pub use crate::http::options::{AllHeaders, CaptureOptions, Tuned};
pub use crate::http::rules::{OperationSaid, OperationUnsaid, Said, ScopeSaid, ScopeUnsaid};
pub use crate::http::{Apart, HttpCall, Refused, Reply, Request, Resumed};
pub use body::Outgoing;
pub use captured::Captured;
pub use idem_core::http::key::{Format, Syntax};
pub use idem_core::http::policy::HttpPolicy;
pub use idem_core::http::replay::Replay;
pub use idem_core::policy::Mark;
#[doc = include_str!("../docs/attribute-actix.md")]
pub use idem_macros::idempotent_actix as idempotent;
pub use middleware::IdempotencyMiddleware;
pub use rejection::refuse;
pub use reply::Head;
pub use service::IdempotencyService;

/// What the attribute's expansion calls. Not for others.
#[doc(hidden)]
pub mod __private {
    pub use actix_web::HttpResponse as Response;
    use actix_web::{FromRequest, HttpRequest, Responder};
    use idem_core::call::Call;
    pub use idem_core::transaction::Writes;

    pub use super::{Captured, HttpCall, Request, Tuned, refuse};
    pub use crate::http::told::{Told, Unfailing};

    /// A captured request that keeps no header but `Idempotency-Key`: all that most handlers need.
    pub type CapturedBriefly<E> = Captured<E, Tuned<{ usize::MAX }>>;

    /// Begins the call of an annotated handler.
    pub fn call<S>(begun: Call<S>, request: Request) -> HttpCall<S> {
        HttpCall::of(begun, request)
    }

    /// Makes a handler's value a response.
    pub fn into_response<R: Responds>(value: R, request: &HttpRequest) -> Response {
        value.respond(request)
    }

    /// A value that actix-web can answer with.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be answered by actix-web",
        label = "this function returns it, so it has to implement `Responder`",
        note = "return what does, such as `HttpResponse`, `web::Json<T>`, `String`, or a `Result` of one of them whose \
                error implements `ResponseError`"
    )]
    pub trait Responds {
        /// The response.
        fn respond(self, request: &HttpRequest) -> Response;
    }

    #[diagnostic::do_not_recommend]
    impl<R: Responder<Body: 'static>> Responds for R {
        fn respond(self, request: &HttpRequest) -> Response {
            self.respond_to(request).map_into_boxed_body()
        }
    }

    /// An argument that actix-web can extract.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be extracted from a request of actix-web",
        label = "this argument does not implement `FromRequest`",
        note = "take what does, such as `web::Json<T>`, `web::Path<T>` or `web::Data<T>`"
    )]
    pub trait Extracted {}

    #[diagnostic::do_not_recommend]
    impl<T: FromRequest> Extracted for T {}

    /// Asks of an argument that it can be extracted, so that the compiler complains there.
    pub const fn extracted<T: Extracted>() {}
}
