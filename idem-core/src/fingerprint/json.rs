//! Reads JSON and hashes what it means.

use sha2::Digest as _;

use super::Digest;
use super::canonical::{Canonical, finish, hash_of_kind};
use super::number;

/// How deep arrays and objects may be nested before a document is taken as raw bytes.
pub(super) const MAX_DEPTH: usize = 128;

/// Takes the digest of a JSON document by its meaning.
///
/// Member order, white space, escapes and the spelling of numbers do not matter; everything else does. What is
/// not JSON, or means different things to different readers (two members of one name), is taken as it is written,
/// like [`of_raw`].
pub fn of_json(body: &[u8]) -> Digest {
    of_canonical_json(body).unwrap_or_else(|| of_raw(body))
}

/// Takes the digest of bytes as they are.
pub fn of_raw(body: &[u8]) -> Digest {
    let mut sha = hash_of_kind(b'r');
    sha.update(body);
    finish(sha)
}

fn of_canonical_json(body: &[u8]) -> Option<Digest> {
    let mut canonical = Canonical::new(b'j', body.len().min(64 * 1024) + 16);
    write_document(&mut canonical, body, 0)?;
    Some(canonical.finish())
}

/// Writes a whole document that stands `depth` levels deep; `None` if it has no canonical form.
pub(super) fn write_document(to: &mut Canonical, text: &[u8], depth: usize) -> Option<()> {
    // Once for all, so that strings are copied unseen: this runs at many bytes a cycle.
    str::from_utf8(text).ok()?;
    let mut reader = Reader { text, at: 0, to };
    reader.value(depth)?;
    reader.skip_space();
    (reader.at == text.len()).then_some(())
}

struct Reader<'a, 'c> {
    text: &'a [u8],
    at: usize,
    to: &'c mut Canonical,
}

impl Reader<'_, '_> {
    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// The next byte that is not white space, taken.
    #[inline]
    fn next_token(&mut self) -> Option<u8> {
        self.skip_space();
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.next_token()? {
            b'"' => self.string(),
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b'-' | b'0'..=b'9' => {
                self.at -= 1;
                let (number, used) = number::read(&self.text[self.at..])?;
                number.write(self.to.out());
                self.at += used;
                Some(())
            }
            b't' => self.word(b"rue", b't'),
            b'f' => self.word(b"alse", b'f'),
            b'n' => self.word(b"ull", b'n'),
            _ => None,
        }
    }

    fn word(&mut self, rest: &[u8], tag: u8) -> Option<()> {
        let found = self.text[self.at..].starts_with(rest);
        self.at += rest.len();
        self.to.tag(tag);
        found.then_some(())
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.to.tag(b'[');
        self.skip_space();
        if self.text.get(self.at) == Some(&b']') {
            self.at += 1;
        } else {
            loop {
                self.value(depth)?;
                self.to.flush();
                match self.next_token()? {
                    b',' => {}
                    b']' => break,
                    _ => return None,
                }
            }
        }
        self.to.tag(b']');
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let object = self.to.begin_object();
        self.skip_space();
        if self.text.get(self.at) == Some(&b'}') {
            self.at += 1;
        } else {
            loop {
                if self.next_token()? != b'"' {
                    return None;
                }
                self.to.begin_entry();
                self.string()?;
                self.to.end_name();
                if self.next_token()? != b':' {
                    return None;
                }
                self.value(depth)?;
                self.to.end_entry();
                match self.next_token()? {
                    b',' => {}
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        self.to.end_object(object).then_some(())
    }

    /// Reads a string whose opening quote is taken.
    #[inline]
    fn string(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let plain = plain_len(rest);
        if rest.get(plain) == Some(&b'"') {
            self.to.bytes(b'"', &rest[..plain]);
            self.at += plain + 1;
            return Some(());
        }
        let text = self.text;
        let at = &mut self.at;
        self.to.measured(b'"', |out| unescape(text, at, out).ok_or(())).ok()
    }
}

/// How many bytes come before the next quote, backslash or control character.
#[inline]
fn plain_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| !matches!(**byte, b'"' | b'\\' | 0..=0x1f)).count()
}

/// Appends the characters of a string with escapes, up to and over its closing quote.
fn unescape(text: &[u8], at: &mut usize, out: &mut Vec<u8>) -> Option<()> {
    loop {
        let rest = &text[*at..];
        let plain = plain_len(rest);
        out.extend_from_slice(&rest[..plain]);
        *at += plain + 1;
        match rest.get(plain)? {
            b'"' => return Some(()),
            b'\\' => {
                let escape = *text.get(*at)?;
                *at += 1;
                let byte = match escape {
                    b'"' | b'\\' | b'/' => escape,
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'u' => {
                        let char = escaped_char(text, at)?;
                        out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                        continue;
                    }
                    _ => return None,
                };
                out.push(byte);
            }
            _ => return None,
        }
    }
}

/// Reads what follows `\u`: four hex digits, or a pair of surrogates.
fn escaped_char(text: &[u8], at: &mut usize) -> Option<char> {
    let first = hex4(text, at)?;
    if !(0xd800..0xdc00).contains(&first) {
        // A low surrogate alone is not a character.
        return char::from_u32(first);
    }
    if text.get(*at..*at + 2)? != b"\\u" {
        return None;
    }
    *at += 2;
    let second = hex4(text, at)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn hex4(text: &[u8], at: &mut usize) -> Option<u32> {
    let digits = text.get(*at..*at + 4)?;
    *at += 4;
    digits.iter().try_fold(0, |sum, digit| Some(sum << 4 | char::from(*digit).to_digit(16)?))
}
