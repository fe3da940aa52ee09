//! Answers: the envelope in which a stored outcome outlives the process, and the release, that wrote it.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// The stored answer of a finished request: a small header, then the encoded outcome.
///
/// Durable format, version 1: `version u8 | kind u8 | codec u8 | transform u8 | payload`. The transform is 0 (plain);
/// others are reserved for compression and encryption. Stores keep the bytes as they are and never look inside.
/// `Debug` shows the length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer(Bytes);

const VERSION: u8 = 1;
const PLAIN: u8 = 0;
const HEADER_LEN: usize = 4;

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
        [VERSION, kind, codec.id(), PLAIN]
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
        let [version, kind, codec, transform] =
            *self.0.first_chunk::<HEADER_LEN>().ok_or(Undecodable("it is shorter than its header"))?;
        if version != VERSION {
            return Err(Undecodable("its envelope has a version that this release does not know"));
        }
        if transform != PLAIN {
            return Err(Undecodable("it is transformed in a way that this release does not know"));
        }
        let kind = match kind {
            0 => AnswerKind::Full,
            1 => AnswerKind::Tombstone,
            _ => return Err(Undecodable("its kind is not one that this release knows")),
        };
        let codec =
            Codec::from_id(codec).ok_or(Undecodable("its codec is not one that this release knows"))?;
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
pub struct Undecodable(pub(crate) &'static str);

impl Undecodable {
    /// For codecs outside this module.
    pub const fn because(reason: &'static str) -> Self {
        Self(reason)
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
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
