//! Keyrings: the keys that stored answers are encrypted with.

use std::fmt;

use bytes::{BufMut, BytesMut};
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::{AeadInOut as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};
use rand::RngExt as _;

use crate::answer::{Answer, HEADER_LEN, Transform, Undecodable};
use crate::record::RecordId;

/// The keys that stored answers are encrypted with: one seals, and all of them open.
///
/// Whoever can read the store then learns from an answer its kind, its length, and the id of its key; whoever can write to
/// it can neither make an answer nor change one, nor move one to another record: what does not open is an error for its
/// caller and never a reason to run the work. Older answers of the same record can be put back. Give 32 random bytes
/// that nothing else uses.
///
/// To rotate: first deploy the new key as one that opens (`Keyring::new(1, old)?.also(2, new)?`), then let it seal
/// (`Keyring::new(2, new)?.also(1, old)?`), and drop the old one when the longest ttl has passed. To introduce the first
/// one, begin with `Keyring::none().also(1, new)?`, then `Keyring::new(1, new)?`. With a single process the first step can
/// be left out. Answers that were stored in clear are replayed until
/// [`refuse_plain`](Self::refuse_plain) says otherwise.
///
/// The keys are overwritten in memory when they are dropped.
#[derive(Clone)]
pub struct Keyring {
    seals: Option<SealingKey>,
    opens: Vec<SealingKey>,
    refuse_plain: bool,
}

#[derive(Clone)]
struct SealingKey {
    id: u32,
    cipher: XChaCha20Poly1305,
}

/// What stands between the envelope's header and the encrypted outcome: the key's id, and the nonce.
const ID_LEN: usize = 4;
const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;
const PREFIX_LEN: usize = HEADER_LEN + ID_LEN + NONCE_LEN;

impl SealingKey {
    fn new(id: u32, bytes: &[u8]) -> Result<Self, KeyringError> {
        match XChaCha20Poly1305::new_from_slice(bytes) {
            Ok(cipher) => Ok(Self { id, cipher }),
            Err(_) => Err(KeyringError(Fault::Length(id, bytes.len()))),
        }
    }

    /// The answer in an envelope that only this key opens, and only as the answer of this record.
    ///
    /// Format: see [`Answer`].
    fn seal(&self, id: &RecordId, answer: &Answer, nonce: [u8; NONCE_LEN]) -> Option<Answer> {
        let (header, outcome) = answer.as_bytes().split_first_chunk::<HEADER_LEN>()?;
        let header = Transform::Sealed.mark(*header);
        let mut sealed = BytesMut::with_capacity(PREFIX_LEN + outcome.len() + TAG_LEN);
        sealed.put_slice(&header);
        sealed.put_u32(self.id);
        sealed.put_slice(&nonce);
        sealed.put_slice(outcome);
        let text = InOutBuf::from(&mut sealed[PREFIX_LEN..]);
        let tag = self
            .cipher
            .encrypt_inout_detached(&XNonce::from(nonce), &self.associated(header, id), text)
            // Only an outcome of 256 GiB is too long.
            .ok()?;
        sealed.put_slice(&tag);
        Some(Answer::from_bytes(sealed))
    }

    /// The answer that was sealed, in the envelope that it had.
    fn open(&self, id: &RecordId, header: [u8; HEADER_LEN], sealed: &Sealed<'_>) -> Option<Answer> {
        let mut answer = BytesMut::with_capacity(HEADER_LEN + sealed.text.len());
        answer.put_slice(&Transform::Plain.mark(header));
        answer.put_slice(sealed.text);
        let text = InOutBuf::from(&mut answer[HEADER_LEN..]);
        let associated = self.associated(header, id);
        self.cipher
            .decrypt_inout_detached(&XNonce::from(*sealed.nonce), &associated, text, &Tag::from(*sealed.tag))
            .ok()?;
        Some(Answer::from_bytes(answer))
    }

    /// What the tag vouches for besides the outcome: the header, the key's id, and whose answer it is.
    fn associated(&self, header: [u8; HEADER_LEN], id: &RecordId) -> [u8; HEADER_LEN + ID_LEN + 32] {
        let mut associated = [0; HEADER_LEN + ID_LEN + 32];
        associated[..HEADER_LEN].copy_from_slice(&header);
        associated[HEADER_LEN..HEADER_LEN + ID_LEN].copy_from_slice(&self.id.to_be_bytes());
        associated[HEADER_LEN + ID_LEN..].copy_from_slice(id.digest());
        associated
    }
}

