//! Sequences, maps and structs: what a serializer opens, fills and closes.

use serde::ser::{self, Serialize};

use super::super::canonical::{Canonical, Object};
use super::super::error::Reason;
use super::super::json::write_document;
use super::super::number;
use super::{Failure, Serializer, Written, intact, write};

/// An open sequence.
pub(super) struct Items<'a> {
    to: &'a mut Canonical,
    depth: usize,
}

impl<'a> Items<'a> {
    pub(super) fn open(inside: Serializer<'a>) -> Result<Self, Failure> {
        let Serializer { to, depth } = inside.deeper()?;
        to.tag(b'[');
        Ok(Self { to, depth })
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        write(self.to, self.depth, value)?;
        self.to.flush();
        Ok(())
    }

    fn close(self) -> Written {
        intact(self.to)?;
        self.to.tag(b']');
        Ok(())
    }
}

/// An open map or struct.
pub(super) struct Members<'a> {
    to: &'a mut Canonical,
    depth: usize,
    object: Object,
    none_is_absent: bool,
    /// The name of an entry is written, its value is not.
    named: bool,
}

impl<'a> Members<'a> {
    pub(super) fn open(inside: Serializer<'a>, none_is_absent: bool) -> Result<Self, Failure> {
        let Serializer { to, depth } = inside.deeper()?;
        let object = to.begin_object();
        Ok(Self { to, depth, object, none_is_absent, named: false })
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Written {
        intact(self.to)?;
        self.to.begin_entry();
        self.to.bytes(b'"', name.as_bytes());
        self.to.end_name();
        self.value(value)
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        write(self.to, self.depth, value)?;
        self.to.end_entry();
        if self.none_is_absent {
            self.to.drop_none();
        }
        Ok(())
    }

    /// Keeps names and values in turn, whatever a `Serialize` implementation does.
    fn turn(&mut self, named: bool) -> Written {
        intact(self.to)?;
        if self.named != named {
            self.to.broken = Some(Reason::Refused);
            return Err(Failure(Reason::Refused));
        }
        self.named = !named;
        Ok(())
    }

    fn close(self) -> Written {
        intact(self.to)?;
        // Two entries of one name count both, in the order of their values.
        self.to.end_object(self.object);
        Ok(())
    }
}

/// An open struct, or what `serde_json` dresses up as one.
pub(super) enum Struct<'a> {
    Fields(Members<'a>),
    Json { to: &'a mut Canonical, depth: usize, read: ReadJson },
}

/// Writes a text as JSON; `false` if it has no canonical form.
pub(super) type ReadJson = fn(&mut Canonical, &[u8], usize) -> bool;

pub(super) fn json_number(to: &mut Canonical, text: &[u8], _: usize) -> bool {
    number::text_of_number(to.out(), text)
}

pub(super) fn json_text(to: &mut Canonical, text: &[u8], depth: usize) -> bool {
    write_document(to, text, depth).is_some()
}

/// Takes a text that was written as a string and writes it as the JSON that it is.
fn write_json<T: Serialize + ?Sized>(to: &mut Canonical, depth: usize, read: ReadJson, value: &T) -> Written {
    to.pin();
    let start = to.mark();
    write(to, depth, value)?;
    let written = to.take_since(start.position());
    let text = string_content(&written).ok_or(Failure(Reason::Refused))?;
    if !read(to, text, depth) {
        to.rewind(&start);
        to.bytes(b'r', text);
    }
    to.unpin();
    Ok(())
}

/// The characters of an encoded string.
fn string_content(encoded: &[u8]) -> Option<&[u8]> {
    let rest = encoded.strip_prefix(b"\"")?;
    let len = rest.iter().take_while(|byte| **byte >= 0x80).count();
    rest.get(len + 1..)
}

macro_rules! items {
    ($($kind:ident $method:ident),*) => {$(
        impl ser::$kind for Items<'_> {
            type Ok = ();
            type Error = Failure;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
                self.item(value)
            }

            fn end(self) -> Written {
                self.close()
            }
        }
    )*};
}

items!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        self.turn(false)?;
        self.to.begin_entry();
        write(self.to, self.depth, key)?;
        self.to.end_name();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.turn(true)?;
        self.value(value)
    }

    fn end(self) -> Written {
        if self.named {
            return Err(Failure(Reason::Refused));
        }
        self.close()
    }
}

impl ser::SerializeStruct for Struct<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
        match self {
            Self::Fields(members) => members.field(name, value),
            Self::Json { to, depth, read } => write_json(to, *depth, *read, value),
        }
    }

    fn end(self) -> Written {
        match self {
            Self::Fields(members) => members.close(),
            Self::Json { .. } => Ok(()),
        }
    }
}

impl ser::SerializeStructVariant for Members<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
        self.field(name, value)
    }

    fn end(self) -> Written {
        self.close()
    }
}
