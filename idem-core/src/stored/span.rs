//! Spans: durations as servers count them, in whole microseconds.

use std::time::Duration;

/// The end of what does not end.
pub const NEVER: i64 = i64::MAX;

/// The longest span, about 36,000 years: two of them and a date never overflow.
const LONGEST: i64 = 1 << 60;

/// What a server's clock may be coarser than a microsecond by.
///
/// A moment read from a clock that ticks each millisecond is up to one millisecond old, so a span that starts there
/// must be that much longer to be never shorter than promised.
const TICK: i64 = 1_000;

/// The span to add to a server's now. Zero stays zero; others are rounded up to the clock's ticks, and one more.
pub fn to_micros(span: Duration) -> i64 {
    if span.is_zero() { 0 } else { whole_ticks(span).saturating_add(TICK).min(LONGEST) }
}

/// The span of `first` and then `second`, to add to a server's now.
pub fn one_after_another(first: Duration, second: Duration) -> i64 {
    if first.is_zero() { to_micros(second) } else { to_micros(first) + whole_ticks(second) }
}

fn whole_ticks(span: Duration) -> i64 {
    let ticks = span.as_nanos().div_ceil(TICK as u128 * 1_000);
    i64::try_from(ticks)
        .ok()
        .and_then(|ticks| ticks.checked_mul(TICK))
        .map_or(LONGEST, |span| span.min(LONGEST))
}

/// What is surely left from `now` to `end`, zero if nothing; the tick that [`to_micros`] added is not told.
pub fn left(now: i64, end: i64) -> Duration {
    between(now.saturating_add(TICK), end)
}

/// From `start` to `end`, zero if they are the other way round.
pub fn between(start: i64, end: i64) -> Duration {
    Duration::from_micros(u64::try_from(end.saturating_sub(start)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_is_shorter_than_promised_or_overflows() {
        assert_eq!(to_micros(Duration::ZERO), 0);
        assert_eq!(to_micros(Duration::from_nanos(1)), 2_000);
        assert_eq!(to_micros(Duration::from_millis(1)), 2_000);
        assert_eq!(to_micros(Duration::from_micros(1_001)), 3_000);
        assert_eq!(to_micros(Duration::from_secs(90)), 90_001_000);
        assert_eq!(to_micros(Duration::MAX), LONGEST);
        let now = 4_102_444_800_000_000; // the year 2100
        assert!(now + one_after_another(Duration::MAX, Duration::MAX) > now);
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        assert_eq!(one_after_another(second, minute), 61_001_000);
        assert_eq!(one_after_another(Duration::ZERO, minute), 60_001_000);
        assert_eq!(one_after_another(second, Duration::ZERO), 1_001_000);
    }

    #[test]
    fn what_is_left_is_never_more_than_was_asked_for() {
        let span = Duration::from_secs(30);
        assert_eq!(left(5, 5 + to_micros(span)), span);
        assert_eq!(left(5, 5), Duration::ZERO);
        assert_eq!(left(NEVER - 1, 0), Duration::ZERO);
    }
}
