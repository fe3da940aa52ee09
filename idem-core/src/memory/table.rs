//! The table: all shards of a memory store, and how much they hold.

use std::sync::Arc;

use super::entry::Entry;
use super::moment::Moment;
use super::shard::{Expired, Id, Occupied, Place, Shard, Slot};
use crate::clock::Clock;
use crate::record::{Record, RecordId};
use crate::store::{Claim, Claimed};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// What one record is taken to cost besides its answer, in bytes.
const RECORD_BYTES: usize = 288;
/// How many expired records a visit takes out of a shard.
const A_FEW: usize = 64;

pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    /// For each shard a time before which nothing in it is due. Written under the shard's lock, read without it.
    due: Box<[AtomicU64]>,
    clock: Arc<dyn Clock>,
    max_records: usize,
    max_bytes: Option<usize>,
    records: AtomicUsize,
    bytes: AtomicUsize,
    /// Where the next search for expired records begins.
    cursor: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct Walk {
    next: usize,
    left: usize,
}

impl Table {
    pub(super) fn new(
        shards: usize,
        max_records: usize,
        max_bytes: Option<usize>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            due: (0..shards).map(|_| AtomicU64::new(Moment::NEVER.as_nanos())).collect(),
            clock,
            max_records,
            max_bytes,
            records: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            cursor: AtomicUsize::new(0),
        }
    }

    /// How many records it holds.
    pub(super) fn len(&self) -> usize {
        self.records.load(Ordering::Relaxed)
    }

    fn now(&self) -> Moment {
        Moment::at(self.clock.now())
    }

    fn shard_of(&self, id: Id) -> usize {
        id.shard(self.shards.len() - 1)
    }

    /// Lowers the time before which nothing in a shard is due; its lock is held.
    fn note_due(&self, shard: usize, due: Moment) {
        if due.as_nanos() < self.due[shard].load(Ordering::Relaxed) {
            self.due[shard].store(due.as_nanos(), Ordering::Relaxed);
        }
    }

    fn is_due(&self, shard: usize, now: Moment) -> bool {
        Moment::from_nanos(self.due[shard].load(Ordering::Relaxed)).is_over(now)
    }

    /// Takes expired records out of a locked shard; the caller drops them after unlocking.
    fn expire(&self, index: usize, shard: &mut Shard, now: Moment, limit: usize) -> Expired {
        let (expired, next) = shard.expire(now, limit);
        self.due[index].store(next.as_nanos(), Ordering::Relaxed);
        self.records.fetch_sub(expired.records(), Ordering::Relaxed);
        self.forget_bytes(expired.records() * RECORD_BYTES + expired.answer_bytes());
        expired
    }

    /// Counts one more record, unless the store is full.
    fn reserve(&self) -> bool {
        if self.max_bytes.is_some_and(|max| self.bytes.load(Ordering::Relaxed) >= max) {
            return false;
        }
        if self.records.fetch_add(1, Ordering::Relaxed) >= self.max_records {
            self.records.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.add_bytes(RECORD_BYTES);
        true
    }

    fn add_bytes(&self, bytes: usize) {
        if self.max_bytes.is_some() {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn forget_bytes(&self, bytes: usize) {
        if self.max_bytes.is_some() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Takes a record out.
    fn remove(&self, slot: Occupied<'_>) -> Slot {
        let slot = slot.remove();
        self.records.fetch_sub(1, Ordering::Relaxed);
        self.forget_bytes(RECORD_BYTES + slot.entry().answer_len());
        slot
    }

    /// A walk over all shards, once around, from where the last one stopped.
    pub(super) fn walk(&self) -> Walk {
        Walk { next: self.cursor.load(Ordering::Relaxed), left: self.shards.len() }
    }

    /// Takes a few expired records, up to `limit`, out of the next shard that may have some; `None` at the walk's end.
    pub(super) fn expire_next(&self, walk: &mut Walk, limit: usize) -> Option<Expired> {
        let now = self.now();
        while walk.left > 0 {
            let index = walk.next & (self.shards.len() - 1);
            if self.is_due(index, now) {
                self.cursor.store(index, Ordering::Relaxed);
                return Some(self.expire(index, &mut self.shards[index].lock(), now, limit.min(A_FEW)));
            }
            walk.next += 1;
            walk.left -= 1;
        }
        None
    }

    /// Takes a few expired records out of the first shard that has some; tells whether there was one.
    pub(super) fn make_room(&self) -> bool {
        let mut walk = self.walk();
        while let Some(expired) = self.expire_next(&mut walk, A_FEW) {
            if !expired.is_empty() {
                return true;
            }
        }
        false
    }

    /// Decides a claim; `None` if the record is new and there is no room for it.
    pub(super) fn claim(&self, id: &RecordId, claim: &Claim) -> Option<Claimed> {
        let digest = Id::of(id);
        let index = self.shard_of(digest);
        let mut shard = self.shards[index].lock();
        let now = self.now();
        let due;
        match shard.place(digest) {
            Place::Occupied(mut place) => {
                let slot = place.get_mut();
                if let Some(state) = slot.entry().state(now) {
                    let (claimed, due) = slot.step(|entry| entry.claim(state, claim, now));
                    self.note_due(index, due);
                    return Some(claimed);
                }
                let new = Slot::new(Entry::begun(id, claim, now));
                self.note_due(index, new.entry().due());
                self.forget_bytes(slot.entry().answer_len());
                let gone = slot.replace(new);
                drop(shard);
                drop(gone);
                return Some(Claimed::Granted { attempt: 1 });
            }
            Place::Vacant(place) => {
                if !self.reserve() {
                    return None;
                }
                let slot = Slot::new(Entry::begun(id, claim, now));
                due = slot.entry().due();
                place.insert(slot);
            }
        }
        self.note_due(index, due);
        if shard.inserted() && self.is_due(index, now) {
            let expired = self.expire(index, &mut shard, now, A_FEW);
            drop(shard);
            drop(expired);
        }
        Some(Claimed::Granted { attempt: 1 })
    }

    /// Takes a step on a record that is not absent.
    pub(super) fn step<T>(&self, id: &RecordId, absent: T, step: impl FnOnce(&mut Entry, Moment) -> T) -> T {
        let digest = Id::of(id);
        let index = self.shard_of(digest);
        let mut shard = self.shards[index].lock();
        let now = self.now();
        let Some(slot) = shard.get_mut(&digest) else { return absent };
        if slot.entry().state(now).is_none() {
            return absent;
        }
        let before = slot.entry().answer_len();
        let (answer, due) = slot.step(|entry| step(entry, now));
        self.add_bytes(slot.entry().answer_len().saturating_sub(before));
        self.note_due(index, due);
        answer
    }

    /// Takes a step with a record that is not absent, and forgets it if that says so; tells what it said.
    pub(super) fn forget(&self, id: &RecordId, agrees: impl FnOnce(&mut Entry, Moment) -> bool) -> bool {
        let digest = Id::of(id);
        let index = self.shard_of(digest);
        let mut shard = self.shards[index].lock();
        let now = self.now();
        let Place::Occupied(mut place) = shard.place(digest) else { return false };
        if place.get().entry().state(now).is_none() {
            return false;
        }
        let (gives_up, due) = place.get_mut().step(|entry| agrees(entry, now));
        if !gives_up {
            self.note_due(index, due);
        }
        let gone = gives_up.then(|| self.remove(place));
        drop(shard);
        drop(gone);
        gives_up
    }

    pub(super) fn look_up(&self, id: &RecordId) -> Option<Record> {
        let digest = Id::of(id);
        let shard = self.shards[self.shard_of(digest)].lock();
        let now = self.now();
        shard.get(&digest).and_then(|slot| slot.entry().look_up(now))
    }
}
