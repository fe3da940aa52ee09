//! A layer that makes the requests to a whole router happen once, for axum, hyper, tonic and any other tower service.
//!
//! [`IdempotencyLayer`] gives every route under it what the attribute gives one handler, by the same code; handlers need
//! not know of it. The chapter `idem::guide::layer` tells where the two differ, how they get along on one route, and in
//! which order layers belong.

#[cfg(feature = "axum")]
mod axum;
mod layer;
mod passage;
mod service;

pub use crate::http::rules::{OperationSaid, OperationUnsaid, Said, ScopeSaid, ScopeUnsaid};
pub use crate::http::{Apart, HttpCall, Refused, Reply, Request, Resumed};
pub use idem_core::http::key::{Format, Syntax};
pub use idem_core::http::policy::HttpPolicy;
pub use idem_core::http::replay::Replay;
pub use idem_core::policy::Mark;
pub use layer::IdempotencyLayer;
pub use service::{IdempotencyService, ResponseFuture};
