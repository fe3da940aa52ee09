//! The Redis and Valkey store for idem.
//!
//! [`RedisStore`] keeps records in one server, in one that Sentinels watch over, or in a cluster. Each step is one script
//! on the server, see `scripts/`.

mod address;
mod builder;
mod ear;
mod fault;
mod layout;
mod line;
mod names;
mod place;
mod records;
mod replicas;
mod script;
mod sentinel;
mod server;
mod store;
#[cfg(feature = "tls-rustls")]
mod tls;

pub use builder::RedisBuilder;
pub use store::RedisStore;
