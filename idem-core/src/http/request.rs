//! The captured request: what key and fingerprint need of it, owned.
//!
//! The fingerprint of a request, version 1, is a [`Hasher`] over these parts, in this order: bytes `method`, bytes
//! `path`, for each pair of the query bytes `query` (its name) and bytes `=` (its value), bytes `media type` if there is
//! one; for each header that counts and was sent, in the order of their names, bytes `header` (its name) and for each of
//! its lines bytes `line`; then the body:
//!
//! - JSON: digest `json`
//! - form: for each of its pairs bytes `form` and bytes `=`
//! - multipart: for each of its parts bytes `part` (the disposition's type, in lower case, empty if there is none); if
//!   they are there, bytes `name`, `file name` and `file name*` (its parameters, without quotes), and bytes `type` and `;`
//!   (the essence of its media type, in lower case, and its parameters as they are); for each other header but the length
//!   bytes `header` (its name, in lower case) and bytes `=`; bytes `content`
//! - what is multipart and has no parts that can be told apart: bytes `content type` (the whole header), digest `body`
//! - anything else, and every body that is to be compared byte for byte: digest `body`

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use crate::fingerprint::{Digest, Hasher, JsonMemo, of_raw};
use crate::key::{Key, KeyError};

use super::key::{IDEMPOTENCY_KEY, KeyRules};
use super::{multipart, pairs};

/// The most bytes of a request body that are read unless an engine or a handler says otherwise.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

static CAPTURE_LIMIT: AtomicUsize = AtomicUsize::new(MAX_BODY_BYTES);

/// The most bytes that an adapter reads before it knows which engine will be asked: the largest limit of any engine
/// of this process, and [`MAX_BODY_BYTES`] at least.
///
/// An engine is an expression over a handler's arguments, so the body has to be read before the engine, and its own
/// limit, is known; that one is checked afterwards, before anything is claimed.
pub fn capture_limit() -> usize {
    CAPTURE_LIMIT.load(Ordering::Relaxed)
}

/// Announces an engine's limit; what was announced is never lowered.
pub fn raise_capture_limit(bytes: usize) {
    CAPTURE_LIMIT.fetch_max(bytes, Ordering::Relaxed);
}

/// Whether an engine of this process looks at other headers than `Idempotency-Key`.
static ALL_HEADERS: AtomicBool = AtomicBool::new(false);

/// Announces that an engine looks at other headers than `Idempotency-Key`: from now on all of them are kept.
///
/// As with the limit, what an engine wants has to be known before it is known which engine will be asked.
pub fn keep_all_headers() {
    ALL_HEADERS.store(true, Ordering::Relaxed);
}

/// Tells whether a method asks for nothing to be done: its key is ignored and the store is not asked.
pub fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// Which headers a captured request keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// `Idempotency-Key` only: cheap.
    IdempotencyKey,
    /// All of them: for a key in another header, or other headers that count.
    All,
}

impl Headers {
    /// All of them if an engine of this process [asked for that](keep_all_headers), otherwise as it is.
    ///
    /// Ask it once for each request, before its headers are read.
    #[must_use]
    pub fn widened(self) -> Self {
        if ALL_HEADERS.load(Ordering::Relaxed) { Self::All } else { self }
    }
}

#[derive(Clone)]
enum Kept {
    IdempotencyKey(Vec<HeaderValue>),
    All(HeaderMap),
}

/// What key and fingerprint need of a request. `Debug` shows method and path only.
#[derive(Clone)]
pub struct CapturedRequest {
    method: Method,
    uri: Uri,
    content_type: Option<HeaderValue>,
    kept: Kept,
    body: Bytes,
}

impl CapturedRequest {
    /// Takes what is needed out of a request; `uri` is the one that the client sent, also under a nested router.
    pub fn new(method: &Method, uri: &Uri, headers: &HeaderMap, keep: Headers) -> Self {
        let kept = match keep {
            Headers::IdempotencyKey => {
                Kept::IdempotencyKey(headers.get_all(IDEMPOTENCY_KEY).iter().cloned().collect())
            }
            Headers::All => Kept::All(headers.clone()),
        };
        Self {
            method: method.clone(),
            uri: uri.clone(),
            content_type: headers.get(CONTENT_TYPE).cloned(),
            kept,
            body: Bytes::new(),
        }
    }

