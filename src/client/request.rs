//! Requests with their key.

use std::fmt;

use http::HeaderValue;
use http::header::HeaderName;
use idem_core::key::Key;
use uuid::Uuid;

use super::error::{Error, ErrorKind};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request that can be sent any number of times and is the same one each time.
///
/// Its `Debug` shows the method and a hint of the key, neither the URL nor headers nor the body.
pub struct KeyedRequest {
    /// Without its key. It can be cloned: that was tried.
    request: reqwest::Request,
    key: String,
    header: HeaderName,
    quoted: bool,
}

impl KeyedRequest {
    /// Gives a request a key of its own: a fresh `UUIDv7`.
    ///
    /// Save [`key`](Self::key) before the request is sent, if it must not happen twice when this process ends in the
    /// middle.
    ///
    /// # Errors
    ///
    /// When the body is a stream, which cannot be sent twice, or the request has an `Idempotency-Key` header already.
    /// Nothing was sent.
    pub fn new(request: reqwest::Request) -> Result<Self, Error> {
        Self::with_key(Uuid::now_v7().to_string(), request)
    }

    /// Gives a request this key: 1 to 255 printable ASCII characters, not all of them blank.
    ///
    /// Method, URL, media type and body must be those that the key was first sent with; otherwise the answer is 422.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and when the key is none.
    pub fn with_key(key: impl Into<String>, request: reqwest::Request) -> Result<Self, Error> {
        let key = key.into();
        if let Some(wrong) = wrong_with(&key) {
            return Err(Error::new(ErrorKind::KeyInvalid).with_detail(wrong));
        }
        if request.try_clone().is_none() {
            return Err(Error::new(ErrorKind::Stream));
        }
        let this = Self { request, key, header: IDEMPOTENCY_KEY, quoted: false };
        this.assert_no_other_key()
    }

    /// Sends the key in another header.
    ///
    /// # Errors
    ///
    /// When the request has such a header already.
    pub fn in_header(self, header: HeaderName) -> Result<Self, Error> {
        Self { header, ..self }.assert_no_other_key()
    }

    /// Sends the key as a String of RFC 9651, in double quotes, for servers that insist on it.
    ///
    /// Default: as it is, unless it has characters that make quotes necessary. To servers that do not know the quoted form
    /// it is another key: do not change this between two attempts.
    #[must_use]
    pub fn quoted(self) -> Self {
        Self { quoted: true, ..self }
    }

    /// The key, to be saved before the request is sent.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A copy that can be sent, with its key.
    pub fn to_request(&self) -> reqwest::Request {
        // Not a stream: then there would be no `self`.
        let mut copy = self.request.try_clone().unwrap_or_else(|| {
            reqwest::Request::new(self.request.method().clone(), self.request.url().clone())
        });
        copy.headers_mut().insert(self.header.clone(), self.header_value());
        copy
    }

    fn header_value(&self) -> HeaderValue {
        let text = if self.quoted || !self.key.bytes().all(is_bare) {
            format!("\"{}\"", self.key.replace('\\', "\\\\").replace('"', "\\\""))
        } else {
            self.key.clone()
        };
        // Printable ASCII always is a header's value.
        let mut value = HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        // Whoever knows the key and the account gets the answer: HTTP clients are not to log it.
        value.set_sensitive(true);
        value
    }

    fn assert_no_other_key(self) -> Result<Self, Error> {
        if self.request.headers().contains_key(&self.header) {
            return Err(Error::new(ErrorKind::HasKey));
        }
        Ok(self)
    }
}

impl fmt::Debug for KeyedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("KeyedRequest");
        debug.field("method", self.request.method());
        if let Ok(key) = Key::new(&self.key) {
            debug.field("key", &key);
        }
        debug.finish_non_exhaustive()
    }
}

fn wrong_with(key: &str) -> Option<&'static str> {
    if key.len() > Key::MAX_PART_LEN {
        Some("it has more than 255 bytes")
    } else if key.trim().is_empty() {
        Some("it is empty or blank")
    } else if !key.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        Some("it has characters that are not printable ASCII")
    } else {
        None
    }
}

/// What needs no quotes around it.
fn is_bare(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post() -> reqwest::Request {
        reqwest::Client::new().post("http://127.0.0.1/charges?token=secret").body("a body").build().unwrap()
    }

    fn sent(key: &str) -> String {
        let request = KeyedRequest::with_key(key, post()).unwrap().to_request();
        request.headers()["idempotency-key"].to_str().unwrap().to_owned()
    }

    fn kind<T: fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn each_request_has_a_key_of_its_own_and_each_copy_has_the_same() {
        let (one, two) = (KeyedRequest::new(post()).unwrap(), KeyedRequest::new(post()).unwrap());
        assert_ne!(one.key(), two.key());
        assert_eq!(Uuid::parse_str(one.key()).unwrap().get_version_num(), 7);
        for _ in 0..3 {
            let copy = one.to_request();
            assert_eq!(copy.headers()["idempotency-key"], one.key());
            assert_eq!(copy.body().unwrap().as_bytes(), Some(&b"a body"[..]));
        }
    }

    #[test]
    fn a_key_that_needs_quotes_has_them() {
        assert_eq!(sent("order-1001"), "order-1001");
        assert_eq!(sent("order 1001"), r#""order 1001""#);
        assert_eq!(sent(r#"a"b\c"#), r#""a\"b\\c""#);
        let quoted = KeyedRequest::with_key("k", post()).unwrap().quoted().to_request();
        assert_eq!(quoted.headers()["idempotency-key"], "\"k\"");
    }

    #[test]
    fn the_server_reads_the_key_that_was_meant() {
        for key in ["k", "order 1001", r#"a"b\c"#, "a,b;c=1", " padded "] {
            let request = KeyedRequest::with_key(key, post()).unwrap().to_request();
            let lines = request.headers().get_all("idempotency-key");
            let read = idem_core::http::key::KeyRules::default().parse(lines);
            assert_eq!(read, Key::new(key), "{key}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        for key in ["", "  ", "secret\n", "s\u{e9}cret", &"k".repeat(256)] {
            let error = KeyedRequest::with_key(key, post()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::KeyInvalid);
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }

    #[test]
    fn a_request_that_has_a_key_already_is_refused() {
        let mut request = post();
        request.headers_mut().insert(IDEMPOTENCY_KEY, HeaderValue::from_static("mine"));
        assert_eq!(kind(KeyedRequest::new(request.try_clone().unwrap())), ErrorKind::HasKey);
        let mut other = post();
        other.headers_mut().insert("x-key", HeaderValue::from_static("mine"));
        let keyed = KeyedRequest::new(other).unwrap();
        assert_eq!(kind(keyed.in_header(HeaderName::from_static("x-key"))), ErrorKind::HasKey);
    }

    #[test]
    fn another_header_can_carry_the_key() {
        let keyed = KeyedRequest::with_key("k", post()).unwrap();
        let request = keyed.in_header(HeaderName::from_static("x-key")).unwrap().to_request();
        assert_eq!(request.headers()["x-key"], "k");
        assert!(!request.headers().contains_key("idempotency-key"));
    }

    #[test]
    fn debug_shows_neither_key_nor_body_nor_url() {
        let keyed = KeyedRequest::with_key("order-1001-of-alice", post()).unwrap();
        assert_eq!(format!("{keyed:?}"), "KeyedRequest { method: POST, key: Key(order-10…), .. }");
        assert!(!format!("{:?}", keyed.to_request().headers()).contains("order-1001"));
    }
}
