//! Multipart bodies, compared by their parts: a retry may choose another boundary.
//!
//! Read is the plain form that clients write (RFC 2046, RFC 7578): lines end in CRLF, nothing stands before the first
//! boundary and nothing but an empty line after the last. What is not of this form has no parts here, and counts as it
//! came; so what a lenient reader might understand in another way never equals something else.

mod header;

use crate::fingerprint::Hasher;

use header::Headers;

/// Reads the boundary out of a media type; `None` if it is not multipart, or has no boundary or two.
pub(super) fn boundary(media_type: &[u8]) -> Option<Vec<u8>> {
    let (essence, parameters) = header::split_parameters(media_type);
    if !is_multipart(&essence.to_ascii_lowercase()) {
        return None;
    }
    let boundary = header::parameter(parameters, b"boundary")??;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    let sound = matches!(boundary.len(), 1..=70) && boundary.iter().all(allowed) && !boundary.ends_with(b" ");
    sound.then_some(boundary)
}

/// Whether a media type's essence, in lower case, is one of many parts.
pub(super) fn is_multipart(essence: &[u8]) -> bool {
    essence.starts_with(b"multipart/")
}

/// Hashes the parts in their order: name, file name, type, other headers and content of each.
///
/// Reads the body once, and copies no content. `None` if it is malformed or cut short; what was hashed until then is of
/// no use.
pub(super) fn hash(hasher: &mut Hasher, boundary: &[u8], body: &[u8]) -> Option<()> {
    let delimiter = [b"\r\n--", boundary].concat();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    loop {
        rest = match rest {
            [b'-', b'-', epilogue @ ..] => return matches!(epilogue, b"" | b"\r\n").then_some(()),
            [b'\r', b'\n', part @ ..] => part,
            _ => return None,
        };
        let headers = Headers::read(&mut rest)?;
        let end = find(rest, &delimiter)?;
        headers.hash(hasher);
        hasher.bytes("content", &rest[..end]);
        rest = &rest[end + delimiter.len()..];
    }
}

/// Where `wanted`, which is not empty, first stands in `text`.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| *byte == wanted[0])?;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests;
