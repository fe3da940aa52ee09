//! The key header: which values name a request.

mod format;

use std::borrow::Cow;

use http::header::{HeaderName, HeaderValue};

use crate::key::{Key, KeyError};

use super::structured;

pub use format::Format;

/// The header that carries the key unless another is named.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Which forms of the header are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Syntax {
    /// The quoted String of RFC 9651, or the same text without quotes, which is what most clients send.
    #[default]
    Lenient,
    /// The quoted String only.
    Strict,
}

/// Where a key is read from, and what it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRules {
    /// The header. Default: `Idempotency-Key`.
    pub header: HeaderName,
    /// Which forms of the header are accepted. Default: quoted and bare.
    pub syntax: Syntax,
    /// What the text has to look like. Default: anything.
    pub format: Format,
    /// The longest key, in bytes once unquoted: at most [`Key::MAX_PART_LEN`], which is the default.
    pub max_len: usize,
}

impl Default for KeyRules {
    fn default() -> Self {
        Self {
            header: IDEMPOTENCY_KEY,
            syntax: Syntax::default(),
            format: Format::default(),
            max_len: Key::MAX_PART_LEN,
        }
    }
}

impl KeyRules {
    /// Reads the key from all the lines of its header.
    ///
    /// Quoted (`"abc"`), the value is a String of RFC 9651: printable ASCII with the escapes `\"` and `\\`; parameters
    /// after it are ignored, but must be well-formed. Bare (`abc`), it is printable ASCII without blanks and without
    /// `"`, `,`, `;` and `\`. Both forms of one text are the same key.
    ///
    /// # Errors
    ///
    /// When there is no line, more than one (even if they are equal: some proxies join them, others pick one), or one
    /// that is empty, blank, malformed, of another syntax or format, or too long. The error says what was expected, never
    /// what was sent.
    pub fn parse<'a>(&self, lines: impl IntoIterator<Item = &'a HeaderValue>) -> Result<Key, KeyError> {
        let mut lines = lines.into_iter();
        let line = lines.next().ok_or(KeyError::Missing)?;
        if lines.next().is_some() {
            return Err(KeyError::Malformed("one header line"));
        }
        self.parse_value(line.as_bytes())
    }

    fn parse_value(&self, value: &[u8]) -> Result<Key, KeyError> {
        let text = text(trim_blanks(value), self.syntax)?;
        let at_most = self.max_len.min(Key::MAX_PART_LEN);
        if text.len() > at_most {
            return Err(KeyError::TooLong { len: text.len(), at_most });
        }
        let key = Key::new(&*text)?;
        self.format.check(&text)?;
        Ok(key)
    }
}

/// The text of a header's value, without its quotes.
fn text(value: &[u8], syntax: Syntax) -> Result<Cow<'_, str>, KeyError> {
    if value.is_empty() {
        return Err(KeyError::Blank);
    }
    if value[0] == b'"' {
        return structured::string_item(value).map(Cow::Owned).ok_or(KeyError::Malformed(
            "a quoted string of printable ASCII, with `\"` and `\\` escaped by `\\`",
        ));
    }
    if syntax == Syntax::Strict {
        return Err(KeyError::Malformed("a string in double quotes"));
    }
    match str::from_utf8(value) {
        Ok(text) if value.iter().copied().all(is_bare) => Ok(Cow::Borrowed(text)),
        _ => Err(KeyError::Malformed(
            "printable ASCII without blanks, commas, semicolons, quotes and backslashes, or a string in double quotes",
        )),
    }
}

