//! The stored response: status, headers and body as an answer, and back.
//!
//! Durable format, version 1 (the payload of [`Codec::Http`]); *LEN* is an unsigned LEB128 number:
//!
//! - whole: `01`, the status (u16, big-endian), *LEN* of the headers, for each header *LEN* and name, *LEN* and value;
//!   what follows is the body.
//! - whole, with trailers: `02`, and between headers and body the trailers in the form of the headers.
//! - tombstone: `01`, the status (u16, big-endian); what follows is the `Location`, empty if there was none. A payload
//!   without any bytes says that nothing is known.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};

use crate::answer::{Answer, AnswerKind, Codec, Undecodable};
use crate::error::{ReplayError, Tombstone};

const VERSION: u8 = 1;
const WITH_TRAILERS: u8 = 2;

/// The trailers of a stored response: an extension of what [`decode`] makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailers(pub HeaderMap);

/// Headers that belong to one connection, one moment or one caller, and are not replayed.
const NOT_REPLAYED: [&str; 23] = [
    "age",
    "alt-svc",
    "authentication-info",
    "authorization",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "request-id",
    "retry-after",
    "server",
    "server-timing",
    "set-cookie",
    "strict-transport-security",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "www-authenticate",
    "x-request-id",
];

const NOT_REPLAYED_PREFIXES: [&str; 4] = ["access-control-", "proxy-", "ratelimit", "x-ratelimit-"];

/// Tells whether a header that the handler set is part of the replayed answer.
pub fn is_replayed(name: &HeaderName) -> bool {
    let name = name.as_str();
    !NOT_REPLAYED.contains(&name) && !NOT_REPLAYED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Puts a whole response into an answer. Headers that are not replayed are left out here already.
pub fn encode(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    Answer::build(AnswerKind::Full, Codec::Http, size(headers) + body.len() + 8, |out| {
        put_head(out, VERSION, status);
        put_headers(out, headers);
        out.put_slice(body);
    })
}

/// As [`encode`], with what came after the body.
pub fn encode_with_trailers(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    trailers: &HeaderMap,
) -> Answer {
    let size = size(headers) + size(trailers) + body.len() + 8;
    Answer::build(AnswerKind::Full, Codec::Http, size, |out| {
        put_head(out, WITH_TRAILERS, status);
        put_headers(out, headers);
        put_headers(out, trailers);
        out.put_slice(body);
    })
}

fn kept(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    headers.iter().filter(|(name, _)| is_replayed(name))
}

fn size(headers: &HeaderMap) -> usize {
    kept(headers).map(|(name, value)| name.as_str().len() + value.len() + 8).sum()
}

/// Says only that the work is done, with what a retry may still be told.
pub fn tombstone(status: StatusCode, headers: &HeaderMap) -> Answer {
    Answer::build(AnswerKind::Tombstone, Codec::Http, 64, |out| {
        put_head(out, VERSION, status);
        if let Some(location) = headers.get(LOCATION) {
            out.put_slice(location.as_bytes());
        }
    })
}

/// Takes a response out of a stored answer.
///
/// # Errors
///
/// When the answer is a tombstone, or is not what this release can read.
pub fn decode(answer: &Answer) -> Result<Response<Bytes>, ReplayError> {
    match answer.open()? {
        (AnswerKind::Full, Codec::Http, payload) => Ok(decode_response(payload)?),
        (AnswerKind::Full, _, _) => Err(Undecodable::because("it is not an HTTP response").into()),
        (AnswerKind::Tombstone, Codec::Http, payload) => {
            Err(ReplayError::Tombstone(decode_tombstone(payload)?))
        }
        (AnswerKind::Tombstone, _, _) => Err(ReplayError::Tombstone(Tombstone::default())),
    }
}

fn decode_response(mut input: Bytes) -> Result<Response<Bytes>, Undecodable> {
    let (version, status) = take_head(&mut input)?;
    let headers = take_headers(&mut input)?;
    let trailers = if version == WITH_TRAILERS { Some(take_headers(&mut input)?) } else { None };
    let mut response = Response::new(input);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if let Some(trailers) = trailers {
        response.extensions_mut().insert(Trailers(trailers));
    }
    Ok(response)
}

fn take_headers(input: &mut Bytes) -> Result<HeaderMap, Undecodable> {
    let count = take_len(input)?;
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let name = take_bytes(input)?;
        let name = HeaderName::from_bytes(&name)
            .map_err(|_| Undecodable::because("a header's name is malformed"))?;
        let value = HeaderValue::from_maybe_shared(take_bytes(input)?)
            .map_err(|_| Undecodable::because("a header's value is malformed"))?;
        headers.try_append(name, value).map_err(|_| Undecodable::because("it has too many headers"))?;
    }
    Ok(headers)
}