/// The parts of a sealed outcome.
struct Sealed<'a> {
    key: u32,
    nonce: &'a [u8; NONCE_LEN],
    text: &'a [u8],
    tag: &'a [u8; TAG_LEN],
}

impl<'a> Sealed<'a> {
    /// Takes apart what follows the header.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk::<ID_LEN>()?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>()?;
        let (text, tag) = rest.split_last_chunk::<TAG_LEN>()?;
        Some(Self { key: u32::from_be_bytes(*key), nonce, text, tag })
    }
}

impl Keyring {
    /// No key: answers are stored in clear, and sealed ones cannot be read.
    pub const fn none() -> Self {
        Self { seals: None, opens: Vec::new(), refuse_plain: false }
    }

    /// Seals with this key. The id is stored in clear with every answer.
    ///
    /// # Errors
    ///
    /// When the key has not 32 bytes.
    pub fn new(id: u32, key: impl AsRef<[u8]>) -> Result<Self, KeyringError> {
        Ok(Self { seals: Some(SealingKey::new(id, key.as_ref())?), ..Self::none() })
    }

    /// Opens what this key has sealed, without sealing with it.
    ///
    /// # Errors
    ///
    /// When the key has not 32 bytes, or the id is already taken.
    pub fn also(mut self, id: u32, key: impl AsRef<[u8]>) -> Result<Self, KeyringError> {
        let key = SealingKey::new(id, key.as_ref())?;
        if self.key(id).is_some() {
            return Err(KeyringError(Fault::Duplicate(id)));
        }
        self.opens.push(key);
        Ok(self)
    }

    /// Refuses answers that were stored in clear: a replay of one is 500 `idempotency_undecodable`.
    ///
    /// For when the longest ttl has passed since all processes seal. Without it, whoever can write to the store can put an
    /// answer of their own in place of a sealed one.
    #[must_use]
    pub const fn refuse_plain(mut self) -> Self {
        self.refuse_plain = true;
        self
    }

    fn key(&self, id: u32) -> Option<&SealingKey> {
        self.seals.iter().chain(&self.opens).find(|key| key.id == id)
    }

    /// The answer as it is stored for this record: for the engine.
    pub fn seal(&self, id: &RecordId, answer: Answer) -> Answer {
        match &self.seals {
            // What cannot be sealed is not stored in clear instead: it will be undecodable.
            Some(key) => {
                key.seal(id, &answer, rand::rng().random()).unwrap_or(Answer::from_bytes(Vec::new()))
            }
            None => answer,
        }
    }

    /// The answer as it was before it was stored for this record.
    ///
    /// # Errors
    ///
    /// When it was sealed with a key that is not here, or is not what was sealed: changed, cut, or another record's.
    pub fn open(&self, id: &RecordId, answer: Answer) -> Result<Answer, Undecodable> {
        let Some((header, rest)) = answer.as_bytes().split_first_chunk::<HEADER_LEN>() else {
            return Ok(answer);
        };
        if !Transform::Sealed.is_of(*header) {
            return if self.refuse_plain && Transform::Plain.is_of(*header) {
                Err(Undecodable::because("it was stored in clear, and this engine's keyring refuses that"))
            } else {
                Ok(answer)
            };
        }
        let sealed = Sealed::of(rest).ok_or(CHANGED)?;
        let key = self.key(sealed.key).ok_or(Undecodable::without_key(sealed.key))?;
        key.open(id, *header, &sealed).ok_or(CHANGED)
    }
}

const CHANGED: Undecodable =
    Undecodable::because("it is not what was encrypted: it was changed, cut, or belongs to another record");

impl Default for Keyring {
    fn default() -> Self {
        Self::none()
    }
}

/// Shows ids only.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("seals", &self.seals.as_ref().map(|key| key.id))
            .field("opens", &self.opens.iter().map(|key| key.id).collect::<Vec<_>>())
            .field("refuse_plain", &self.refuse_plain)
            .finish()
    }
}

/// A key that cannot be on a keyring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyringError(Fault);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Length(u32, usize),
    Duplicate(u32),
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Length(id, len) => {
                write!(f, "the key with id {id} has {len} bytes; give 32 random ones")
            }
            Fault::Duplicate(id) => write!(f, "two keys have the id {id}; give each its own"),
        }
    }
}

impl std::error::Error for KeyringError {}

#[cfg(test)]
mod tests;
