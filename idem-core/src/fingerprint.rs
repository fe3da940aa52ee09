//! What was asked for, as 32 bytes that are the same for every honest retry.
//!
//! A key that comes back with another payload is a mistake of the caller, and the fingerprint is how it is
//! noticed. It is taken in two steps. A [`Digest`] is the SHA-256 of the request: [`of_json`], [`of_raw`] and
//! [`of_value`] make one, [`Hasher`] joins several parts to one. A [`Fingerprint`] is what a record stores: the
//! digest, or with [`Secrets`] its HMAC, together with the version of the scheme and the id of the secret, so that
//! neither a deploy nor a rotated secret turns a live record into a mismatch.
//!
//! # Version 1, byte by byte
//!
//! Enough to write it anew in another language; `tests/vectors/` holds examples. All text is UTF-8, bytes are
//! written `like this` or in hex.
//!
//! - *LEN*: a length in bytes as unsigned LEB128 (seven bits a byte, lowest first, the high bit says that more
//!   follow, no padding).
//! - *PREFIX(k)*: the six bytes `idem`, `01`, k.
//! - raw bytes: SHA-256 of PREFIX(`r`) and the bytes as they are.
//! - JSON: SHA-256 of PREFIX(`j`) and the encoded document.
//! - typed values: SHA-256 of PREFIX(`v`) and the encoded value.
//! - parts: SHA-256 of PREFIX(`p`) and the parts in their order. A part is a kind, LEN and the label, LEN and the
//!   content. The first is always the operation (kind `o`, empty label); then come bytes (kind `b`), digests
//!   (kind `d`, content 32 bytes) and values (kind `v`, content the 32 bytes of the digest of the typed value).
//! - stored without a secret: version `01`, secret id 0, the digest. With one: version `01`, its id, and
//!   HMAC-SHA-256 over `01` and the 32 bytes of the digest.
//! - durable form ([`Fingerprint::to_bytes`]): version (one byte), secret id (four bytes, big endian), 32 bytes.
//!   Version 0 with all other bytes zero is [`Fingerprint::NONE`].
//!
//! ## Encoded values
//!
//! | what | bytes |
//! |---|---|
//! | null, `()`, unit structs | `n` |
//! | true, false | `t`, `f` |
//! | number | `#`, its decimal text, `;` |
//! | string, `char` | `"`, LEN, the characters |
//! | array, sequence, tuple, tuple struct | `[`, the items, `]` |
//! | object, map, struct | `{`, its entries in ascending order of their bytes, `}`; an entry is the encoded name and the encoded value |
//! | byte string (typed only) | `b`, LEN, the bytes |
//! | `None` (typed only) | `o` |
//! | `Some(x)` (typed only) | as x, but `S` and x where x starts with `o` or `S` |
//! | variant without content (typed only) | `v`, LEN, its name |
//! | variant with content (typed only) | `V`, LEN, its name, then the content: a value, a `[..]` or a `{..}` |
//! | JSON text inside a typed value that has no canonical form (typed only) | `r`, LEN, the text |
//!
//! The decimal text of a number is `0`, or `-` where it is negative, its digits as an integer without leading or
//! trailing zeros, and `e` with the decimal exponent of the last digit unless that is 0: 1, 1.0 and 10e-1 are `1`,
//! 1500 is `15e2`, -0.25 is `-25e-2`. No digit is ever rounded away. Floats (typed only) are the shortest decimal
//! that reads back as the same float; -0.0 is `0`, the others are `nan`, `inf` and `-inf`.
//!
//! Every form says where it ends, so that no two values share one encoding.
//!
//! ## JSON
//!
//! Syntax is that of RFC 8259; RFC 8785 gave the idea, but neither its number format (which rounds to doubles) nor
//! its order of names is used. Strings are compared after their escapes are resolved and without Unicode
//! normalisation. A document is taken as raw bytes instead if it is not valid JSON or UTF-8 (a byte order mark is
//! not), has a lone surrogate, two members of one name in an object, more than 128 levels of nesting, or a
//! non-zero number whose exponent has more than 18 digits.
//!
//! ## Typed values
//!
//! What the `Serialize` implementation says is what counts, told it writes for people (`is_human_readable`).
//! - Integers of every width are alike, and alike to floats that are integers below 2^53.
//! - A struct equals a map with its field names as keys, in whatever order. So `#[serde(flatten)]` changes nothing.
//! - A struct field that is `None` is absent: a new optional field leaves old fingerprints as they were. A map
//!   keeps its `None` entries, unless it does not state its length: that is how flattened structs are written.
//!   `Some(None)` is not `None`.
//! - Newtype structs are their content. A variant is not a string of the same name, bytes (`serialize_bytes`) are
//!   not a sequence of small integers.
//! - A map's iteration order never matters. A *set* is written as a sequence, which has an order: take a
//!   `BTreeSet`, since a `HashSet` comes in another order each time it is built.
//! - `serde_json`'s features do not matter: its numbers of arbitrary precision count as numbers, its raw values as
//!   the JSON they hold.
//! - More than 128 levels of nesting are an error.

mod canonical;
mod error;
mod hasher;
mod json;
mod memo;
mod number;
mod secrets;
mod value;

use std::fmt;
use std::hint::black_box;

