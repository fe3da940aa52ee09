//! Makes a retried request happen once.
//!
//! Whoever sends a request and hears nothing back sends it again. An *idempotency key* says that both are one request:
//! the first call with a key runs, what it answered is stored, and every further call with that key gets the stored
//! answer. One attribute does it.
//!
//! ```
//! use idem::{Idempotency, MemoryStore, idempotent};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Serialize)]
//! struct OrderPaid {
//!     message_id: String,
//!     order: u64,
//! }
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Label {
//!     parcel: u64,
//! }
//!
//! #[idempotent(key = paid.message_id, ttl = "7d", scope = shared, engine = idem, skip(idem))]
//! async fn ship(paid: OrderPaid, idem: Idempotency) -> Result<Label, idem::Error> {
//!     println!("shipped: this is printed once");
//!     Ok(Label { parcel: paid.order })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), idem::Error> {
//! let idem = Idempotency::new(MemoryStore::new());
//! let paid = OrderPaid { message_id: "m-1".into(), order: 17 };
//! let label = ship(paid.clone(), idem.clone()).await?;
//! assert_eq!(label, ship(paid, idem).await?);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to begin
//!
//! - [`macro@idempotent`] for any async function, `idem::axum::idempotent` (feature `axum`) and
//!   `idem::actix::idempotent` (feature `actix-web`) for handlers
//! - `idem::tower::IdempotencyLayer` (feature `tower`) and `idem::actix::IdempotencyMiddleware` (feature `actix-web`) for
//!   whole routers, whose handlers need not know of it
//! - [`Idempotency`], the engine: made once, cloned everywhere; [`Idempotency::call`] does by hand what the attribute does
//! - [`Transactional`], the same over an SQL store: what the work writes is committed together with its answer
//! - [`Store`], the contract of stores; [`MemoryStore`], `SqliteStore` (feature `sqlite`), `PostgresStore` (feature
//!   `postgres`), `MySqlStore` (feature `mysql`) and `RedisStore` (feature `redis`)
//! - [`current`], for a handler that wants its attempt, a derived key, or to say something of its outcome
//! - `idem::guide` (in the documentation of all features): what is promised, keys and scopes, HTTP, stores, operating
//!
//! # What it does not do
//!
//! A lease cannot make an effect happen exactly once if a process dies between the effect and the stored answer. The
//! chapter on guarantees says what happens then, and how derived keys close the gap.
//!
//! # Features
//!
//! | feature | what it brings |
//! |---|---|
//! | `memory` (default) | [`MemoryStore`] |
//! | `sqlite` | `SqliteStore`, through sqlx |
//! | `postgres` | `PostgresStore`, through sqlx |
//! | `mysql` | `MySqlStore`, for MariaDB and MySQL, through sqlx |
//! | `redis` | `RedisStore`, for Redis and Valkey |
//! | `tls-rustls` | TLS to database servers and Redis |
//! | `axum` | `idem::axum`, for axum 0.8 |
//! | `actix-web` | `idem::actix`, for actix-web 4 |
//! | `client` | `idem::client`, for those who send: keys and retries over reqwest 0.13 |
//! | `tower` | `idem::tower`, a layer for whole routers: axum, hyper, tonic |
//! | `metrics` | the counters `idem_calls_total` and `idem_troubles_total` of the `metrics` crate |
//! | `encryption` | `Builder::encrypt_answers`: stored answers encrypted at rest |
//! | `uuid` | `Uuid` as a key or a scope |
//!
//! The oldest supported Rust is 1.95.

// Generated code names the crate as its users do; our own tests use it, too.
#[allow(unused_extern_crates)]
extern crate self as idem;

#[cfg(feature = "actix-web")]
pub mod actix;
#[cfg(feature = "axum")]
pub mod axum;
#[cfg(any(feature = "actix-web", feature = "axum", feature = "tower"))]
mod http;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(feature = "client")]
pub mod client;

#[cfg(all(
    any(doc, doctest),
    feature = "memory",
    feature = "sqlite",
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "axum",
    feature = "actix-web",
    feature = "client",
    feature = "tower",
    feature = "encryption"
))]
pub mod guide;

pub use idem_core::answer::Answer;
pub use idem_core::call::Call;
pub use idem_core::config::{Builder, Config};
pub use idem_core::detach::Carry;
pub use idem_core::engine::Idempotency;
pub use idem_core::error::{Error, ErrorKind};
pub use idem_core::global::{global, set_global};
pub use idem_core::join::{Joined, Part};
pub use idem_core::key::{Key, Scope, ToKey};
#[cfg(feature = "encryption")]
pub use idem_core::keyring::Keyring;
pub use idem_core::outcome::Outcome;
pub use idem_core::policy::{
    Expired, InFlight, Mark, Missing, OnCrash, OnDisconnect, OnStoreError, Policy, Verdict,
};
pub use idem_core::record::{Inspection, RecordId, State};
pub use idem_core::run::{Run, current};
pub use idem_core::store::Store;
pub use idem_core::transaction::{TransactionalStore, Tx, Writes};
pub use idem_core::transactional::Transactional;

pub use idem_core as core;

#[doc = include_str!("../docs/attribute.md")]
pub use idem_macros::idempotent;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

#[cfg(feature = "memory")]
pub use idem_core::memory::MemoryStore;

#[cfg(feature = "redis")]
pub use idem_redis::{RedisBuilder, RedisStore};
#[cfg(feature = "mysql")]
pub use idem_sqlx::MySqlStore;
#[cfg(feature = "postgres")]
pub use idem_sqlx::PostgresStore;
#[cfg(feature = "sqlite")]
pub use idem_sqlx::SqliteStore;
#[cfg(feature = "sqlite")]
pub use idem_sqlx::sqlite::Durability;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use idem_sqlx::{Migration, Sweeper, TableName};