fn is_bare(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// Blanks around a header's value are not part of it.
fn trim_blanks(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lenient(value: &[u8]) -> Result<Key, KeyError> {
        KeyRules::default().parse_value(value)
    }

    fn strict() -> KeyRules {
        KeyRules { syntax: Syntax::Strict, ..KeyRules::default() }
    }

    fn key(text: &str) -> Result<Key, KeyError> {
        Key::new(text)
    }

    #[test]
    fn quoted_and_bare_forms_are_the_same_key() {
        assert_eq!(lenient(b"abc"), key("abc"));
        assert_eq!(lenient(br#""abc""#), key("abc"));
        assert_eq!(lenient(br#""abc";v=1"#), key("abc"));
        assert_eq!(lenient(b"  abc\t"), key("abc"));
        assert_eq!(
            lenient(b"8e03978e-40d5-43dd-bc93-6894a57f9324"),
            key("8e03978e-40d5-43dd-bc93-6894a57f9324")
        );
        assert_eq!(lenient(b"a:b/c=d'e"), key("a:b/c=d'e"));
    }

    #[test]
    fn escapes_blanks_and_case_count() {
        assert_eq!(lenient(br#""a\"b\\c""#), key(r#"a"b\c"#));
        assert_eq!(lenient(br#"" abc ""#), key(" abc "));
        assert_ne!(lenient(br#""abc ""#), lenient(b"abc"));
        assert_ne!(lenient(b"ABC"), lenient(b"abc"));
    }

    #[test]
    fn empty_and_blank_keys_are_refused() {
        for value in [&b""[..], b" ", b"\t", b"\"\"", b"\"   \""] {
            assert_eq!(lenient(value), Err(KeyError::Blank), "{value:?}");
        }
    }

    #[test]
    fn malformed_non_ascii_and_control_characters_are_refused() {
        for value in [
            &b"a b"[..],
            b"a,b",
            b"a;v=1",
            b"a\\b",
            b"a\"b",
            b"\"a",
            b"a\"",
            b"\"a\"b",
            b"\"a\", \"b\"",
            b"\"a\\n\"",
            b"a\tb",
            b"\"a\tb\"",
            "é".as_bytes(),
            "\"é\"".as_bytes(),
            b"\xff",
            b"a\x7f",
            b"\"a\x7f\"",
            b"\"a\";",
        ] {
            assert!(matches!(lenient(value), Err(KeyError::Malformed(_))), "{value:?}");
        }
    }

    #[test]
    fn a_key_has_at_most_255_bytes_once_unquoted() {
        let long = "k".repeat(255);
        assert_eq!(lenient(long.as_bytes()), key(&long));
        assert_eq!(lenient(format!("\"{long}\"").as_bytes()), key(&long));
        assert_eq!(lenient(format!("\"{}\"", "\\\"".repeat(255)).as_bytes()), key(&"\"".repeat(255)));
        assert_eq!(lenient(format!("{long}k").as_bytes()), Err(KeyError::TooLong { len: 256, at_most: 255 }));
        assert_eq!(
            lenient(format!("\"{long}k\"").as_bytes()),
            Err(KeyError::TooLong { len: 256, at_most: 255 })
        );
    }

    #[test]
    fn no_line_is_missing_and_two_lines_are_refused_even_if_equal() {
        let line = HeaderValue::from_static("abc");
        assert_eq!(KeyRules::default().parse([]), Err(KeyError::Missing));
        assert_eq!(KeyRules::default().parse([&line]), key("abc"));
        assert!(matches!(KeyRules::default().parse([&line, &line]), Err(KeyError::Malformed(_))));
    }

    #[test]
    fn strict_takes_the_quoted_form_only() {
        assert_eq!(strict().parse_value(br#""abc""#), key("abc"));
        assert!(matches!(strict().parse_value(b"abc"), Err(KeyError::Malformed(_))));
        assert_eq!(strict().parse_value(b""), Err(KeyError::Blank));
    }

    #[test]
    fn a_shorter_limit_holds_for_the_text_and_not_for_its_quotes() {
        let rules = KeyRules { max_len: 3, ..KeyRules::default() };
        assert_eq!(rules.parse_value(b"abc"), key("abc"));
        assert_eq!(rules.parse_value(br#""a\"c""#), key("a\"c"));
        assert_eq!(rules.parse_value(b"abcd"), Err(KeyError::TooLong { len: 4, at_most: 3 }));
        let unlimited = KeyRules { max_len: usize::MAX, ..KeyRules::default() };
        assert_eq!(
            unlimited.parse_value("k".repeat(256).as_bytes()),
            Err(KeyError::TooLong { len: 256, at_most: 255 })
        );
    }

    #[test]
    fn a_format_is_asked_for_in_both_forms_and_does_not_make_two_spellings_one() {
        let rules = KeyRules { format: Format::Uuid, ..KeyRules::default() };
        let lower = "8e03978e-40d5-43dd-bc93-6894a57f9324";
        assert_eq!(rules.parse_value(lower.as_bytes()), key(lower));
        assert_eq!(rules.parse_value(format!("\"{lower}\"").as_bytes()), key(lower));
        assert_ne!(rules.parse_value(lower.to_uppercase().as_bytes()), key(lower));
        assert!(matches!(rules.parse_value(b"abc"), Err(KeyError::Malformed(_))));
    }

    #[test]
    fn an_error_does_not_show_the_value() {
        let error = lenient(b"secret key").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    proptest! {
        #[test]
        fn no_input_panics(value in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = lenient(&value);
            let mut quoted = vec![b'"'];
            quoted.extend(value);
            let _ = lenient(&quoted);
        }

        #[test]
        fn every_printable_text_survives_quoting(text in "[ -~]{1,120}") {
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let expected = Key::new(&text);
            prop_assert_eq!(lenient(quoted.as_bytes()), expected);
        }

        #[test]
        fn a_bare_key_is_its_own_quoted_form(text in "[!#-+\\--:<-\\[\\]-~]{1,120}") {
            prop_assert_eq!(lenient(text.as_bytes()), Key::new(&text));
            prop_assert_eq!(lenient(format!("\"{text}\"").as_bytes()), Key::new(&text));
        }
    }
}
