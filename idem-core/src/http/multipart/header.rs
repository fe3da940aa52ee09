//! What a part says of itself, and parameters of header values.

use crate::fingerprint::Hasher;

/// The most header lines that a part may have.
const MAX_LINES: usize = 32;

/// The headers of one part.
#[derive(Default)]
pub(super) struct Headers<'a> {
    name: Option<Vec<u8>>,
    file_name: Option<Vec<u8>>,
    /// `filename*`, as it is written: it is a text of its own, with a charset.
    extended_file_name: Option<Vec<u8>>,
    disposition: Option<&'a [u8]>,
    media_type: Option<&'a [u8]>,
    others: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Headers<'a> {
    /// Takes the header lines, and the empty one after them, from the beginning of a part.
    ///
    /// `None` if they are malformed, or say one thing twice: readers disagree on which counts.
    pub(super) fn read(part: &mut &'a [u8]) -> Option<Self> {
        let mut headers = Self::default();
        for _ in 0..=MAX_LINES {
            let line = take_line(part)?;
            if line.is_empty() {
                return Some(headers);
            }
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            // A line that begins with a blank belongs to the one before; nobody writes such any more.
            if name.is_empty() || !name.iter().copied().all(is_token) {
                return None;
            }
            headers.add(name, value)?;
        }
        None
    }

    fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> Option<()> {
        if name.eq_ignore_ascii_case(b"content-disposition") {
            let (disposition, parameters) = split_parameters(value);
            self.name = parameter(parameters, b"name")?;
            self.file_name = parameter(parameters, b"filename")?;
            self.extended_file_name = parameter(parameters, b"filename*")?;
            return self.disposition.replace(disposition).is_none().then_some(());
        }
        if name.eq_ignore_ascii_case(b"content-type") {
            return self.media_type.replace(value).is_none().then_some(());
        }
        // The content says how long it is.
        if !name.eq_ignore_ascii_case(b"content-length") {
            self.others.push((name, value));
        }
        Some(())
    }

    pub(super) fn hash(&self, hasher: &mut Hasher) {
        hasher.bytes("part", &self.disposition.unwrap_or_default().to_ascii_lowercase());
        for (label, value) in
            [("name", &self.name), ("file name", &self.file_name), ("file name*", &self.extended_file_name)]
        {
            if let Some(value) = value {
                hasher.bytes(label, value);
            }
        }
        if let Some(media_type) = self.media_type {
            let (essence, parameters) = split_parameters(media_type);
            hasher.bytes("type", &essence.to_ascii_lowercase());
            hasher.bytes(";", parameters);
        }
        for (name, value) in &self.others {
            hasher.bytes("header", &name.to_ascii_lowercase());
            hasher.bytes("=", value);
        }
    }
}

/// Takes a line and its CRLF; a line feed or a carriage return of its own is malformed.
fn take_line<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let (line, rest) = (&text[..end], text[end..].strip_prefix(b"\r\n")?);
    *text = rest;
    Some(line)
}

/// Splits `a/b; c=d` at the first semicolon; blanks around both halves are left out.
pub(super) fn split_parameters(value: &[u8]) -> (&[u8], &[u8]) {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    (value[..end].trim_ascii(), value.get(end + 1..).unwrap_or_default().trim_ascii())
}

/// Looks for a parameter by its name.
///
/// The outer `None` says that the parameters are malformed, or that it is there twice; the inner one that it is not there.
#[expect(clippy::option_option, reason = "malformed and absent are two answers")]
pub(super) fn parameter(mut parameters: &[u8], wanted: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut found = None;
    while !parameters.is_empty() {
        let equals = parameters.iter().position(|byte| *byte == b'=')?;
        let name = parameters[..equals].trim_ascii();
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return None;
        }
        let (value, rest) = value(parameters[equals + 1..].trim_ascii_start())?;
        if name.eq_ignore_ascii_case(wanted) && found.replace(value).is_some() {
            return None;
        }
        parameters = match rest.trim_ascii_start() {
            [b';', rest @ ..] => rest.trim_ascii_start(),
            [] => &[],
            _ => return None,
        };
    }
    Some(found)
}

/// Reads a token or a quoted string, and tells what follows. Escapes stay as they are written.
fn value(input: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = input.strip_prefix(b"\"") else {
        let end = input.iter().position(|byte| *byte == b';').unwrap_or(input.len());
        let token = input[..end].trim_ascii();
        let sound = !token.is_empty() && !token.contains(&b'"');
        return sound.then(|| (token.to_vec(), &input[end..]));
    };
    let mut text = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((text, after)),
            // Browsers escape by percent signs, and old ones send the backslashes of a path as they are.
            [b'\\', escaped @ (b'"' | b'\\'), after @ ..] => {
                text.extend_from_slice(&[b'\\', *escaped]);
                rest = after;
            }
            [byte, after @ ..] => {
                text.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

/// Whether a byte may stand in a header's name: RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
