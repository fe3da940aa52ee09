//! Idempotency keys and scopes: what a caller names its request by.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

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

/// Says who is asking: a tenant, an account or a user. Records of two scopes never meet.
///
/// Use a stable identity, never a token: a token rotated between two attempts would run the work twice.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(Option<Vec<u8>>);

impl Scope {
    /// One scope for all callers: right for message ids, a leak for keys that strangers choose.
    pub const SHARED: Self = Self(None);

    /// Takes a scope from any value that can name a caller.
    ///
    /// # Errors
    ///
    /// As [`Key::new`]: an absent or blank scope is refused, since it would put strangers together.
    pub fn new<K: ToKey + ?Sized>(value: &K) -> Result<Self, KeyError> {
        Key::new(value).map(|key| Self(Some(key.encoded)))
    }

    pub(crate) fn encoded(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Scope(…)" } else { "Scope(shared)" })
    }
}

/// The first characters of a key, kept beside the record for people who look for it.
///
/// At most 8 characters and never more than half of the key, so that a short key is not given away; control
/// characters are shown as `?`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KeyHint {
    len: u8,
    bytes: [u8; 32],
}

impl KeyHint {
    /// The most characters that a hint shows.
    pub const MAX_CHARS: usize = 8;

    fn of(text: &str) -> Self {
        let shown = (text.chars().count() / 2).min(Self::MAX_CHARS);
        let mut hint = Self::default();
        for c in text.chars().take(shown) {
            hint.push(if c.is_control() { '?' } else { c });
        }
        hint
    }

    /// Reads a hint back from where a store kept it; what is too long is cut.
    pub fn from_stored(text: &str) -> Self {
        let mut hint = Self::default();
        for c in text.chars().take(Self::MAX_CHARS) {
            hint.push(c);
        }
        hint
    }

    fn push(&mut self, c: char) {
        let at = usize::from(self.len);
        let written = c.encode_utf8(&mut self.bytes[at..]).len();
        self.len += written as u8;
    }

    /// The hint as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Display for KeyHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// A value that can serve as an idempotency key or a scope.
///
/// Text, bytes, integers, `Uuid` (feature `uuid`), references and smart pointers to those, `Option` and `Result` of
/// those (absent or failed is an error, never an empty key), and tuples. An integer and its decimal text are the same
/// key, so that changing a field's type does not orphan live records; the parts of a tuple are length-prefixed, so that
/// `("a:b", "c")` and `("a", "b:c")` differ.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an idempotency key or scope",
    label = "not a key",
    note = "use text, bytes, an integer, a `Uuid` (feature `uuid`), an `Option` or `Result` of those, or a tuple of them"
)]
pub trait ToKey {
    /// Writes the parts of the key.
    ///
    /// # Errors
    ///
    /// When the value is absent, unreadable, blank or too long.
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError>;
}

/// Collects the parts of a key; made by idem, used by implementations of [`ToKey`].
#[derive(Default)]
pub struct KeyWriter {
    encoded: Vec<u8>,
    leaves: usize,
    hint: KeyHint,
}

impl KeyWriter {
    /// Writes one part as text.
    ///
    /// # Errors
    ///
    /// When it is empty, blank or longer than [`Key::MAX_PART_LEN`] bytes.
    pub fn text(&mut self, text: &str) -> Result<(), KeyError> {
        if text.trim().is_empty() {
            return Err(KeyError::Blank);
        }
        self.leaf(text.as_bytes())?;
        if self.leaves == 1 {
            self.hint = KeyHint::of(text);
        }
        Ok(())
    }

