//! Clocks: where a store that has no clock of its own takes the time from.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::Mutex;

/// Tells how much time has passed since some origin, and never goes back.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time since the origin.
    fn now(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }
}

/// The monotonic clock of this process; its origin is when it was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Starts at zero now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is advanced, for tests. Clones share their time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<Mutex<Duration>>);

impl ManualClock {
    /// Stands at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets time pass; stops at the longest duration there is.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock();
        *now = now.saturating_add(by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock()
    }
}

/// Moves the engine's own clock, which stands still under the model scheduler.
#[cfg(idem_shuttle)]
pub fn advance(span: Duration) {
    crate::sync::advance(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_it_is_told_and_never_past_the_end() {
        let clock = ManualClock::new();
        let same = clock.clone();
        assert_eq!(clock.now(), Duration::ZERO);
        clock.advance(Duration::from_secs(5));
        assert_eq!(same.now(), Duration::from_secs(5));
        clock.advance(Duration::MAX);
        assert_eq!(same.now(), Duration::MAX);
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::new();
        let readings: Vec<_> = (0..1000).map(|_| clock.now()).collect();
        assert!(readings.is_sorted());
    }
}
