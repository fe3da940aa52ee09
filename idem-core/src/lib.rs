//! The idempotency protocol of idem: what a record is, what a store promises, and the engine that runs work once.
//!
//! This crate knows no SQL, no Redis, no web framework and no macro. Applications use the facade, `idem-sdk`; this crate
//! is for those who write a store or an adapter.

pub mod answer;
pub mod clock;
pub mod error;
pub mod fingerprint;
#[cfg(feature = "http")]
pub mod http;
pub mod key;
#[cfg(feature = "memory")]
pub mod memory;
pub mod operation;
pub mod outcome;
pub mod owner;
pub mod policy;
pub mod record;
pub mod store;
#[allow(dead_code, unused_imports)]
mod sync;
