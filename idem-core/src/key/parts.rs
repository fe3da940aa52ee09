//! Parts: how values of all kinds become keys.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::{Key, KeyError, KeyHint};

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
    pub(super) encoded: Vec<u8>,
    pub(super) leaves: usize,
    pub(super) hint: KeyHint,
}

impl KeyWriter {
    /// Writes one part as text.
    ///
    /// # Errors
    ///
    /// When it is empty, blank or longer than [`Key::MAX_PART_LEN`](super::Key::MAX_PART_LEN) bytes.
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
        let len = u8::try_from(bytes.len())
            .map_err(|_| KeyError::TooLong { len: bytes.len(), at_most: Key::MAX_PART_LEN })?;
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
