//! Hints: what people may see of a key.

use std::fmt;

/// The first characters of a key, kept beside the record for people who look for it.
///
/// At most 8 characters and never more than half of the key, so that a short key is not given away; control
/// characters, line separators and those that turn the direction of text around are shown as `?`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KeyHint {
    len: u8,
    bytes: [u8; 32],
}

impl KeyHint {
    /// The most characters that a hint shows.
    pub const MAX_CHARS: usize = 8;

    pub(super) fn of(text: &str) -> Self {
        let shown = (text.chars().count() / 2).min(Self::MAX_CHARS);
        let mut hint = Self::default();
        for c in text.chars().take(shown) {
            hint.push(if c.is_control() || reorders_text(c) { '?' } else { c });
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

/// Line separators and the marks that turn the direction of text around: a stranger's key must not rewrite the log line
/// that shows its hint.
fn reorders_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
