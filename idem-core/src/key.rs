//! Idempotency keys and scopes: what a caller names its request by.

mod hint;
mod parts;
mod scope;

use std::fmt;

pub use hint::KeyHint;
pub use parts::{KeyWriter, ToKey};
pub use scope::Scope;

/// Names one request of one caller; sent again, it means "the same request".
///
/// Keys are compared byte for byte: case and trailing blanks count. `Debug` shows the [hint](Key::hint) only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    encoded: Vec<u8>,
    hint: KeyHint,
}

impl Key {
    /// The longest part of a key, in bytes.
    pub const MAX_PART_LEN: usize = 255;

    /// Takes a key from any value that can name a request.
    ///
    /// # Errors
    ///
    /// When the value is absent (`None`), could not be read (`Err`), is empty or blank, or has a part longer than
    /// [`Key::MAX_PART_LEN`] bytes. Nothing is claimed.
    pub fn new<K: ToKey + ?Sized>(value: &K) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::default();
        value.write_key(&mut writer)?;
        if writer.leaves == 0 {
            return Err(KeyError::Blank);
        }
        Ok(Self { encoded: writer.encoded, hint: writer.hint })
    }

    /// The key of a request that brought none: its fingerprint.
    pub(crate) fn derived(digest: &crate::fingerprint::Digest) -> Result<Self, KeyError> {
        Self::new(&("derived", digest.as_bytes()))
    }

    /// The first characters of the key, for people: at most 8, and never more than half of it.
    pub fn hint(&self) -> &KeyHint {
        &self.hint
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}…)", self.hint)
    }
}

/// Why a value is no idempotency key. Never holds the value itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no key (`None`, or no header).
    Missing,
    /// The value holding the key could not be read (`Err`).
    Unreadable,
    /// The key is empty or only white space.
    Blank,
    /// A part of the key is longer than it may be.
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// How long it may be in bytes: [`Key::MAX_PART_LEN`], or less where that was asked for.
        at_most: usize,
    },
    /// The text is not what the protocol allows there; says what was expected.
    Malformed(&'static str),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is none"),
            Self::Unreadable => f.write_str("the value that holds it could not be read"),
            Self::Blank => f.write_str("it is empty or blank"),
            Self::TooLong { len, at_most } => {
                write!(f, "it has {len} bytes, at most {at_most} are allowed")
            }
            Self::Malformed(expected) => write!(f, "expected {expected}"),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_length_prefixed_so_a_delimiter_cannot_be_forged() {
        assert_ne!(Key::new(&("a:b", "c")).unwrap(), Key::new(&("a", "b:c")).unwrap());
        assert_ne!(Key::new(&("ab", "c")).unwrap(), Key::new(&("a", "bc")).unwrap());
        assert_ne!(Key::new(&(("a", "b"), "c")).unwrap(), Key::new(&("a", ("b", "c"))).unwrap());
        assert_ne!(Key::new("a").unwrap(), Key::new(&("a",)).unwrap());
    }

    #[test]
    fn an_integer_and_its_text_are_one_key() {
        assert_eq!(Key::new(&42_u64).unwrap(), Key::new("42").unwrap());
        assert_eq!(Key::new(&b"42"[..]).unwrap(), Key::new(&String::from("42")).unwrap());
    }

    #[test]
    fn case_and_trailing_blanks_count() {
        assert_ne!(Key::new("abc").unwrap(), Key::new("ABC").unwrap());
        assert_ne!(Key::new("abc").unwrap(), Key::new("abc ").unwrap());
    }

    #[test]
    fn an_absent_unreadable_blank_or_long_key_is_an_error_not_an_empty_key() {
        assert_eq!(Key::new(&None::<String>), Err(KeyError::Missing));
        assert_eq!(Key::new(&Err::<u8, ()>(())), Err(KeyError::Unreadable));
        assert_eq!(Key::new(""), Err(KeyError::Blank));
        assert_eq!(Key::new(" \t\n"), Err(KeyError::Blank));
        assert_eq!(Key::new(&("tenant", None::<&str>)), Err(KeyError::Missing));
        assert_eq!(Key::new(&"k".repeat(256)), Err(KeyError::TooLong { len: 256, at_most: 255 }));
        assert!(Key::new(&"k".repeat(255)).is_ok());
        assert!(Scope::new("").is_err());
    }

    #[test]
    fn a_hint_shows_at_most_eight_characters_and_half_of_the_key() {
        assert_eq!(Key::new("0123456789abcdef0123").unwrap().hint().as_str(), "01234567");
        assert_eq!(Key::new("secret").unwrap().hint().as_str(), "sec");
        assert_eq!(Key::new("x").unwrap().hint().as_str(), "");
        assert_eq!(Key::new("a\n\u{202e}\u{2028}\u{2066}bcdefghijkl").unwrap().hint().as_str(), "a????bcd");
        assert_eq!(Key::new("ééééééééééééééééé").unwrap().hint().as_str(), "éééééééé");
        assert_eq!(format!("{:?}", Key::new("a-very-secret-key").unwrap()), "Key(a-very-s…)");
        assert_eq!(format!("{:?}", Scope::new("tenant").unwrap()), "Scope(…)");
    }
}