    /// Writes one part as bytes; bytes that are text are the same part as that text.
    ///
    /// # Errors
    ///
    /// As [`KeyWriter::text`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), KeyError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(text),
            Err(_) => self.leaf(bytes),
        }
    }

    /// Announces that the next `parts` parts belong together.
    pub fn tuple(&mut self, parts: u8) {
        self.encoded.extend([b'T', parts]);
    }

    fn leaf(&mut self, bytes: &[u8]) -> Result<(), KeyError> {
        let len = u8::try_from(bytes.len()).map_err(|_| KeyError::TooLong { len: bytes.len() })?;
        self.encoded.reserve(bytes.len() + 2);
        self.encoded.extend([b'S', len]);
        self.encoded.extend_from_slice(bytes);
        self.leaves += 1;
        Ok(())
    }
}

impl fmt::Debug for KeyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyWriter").field("leaves", &self.leaves).finish_non_exhaustive()
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
    /// A part of the key is longer than [`Key::MAX_PART_LEN`] bytes.
    TooLong {
        /// Its length in bytes.
        len: usize,
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
            Self::TooLong { len } => {
                write!(f, "it has {len} bytes, at most {} are allowed", Key::MAX_PART_LEN)
            }
            Self::Malformed(expected) => write!(f, "expected {expected}"),
        }
    }
}

impl std::error::Error for KeyError {}

impl ToKey for str {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.text(self)
    }
}

impl ToKey for String {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.text(self)
    }
}

impl ToKey for char {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.text(self.encode_utf8(&mut [0; 4]))
    }
}

impl ToKey for [u8] {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.bytes(self)
    }
}

impl<const N: usize> ToKey for [u8; N] {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.bytes(self)
    }
}

impl ToKey for Vec<u8> {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.bytes(self)
    }
}

impl ToKey for bytes::Bytes {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.bytes(self)
    }
}

#[cfg(feature = "uuid")]
impl ToKey for uuid::Uuid {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        writer.text(self.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl ToKey for $ty {
            fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
                writer.text(&self.to_string())
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);
integers!(std::num::NonZeroU32 std::num::NonZeroU64 std::num::NonZeroI32 std::num::NonZeroI64);

macro_rules! pointers {
    ($($ty:ty)*) => {$(
        impl<T: ToKey + ?Sized> ToKey for $ty {
            fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
                (**self).write_key(writer)
            }
        }
    )*};
}
pointers!(&T &mut T Box<T> Rc<T> Arc<T>);

impl<T: ToKey + ToOwned + ?Sized> ToKey for Cow<'_, T> {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        (**self).write_key(writer)
    }
}

impl<T: ToKey> ToKey for Option<T> {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        self.as_ref().ok_or(KeyError::Missing)?.write_key(writer)
    }
}

impl<T: ToKey, E> ToKey for Result<T, E> {
    fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
        self.as_ref().map_err(|_| KeyError::Unreadable)?.write_key(writer)
    }
}

macro_rules! tuples {
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<$($name: ToKey),*> ToKey for ($($name,)*) {
            #[allow(non_snake_case)]
            fn write_key(&self, writer: &mut KeyWriter) -> Result<(), KeyError> {
                let ($($name,)*) = self;
                writer.tuple($count);
                $($name.write_key(writer)?;)*
                Ok(())
            }
        }
    )*};
}
tuples! {
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
}

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
        assert_eq!(Key::new(&"k".repeat(256)), Err(KeyError::TooLong { len: 256 }));
        assert!(Key::new(&"k".repeat(255)).is_ok());
        assert!(Scope::new("").is_err());
    }

    #[test]
    fn a_hint_shows_at_most_eight_characters_and_half_of_the_key() {
        assert_eq!(Key::new("0123456789abcdef0123").unwrap().hint().as_str(), "01234567");
        assert_eq!(Key::new("secret").unwrap().hint().as_str(), "sec");
        assert_eq!(Key::new("x").unwrap().hint().as_str(), "");
        assert_eq!(Key::new("ééééééééééééééééé").unwrap().hint().as_str(), "éééééééé");
        assert_eq!(format!("{:?}", Key::new("a-very-secret-key").unwrap()), "Key(a-very-s…)");
        assert_eq!(format!("{:?}", Scope::new("tenant").unwrap()), "Scope(…)");
    }
}
