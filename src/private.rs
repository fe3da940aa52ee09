//! What the expansion of `#[idempotent]` calls. Not for others: it changes without notice.

use std::sync::Arc;

use idem_core::call::Call;
use idem_core::error::Error;
use idem_core::fingerprint::{Digest, FingerprintError, Hasher};
use idem_core::outcome::Outcome;
use idem_core::transaction::{TransactionalStore, Tx};
use idem_core::value::Keep;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use idem_core::global::global;
pub use idem_core::operation::Site;
pub use idem_core::policy::{Expired, InFlight, Missing, OnCrash, OnDisconnect, OnStoreError};

#[cfg(any(feature = "actix-web", feature = "axum"))]
pub use idem_core::http::key::{Format, Syntax};

#[cfg(feature = "actix-web")]
pub use crate::actix::__private as actix;
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

/// What an idempotent function returns.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns `Result<T, E>`, not `{Self}`",
    label = "expected a `Result`",
    note = "`T` is stored and replayed; `E: From<idem::Error>` tells the caller when the function was not run"
)]
pub trait Kept: Sized {
    /// What can be done with it.
    const OUTPUT: Output<Self>;
}

impl<T: Stored, E: FromError> Kept for Result<T, E> {
    const OUTPUT: Output<Self> = Output { keep: Keep::ok(), refused: |error| Err(error.into()) };
}

/// What an idempotent function returns whose errors are stored, too.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns `Result<T, E>`, not `{Self}`",
    label = "expected a `Result`",
    note = "`T` and `E` are stored and replayed; `E: From<idem::Error>` tells the caller when the function was not run"
)]
pub trait KeptWhole: Sized {
    /// What can be done with it.
    const OUTPUT: Output<Self>;
}

impl<T: Stored, E: FromError + Stored> KeptWhole for Result<T, E> {
    const OUTPUT: Output<Self> = Output { keep: Keep::both(), refused: |error| Err(error.into()) };
}

/// What a call knows of its store: enough to begin a transaction.
#[diagnostic::on_unimplemented(
    message = "this engine does not know what transactions its store has",
    label = "`transaction` needs a `Transactional` engine, over an SQL store",
    note = "make it with `Transactional::new(store)`, or leave `transaction` out: a lease works on every store"
)]
pub trait Transacts {
    /// The store.
    type Store: TransactionalStore;

    /// The call over its store.
    fn known(call: Call<Self>) -> Call<Arc<Self::Store>>
    where
        Self: Sized;
}

impl<S: TransactionalStore> Transacts for Arc<S> {
    type Store = S;

    fn known(call: Call<Self>) -> Call<Self> {
        call
    }
}

/// Asks of an engine, by the call that it began, what a transaction needs.
pub fn transactional<S: Transacts>(call: Call<S>) -> Call<Arc<S::Store>> {
    S::known(call)
}

/// Asks of an output what storing its `Ok` needs. Whatever comes of it asks nothing more, so that the compiler complains
/// once, where the output is declared.
pub const fn output<R: Kept>() -> Output<R> {
    R::OUTPUT
}

/// As [`output`], where `Err` is stored, too.
pub const fn output_whole<R: KeptWhole>() -> Output<R> {
    R::OUTPUT
}

/// How an output is kept, and made of an error.
#[derive(Debug)]
pub struct Output<R> {
    keep: Keep<R>,
    refused: fn(Error) -> R,
}

impl<R> Output<R> {
    /// Runs the work; it goes on if the caller goes away, so it owns what it uses and can be sent to another thread.
    /// Work that cannot says `inline`.
    pub fn run_detached<F>(&self, call: Call, work: F) -> impl Future<Output = Ended<R>> + use<R, F>
    where
        F: Future<Output = R> + Send + 'static,
        R: Send + 'static,
    {
        let keep = self.keep;
        call.execute(keep.judging(|_| work), move |stored| keep.replay(stored.answer()))
    }

    /// Runs the work in the caller's future.
    pub fn run_inline<F: Future<Output = R>>(
        &self,
        call: Call,
        work: F,
    ) -> impl Future<Output = Ended<R>> + use<R, F> {
        let keep = self.keep;
        call.execute_inline(keep.judging(|_| work), move |stored| keep.replay(stored.answer()))
    }

    /// Runs the work in a transaction; it goes on if the caller goes away.
    pub fn transact_detached<S, F, Fut>(
        &self,
        call: Call<Arc<S>>,
        work: F,
    ) -> impl Future<Output = Ended<R>> + use<R, S, F, Fut>
    where
        S: TransactionalStore,
        F: FnOnce(Tx<S::Transaction>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: Send + 'static,
    {
        let keep = self.keep;
        call.execute_transaction(keep.judging_writes(|tx, _| work(tx)), move |stored| {
            keep.replay(stored.answer())
        })
    }

    /// Runs the work in a transaction, in the caller's future.
    pub fn transact_inline<S, F, Fut>(
        &self,
        call: Call<Arc<S>>,
        work: F,
    ) -> impl Future<Output = Ended<R>> + use<R, S, F, Fut>
    where
        S: TransactionalStore,
        F: FnOnce(Tx<S::Transaction>) -> Fut,
        Fut: Future<Output = R>,
    {
        let keep = self.keep;
        let work = keep.judging_writes(|tx, _| work(tx));
        call.execute_transaction_inline(work, move |stored| keep.replay(stored.answer()))
    }

    /// The function's result, whether it ran now or before, or why it did not.
    pub fn finish(&self, ended: Ended<R>) -> R {
        match ended {
            Ok(outcome) => outcome.into_inner(),
            Err(error) => self.refused(error),
        }
    }

    /// The result of a function that was not run.
    pub fn refused(&self, error: Error) -> R {
        (self.refused)(error)
    }
}

type Ended<R> = Result<Outcome<R>, Error>;
