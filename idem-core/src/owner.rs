//! Owners: the unguessable token that fences a claim.

use std::fmt;

use rand::RngExt as _;

/// Proves that a claim is one's own: 128 random bits, made by the engine before it asks the store.
///
/// Made by the engine, so that a claim whose reply was lost can be repeated; random and not a counter, since a counter
/// restarts when a released record is claimed anew, and a stale owner would match. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// Makes a new owner from the thread's cryptographic random generator.
    pub fn random() -> Self {
        Self(rand::rng().random())
    }

    /// Reads an owner back from where a store kept it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The token, for a store to keep and compare.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(…)")
    }
}