fn decode_tombstone(mut input: Bytes) -> Result<Tombstone, Undecodable> {
    if input.is_empty() {
        return Ok(Tombstone::default());
    }
    let (_, status) = take_head(&mut input)?;
    Ok(Tombstone { status: Some(status.as_u16()), location: (!input.is_empty()).then(|| input.to_vec()) })
}

fn put_head(out: &mut BytesMut, version: u8, status: StatusCode) {
    out.put_u8(version);
    out.put_u16(status.as_u16());
}

fn put_headers(out: &mut BytesMut, headers: &HeaderMap) {
    put_len(out, kept(headers).count());
    for (name, value) in kept(headers) {
        put_bytes(out, name.as_str().as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn put_len(out: &mut BytesMut, mut len: usize) {
    while len >= 0x80 {
        out.put_u8(len as u8 | 0x80);
        len >>= 7;
    }
    out.put_u8(len as u8);
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.put_slice(bytes);
}

const CUT_SHORT: Undecodable = Undecodable::because("it is cut short");

fn take_head(input: &mut Bytes) -> Result<(u8, StatusCode), Undecodable> {
    let version = input.try_get_u8().map_err(|_| CUT_SHORT)?;
    if ![VERSION, WITH_TRAILERS].contains(&version) {
        return Err(Undecodable::because("it is a response of a version that this release does not know"));
    }
    let status = input.try_get_u16().map_err(|_| CUT_SHORT)?;
    let status = StatusCode::from_u16(status).map_err(|_| Undecodable::because("its status is none"))?;
    Ok((version, status))
}

fn take_len(input: &mut Bytes) -> Result<usize, Undecodable> {
    let mut len = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = input.try_get_u8().map_err(|_| CUT_SHORT)?;
        len |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(len).map_err(|_| CUT_SHORT);
        }
    }
    Err(Undecodable::because("a length is malformed"))
}

fn take_bytes(input: &mut Bytes) -> Result<Bytes, Undecodable> {
    let len = take_len(input)?;
    if len > input.len() {
        return Err(CUT_SHORT);
    }
    Ok(input.split_to(len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[(&'static str, &'static [u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn version_one_is_these_bytes_for_ever() {
        let link = headers(&[("link", b"a"), ("link", b"b")]);
        let stored = b"\x01\x00\x03\x00\x01\x00\xc9\x02\x04link\x01a\x04link\x01bhi";
        assert_eq!(&encode(StatusCode::CREATED, &link, b"hi").as_bytes()[..], stored);
        let read = decode(&Answer::from_bytes(&stored[..])).unwrap();
        assert_eq!(
            (read.status(), read.headers(), &read.body()[..]),
            (StatusCode::CREATED, &link, &b"hi"[..])
        );

        let location = headers(&[("location", b"/c/1"), ("x", b"y")]);
        let stored = b"\x01\x01\x03\x00\x01\x00\xc9/c/1";
        assert_eq!(&tombstone(StatusCode::CREATED, &location).as_bytes()[..], stored);
        assert_eq!(
            &tombstone(StatusCode::OK, &HeaderMap::new()).as_bytes()[..],
            b"\x01\x01\x03\x00\x01\x00\xc8"
        );
    }

    #[test]
    fn version_two_has_trailers_and_is_these_bytes_for_ever() {
        let (grpc, sum) = (headers(&[("a", b"1")]), headers(&[("grpc-status", b"0"), ("date", b"now")]));
        let stored = b"\x01\x00\x03\x00\x02\x00\xc8\x01\x01a\x011\x01\x0bgrpc-status\x010hi";
        assert_eq!(&encode_with_trailers(StatusCode::OK, &grpc, b"hi", &sum).as_bytes()[..], stored);
        let read = decode(&Answer::from_bytes(&stored[..])).unwrap();
        assert_eq!((read.headers(), &read.body()[..]), (&grpc, &b"hi"[..]));
        let expected = Trailers(headers(&[("grpc-status", b"0")]));
        assert_eq!(read.extensions().get::<Trailers>(), Some(&expected));
        for len in 0..stored.len() - b"hi".len() {
            let cut = Answer::from_bytes(Bytes::from_static(&stored[..len]));
            assert!(matches!(decode(&cut), Err(ReplayError::Undecodable(_))), "{len}");
        }
    }

    #[test]
    fn a_tombstone_keeps_status_and_location() {
        let answer = tombstone(StatusCode::CREATED, &headers(&[("location", b"/c/1")]));
        let expected = Tombstone { status: Some(201), location: Some(b"/c/1".to_vec()) };
        assert!(matches!(decode(&answer), Err(ReplayError::Tombstone(found)) if found == expected));
        for codec in [Codec::Http, Codec::JsonOk] {
            let nothing_known = decode(&Answer::tombstone(codec));
            assert!(
                matches!(nothing_known, Err(ReplayError::Tombstone(found)) if found == Tombstone::default())
            );
        }
    }

    #[test]
    fn what_belongs_to_one_connection_moment_or_caller_is_left_out() {
        for name in [
            "Set-Cookie",
            "Date",
            "Age",
            "Via",
            "Server",
            "Server-Timing",
            "Connection",
            "Keep-Alive",
            "Proxy-Authenticate",
            "Proxy-Status",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
            "Content-Length",
            "WWW-Authenticate",
            "Authentication-Info",
            "Authorization",
            "Retry-After",
            "RateLimit",
            "RateLimit-Policy",
            "RateLimit-Limit",
            "X-RateLimit-Remaining",
            "Access-Control-Allow-Origin",
            "X-Request-Id",
            "Request-Id",
            "Traceparent",
            "Tracestate",
            "Alt-Svc",
            "Strict-Transport-Security",
        ] {
            assert!(!is_replayed(&HeaderName::from_bytes(name.as_bytes()).unwrap()), "{name}");
        }
        for name in [
            "Location",
            "Link",
            "Content-Type",
            "Content-Encoding",
            "ETag",
            "Cache-Control",
            "X-Proxy",
            "X-RateLimited",
            "X-Via",
            "Vary",
            "Last-Modified",
            "X-Custom",
            "Content-Disposition",
            "Expires",
        ] {
            assert!(is_replayed(&HeaderName::from_bytes(name.as_bytes()).unwrap()), "{name}");
        }
        let sent = headers(&[("set-cookie", b"s=1"), ("x-a", b"1"), ("date", b"now")]);
        let read = decode(&encode(StatusCode::OK, &sent, b"")).unwrap();
        assert_eq!(read.headers(), &headers(&[("x-a", b"1")]));
    }

    #[test]
    fn another_codec_or_a_damaged_answer_is_an_error() {
        let json = Answer::json(Codec::JsonOk, "hi").unwrap();
        assert!(matches!(decode(&json), Err(ReplayError::Undecodable(_))));
        let whole = encode(StatusCode::OK, &headers(&[("x-a", b"1")]), b"");
        for len in 0..whole.as_bytes().len() {
            let cut = Answer::from_bytes(whole.as_bytes().slice(..len));
            assert!(matches!(decode(&cut), Err(ReplayError::Undecodable(_))), "{len}");
        }
        for payload in [
            &b"\x03\x00\xc8\x00"[..],
            b"\x02\x00\xc8\x00",
            b"\x01\x00\x01\x00",
            b"\x01\x00\xc8\x80\x80\x80\x80\x80\x00",
            b"\x01\x00\xc8\x01\x01 \x00",
            b"\x01\x00\xc8\x01\x01a\x01\n",
            b"\x01\x00\xc8\xff\xff\xff\xff\x0f",
        ] {
            let answer = Answer::build(AnswerKind::Full, Codec::Http, 0, |out| out.put_slice(payload));
            assert!(matches!(decode(&answer), Err(ReplayError::Undecodable(_))), "{payload:?}");
        }
    }

    fn any_headers() -> impl Strategy<Value = HeaderMap> {
        let value =
            proptest::collection::vec(prop_oneof![Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8], 0..40);
        proptest::collection::vec(("x-[a-z0-9!#$%&'*+.^_`|~-]{1,12}", value), 0..8).prop_map(|lines| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_bytes(&value).unwrap(),
                );
            }
            headers.retain_replayed()
        })
    }

    trait RetainReplayed {
        fn retain_replayed(self) -> Self;
    }

    impl RetainReplayed for HeaderMap {
        fn retain_replayed(self) -> Self {
            let mut kept = Self::new();
            for (name, value) in self.iter().filter(|(name, _)| is_replayed(name)) {
                kept.append(name, value.clone());
            }
            kept
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(
            status in 200_u16..1000,
            headers in any_headers(),
            body in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let status = StatusCode::from_u16(status).unwrap();
            let read = decode(&encode(status, &headers, &body)).unwrap();
            prop_assert_eq!(read.status(), status);
            prop_assert_eq!(read.headers().iter().collect::<Vec<_>>(), headers.iter().collect::<Vec<_>>());
            prop_assert_eq!(&read.body()[..], &body[..]);
        }

        #[test]
        fn no_stored_bytes_panic(kind in 0_u8..2, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = vec![1, kind, 3, 0];
            bytes.extend(payload);
            let _ = decode(&Answer::from_bytes(bytes));
        }

        #[test]
        fn no_damaged_response_panics(at in 0_usize..60, byte in any::<u8>(), headers in any_headers()) {
            let mut bytes = encode(StatusCode::OK, &headers, b"body").as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode(&Answer::from_bytes(bytes));
        }
    }
}
