//! Writes encoded values and hashes them, with the entries of objects in order.

use sha2::{Digest as _, Sha256};

use super::error::Reason;
use super::{Digest, VERSION};

/// Output that no open object can still reorder is hashed and dropped from here on.
const FLUSH_AT: usize = 8 * 1024;

/// Starts a hash of the given kind; see PREFIX in the module's documentation.
pub(super) fn hash_of_kind(kind: u8) -> Sha256 {
    Sha256::new_with_prefix([b'i', b'd', b'e', b'm', VERSION, kind])
}

pub(super) fn finish(sha: Sha256) -> Digest {
    Digest(sha.finalize().into())
}

/// Writes a length as LEB128 into a small array and returns how much of it is used.
#[inline]
pub(super) fn length(mut len: usize) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut used = 0;
    while len >= 0x80 {
        bytes[used] = (len as u8 & 0x7f) | 0x80;
        len >>= 7;
        used += 1;
    }
    bytes[used] = len as u8;
    (bytes, used + 1)
}

/// A buffer of encoded bytes in front of a hash.
///
/// The buffer holds what an open object may still have to move; everything is hashed once, in stream order, so
/// sorting costs a copy and never a hash per entry.
pub(super) struct Canonical {
    out: Vec<u8>,
    /// The entries of all open objects, the innermost last.
    entries: Vec<Entry>,
    scratch: Vec<u8>,
    /// How many callers hold positions into `out`.
    pins: usize,
    /// Why writing failed, for those who must not go on.
    pub(super) broken: Option<Reason>,
    sha: Sha256,
}

#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Entry {
    fn name<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.start..self.name_end]
    }

    fn bytes<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.start..self.end]
    }
}

/// An open object.
#[must_use]
#[derive(Clone, Copy)]
pub(super) struct Object {
    /// Where in `entries` its own begin.
    first: usize,
}

/// A place to go back to.
pub(super) struct Mark {
    out: usize,
    entries: usize,
    pins: usize,
}

impl Mark {
    pub(super) fn position(&self) -> usize {
        self.out
    }
}

impl Canonical {
    pub(super) fn new(kind: u8, capacity: usize) -> Self {
        Self {
            out: Vec::with_capacity(capacity),
            entries: Vec::new(),
            scratch: Vec::new(),
            pins: 0,
            broken: None,
            sha: hash_of_kind(kind),
        }
    }

    pub(super) fn finish(mut self) -> Digest {
        self.sha.update(&self.out);
        finish(self.sha)
    }

    #[inline]
    pub(super) fn tag(&mut self, tag: u8) {
        self.out.push(tag);
    }

    #[inline]
    pub(super) fn bool(&mut self, value: bool) {
        self.out.push(if value { b't' } else { b'f' });
    }

    /// Writes a tag, the length and the bytes.
    #[inline]
    pub(super) fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        if bytes.len() < 0x80 {
            self.out.extend_from_slice(&[tag, bytes.len() as u8]);
        } else {
            let (len, used) = length(bytes.len());
            self.out.push(tag);
            self.out.extend_from_slice(&len[..used]);
        }
        self.out.extend_from_slice(bytes);
    }

    /// Writes a tag, the length and what `write` appends, whose length is not known before.
    pub(super) fn measured<E>(
        &mut self,
        tag: u8,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.out.extend_from_slice(&[tag, 0]);
        let start = self.out.len();
        write(&mut self.out)?;
        let (len, used) = length(self.out.len() - start);
        if used == 1 {
            self.out[start - 1] = len[0];
        } else {
            self.out.splice(start - 1..start, len[..used].iter().copied());
        }
        Ok(())
    }

    /// The buffer, for what writes its own form.
    #[inline]
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Where the next byte goes; stays true while pinned.
    pub(super) fn position(&self) -> usize {
        self.out.len()
    }

    pub(super) fn written_since(&self, position: usize) -> &[u8] {
        &self.out[position..]
    }

    pub(super) fn take_since(&mut self, position: usize) -> Vec<u8> {
        self.out.split_off(position)
    }

    pub(super) fn insert(&mut self, position: usize, tag: u8) {
        self.out.insert(position, tag);
    }

    pub(super) fn pin(&mut self) {
        self.pins += 1;
    }

    pub(super) fn unpin(&mut self) {
        self.pins -= 1;
    }

    /// Goes back to what [`Canonical::mark`] saw. Only while pinned since.
    pub(super) fn rewind(&mut self, mark: &Mark) {
        self.out.truncate(mark.out);
        self.entries.truncate(mark.entries);
        self.pins = mark.pins;
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { out: self.out.len(), entries: self.entries.len(), pins: self.pins }
    }

    /// Lets go of the buffer if nothing holds a position in it; called between the items of a sequence.
    #[inline]
    pub(super) fn flush(&mut self) {
        if self.pins == 0 && self.out.len() >= FLUSH_AT {
            self.sha.update(&self.out);
            self.out.clear();
        }
    }

    pub(super) fn begin_object(&mut self) -> Object {
        self.pin();
        self.out.push(b'{');
        Object { first: self.entries.len() }
    }

    /// Begins an entry; its name comes next.
    #[inline]
    pub(super) fn begin_entry(&mut self) {
        let start = self.out.len();
        self.entries.push(Entry { start, name_end: start, end: start });
    }

    /// Ends the name of the innermost entry that is open; its value comes next.
    #[inline]
    pub(super) fn end_name(&mut self) {
        if let Some(entry) = self.entries.last_mut() {
            entry.name_end = self.out.len();
        }
    }

    /// Ends an entry.
    #[inline]
    pub(super) fn end_entry(&mut self) {
        if let Some(entry) = self.entries.last_mut() {
            entry.end = self.out.len();
        }
    }

    /// Takes back the entry just ended if its value is `None`.
    #[inline]
    pub(super) fn drop_none(&mut self) {
        if let Some(entry) = self.entries.last()
            && self.out[entry.name_end..] == *b"o"
        {
            self.out.truncate(entry.start);
            self.entries.pop();
        }
    }

    /// Ends the object with its entries in order; says whether all names differ.
    pub(super) fn end_object(&mut self, object: Object) -> bool {
        let entries = &mut self.entries[object.first..];
        let out = &mut self.out;
        let ordered = entries.windows(2).all(|pair| pair[0].name(out) < pair[1].name(out));
        let mut distinct = true;
        if !ordered {
            let start = entries[0].start;
            // Names tell where they end, so this is also the order of (name, value).
            entries.sort_unstable_by(|a, b| a.bytes(out).cmp(b.bytes(out)));
            distinct = entries.windows(2).all(|pair| pair[0].name(out) != pair[1].name(out));
            self.scratch.clear();
            for entry in &*entries {
                self.scratch.extend_from_slice(entry.bytes(out));
            }
            out[start..].copy_from_slice(&self.scratch);
        }
        self.entries.truncate(object.first);
        self.out.push(b'}');
        self.unpin();
        distinct
    }
}