    /// Adds the whole body.
    #[must_use]
    pub fn with_body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    /// Whether its method asks for nothing to be done.
    pub fn is_safe(&self) -> bool {
        is_safe(&self.method)
    }

    /// The body as it came.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Reads the key from its header.
    ///
    /// # Errors
    ///
    /// As [`KeyRules::parse`]; [`KeyError::Unreadable`] if the header was not kept.
    pub fn key(&self, rules: &KeyRules) -> Result<Key, KeyError> {
        self.lines(&rules.header).map_or(Err(KeyError::Unreadable), |lines| rules.parse(lines))
    }

    /// The key's header as it came, if there is one line of it.
    pub fn key_line(&self, header: &HeaderName) -> Option<&HeaderValue> {
        let mut lines = self.lines(header)?;
        lines.next().filter(|_| lines.next().is_none())
    }

    /// Whether all of these headers were kept, if they were sent.
    pub fn keeps(&self, headers: &[HeaderName]) -> bool {
        headers.iter().all(|name| self.lines(name).is_some())
    }

    /// Takes the fingerprint of everything that was asked for.
    ///
    /// Method, path, query and the essence of the media type count, the `headers` that are named, and the body: JSON
    /// (`application/json`, `+json`) by its meaning, `application/x-www-form-urlencoded` by its parsed pairs, multipart
    /// by its parts and not by its boundary, everything else byte for byte. The pairs of query and form are sorted by
    /// name; those of one name keep their order, and so do parts and the lines of a header. Host and all other headers
    /// do not count.
    ///
    /// What cannot be read as what it says it is counts byte for byte: invalid JSON, an object with two members of one
    /// name, multipart that is malformed or cut short.
    ///
    /// `headers` are in the order of their names, as [`HttpPolicy`](super::policy::HttpPolicy) has them. One that was not
    /// sent counts like one that is not named; so does one that was not [kept](Self::keeps).
    pub fn fingerprint(&self, operation: &str, headers: &[HeaderName], memo: &JsonMemo) -> Digest {
        let media_type = self.media_type();
        let mut hasher = self.hasher(operation, media_type.as_deref(), headers);
        match media_type.as_deref() {
            Some(essence) if is_json(essence) => hasher.digest("json", memo.of_json(&self.body)),
            Some(b"application/x-www-form-urlencoded") => hash_pairs(&mut hasher, "form", &self.body),
            Some(essence) if multipart::is_multipart(essence) => self.hash_multipart(&mut hasher),
            _ => hasher.digest("body", of_raw(&self.body)),
        }
        hasher.finish()
    }

    /// Takes the fingerprint with the body byte for byte, whatever its media type.
    pub fn fingerprint_raw(&self, operation: &str, headers: &[HeaderName]) -> Digest {
        let mut hasher = self.hasher(operation, self.media_type().as_deref(), headers);
        hasher.digest("body", of_raw(&self.body));
        hasher.finish()
    }

    fn hash_multipart(&self, hasher: &mut Hasher) {
        let media_type = self.content_type.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let mut by_parts = hasher.clone();
        let read = multipart::boundary(media_type)
            .and_then(|boundary| multipart::hash(&mut by_parts, &boundary, &self.body));
        if read.is_some() {
            *hasher = by_parts;
        } else {
            // Under another boundary the same bytes may mean something else.
            hasher.bytes("content type", media_type);
            hasher.digest("body", of_raw(&self.body));
        }
    }

    fn hasher(&self, operation: &str, media_type: Option<&[u8]>, headers: &[HeaderName]) -> Hasher {
        let mut hasher = Hasher::new(operation);
        hasher.bytes("method", self.method.as_str().as_bytes());
        hasher.bytes("path", self.uri.path().as_bytes());
        if let Some(query) = self.uri.query() {
            hash_pairs(&mut hasher, "query", query.as_bytes());
        }
        if let Some(essence) = media_type {
            hasher.bytes("media type", essence);
        }
        for name in headers {
            let mut lines = self.lines(name).into_iter().flatten().peekable();
            if lines.peek().is_some() {
                hasher.bytes("header", name.as_str().as_bytes());
                lines.for_each(|line| hasher.bytes("line", line.as_bytes()));
            }
        }
        hasher
    }

