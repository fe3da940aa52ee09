//! Moods: what the last claims found, and so what the next is best asked.

use std::sync::atomic::{AtomicI32, Ordering};

/// After how many alike the next is expected to be so, too.
///
/// A claim that is expected wrongly takes a trip more, which is worth several that are expected rightly. So it takes many
/// of one kind: where every other claim is a replay, one in 256 guesses, and wrongly.
const STREAK: i32 = 8;

/// How many claims in a row have inserted (above zero) or found a record (below).
#[derive(Debug, Default)]
pub(super) struct Mood(AtomicI32);

/// What a claim is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess {
    Fresh,
    Replay,
    Either,
}

impl Mood {
    pub(super) fn guess(&self) -> Guess {
        match self.0.load(Ordering::Relaxed) {
            STREAK.. => Guess::Fresh,
            streak if streak <= -STREAK => Guess::Replay,
            _ => Guess::Either,
        }
    }

    /// Notes what a claim was.
    pub(super) fn note(&self, inserted: bool) {
        let now = self.0.load(Ordering::Relaxed);
        let next = if inserted { (now.max(0) + 1).min(STREAK) } else { (now.min(0) - 1).max(-STREAK) };
        if next != now {
            self.0.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_of_one_kind_make_it_expect_more() {
        let mood = Mood::default();
        assert_eq!(mood.guess(), Guess::Either);
        for (inserted, expected) in [(true, Guess::Fresh), (false, Guess::Replay), (true, Guess::Fresh)] {
            for _ in 1..STREAK {
                mood.note(inserted);
                assert_eq!(mood.guess(), Guess::Either);
            }
            for _ in 0..3 {
                mood.note(inserted);
                assert_eq!(mood.guess(), expected);
            }
        }
    }
}
