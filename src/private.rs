//! What the expansion of `#[idempotent]` calls. Not for others: it changes without notice.

use idem_core::error::Error;
use idem_core::fingerprint::{Digest, FingerprintError, Hasher};
use idem_core::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use idem_core::global::global;
pub use idem_core::operation::Site;
pub use idem_core::policy::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError};

#[cfg(feature = "axum")]
pub use crate::axum::__private as axum;

/// Named by handlers that say nothing of their scope, so that the compiler warns there.
#[deprecated(
    note = "without `scope` strangers' keys share one scope, and one caller can be answered with what \
                     another was told; write `scope = user.id`, or `scope = shared` if that is what you want"
)]
pub const SCOPE_LEFT_OUT: () = ();

/// The fingerprint of a function's arguments in the making.
#[derive(Debug)]
pub struct Arguments {
    hasher: Hasher,
    failed: Option<FingerprintError>,
}

impl Arguments {
    /// Begins with none.
    pub fn new(site: &'static Site) -> Self {
        Self { hasher: Hasher::new(site.operation().as_str()), failed: None }
    }

    /// Adds an argument by its name and its value.
    pub fn add(&mut self, name: &str, Counted(argument): Counted<'_>) {
        if self.failed.is_none() {
            self.failed = argument.count(&mut self.hasher, name).err();
        }
    }

    /// The fingerprint of all that was added, or the first argument's fault.
    ///
    /// # Errors
    ///
    /// When the `Serialize` implementation of an argument fails.
    pub fn finish(self) -> Result<Digest, FingerprintError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.hasher.finish()),
        }
    }
}

/// An argument that can be part of a fingerprint.
#[diagnostic::on_unimplemented(
    message = "an argument of type `{Self}` cannot be part of the fingerprint",
    label = "this does not implement `Serialize`",
    note = "leave the argument out with `skip(..)`, or say what counts with `fingerprint = (..)`"
)]
pub trait Countable: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize> Countable for T {}

/// An argument that is known to be [`Countable`]; says so once, where it is made.
#[allow(missing_debug_implementations)]
pub struct Counted<'a>(&'a dyn Count);

trait Count {
    fn count(&self, hasher: &mut Hasher, name: &str) -> Result<(), FingerprintError>;
}

impl<T: Serialize> Count for T {
    fn count(&self, hasher: &mut Hasher, name: &str) -> Result<(), FingerprintError> {
        hasher.value(name, self)
    }
}

/// Makes an argument ready for [`Arguments::add`].
pub const fn countable<T: Countable>(value: &T) -> Counted<'_> {
    Counted(value)
}

/// What an idempotent function returns.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns `Result<T, E>`, not `{Self}`",
    label = "expected a `Result`",
    note = "`T` is stored and replayed; `E: From<idem::Error>` tells the caller when the function was not run"
)]
pub trait Output {
    /// What is stored.
    type Ok;
    /// What tells of failures.
    type Err;
}

impl<T, E> Output for Result<T, E> {
    type Ok = T;
    type Err = E;
}

/// A value that can be stored and replayed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored and replayed",
    label = "this function returns it, so it has to implement `Serialize` and `Deserialize`, and own its data",
    note = "derive `serde::Serialize` and `serde::Deserialize`, or return what can be stored"
)]
pub trait Stored: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Stored for T {}

/// An error that can tell why a function was not run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell why an idempotent function was not run",
    label = "this is the function's error, so it has to implement `From<idem::Error>`",
    note = "a key may be in flight, used for something else or missing: give `{Self}` a variant for `idem::Error`"
)]
pub trait FromError: From<Error> {}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> FromError for E {}

/// Asks of an output what storing its `Ok` needs.
pub const fn output_is_kept<R>()
where
    R: Output,
    R::Ok: Stored,
    R::Err: FromError,
{
}

/// Asks of an output what storing both its `Ok` and its `Err` needs.
pub const fn output_is_kept_whole<R>()
where
    R: Output,
    R::Ok: Stored,
    R::Err: FromError + Stored,
{
}

/// The function's result, whether it ran now or before, or why it did not.
///
/// # Errors
///
/// Those of the function, and those of idem in the function's own error type.
pub fn finish<T, E: From<Error>>(outcome: Result<Outcome<Result<T, E>>, Error>) -> Result<T, E> {
    match outcome {
        Ok(outcome) => outcome.into_inner(),
        Err(error) => Err(error.into()),
    }
}

/// The result of a function that could not ask the store.
///
/// # Errors
///
/// Always.
pub fn refused<T, E: From<Error>>(error: Error) -> Result<T, E> {
    Err(error.into())
}
