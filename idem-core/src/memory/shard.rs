//! Shards: small maps, each under a lock of its own.

use std::collections::HashMap;
use std::collections::hash_map::{Entry as MapEntry, OccupiedEntry};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::entry::{Entry, Leftover};
use super::moment::Moment;
use crate::answer::Answer;
use crate::record::RecordId;

/// The digest of a record's identity. It is evenly distributed, so that it is its own hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id([u8; 32]);

impl Id {
    pub(super) fn of(id: &RecordId) -> Self {
        Self(*id.digest())
    }

    fn word(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Picks one of `shards` by bytes that the map inside the shard does not look at.
    pub(super) fn shard(&self, mask: usize) -> usize {
        self.word(8) as usize & mask
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.word(0));
    }
}

/// Takes the one word that an [`Id`] writes for the hash.
#[derive(Debug, Default)]
pub(super) struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// A place in the map. The entry is boxed, so that growing the map moves little; `due` is not, so that looking for what
/// has expired runs over the map alone.
#[derive(Debug)]
pub(super) struct Slot {
    due: Moment,
    entry: Box<Entry>,
}

impl Slot {
    pub(super) fn new(entry: Entry) -> Self {
        Self { due: entry.due(), entry: Box::new(entry) }
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Puts a new record in the place of one that is gone.
    pub(super) fn replace(&mut self, new: Self) -> Self {
        self.entry.wake();
        std::mem::replace(self, new)
    }

    /// Takes a step, and notes when the record is due after it.
    pub(super) fn step<T>(&mut self, step: impl FnOnce(&mut Entry) -> T) -> (T, Moment) {
        let answer = step(&mut self.entry);
        self.due = self.entry.due();
        (answer, self.due)
    }
}

pub(super) type Occupied<'a> = OccupiedEntry<'a, Id, Slot>;
pub(super) type Place<'a> = MapEntry<'a, Id, Slot>;

#[derive(Debug, Default)]
pub(super) struct Shard {
    slots: HashMap<Id, Slot, BuildHasherDefault<DigestHasher>>,
    /// New records since the shard was last looked through.
    inserted: usize,
}

/// What was taken out of a shard: to be dropped when its lock is given back.
#[derive(Debug, Default)]
pub(super) struct Expired {
    slots: Vec<(Id, Slot)>,
    answers: Vec<Answer>,
}

impl Expired {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.answers.is_empty()
    }

    pub(super) fn records(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn answer_bytes(&self) -> usize {
        let gone = self.slots.iter().map(|(_, slot)| slot.entry.answer_len());
        gone.chain(self.answers.iter().map(|answer| answer.as_bytes().len())).sum()
    }
}

impl Shard {
    pub(super) fn place(&mut self, id: Id) -> Place<'_> {
        self.slots.entry(id)
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Slot> {
        self.slots.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &Id) -> Option<&mut Slot> {
        self.slots.get_mut(id)
    }

    /// Counts a new record, and tells whether it is time to look for expired ones.
    ///
    /// That is after an eighth of the shard is new: a look costs a new record about eight slots, however large the
    /// shard is.
    pub(super) fn inserted(&mut self) -> bool {
        self.inserted += 1;
        self.inserted * 8 > self.slots.len()
    }

    /// Takes out up to `limit` records that are gone and as many answers; tells when there is more to take.
    pub(super) fn expire(&mut self, now: Moment, limit: usize) -> (Expired, Moment) {
        self.inserted = 0;
        let mut next = Moment::NEVER;
        let mut answers = Vec::new();
        let slots: Vec<_> = self
            .slots
            .extract_if(|_, slot| {
                if slot.due.is_over(now) {
                    match slot.entry.expire(now) {
                        Leftover::Gone => return true,
                        Leftover::Answer(answer) => answers.push(answer),
                        Leftover::None => {}
                    }
                    slot.due = slot.entry.due();
                }
                next = next.min(slot.due);
                false
            })
            .take(limit)
            .collect();
        if slots.len() == limit {
            // The rest was not looked at.
            next = now;
        } else if self.slots.capacity() > 64 && self.slots.len() * 4 < self.slots.capacity() {
            self.slots.shrink_to(self.slots.len() * 2);
        }
        (Expired { slots, answers }, next)
    }
}
