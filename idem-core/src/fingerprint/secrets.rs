//! Secrets that fingerprints are sealed with.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{Digest, Fingerprint, Fingerprints, VERSION};

/// The secrets that fingerprints are sealed with: one signs, the others are still recognised.
///
/// With a secret the stored fingerprint is an HMAC, so that a leaked table does not let anybody try out payloads
/// that are easy to guess. Give 32 random bytes; text works too.
///
/// To rotate: first deploy the new secret as one that is recognised (`Secrets::new(1, old)?.also(2, new)?`), then
/// let it sign (`Secrets::new(2, new)?.also(1, old)?`), and drop the old one when the longest ttl has passed. To
/// introduce the first one, begin with `Secrets::none().also(1, new)?`, then `Secrets::new(1, new)?` with
/// [`accept_unkeyed`](Self::accept_unkeyed). With a single process the first step can be left out.
#[derive(Clone)]
pub struct Secrets {
    signs: Option<Secret>,
    recognised: Vec<Secret>,
    accept_unkeyed: bool,
}

#[derive(Clone)]
struct Secret {
    id: u32,
    /// Has taken the key in; cloning it saves half of the work of each seal.
    mac: Hmac<Sha256>,
}

impl Secret {
    fn new(id: u32, bytes: &[u8]) -> Result<Self, SecretError> {
        if id == 0 {
            return Err(SecretError(Fault::ReservedId));
        }
        if bytes.is_empty() {
            return Err(SecretError(Fault::Empty(id)));
        }
        match Hmac::new_from_slice(bytes) {
            Ok(mac) => Ok(Self { id, mac }),
            Err(_) => Err(SecretError(Fault::Unusable(id))),
        }
    }

    fn seal(&self, digest: Digest) -> Fingerprint {
        let mut mac = self.mac.clone();
        mac.update(&[VERSION]);
        mac.update(&digest.0);
        Fingerprint::keyed(self.id, mac.finalize().into_bytes().into())
    }
}

impl Secrets {
    /// No secret: the digest itself is stored.
    pub fn none() -> Self {
        Self { signs: None, recognised: Vec::new(), accept_unkeyed: false }
    }

    /// Signs with this secret. The id is stored in clear with every fingerprint.
    ///
    /// # Errors
    ///
    /// When the id is 0, which stands for no secret, or the secret is empty.
    pub fn new(id: u32, secret: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        let signs = Some(Secret::new(id, secret.as_ref())?);
        Ok(Self { signs, ..Self::none() })
    }

    /// Recognises what this secret has signed, without signing with it.
    ///
    /// # Errors
    ///
    /// When the id is 0 or already taken, or the secret is empty.
    pub fn also(mut self, id: u32, secret: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        let secret = Secret::new(id, secret.as_ref())?;
        if self.signs.iter().chain(&self.recognised).any(|known| known.id == id) {
            return Err(SecretError(Fault::Duplicate(id)));
        }
        self.recognised.push(secret);
        Ok(self)
    }

    /// Also recognises fingerprints that were stored without a secret.
    ///
    /// For the deploy that introduces one: leave it on until the longest ttl has passed.
    #[must_use]
    pub fn accept_unkeyed(mut self) -> Self {
        self.accept_unkeyed = true;
        self
    }

    /// Seals a digest with every secret in use; the one that signs comes first.
    pub fn seal(&self, digest: Digest) -> Fingerprints {
        let mut all = match &self.signs {
            Some(secret) => Fingerprints::new(secret.seal(digest)),
            None => Fingerprints::new(Fingerprint::unkeyed(digest)),
        };
        for secret in &self.recognised {
            all = all.with(secret.seal(digest));
        }
        if self.accept_unkeyed {
            all = all.with(Fingerprint::unkeyed(digest));
        }
        all
    }
}

impl Default for Secrets {
    fn default() -> Self {
        Self::none()
    }
}

/// Shows ids only.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("signs", &self.signs.as_ref().map(|secret| secret.id))
            .field("recognised", &self.recognised.iter().map(|secret| secret.id).collect::<Vec<_>>())
            .field("accept_unkeyed", &self.accept_unkeyed)
            .finish()
    }
}

/// A secret that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretError(Fault);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    ReservedId,
    Empty(u32),
    Unusable(u32),
    Duplicate(u32),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::ReservedId => f.write_str("secret id 0 stands for no secret; number secrets from 1"),
            Fault::Empty(id) => {
                write!(f, "the fingerprint secret with id {id} is empty; give 32 random bytes")
            }
            Fault::Unusable(id) => {
                write!(f, "the fingerprint secret with id {id} cannot be used as an HMAC key")
            }
            Fault::Duplicate(id) => write!(f, "two fingerprint secrets have the id {id}; give each its own"),
        }
    }
}

impl std::error::Error for SecretError {}
