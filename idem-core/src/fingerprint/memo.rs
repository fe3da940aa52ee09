//! Remembers the digests of documents seen lately.

use std::fmt;

use parking_lot::Mutex;

use super::{Digest, of_json, of_raw};

/// How many documents compete for the same place.
const WAYS: usize = 4;

/// Remembers which canonical digest belongs to which raw one.
///
/// A retry is mostly byte for byte what came before, and then costs one plain SHA-256 instead of reading the JSON.
/// Both digests depend on the bytes alone, so a wrong or stale answer cannot occur: at worst one is forgotten.
/// Memory is bounded by the capacity (about 70 bytes an entry, taken at the start) and holds digests only.
pub struct JsonMemo {
    sets: Box<[Mutex<Set>]>,
}

#[derive(Clone, Default)]
struct Set {
    entries: [Option<(Digest, Digest)>; WAYS],
    /// Which entry goes next. Where a digest lands is random, so the oldest of a set is a fair choice.
    oldest: u8,
}

impl JsonMemo {
    /// Makes room for about this many documents: rounded up to a power of two, and 4 at least.
    pub fn new(capacity: usize) -> Self {
        // A set is named by two bytes of the digest.
        let sets = capacity.div_ceil(WAYS).clamp(1, 1 << 16).next_power_of_two();
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// Takes the digest of a JSON document by its meaning: what [`of_json`](super::of_json) returns.
    pub fn of_json(&self, body: &[u8]) -> Digest {
        let raw = of_raw(body);
        let set = &self.sets[usize::from(u16::from_be_bytes([raw.0[0], raw.0[1]])) & (self.sets.len() - 1)];
        let known =
            set.lock().entries.iter().flatten().find(|(key, _)| *key == raw).map(|(_, digest)| *digest);
        if let Some(digest) = known {
            return digest;
        }
        // Not under the lock. Two that read the same document at once find the same digest.
        let digest = of_json(body);
        let mut set = set.lock();
        let at = usize::from(set.oldest) % WAYS;
        set.entries[at] = Some((raw, digest));
        set.oldest = set.oldest.wrapping_add(1);
        digest
    }
}

impl Default for JsonMemo {
    /// Room for 4,096 documents.
    fn default() -> Self {
        Self::new(4096)
    }
}

impl fmt::Debug for JsonMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonMemo").field("capacity", &(self.sets.len() * WAYS)).finish_non_exhaustive()
    }
}