    /// The lines of a header; `None` if it was not kept.
    fn lines(&self, name: &HeaderName) -> Option<impl Iterator<Item = &HeaderValue>> {
        let (all, key) = match &self.kept {
            Kept::All(headers) => (Some(headers.get_all(name)), None),
            Kept::IdempotencyKey(lines) if name == IDEMPOTENCY_KEY => (None, Some(lines)),
            Kept::IdempotencyKey(_) => return None,
        };
        Some(all.into_iter().flatten().chain(key.into_iter().flatten()))
    }

    /// The media type without its parameters, in lower case.
    fn media_type(&self) -> Option<Vec<u8>> {
        let value = self.content_type.as_ref()?.as_bytes();
        let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
        Some(value[..end].trim_ascii().to_ascii_lowercase())
    }
}

impl fmt::Debug for CapturedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedRequest")
            .field("method", &self.method)
            .field("path", &self.uri.path())
            .finish_non_exhaustive()
    }
}

fn is_json(essence: &[u8]) -> bool {
    essence == b"application/json" || essence.ends_with(b"+json")
}

fn hash_pairs(hasher: &mut Hasher, label: &str, input: &[u8]) {
    for (name, value) in pairs::sorted(input) {
        hasher.bytes(label, &name);
        hasher.bytes("=", &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sent {
        method: Method,
        uri: &'static str,
        content_type: Option<&'static str>,
        body: &'static str,
    }

    impl Default for Sent {
        fn default() -> Self {
            Self {
                method: Method::POST,
                uri: "/charges",
                content_type: Some("application/json"),
                body: r#"{"a":1,"b":[2]}"#,
            }
        }
    }

    impl Sent {
        fn captured(&self, keep: Headers) -> CapturedRequest {
            let mut headers = HeaderMap::new();
            if let Some(content_type) = self.content_type {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            }
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("k-1"));
            headers.insert("x-key", HeaderValue::from_static("k-2"));
            let uri = Uri::from_static(self.uri);
            CapturedRequest::new(&self.method, &uri, &headers, keep)
                .with_body(Bytes::from_static(self.body.as_bytes()))
        }

        fn digest(&self) -> Digest {
            self.captured(Headers::All).fingerprint("op", &[], &JsonMemo::new(4))
        }

        fn raw(&self) -> Digest {
            self.captured(Headers::All).fingerprint_raw("op", &[])
        }
    }

    #[test]
    fn version_one_is_these_digests_for_ever() {
        let hex = |digest: Digest| {
            digest
                .as_bytes()
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .filter_map(|digit| char::from_digit(digit.into(), 16))
                .collect::<String>()
        };
        let form = Sent {
            uri: "/charges?b=2&a=1",
            content_type: Some("application/x-www-form-urlencoded"),
            body: "y=2&x=%31",
            ..Sent::default()
        };
        let bare = Sent { method: Method::DELETE, uri: "/", content_type: None, body: "" };
        let parts = Sent {
            content_type: Some("multipart/form-data; boundary=b"),
            body: "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\nContent-Type: a/b; c\r\nX-Y: z\r\n\r\nhi\r\n--b--\r\n",
            ..Sent::default()
        };
        let cut =
            Sent { content_type: Some("multipart/form-data; boundary=b"), body: "--b", ..Sent::default() };
        assert_eq!(
            hex(Sent::default().digest()),
            "864ddc7a0c9bbb4054c5fa6e8198e185a9fb97f77831af0b767c201d28ef3629"
        );
        assert_eq!(
            hex(Sent::default().raw()),
            "be39b9c373446729ff1d44dded661f4d57f90b7bc9614537416d5f08fe0c270a"
        );
        assert_eq!(hex(form.digest()), "a7859adc307180e1460add075aefe59ee8c04df41ab1e5b92dc0813d95ed84fd");
        assert_eq!(hex(bare.digest()), "9a5c841879e8874f4ecce4a8b5fa22befdda54f7f027d04d7da9e330d7e0b8ea");
        assert_eq!(hex(parts.digest()), "2524557fd78a02dd6fba83f5c74ba3f5babcdf9df69eb5738423ab17dc961c25");
        assert_eq!(hex(cut.digest()), "362fadfaf16020f8a47233fd8af19d4b9a1abcd868155c544fdc273bf1dc0610");
        let header = [HeaderName::from_static("x-key")];
        assert_eq!(
            hex(Sent::default().captured(Headers::All).fingerprint("op", &header, &JsonMemo::new(4))),
            "bbef3eca2dade0a8d39945fd9119132e78766971ba319f386d24b3f5301ff9f9"
        );
    }

    #[test]
    fn method_path_query_media_type_body_and_operation_each_count() {
        let base = Sent::default().digest();
        assert_eq!(base, Sent::default().digest());
        assert_ne!(base, Sent { method: Method::PUT, ..Sent::default() }.digest());
        assert_ne!(base, Sent { uri: "/charges/", ..Sent::default() }.digest());
        assert_ne!(base, Sent { uri: "/charges?dry=1", ..Sent::default() }.digest());
        assert_ne!(base, Sent { content_type: None, ..Sent::default() }.digest());
        assert_ne!(
            base,
            Sent { content_type: Some("application/merge-patch+json"), ..Sent::default() }.digest()
        );
        assert_ne!(base, Sent { body: r#"{"a":1,"b":[3]}"#, ..Sent::default() }.digest());
        assert_ne!(base, Sent::default().captured(Headers::All).fingerprint("other", &[], &JsonMemo::new(4)));
    }

    #[test]
    fn host_media_type_parameters_and_their_case_do_not_count() {
        let base = Sent::default().digest();
        assert_eq!(base, Sent { uri: "http://example.org/charges", ..Sent::default() }.digest());
        assert_eq!(
            base,
            Sent { content_type: Some("Application/JSON; charset=utf-8"), ..Sent::default() }.digest()
        );
        assert_eq!(base, Sent { content_type: Some("application/json ;x"), ..Sent::default() }.digest());
        assert_eq!(base, Sent { uri: "/charges?", ..Sent::default() }.digest());
    }

    #[test]
    fn json_is_compared_by_meaning_unless_raw_is_asked_for() {
        let again = Sent { body: r#" { "b": [2.0], "a": 1e0 } "#, ..Sent::default() };
        assert_eq!(again.digest(), Sent::default().digest());
        assert_ne!(again.raw(), Sent::default().raw());
        let problem =
            |body| Sent { content_type: Some("application/problem+json"), body, ..Sent::default() }.digest();
        assert_eq!(problem(r#"{"a":1,"b":2}"#), problem(r#"{"b":2,"a":1}"#));
        let text = |body| Sent { content_type: Some("text/plain"), body, ..Sent::default() }.digest();
        assert_ne!(text(r#"{"a":1,"b":2}"#), text(r#"{"b":2,"a":1}"#));
    }

    #[test]
    fn forms_and_queries_are_compared_by_their_pairs() {
        let form = |body| {
            Sent { content_type: Some("application/x-www-form-urlencoded"), body, ..Sent::default() }.digest()
        };
        assert_eq!(form("a=1&b=x+y"), form("b=x%20y&a=1"));
        assert_ne!(form("a=1&a=2"), form("a=2&a=1"));
        let query = |uri| Sent { uri, ..Sent::default() }.digest();
        assert_eq!(query("/c?a=1&b=2"), query("/c?b=2&a=1"));
        assert_ne!(query("/c?a=1&a=2"), query("/c?a=2&a=1"));
    }

    #[test]
    fn a_pair_cannot_move_from_the_query_to_the_form() {
        let form = |uri, body| {
            Sent { uri, content_type: Some("application/x-www-form-urlencoded"), body, ..Sent::default() }
                .digest()
        };
        assert_ne!(form("/c?a=1", ""), form("/c", "a=1"));
    }

    #[test]
    fn multipart_is_compared_by_its_parts_and_never_by_its_boundary() {
        let sent = |content_type, body| Sent { content_type: Some(content_type), body, ..Sent::default() };
        let part = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--\r\n";
        let same = "--other\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--other--\r\n";
        let base = sent("multipart/form-data; boundary=b", part);
        assert_eq!(base.digest(), sent("multipart/form-data; boundary=\"other\"", same).digest());
        assert_ne!(base.digest(), sent("multipart/mixed; boundary=b", part).digest());
        assert_ne!(base.raw(), sent("multipart/form-data; boundary=\"other\"", same).raw());
    }

    #[test]
    fn malformed_multipart_counts_byte_for_byte_with_its_whole_media_type() {
        let sent =
            |content_type, body| Sent { content_type: Some(content_type), body, ..Sent::default() }.digest();
        let base = sent("multipart/form-data; boundary=b", "--b\r\ncut short");
        assert_eq!(base, sent("multipart/form-data; boundary=b", "--b\r\ncut short"));
        assert_ne!(base, sent("multipart/form-data; boundary=b", "--b\r\ncut shor"));
        assert_ne!(base, sent("multipart/form-data; boundary=c", "--b\r\ncut short"));
        assert_ne!(base, sent("multipart/form-data", "--b\r\ncut short"));
        assert_ne!(
            sent("multipart/form-data; boundary=b", ""),
            sent("multipart/form-data; boundary=b", "--b--")
        );
    }

    #[test]
    fn an_empty_body_is_one_whatever_its_media_type_and_no_media_type_is_none() {
        let sent = |content_type| Sent { content_type, body: "", ..Sent::default() }.digest();
        let media_types = [
            None,
            Some(""),
            Some("application/json"),
            Some("application/x-www-form-urlencoded"),
            Some("a/b"),
        ];
        for (at, one) in media_types.into_iter().enumerate() {
            assert_eq!(sent(one), sent(one));
            for other in media_types.into_iter().skip(at + 1) {
                assert_ne!(sent(one), sent(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn named_headers_count_by_their_lines_and_those_not_sent_like_those_not_named() {
        let names = |names: &'static [&'static str]| -> Vec<_> {
            names.iter().map(|name| HeaderName::from_static(name)).collect()
        };
        let digest =
            |lines: &[(&'static str, &'static str)], named| {
                let mut headers = HeaderMap::new();
                for (name, value) in lines {
                    headers.append(*name, HeaderValue::from_static(value));
                }
                CapturedRequest::new(&Method::POST, &Uri::from_static("/c"), &headers, Headers::All)
                    .fingerprint("op", &names(named), &JsonMemo::new(4))
            };
        let base = digest(&[("x-version", "1")], &["x-version"]);
        assert_eq!(base, digest(&[("x-version", "1"), ("x-request-id", "7")], &["x-version"]));
        assert_eq!(base, digest(&[("x-version", "1")], &["x-other", "x-version"]));
        assert_ne!(base, digest(&[("x-version", "2")], &["x-version"]));
        assert_ne!(base, digest(&[], &["x-version"]));
        assert_ne!(base, digest(&[("x-version", "1"), ("x-version", "1")], &["x-version"]));
        assert_ne!(base, digest(&[("x-other", "1")], &["x-other"]));
        assert_ne!(digest(&[("x-version", "")], &["x-version"]), digest(&[], &["x-version"]));
        assert_eq!(digest(&[("x-version", "1")], &[]), digest(&[], &[]));
        assert_ne!(
            digest(&[("x-version", "1"), ("x-version", "2")], &["x-version"]),
            digest(&[("x-version", "2"), ("x-version", "1")], &["x-version"])
        );
    }

    #[test]
    fn a_request_knows_which_headers_it_kept() {
        let other = [HeaderName::from_static("x-key")];
        assert!(Sent::default().captured(Headers::All).keeps(&other));
        let brief = Sent::default().captured(Headers::IdempotencyKey);
        assert!(!brief.keeps(&other) && brief.keeps(&[IDEMPOTENCY_KEY]));
        assert_eq!(brief.key_line(&IDEMPOTENCY_KEY).unwrap(), "k-1");
        assert_eq!(brief.key_line(&other[0]), None);
    }

    #[test]
    fn the_key_is_read_from_the_header_that_is_named() {
        let key = |keep, header| {
            let rules = KeyRules { header: HeaderName::from_static(header), ..KeyRules::default() };
            Sent::default().captured(keep).key(&rules)
        };
        assert_eq!(key(Headers::All, "x-key"), Ok(Key::new("k-2").unwrap()));
        assert_eq!(key(Headers::All, "idempotency-key"), Ok(Key::new("k-1").unwrap()));
        assert_eq!(key(Headers::IdempotencyKey, "idempotency-key"), Ok(Key::new("k-1").unwrap()));
        assert_eq!(key(Headers::IdempotencyKey, "x-key"), Err(KeyError::Unreadable));
        assert_eq!(key(Headers::All, "x-none"), Err(KeyError::Missing));
    }

    #[test]
    fn debug_shows_neither_key_nor_body() {
        let sent = Sent { uri: "/c?token=1", ..Sent::default() };
        let text = format!("{:?}", sent.captured(Headers::All));
        assert_eq!(text, r#"CapturedRequest { method: POST, path: "/c", .. }"#);
    }
}
