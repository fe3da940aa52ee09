//! Moments: points in a memory store's time.

use std::time::Duration;

/// Nanoseconds since the clock's origin; what lies further than 584 years ahead is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    pub(super) const NEVER: Self = Self(u64::MAX);

    pub(super) fn at(since_origin: Duration) -> Self {
        Self(u64::try_from(since_origin.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(super) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(super) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(Self::at(span).0))
    }

    /// Whether a span that ends here has ended: spans are half-open, so at the moment itself it has.
    pub(super) fn is_over(self, now: Self) -> bool {
        self != Self::NEVER && self <= now
    }

    /// How long it is from `earlier` to this moment; zero if this one comes first.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_half_open() {
        let start = Moment::at(Duration::from_secs(1));
        let end = start.after(Duration::from_secs(2));
        assert!(!end.is_over(Moment::at(Duration::from_nanos(2_999_999_999))));
        assert!(end.is_over(Moment::at(Duration::from_secs(3))));
        assert!(start.after(Duration::ZERO).is_over(start));
    }

    #[test]
    fn the_longest_span_is_never_over() {
        let end = Moment::at(Duration::from_secs(1)).after(Duration::MAX);
        assert_eq!(end, Moment::NEVER);
        assert!(!end.is_over(Moment::at(Duration::MAX)));
        assert_eq!(end.after(Duration::MAX), Moment::NEVER);
    }

    #[test]
    fn what_lies_in_the_past_is_no_time_away() {
        assert_eq!(Moment::from_nanos(1).since(Moment::from_nanos(2)), Duration::ZERO);
    }
}
