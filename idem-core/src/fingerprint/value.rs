//! Reads typed values through `Serialize` and hashes what they hold.

mod compound;

use std::any::type_name;
use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize};

use super::canonical::Canonical;
use super::error::Reason;
use super::json::MAX_DEPTH;
use super::{Digest, FingerprintError, number};
use compound::{Items, Members, Struct, json_number, json_text};

/// The names under which `serde_json` passes what serde's data model has no word for.
const JSON_NUMBER: &str = "$serde_json::private::Number";
const JSON_TEXT: &str = "$serde_json::private::RawValue";

/// Takes the digest of a value by its `Serialize` implementation.
///
/// Streams: nothing is kept but what a map or struct still has to put in order. What counts and what does not is
/// listed at the [module](super#typed-values).
///
/// # Errors
///
/// When the value is nested more than 128 levels deep, or when its `Serialize` implementation fails.
pub fn of_value<T: Serialize + ?Sized>(value: &T) -> Result<Digest, FingerprintError> {
    let mut canonical = Canonical::new(b'v', 256);
    match value.serialize(Serializer { to: &mut canonical, depth: 0 }) {
        Ok(()) => Ok(canonical.finish()),
        Err(Failure(reason)) => Err(FingerprintError::new(type_name::<T>(), reason)),
    }
}

/// Writes a value inside another.
///
/// After an error the buffer is in no order, and a `Serialize` implementation could go on regardless. It gets no
/// further: the error stays.
fn write<T: Serialize + ?Sized>(to: &mut Canonical, depth: usize, value: &T) -> Written {
    intact(to)?;
    let written = value.serialize(Serializer { to, depth });
    if let Err(Failure(reason)) = written {
        to.broken = Some(reason);
    }
    written
}

fn intact(to: &Canonical) -> Written {
    to.broken.map_or(Ok(()), |reason| Err(Failure(reason)))
}

/// Why serialising stopped; what a `Serialize` implementation says about it may quote the value and is dropped.
#[derive(Debug)]
struct Failure(Reason);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value cannot be fingerprinted")
    }
}

impl std::error::Error for Failure {}

impl ser::Error for Failure {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(Reason::Refused)
    }
}

type Written = Result<(), Failure>;

struct Serializer<'a> {
    to: &'a mut Canonical,
    depth: usize,
}

impl Serializer<'_> {
    /// One level further down.
    fn deeper(self) -> Result<Self, Failure> {
        if self.depth == MAX_DEPTH {
            return Err(Failure(Reason::TooDeep));
        }
        Ok(Self { to: self.to, depth: self.depth + 1 })
    }
}

impl<'a> ser::Serializer for Serializer<'a> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Struct<'a>;
    type SerializeStructVariant = Members<'a>;

    fn is_human_readable(&self) -> bool {
        true
    }

    fn serialize_bool(self, v: bool) -> Written {
        self.to.bool(v);
        Ok(())
    }

    fn serialize_i8(self, v: i8) -> Written {
        self.serialize_i64(v.into())
    }

    fn serialize_i16(self, v: i16) -> Written {
        self.serialize_i64(v.into())
    }

    fn serialize_i32(self, v: i32) -> Written {
        self.serialize_i64(v.into())
    }

    fn serialize_i64(self, v: i64) -> Written {
        number::signed(self.to.out(), v);
        Ok(())
    }

    fn serialize_i128(self, v: i128) -> Written {
        number::wide(self.to.out(), v < 0, v.unsigned_abs());
        Ok(())
    }

    fn serialize_u8(self, v: u8) -> Written {
        self.serialize_u64(v.into())
    }

    fn serialize_u16(self, v: u16) -> Written {
        self.serialize_u64(v.into())
    }

    fn serialize_u32(self, v: u32) -> Written {
        self.serialize_u64(v.into())
    }

    fn serialize_u64(self, v: u64) -> Written {
        number::unsigned(self.to.out(), v);
        Ok(())
    }

    fn serialize_u128(self, v: u128) -> Written {
        number::wide(self.to.out(), false, v);
        Ok(())
    }

    fn serialize_f32(self, v: f32) -> Written {
        number::f32(self.to.out(), v);
        Ok(())
    }

    fn serialize_f64(self, v: f64) -> Written {
        number::f64(self.to.out(), v);
        Ok(())
    }

    fn serialize_char(self, v: char) -> Written {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Written {
        self.to.bytes(b'"', v.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, v: &[u8]) -> Written {
        self.to.bytes(b'b', v);
        Ok(())
    }

    fn serialize_none(self) -> Written {
        self.to.tag(b'o');
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        let Self { to, depth } = self.deeper()?;
        to.pin();
        let start = to.position();
        write(to, depth, value)?;
        // Some is its content, except that `Some(None)` must not become `None`.
        if let Some(b'o' | b'S') = to.written_since(start).first() {
            to.insert(start, b'S');
        }
        to.unpin();
        Ok(())
    }

    fn serialize_unit(self) -> Written {
        self.to.tag(b'n');
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.to.bytes(b'v', variant.as_bytes());
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Written {
        let Self { to, depth } = self.deeper()?;
        write(to, depth, value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        let Self { to, depth } = self.deeper()?;
        to.bytes(b'V', variant.as_bytes());
        write(to, depth, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Failure> {
        Items::open(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Failure> {
        Items::open(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Failure> {
        Items::open(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Failure> {
        self.to.bytes(b'V', variant.as_bytes());
        Items::open(self)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Members<'a>, Failure> {
        // A struct with flattened fields comes as a map that cannot say how long it is.
        Members::open(self, len.is_none())
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Struct<'a>, Failure> {
        Ok(match name {
            JSON_NUMBER => Struct::Json { to: self.to, depth: self.depth, read: json_number },
            JSON_TEXT => Struct::Json { to: self.to, depth: self.depth, read: json_text },
            _ => Struct::Fields(Members::open(self, true)?),
        })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a>, Failure> {
        self.to.bytes(b'V', variant.as_bytes());
        Members::open(self, true)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Written {
        self.to
            .measured(b'"', |out| write!(Text(out), "{value}"))
            .map_err(|fmt::Error| Failure(Reason::Refused))
    }
}

/// Lets `Display` write into the buffer.
struct Text<'a>(&'a mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.extend_from_slice(s.as_bytes());
        Ok(())
    }
}
