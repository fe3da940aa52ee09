//! Scopes: who is asking.

use std::fmt;

use super::{Key, KeyError, ToKey};

/// Says who is asking: a tenant, an account or a user. Records of two scopes never meet.
///
/// Use a stable identity, never a token: a token rotated between two attempts would run the work twice.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(Option<Vec<u8>>);

impl Scope {
    /// One scope for all callers: right for message ids, a leak for keys that strangers choose.
    pub const SHARED: Self = Self(None);

    /// Takes a scope from any value that can name a caller.
    ///
    /// # Errors
    ///
    /// As [`Key::new`]: an absent or blank scope is refused, since it would put strangers together.
    pub fn new<K: ToKey + ?Sized>(value: &K) -> Result<Self, KeyError> {
        Key::new(value).map(|key| Self(Some(key.encoded)))
    }

    pub(crate) fn encoded(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Scope(…)" } else { "Scope(shared)" })
    }
}
