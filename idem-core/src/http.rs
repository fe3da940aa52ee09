//! What HTTP adapters share, whatever the framework: the key header, the captured request, the stored response and the
//! problem documents.
//!
//! An adapter reads the request within its limit into a [`request::CapturedRequest`], asks it for key and fingerprint, runs
//! the engine, and turns responses into answers and back ([`response`]).

pub mod key;
pub mod policy;
pub mod problem;
pub mod replay;
pub mod request;
pub mod response;
pub mod status;

mod multipart;
mod pairs;
mod render;
mod settings;
mod structured;
