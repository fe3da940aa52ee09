//! The edge between the `http` crate and actix-web, whose types are those of its version 0.2.
//!
//! Header values are bytes on both sides, and those of one name keep their order.

use actix_web::dev::RequestHead;
use actix_web::http::header as theirs;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};
use idem_core::http::key::IDEMPOTENCY_KEY;
use idem_core::http::request::{CapturedRequest, Headers};

/// What idem needs to know of a request; `None` if a part of it is none that this crate can read.
pub(super) fn captured(head: &RequestHead, keep: Headers) -> Option<CapturedRequest> {
    let method = Method::from_bytes(head.method.as_str().as_bytes()).ok()?;
    let uri = match head.uri.path_and_query() {
        Some(target) => Uri::from(PathAndQuery::try_from(target.as_str()).ok()?),
        None => Uri::default(),
    };
    let headers = match keep {
        Headers::All => headers(&head.headers),
        Headers::IdempotencyKey => {
            let mut kept = HeaderMap::new();
            for name in [CONTENT_TYPE, IDEMPOTENCY_KEY] {
                for value in head.headers.get_all(name.as_str()) {
                    kept.append(name.clone(), of_theirs(value)?);
                }
            }
            kept
        }
    };
    Some(CapturedRequest::new(&method, &uri, &headers, keep))
}

/// The headers of actix-web as ours.
pub(super) fn headers(theirs: &theirs::HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(theirs.len());
    for (name, value) in theirs {
        let name = HeaderName::from_bytes(name.as_str().as_bytes());
        if let (Ok(name), Some(value)) = (name, of_theirs(value)) {
            // It cannot be full: no response has 24,000 headers, and actix-web reads far fewer.
            let _ = headers.try_append(name, value);
        }
    }
    headers
}

/// Our headers as those of actix-web.
pub(super) fn into_theirs(headers: &HeaderMap) -> theirs::HeaderMap {
    let mut theirs = theirs::HeaderMap::with_capacity(headers.keys_len());
    for (name, value) in headers {
        let name = theirs::HeaderName::from_bytes(name.as_str().as_bytes());
        let value = theirs::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            theirs.append(name, value);
        }
    }
    theirs
}

/// The status of actix-web as ours.
pub(super) fn status(theirs: actix_web::http::StatusCode) -> StatusCode {
    // Both go from 100 to 999.
    StatusCode::from_u16(theirs.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Our status as that of actix-web.
pub(super) fn status_into_theirs(status: StatusCode) -> actix_web::http::StatusCode {
    actix_web::http::StatusCode::from_u16(status.as_u16())
        .unwrap_or(actix_web::http::StatusCode::INTERNAL_SERVER_ERROR)
}

fn of_theirs(value: &theirs::HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_bytes(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_their_bytes_and_the_order_of_repeated_ones() {
        let mut ours = HeaderMap::new();
        let bytes: Vec<u8> = (0x20..=0xff).filter(|byte| *byte != 0x7f).chain([b'\t']).collect();
        ours.append("x-bytes", HeaderValue::from_bytes(&bytes).unwrap());
        for link in ["b", "a, c", "a", ""] {
            ours.append("link", HeaderValue::from_static(link));
        }
        assert_eq!(headers(&into_theirs(&ours)), ours);
        let links: Vec<_> =
            into_theirs(&ours).get_all("link").map(|link| link.to_str().unwrap().to_owned()).collect();
        assert_eq!(links, ["b", "a, c", "a", ""]);
    }

    #[test]
    fn every_target_that_actix_web_reads_is_read_here() {
        for byte in 0..=u8::MAX {
            for target in [[b'/', byte, b'/', b'a'], [b'/', b'?', byte, b'a']] {
                let theirs = actix_web::http::uri::PathAndQuery::try_from(&target[..]);
                let ours = PathAndQuery::try_from(&target[..]);
                assert!(theirs.is_err() || ours.is_ok(), "{target:?}");
                if let (Ok(theirs), Ok(ours)) = (theirs, ours) {
                    assert_eq!((theirs.path(), theirs.query()), (ours.path(), ours.query()));
                }
            }
        }
    }

    #[test]
    fn every_status_is_the_same_on_both_sides() {
        for code in 100..=999 {
            let ours = StatusCode::from_u16(code).unwrap();
            assert_eq!(status(status_into_theirs(ours)), ours);
        }
    }
}
