//! The limit on new keys: how many a scope may use in a while.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::time::Duration;

use crate::key::Scope;
use crate::sync::{FAR, Instant, Mutex};

/// What the engine was told of new keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) keys: u32,
    pub(crate) per: Duration,
}

/// How many new keys each scope has left: a bucket of tokens that fills at an even rate.
pub(crate) struct NewKeys {
    /// How long a bucket takes to fill.
    per: Duration,
    /// How long a token takes.
    each: Duration,
    hasher: RandomState,
    buckets: Mutex<Buckets>,
}

/// A scope in the table of buckets: a hash that nobody outside can aim at, so that no scope has to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Slot(u64);

/// When each bucket will be full. A scope that is not here has a full one.
///
/// Within `per` any bucket is full again, so two generations hold whatever is not, and forgetting needs no search.
struct Buckets {
    since: Instant,
    young: HashMap<Slot, Instant>,
    old: HashMap<Slot, Instant>,
}

impl NewKeys {
    /// How many scopes a generation holds. With more, those that claimed least recently have full buckets again.
    const MAX_SCOPES: usize = 1 << 16;

    pub(crate) fn new(limit: Limit) -> Self {
        let Limit { keys, per } = limit;
        let per = per.min(FAR);
        let buckets = Buckets { since: Instant::now(), young: HashMap::new(), old: HashMap::new() };
        Self {
            per,
            each: (per / keys).max(Duration::from_nanos(1)),
            hasher: RandomState::new(),
            buckets: Mutex::new(buckets),
        }
    }

    pub(crate) fn slot(&self, scope: &Scope) -> Slot {
        Slot(self.hasher.hash_one(scope.encoded()))
    }

    /// Takes a token, or tells when there will be one.
    pub(crate) fn take(&self, slot: Slot) -> Result<Token<'_>, Duration> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock();
        buckets.forget(now, self.per);
        let full_at = buckets.full_at(slot).map_or(now, |at| at.max(now)) + self.each;
        let over = full_at.saturating_duration_since(now).checked_sub(self.per).unwrap_or_default();
        if !over.is_zero() {
            return Err(over);
        }
        buckets.young.insert(slot, full_at);
        Ok(Token { keys: self, slot })
    }

    /// How many scopes are remembered.
    #[cfg(test)]
    fn len(&self) -> usize {
        let buckets = self.buckets.lock();
        buckets.young.len() + buckets.old.len()
    }
}

impl Buckets {
    fn full_at(&self, slot: Slot) -> Option<Instant> {
        self.young.get(&slot).or_else(|| self.old.get(&slot)).copied()
    }

    /// Forgets a generation when its buckets are full, or when there is no room for another.
    fn forget(&mut self, now: Instant, per: Duration) {
        if now.saturating_duration_since(self.since) >= per || self.young.len() >= NewKeys::MAX_SCOPES {
            self.old = std::mem::take(&mut self.young);
            self.since = now;
        }
    }
}

impl fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKeys").field("per", &self.per).field("each", &self.each).finish_non_exhaustive()
    }
}

/// A token of a bucket; goes back when it is dropped, unless it was spent.
#[derive(Debug)]
#[must_use]
pub(crate) struct Token<'a> {
    keys: &'a NewKeys,
    slot: Slot,
}

impl Token<'_> {
    /// The key was new.
    pub(crate) fn spend(self) {
        std::mem::forget(self);
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        let mut buckets = self.keys.buckets.lock();
        if let Some(at) = buckets.full_at(self.slot) {
            let now = Instant::now();
            let left = at.saturating_duration_since(now).saturating_sub(self.keys.each);
            buckets.young.insert(self.slot, now + left);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn keys(keys: u32) -> NewKeys {
        NewKeys::new(Limit { keys, per: MINUTE })
    }

    fn spends(keys: &NewKeys, slot: Slot) -> bool {
        keys.take(slot).map(Token::spend).is_ok()
    }

    fn spent(keys: &NewKeys, slot: Slot) -> usize {
        (0..1000).filter(|_| spends(keys, slot)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_holds_as_many_tokens_as_the_limit_and_fills_evenly() {
        let (keys, slot) = (keys(6), Slot(1));
        assert_eq!(spent(&keys, slot), 6);
        assert_eq!(keys.take(slot).unwrap_err(), MINUTE / 6);
        advance(MINUTE / 6).await;
        assert_eq!(spent(&keys, slot), 1);
        advance(MINUTE / 2).await;
        assert_eq!(spent(&keys, slot), 3);
        advance(10 * MINUTE).await;
        assert_eq!(spent(&keys, slot), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn each_scope_has_a_bucket_of_its_own() {
        let keys = keys(2);
        let [alice, bob] = ["alice", "bob"].map(|name| keys.slot(&Scope::new(name).unwrap()));
        assert_eq!((spent(&keys, alice), spent(&keys, bob)), (2, 2));
        assert_eq!(alice, keys.slot(&Scope::new("alice").unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_not_spent_goes_back() {
        let (keys, slot) = (keys(2), Slot(1));
        let held = [keys.take(slot).unwrap(), keys.take(slot).unwrap()];
        assert!(keys.take(slot).is_err());
        drop(held);
        assert_eq!(spent(&keys, slot), 2);
        assert!(keys.take(slot).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn over_any_minute_no_more_than_a_bucket_and_what_it_fills_by_is_spent() {
        let (keys, slot) = (keys(60), Slot(1));
        let mut total = 0;
        for _ in 0..600 {
            advance(Duration::from_millis(700)).await;
            total += (0..3).filter(|_| spends(&keys, slot)).count();
        }
        // The bucket that was full at first, and one for each of the 419 seconds since.
        assert_eq!(total, 60 + 419);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded_and_forgotten_in_time() {
        let keys = keys(1);
        for slot in 0..(5 * NewKeys::MAX_SCOPES as u64) {
            assert!(spends(&keys, Slot(slot)));
        }
        assert!(keys.len() <= 2 * NewKeys::MAX_SCOPES);
        assert!(!spends(&keys, Slot(5 * NewKeys::MAX_SCOPES as u64 - 1)), "the last is remembered");
        for _ in 0..2 {
            advance(MINUTE).await;
            assert!(spends(&keys, Slot(0)));
        }
        assert!(keys.len() <= 2);
    }
}
