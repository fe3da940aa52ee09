//! Makes a retried request happen once.

// Generated code names the crate as its users do; our own tests use it, too.
#[allow(unused_extern_crates)]
extern crate self as idem;

#[cfg(feature = "axum")]
pub mod axum;

pub use idem_core::answer::Answer;
pub use idem_core::call::Call;
pub use idem_core::config::{Builder, Config};
pub use idem_core::detach::Carry;
pub use idem_core::engine::Idempotency;
pub use idem_core::error::{Error, ErrorKind};
pub use idem_core::global::{global, set_global};
pub use idem_core::key::{Key, Scope, ToKey};
pub use idem_core::outcome::Outcome;
pub use idem_core::policy::{
    Expired, InFlight, Mark, Missing, OnCrash, OnDisconnect, OnStoreError, Policy, Verdict,
};
pub use idem_core::record::{Inspection, RecordId, State};
pub use idem_core::run::{Run, current};
pub use idem_core::store::Store;

pub use idem_core as core;

pub use idem_macros::idempotent;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

#[cfg(feature = "memory")]
pub use idem_core::memory::MemoryStore;

#[cfg(feature = "sqlite")]
pub use idem_sqlx::{SqliteStore, Sweeper};