pub use error::FingerprintError;
pub use hasher::Hasher;
pub use json::{of_json, of_raw};
pub use memo::JsonMemo;
pub use secrets::{SecretError, Secrets};
pub use value::of_value;

/// The version of the scheme that this release writes.
const VERSION: u8 = 1;

/// SHA-256 of what was asked for, before any secret is applied.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the 32 bytes.
    ///
    /// Without a secret a payload that is easy to guess can be found from them: keep them out of logs.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Shows the first four bytes: enough to tell two apart, not enough to guess a payload with certainty.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({}..)", Short(&self.0))
    }
}

struct Short<'a>(&'a [u8; 32]);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}..")
    }
}

/// What a record stores of the request it was made by: version, secret and digest.
///
/// There is no `==`: whether two of them stand for the same request can be unknown, see [`Fingerprints::compare`].
#[derive(Clone, Copy)]
pub struct Fingerprint {
    version: u8,
    secret: u32,
    digest: [u8; 32],
}

impl Fingerprint {
    /// The length of the durable form in bytes.
    pub const ENCODED_LEN: usize = 37;

    /// No fingerprint at all (`fingerprint = none`): equal to anything.
    pub const NONE: Self = Self { version: 0, secret: 0, digest: [0; 32] };

    pub(crate) fn unkeyed(digest: Digest) -> Self {
        Self { version: VERSION, secret: 0, digest: digest.0 }
    }

    pub(crate) fn keyed(secret: u32, digest: [u8; 32]) -> Self {
        Self { version: VERSION, secret, digest }
    }

    /// Returns the durable form: version, secret id (big endian) and digest.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        bytes[0] = self.version;
        bytes[1..5].copy_from_slice(&self.secret.to_be_bytes());
        bytes[5..].copy_from_slice(&self.digest);
        bytes
    }

    /// Reads the durable form, of this or any later version.
    ///
    /// `None` if the length is wrong, or if version 0 is followed by anything but zeros: a damaged record must not
    /// become one that is equal to anything.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (secret, digest) = rest.split_first_chunk::<4>()?;
        let digest: [u8; 32] = digest.try_into().ok()?;
        let sound = version != 0 || rest.iter().all(|byte| *byte == 0);
        sound.then_some(Self { version, secret: u32::from_be_bytes(*secret), digest })
    }

    /// Returns the version of the scheme; 0 is [`Fingerprint::NONE`].
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Returns the id of the secret that the digest is sealed with; 0 is none.
    pub fn secret_id(&self) -> u32 {
        self.secret
    }

    fn is_none(&self) -> bool {
        self.version == 0
    }

    fn made_like(&self, other: &Self) -> bool {
        self.version == other.version && self.secret == other.secret
    }
}

/// Shows version, secret id and the first four bytes of the digest.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprint")
            .field("version", &self.version)
            .field("secret", &self.secret)
            .field("digest", &Short(&self.digest))
            .finish()
    }
}

/// How a stored fingerprint compares with those that a claim brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same request, or one of the two has no fingerprint.
    Same,
    /// Another request under the same key.
    Different,
    /// The record was made with a version or a secret that is no longer (or not yet) in use here.
    Incomparable,
}

/// The fingerprint of one request in every version and secret still in use.
///
/// The first is the one to store; the others recognise records that were stored before the latest deploy. One or
/// two need no heap.
#[derive(Clone, Debug)]
pub struct Fingerprints {
    current: Fingerprint,
    second: Option<Fingerprint>,
    more: Vec<Fingerprint>,
}

impl Fingerprints {
    /// No fingerprint: whatever the record holds, the request is taken for the same.
    pub fn none() -> Self {
        Self::new(Fingerprint::NONE)
    }

    /// Starts with the one to store.
    pub fn new(current: Fingerprint) -> Self {
        Self { current, second: None, more: Vec::new() }
    }

    /// Adds one that is still recognised.
    ///
    /// Left out if its version and secret are there already, or if it is [`Fingerprint::NONE`], which would make
    /// every request the same.
    #[must_use]
    pub fn with(mut self, other: Fingerprint) -> Self {
        if other.is_none() || self.iter().any(|known| known.made_like(&other)) {
            return self;
        }
        if self.second.is_none() {
            self.second = Some(other);
        } else {
            self.more.push(other);
        }
        self
    }

    /// Returns the one to store.
    pub fn current(&self) -> &Fingerprint {
        &self.current
    }

    /// Iterates over all of them, the one to store first.
    pub fn iter(&self) -> impl Iterator<Item = &Fingerprint> {
        std::iter::once(&self.current).chain(&self.second).chain(&self.more)
    }

    /// Compares the request with what a record holds.
    ///
    /// The one made like the record's (version and secret) decides, in constant time. Without a fingerprint on
    /// either side everything is the same.
    pub fn compare(&self, stored: &Fingerprint) -> Comparison {
        if stored.is_none() || self.current.is_none() {
            return Comparison::Same;
        }
        match self.iter().find(|known| known.made_like(stored)) {
            None => Comparison::Incomparable,
            Some(known) if same_bytes(&known.digest, &stored.digest) => Comparison::Same,
            Some(_) => Comparison::Different,
        }
    }
}

/// Takes equally long wherever the first difference is.
fn same_bytes(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
    black_box(difference) == 0
}

#[cfg(test)]
mod tests;
