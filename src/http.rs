//! What every way in by HTTP shares: from a captured request to the response, whatever the framework.
//!
//! An adapter captures the request ([`body::buffer`] within the limit, [`Request`]), and says how its responses are taken
//! apart and made ([`Reply`]). The rest is here: which key and fingerprint a request has, what is kept of a response,
//! and how an outcome is told. Nothing here knows a framework, or asks that bodies or futures can be sent to other
//! threads where they stay with their caller.

mod call;
mod course;
mod keep;
#[cfg(feature = "actix-web")]
mod local;
mod manners;
mod refused;
mod reply;
pub(crate) mod request;
#[cfg(any(feature = "actix-web", feature = "tower"))]
pub(crate) mod rules;

pub(crate) mod body;
#[cfg(any(feature = "actix-web", feature = "axum"))]
pub(crate) mod options;
#[cfg(any(feature = "actix-web", feature = "axum"))]
pub(crate) mod told;

pub use body::Resumed;
pub use call::HttpCall;
#[cfg(feature = "actix-web")]
pub(crate) use keep::Judged;
pub use refused::Refused;
pub use reply::{Apart, Reply};
pub use request::Request;

pub(crate) use refused::too_large;
