//! The one door to locks, atomics, tasks and timers, so that a model scheduler can drive the real code.
//!
//! With `--cfg idem_shuttle` all of it comes from `shuttle`, whose scheduler then decides every interleaving. Sleepers
//! there wake whenever they are scheduled; what the clock says is the test's to decide.

#[cfg(not(idem_shuttle))]
mod real {
    use std::future::Future;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    pub(crate) use parking_lot::Mutex;
    #[cfg(feature = "memory")]
    pub(crate) use std::sync::atomic::AtomicU64;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
    pub(crate) use tokio::time::Instant;

    /// Starts tasks on the runtime it was taken from, also from outside of it.
    #[derive(Clone, Debug)]
    pub(crate) struct Spawner(tokio::runtime::Handle);

    impl Spawner {
        /// The runtime that polls us now; `None` outside of any.
        pub(crate) fn current() -> Option<Self> {
            tokio::runtime::Handle::try_current().ok().map(Self)
        }

        pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            self.0.spawn(task);
        }
    }

    /// Starts a task that stays on this thread; `false` if nothing runs such tasks here, and the task is gone.
    pub(crate) fn spawn_local(task: impl Future<Output = ()> + 'static) -> bool {
        // Outside of a `LocalSet` tokio panics, and cannot be asked beforehand. This may run in a `Drop`.
        catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_local(task))).is_ok()
    }

    pub(crate) fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

#[cfg(idem_shuttle)]
mod model {
    use std::cell::Cell;
    use std::future::Future;
    use std::ops::{Add, Sub};
    use std::time::Duration;

    #[cfg(feature = "memory")]
    pub(crate) use shuttle::sync::atomic::AtomicU64;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};

    /// A mutex without poisoning, as the real one.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    #[derive(Clone, Debug)]
    pub(crate) struct Spawner(());

    impl Spawner {
        pub(crate) fn current() -> Option<Self> {
            Some(Self(()))
        }

        pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            shuttle::future::spawn(task);
        }
    }

    pub(crate) fn spawn_local(task: impl Future<Output = ()> + 'static) -> bool {
        shuttle::future::spawn_local(task);
        true
    }

    pub(crate) async fn sleep(_: Duration) {
        shuttle::future::yield_now().await;
    }

    thread_local! {
        // All tasks of a schedule share one thread.
        static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// A moment of a clock that stands still until a test moves it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Instant(Duration);

    impl Instant {
        pub(crate) fn now() -> Self {
            Self(NOW.get())
        }

        pub(crate) fn elapsed(&self) -> Duration {
            Self::now() - *self
        }

        pub(crate) fn saturating_duration_since(&self, earlier: Self) -> Duration {
            self.0.saturating_sub(earlier.0)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, span: Duration) -> Self {
            Self(self.0 + span)
        }
    }

    impl Sub for Instant {
        type Output = Duration;

        fn sub(self, earlier: Self) -> Duration {
            self.saturating_duration_since(earlier)
        }
    }

    pub(crate) fn advance(span: Duration) {
        NOW.set(NOW.get() + span);
    }
}

#[cfg(idem_shuttle)]
pub(crate) use model::*;
#[cfg(not(idem_shuttle))]
pub(crate) use real::*;
pub(crate) use std::sync::atomic::Ordering;

/// As far as an instant can be moved on every platform.
pub(crate) const FAR: std::time::Duration = std::time::Duration::from_hours(24 * 365 * 30);
