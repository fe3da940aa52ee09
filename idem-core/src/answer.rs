//! Answers: the envelope in which a stored outcome outlives the process, and the release, that wrote it.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// The stored answer of a finished request: a small header, then the encoded outcome.
///
/// Durable format, version 1: `version u8 | kind u8 | codec u8 | transform u8 | payload`. The transform is
///
/// - 0, plain: the payload is the encoded outcome;
/// - 1, sealed (feature `encryption`): the payload is `key id u32 | nonce [u8; 24] | text | tag [u8; 16]`, and text and
///   tag are the encoded outcome under XChaCha20-Poly1305. The associated data is the header as it stands, the key id and
///   the 32 bytes of the record's identity, so that an answer opens as the answer of its own record only.
///
/// Others are reserved. Numbers are big-endian. Stores keep the bytes as they are and never look inside. `Debug` shows the
/// length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer(Bytes);

const VERSION: u8 = 1;
pub(crate) const HEADER_LEN: usize = 4;

/// What was done to the outcome before it was stored.
#[derive(Clone, Copy)]
pub(crate) enum Transform {
    Plain = 0,
    Sealed = 1,
}

#[cfg(feature = "encryption")]
impl Transform {
    pub(crate) const fn is_of(self, [version, _, _, transform]: [u8; HEADER_LEN]) -> bool {
        version == VERSION && transform == self as u8
    }

    /// The same header, with this transform.
    pub(crate) const fn mark(self, [version, kind, codec, _]: [u8; HEADER_LEN]) -> [u8; HEADER_LEN] {
        [version, kind, codec, self as u8]
    }
}

/// Tells whether an answer holds the whole outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// The whole outcome: a retry replays it.
    Full,
    /// Only that the work is done: its outcome was too large, a stream, or marked not to be kept.
    Tombstone,
}

/// Tells how the payload of an answer is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// `Ok` of a function, as JSON.
    JsonOk,
    /// `Err` of a function, as JSON.
    JsonErr,
    /// An HTTP response: status, headers, body.
    Http,
}

impl Codec {
    const fn id(self) -> u8 {
        match self {
            Self::JsonOk => 1,
            Self::JsonErr => 2,
            Self::Http => 3,
        }
    }

    const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::JsonOk),
            2 => Some(Self::JsonErr),
            3 => Some(Self::Http),
            _ => None,
        }
    }
}

impl Answer {
    /// Puts an encoded outcome into an envelope; `write` appends the payload.
    pub fn build(kind: AnswerKind, codec: Codec, capacity: usize, write: impl FnOnce(&mut BytesMut)) -> Self {
        let mut buffer = BytesMut::with_capacity(HEADER_LEN + capacity);
        buffer.put_slice(&Self::header(kind, codec));
        write(&mut buffer);
        Self(buffer.freeze())
    }

    /// Encodes a value as JSON into an envelope.
    ///
    /// # Errors
    ///
    /// When `serde_json` cannot represent the value (a map whose keys are no strings, for example).
    pub fn json<T: serde::Serialize + ?Sized>(codec: Codec, value: &T) -> Result<Self, serde_json::Error> {
        let mut buffer = Vec::with_capacity(128);
        buffer.extend_from_slice(&Self::header(AnswerKind::Full, codec));
        serde_json::to_writer(&mut buffer, value)?;
        Ok(Self(buffer.into()))
    }

    /// An envelope that says only that the work is done.
    pub fn tombstone(codec: Codec) -> Self {
        Self::build(AnswerKind::Tombstone, codec, 0, |_| ())
    }

    const fn header(kind: AnswerKind, codec: Codec) -> [u8; HEADER_LEN] {
        let kind = match kind {
            AnswerKind::Full => 0,
            AnswerKind::Tombstone => 1,
        };
        [VERSION, kind, codec.id(), Transform::Plain as u8]
    }

    /// Takes the bytes that a store kept; they are looked at when the answer is [opened](Answer::open).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The envelope, for a store to keep.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Opens the envelope: its kind, its codec and the encoded outcome.
    ///
    /// # Errors
    ///
    /// When the bytes are no envelope of a version, codec and transform that this release knows. That is an error,
    /// never a reason to run the work again.
    pub fn open(&self) -> Result<(AnswerKind, Codec, Bytes), Undecodable> {
        let [version, kind, codec, transform] = *self
            .0
            .first_chunk::<HEADER_LEN>()
            .ok_or(Undecodable::because("it is shorter than its header"))?;
        if version != VERSION {
            return Err(Undecodable::because("its envelope has a version that this release does not know"));
        }
        if transform == Transform::Sealed as u8 {
            return Err(Undecodable::because(
                "it is encrypted; it takes the feature `encryption` and an engine with its key to read it",
            ));
        }
        if transform != Transform::Plain as u8 {
            return Err(Undecodable::because("it is transformed in a way that this release does not know"));
        }
        let kind = match kind {
            0 => AnswerKind::Full,
            1 => AnswerKind::Tombstone,
            _ => return Err(Undecodable::because("its kind is not one that this release knows")),
        };
        let codec = Codec::from_id(codec)
            .ok_or(Undecodable::because("its codec is not one that this release knows"))?;
        Ok((kind, codec, self.0.slice(HEADER_LEN..)))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({} bytes)", self.0.len())
    }
}

/// Why a stored answer could not be read; says what is wrong with it, never what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable(Fault);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Because(&'static str),
    #[cfg(feature = "encryption")]
    WithoutKey(u32),
}

impl Undecodable {
    /// For codecs outside this module.
    pub const fn because(reason: &'static str) -> Self {
        Self(Fault::Because(reason))
    }

    /// It is sealed, and the keyring has no key with this id.
    #[cfg(feature = "encryption")]
    pub(crate) const fn without_key(id: u32) -> Self {
        Self(Fault::WithoutKey(id))
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Because(reason) => f.write_str(reason),
            #[cfg(feature = "encryption")]
            Fault::WithoutKey(id) => {
                write!(f, "it is encrypted with the key {id}, which this engine's keyring does not have")
            }
        }
    }
}

impl std::error::Error for Undecodable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_is_these_bytes_for_ever() {
        let answer = Answer::json(Codec::JsonOk, "hi").unwrap();
        assert_eq!(&answer.as_bytes()[..], [1, 0, 1, 0, b'"', b'h', b'i', b'"']);
        let answer = Answer::build(AnswerKind::Tombstone, Codec::Http, 0, |_| ());
        assert_eq!(&answer.as_bytes()[..], [1, 1, 3, 0]);
    }

    #[test]
    fn an_empty_payload_is_an_answer() {
        let answer = Answer::build(AnswerKind::Full, Codec::Http, 0, |_| ());
        assert_eq!(answer.open().unwrap(), (AnswerKind::Full, Codec::Http, Bytes::new()));
    }

    #[test]
    fn what_this_release_does_not_know_is_an_error() {
        for bytes in [&[][..], &[1, 0, 1], &[2, 0, 1, 0], &[1, 9, 1, 0], &[1, 0, 99, 0], &[1, 0, 1, 7]] {
            assert!(Answer::from_bytes(Bytes::copy_from_slice(bytes)).open().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn debug_does_not_show_the_answer() {
        assert_eq!(format!("{:?}", Answer::json(Codec::JsonOk, "secret").unwrap()), "Answer(12 bytes)");
    }
}
