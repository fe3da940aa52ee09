//! What a handler's value tells of what it wrote, for the attribute's expansion.

use std::ops::Deref;

use idem_core::transaction::Writes;

/// What a handler's value tells of its writes: only an `Err` is a failure.
///
/// Decided by the value's type, so that aliases of `Result` count: what is no `Result` has no method of its own here,
/// and finds that of [`Unfailing`] by way of `Deref`.
#[derive(Debug)]
pub struct Told<'a, R> {
    value: &'a R,
    otherwise: Unfailing,
}

impl<'a, R> Told<'a, R> {
    /// Looks at a value.
    pub const fn of(value: &'a R) -> Self {
        Self { value, otherwise: Unfailing }
    }
}

impl<T, E> Told<'_, Result<T, E>> {
    /// What becomes of the writes.
    pub const fn writes(&self) -> Writes {
        if self.value.is_err() { Writes::Undo } else { Writes::Keep }
    }
}

impl<R> Deref for Told<'_, R> {
    type Target = Unfailing;

    fn deref(&self) -> &Unfailing {
        &self.otherwise
    }
}

/// A value that cannot tell of a failure.
#[derive(Debug)]
pub struct Unfailing;

impl Unfailing {
    /// What becomes of the writes.
    pub const fn writes(&self) -> Writes {
        Writes::Keep
    }
}
