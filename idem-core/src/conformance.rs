//! The store contract as tests that any store can run.
//!
//! One case for each promise of [`Store`], each under the name of its promise. A store is handed in as a [`Subject`],
//! which says how to make a fresh one and how its time passes, and [`conformance_tests!`](crate::conformance_tests)
//! makes one `#[test]` of every case:
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::clock::ManualClock;
//! use idem_core::conformance::Subject;
//! use idem_core::memory::MemoryStore;
//!
//! #[derive(Default)]
//! struct InMemory(ManualClock);
//!
//! impl Subject for InMemory {
//!     type Store = MemoryStore;
//!
//!     async fn fresh(&self) -> MemoryStore {
//!         MemoryStore::builder().clock(self.0.clone()).build()
//!     }
//!
//!     async fn pass(&self, span: Duration) {
//!         self.0.advance(span);
//!     }
//!
//!     async fn held(&self, store: &MemoryStore) -> Option<u64> {
//!         Some(store.len() as u64)
//!     }
//! }
//!
//! idem_core::conformance_tests!(mod memory, InMemory::default());
//! ```
//!
//! A store whose clock cannot be wound waits in [`pass`](Subject::pass). Spans that have to end are then a few hundred
//! milliseconds and spans that must not end are hours, so that a slow machine only makes a case slower.

mod check;
mod list;
mod trial;

mod cases {
    pub(super) mod answer;
    pub(super) mod changed;
    pub(super) mod claim;
    pub(super) mod crash;
    pub(super) mod expiry;
    pub(super) mod fence;
    pub(super) mod fingerprint;
    pub(super) mod identity;
    pub(super) mod lease;
    pub(super) mod look_up;
    pub(super) mod race;
    pub(super) mod release;
    pub(super) mod settle;
    pub(super) mod sweep;
}

use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use check::Failure;
pub use list::CASES;
use trial::Trial;

use crate::store::Store;

/// A kind of store that is to be tested.
pub trait Subject: Send + Sync + 'static {
    /// The store; `Arc<dyn Store>` is one, too.
    type Store: Store;

    /// Makes a store; a case makes one, and identifies its records by a scope of its own.
    fn fresh(&self) -> impl Future<Output = Self::Store> + Send;

    /// Lets at least so much of the store's time pass: winds its clock, or sleeps.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// How many records the store holds, expired ones that are not deleted yet included; `None` if it cannot tell.
    ///
    /// With it, the cases see that sweeping gives space back. It must not count what other stores hold.
    fn held(&self, store: &Self::Store) -> impl Future<Output = Option<u64>> + Send {
        let _ = store;
        async { None }
    }
}

type CaseFn = for<'a> fn(&'a Trial) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// One promise of the contract, and how it is tried.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    run: CaseFn,
}

impl Case {
    /// The promise, as the name of a test.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Tries the promise on a fresh store; runs in a multi-threaded tokio runtime.
    ///
    /// # Errors
    ///
    /// When the store broke the promise; says what was expected and found, and at which line of the case.
    pub async fn run<S: Subject>(&self, subject: S) -> Result<(), Failure> {
        (self.run)(&Trial::new(subject).await).await
    }
}

impl Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

/// Runs the case of that name on a subject, on a runtime of its own; what `conformance_tests!` calls.
///
/// # Panics
///
/// When the store broke the promise, when there is no such case, and when no runtime can be started.
pub fn run<S: Subject>(name: &str, subject: impl Future<Output = S>) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the list");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let verdict = runtime.block_on(async { case.run(subject.await).await });
    if let Err(failure) = verdict {
        panic!("{failure}");
    }
}
