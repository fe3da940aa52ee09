//! Joins the parts of a request to one digest.

use std::fmt;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::canonical::{finish, hash_of_kind, length};
use super::{Digest, FingerprintError, of_value};

/// Streams labelled parts into one [`Digest`].
///
/// Every part carries its kind and its lengths, so no choice of contents makes two lists of parts look alike:
/// (`a:b`, `c`) and (`a`, `b:c`) differ. Order counts.
///
/// ```
/// use idem_core::fingerprint::{Hasher, of_json};
///
/// let mut hasher = Hasher::new("payments.create");
/// hasher.bytes("path", b"/charges");
/// hasher.digest("body", of_json(br#"{"amount": 500000}"#));
/// let digest = hasher.finish();
///
/// let mut again = Hasher::new("payments.create");
/// again.bytes("path", b"/charges");
/// again.digest("body", of_json(br#"{ "amount":5e5 }"#));
/// assert_eq!(again.finish(), digest);
/// ```
#[derive(Clone)]
pub struct Hasher {
    sha: Sha256,
}

impl Hasher {
    /// Starts with the operation, so that one payload has another fingerprint in every operation.
    pub fn new(operation: &str) -> Self {
        let mut hasher = Self { sha: hash_of_kind(b'p') };
        hasher.part(b'o', "", operation.as_bytes());
        hasher
    }

    /// Adds bytes that count as they are.
    pub fn bytes(&mut self, label: &str, bytes: &[u8]) {
        self.part(b'b', label, bytes);
    }

    /// Adds what already has a digest.
    pub fn digest(&mut self, label: &str, digest: Digest) {
        self.part(b'd', label, &digest.0);
    }

    /// Adds a value by its `Serialize` implementation; see [`of_value`].
    ///
    /// # Errors
    ///
    /// When the value is nested too deeply or its `Serialize` implementation fails; nothing is added then.
    pub fn value<T: Serialize + ?Sized>(&mut self, label: &str, value: &T) -> Result<(), FingerprintError> {
        let digest = of_value(value).map_err(|error| error.at(label))?;
        self.part(b'v', label, &digest.0);
        Ok(())
    }

    /// Returns the digest of all parts.
    pub fn finish(self) -> Digest {
        finish(self.sha)
    }

    fn part(&mut self, kind: u8, label: &str, content: &[u8]) {
        self.sha.update([kind]);
        for bytes in [label.as_bytes(), content] {
            let (len, used) = length(bytes.len());
            self.sha.update(&len[..used]);
            self.sha.update(bytes);
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}
