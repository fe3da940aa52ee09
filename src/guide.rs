//! The guide: what holds, how requests are told apart, what goes over HTTP, where records live, what to watch, and how all
//! that was tested.
//!
//! Chapters are read in any order; begin with [`guarantees`].

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("../docs/keys-scopes-operations.md")]
pub mod keys_scopes_operations {}

#[doc = include_str!("../docs/http.md")]
pub mod http {}

#[doc = include_str!("../docs/clients.md")]
pub mod clients {}

#[doc = include_str!("../docs/layer.md")]
pub mod layer {}

#[doc = include_str!("../docs/choosing-a-store.md")]
pub mod choosing_a_store {}

#[doc = include_str!("../docs/operating.md")]
pub mod operating {}

#[doc = include_str!("../docs/reliability.md")]
pub mod reliability {}

/// The README's code, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}
