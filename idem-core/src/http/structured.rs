//! The part of RFC 9651 that the key header needs: one String with parameters.

/// Reads an Item that is a String, `"` included, and skips its parameters. `None` if it is not well-formed.
pub(super) fn string_item(input: &[u8]) -> Option<String> {
    let mut cursor = Cursor(input);
    let text = cursor.string()?;
    cursor.parameters()?;
    cursor.0.is_empty().then_some(text)
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.0.first() == Some(&wanted);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    /// Skips the bytes that `allowed` accepts and tells how many they were.
    fn skip(&mut self, allowed: impl Fn(u8) -> bool) -> usize {
        let count = self.0.iter().take_while(|byte| allowed(**byte)).count();
        self.0 = &self.0[count..];
        count
    }

    fn string(&mut self) -> Option<String> {
        if !self.eat(b'"') {
            return None;
        }
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => match self.next()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                plain @ 0x20..=0x7e => text.push(char::from(plain)),
                _ => return None,
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.skip(|byte| byte == b' ');
            if !matches!(self.next()?, b'a'..=b'z' | b'*') {
                return None;
            }
            self.skip(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<()> {
        match *self.0.first()? {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(true),
            b'a'..=b'z' | b'A'..=b'Z' | b'*' => {
                self.skip(is_token);
                Some(())
            }
            b':' => self.byte_sequence(),
            b'?' => {
                self.next();
                matches!(self.next()?, b'0' | b'1').then_some(())
            }
            b'@' => {
                self.next();
                self.number(false)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    fn number(&mut self, decimal: bool) -> Option<()> {
        self.eat(b'-');
        let whole = self.skip(|byte| byte.is_ascii_digit());
        if decimal && self.eat(b'.') {
            let fraction = self.skip(|byte| byte.is_ascii_digit());
            return (matches!(whole, 1..=12) && matches!(fraction, 1..=3)).then_some(());
        }
        matches!(whole, 1..=15).then_some(())
    }

    fn byte_sequence(&mut self) -> Option<()> {
        self.next();
        self.skip(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.eat(b':').then_some(())
    }

    fn display_string(&mut self) -> Option<()> {
        self.next();
        if !self.eat(b'"') {
            return None;
        }
        let mut octets = Vec::new();
        loop {
            match self.next()? {
                b'"' => return std::str::from_utf8(&octets).is_ok().then_some(()),
                b'%' => octets.push(self.hex_digit()? << 4 | self.hex_digit()?),
                plain @ 0x20..=0x7e => octets.push(plain),
                _ => return None,
            }
        }
    }

    /// Display strings are escaped in lower case only.
    fn hex_digit(&mut self) -> Option<u8> {
        match self.next()? {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            letter @ b'a'..=b'f' => Some(letter - b'a' + 10),
            _ => None,
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_and_well_formed_parameters_ignored() {
        assert_eq!(string_item(br#""abc""#).as_deref(), Some("abc"));
        assert_eq!(string_item(br#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
        for parameters in [
            ";v=1",
            "; v=1",
            ";v",
            ";v=-12.5",
            ";v=\"x\"",
            ";v=tok/en",
            ";v=:aGk=:",
            ";v=?1",
            ";v=@17",
            ";*a.b-c_1=*",
            ";v=%\"%c3%a9\"",
            ";a=1;b=2",
        ] {
            assert_eq!(
                string_item(format!("\"k\"{parameters}").as_bytes()).as_deref(),
                Some("k"),
                "{parameters}"
            );
        }
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for input in [
            "",
            "\"",
            "\"abc",
            "abc\"",
            "\"a\"b",
            "\"a\" ;v=1",
            "\"a\\n\"",
            "\"a\\",
            "\"a\"b\"",
            "\"a\", \"b\"",
            "\"a\t\"",
            "\"é\"",
        ] {
            assert_eq!(string_item(input.as_bytes()), None, "{input:?}");
        }
        for parameters in [
            ";",
            ";V=1",
            ";v=",
            ";v=1.",
            ";v=.5",
            ";v=1234567890123456",
            ";v=1.2345",
            ";v=?2",
            ";v=@1.5",
            ";v=:a",
            ";v=%\"%C3\"",
            ";v=%\"%c3\"",
            ";v=%x",
            ";v =1",
            ";v=1 ;w",
            ";v=\"a",
        ] {
            assert_eq!(string_item(format!("\"k\"{parameters}").as_bytes()), None, "{parameters}");
        }
    }
}
