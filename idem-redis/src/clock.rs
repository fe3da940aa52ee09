//! The server's clock, as far as its replies tell of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// For how long what was told is good enough.
const GOOD: Duration = Duration::from_mins(1);

/// About what time it is on the server: for what is told to people, such as how long an answer is still replayed. Nothing is
/// decided by it.
#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<Told>>);

#[derive(Debug, Clone, Copy)]
struct Told {
    /// When it was asked: it may be earlier than we make of it, never later.
    asked: Instant,
    /// What it said, in milliseconds.
    now: i64,
    /// By how much earlier.
    within: Duration,
}

impl Clock {
    /// The server, which was asked then, said that it is now so many milliseconds.
    pub(crate) fn is(&self, now: i64, asked: Instant) {
        let new = Told { asked, now, within: asked.elapsed() };
        let mut told = self.told();
        if told.is_none_or(|old| new.within <= old.within || old.is_stale()) {
            *told = Some(new);
        }
    }

    /// About its now, in milliseconds; `None` if it has told nothing for a while.
    pub(crate) fn about(&self) -> Option<i64> {
        let Told { asked, now, .. } = self.told().filter(|told| !told.is_stale())?;
        let since = i64::try_from(asked.elapsed().as_millis()).unwrap_or(i64::MAX);
        // What both were cut to is whole milliseconds.
        Some(now.saturating_add(since).saturating_add(2))
    }

    fn told(&self) -> MutexGuard<'_, Option<Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn is_stale(&self) -> bool {
        self.asked.elapsed() >= GOOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_was_told_goes_on_for_a_minute() {
        let clock = Clock::default();
        assert_eq!(clock.about(), None);
        clock.is(1_000_000, Instant::now());
        tokio::time::advance(59 * SECOND).await;
        assert_eq!(clock.about(), Some(1_059_002));
        tokio::time::advance(SECOND).await;
        assert_eq!(clock.about(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_fastest_reply_counts_while_it_is_young() {
        let clock = Clock::default();
        let asked = Instant::now();
        tokio::time::advance(SECOND).await;
        clock.is(1_000_000, asked);
        assert_eq!(clock.about(), Some(1_001_002));
        clock.is(1_000_500, Instant::now());
        assert_eq!(clock.about(), Some(1_000_502));
        let asked = Instant::now();
        tokio::time::advance(2 * SECOND).await;
        clock.is(5_000_000, asked);
        assert_eq!(clock.about(), Some(1_002_502));
        tokio::time::advance(GOOD).await;
        clock.is(6_000_000, Instant::now());
        assert_eq!(clock.about(), Some(6_000_002));
    }
}
