//! The idempotency protocol of idem: what a record is, what a store promises, and the engine that runs work once.
//!
//! This crate knows no SQL, no Redis, no web framework and no macro. Applications use the facade, `idem-sdk`; this crate
//! is for those who write a store or an adapter.

pub mod answer;
mod background;
mod boarding;
pub mod call;
mod cancel;
pub mod clock;
pub mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod detach;
pub mod engine;
pub mod error;
mod execute;
pub mod fingerprint;
mod flight;
pub mod global;
#[cfg(feature = "http")]
pub mod http;
pub mod join;
pub mod key;
#[cfg(feature = "encryption")]
pub mod keyring;
mod lease;
#[cfg(feature = "memory")]
pub mod memory;
mod new_keys;
pub mod operation;
pub mod outcome;
pub mod owner;
pub mod policy;
pub mod record;
pub mod run;
pub mod store;
pub mod stored;
mod sync;
pub mod telemetry;
mod tracker;
mod transact;
pub mod transaction;
pub mod transactional;
#[doc(hidden)]
pub mod value;
mod within;
