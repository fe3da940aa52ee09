//! Problem documents (RFC 9457): what a caller is told when its request is not answered by the handler.
//!
//! The body is `application/problem+json` with `type`, `title`, `status`, `detail`, `code` and `retryable`. It says
//! nothing of the stored request. `type` points to the section below that is named like the `code`.
//!
//! # `idempotency_key_required`
//! Status 400. Send the request with an `Idempotency-Key`.
//!
//! # `idempotency_key_invalid`
//! Status 400. Send one header line with 1 to 255 printable ASCII characters, quoted or not.
//!
//! # `idempotency_conflict`
//! Status 422. The key was used with another request. Send a new key for a new request.
//!
//! # `idempotency_in_flight`
//! Status 409, retryable. The first request with this key is still running. Send it again, with the same key, after `Retry-After`.
//!
//! # `idempotency_key_expired`
//! Status 409. The key was used too long ago for its answer to be known. Find out what became of it before sending a new key.
//!
//! # `idempotency_outcome_unknown`
//! Status 409. The first request may or may not have had its effect, and somebody has to find out.
//!
//! # `idempotency_response_unavailable`
//! Status 410. The request was done, but its response was too large, a stream, or not to be kept. `original_status` and
//! `location` say what is known; `Location` is sent as a header too.
//!
//! # `idempotency_store_unavailable`
//! Status 503, retryable. The request was not begun. Send it again, with the same key, after `Retry-After`.
//!
//! # `idempotency_overloaded`
//! Status 503, retryable. The request was not begun. Send it again, with the same key, after `Retry-After`.
//!
//! # `idempotency_too_many_keys`
//! Status 429, retryable. The caller has sent too many new keys in a short time. The request was not begun. Send it again, with
//! the same key, after `Retry-After`; retries of earlier requests are answered meanwhile.
//!
//! # `idempotency_lease_lost`
//! Status 409, retryable. The request took too long and may have been taken over. Send it again with the same key.
//!
//! # `idempotency_aborted`
//! Status 503, retryable. The request took too long and was aborted. Send it again with the same key.
//!
//! # `idempotency_request_too_large`
//! Status 413. The body is larger than what is compared; the request was not begun.
//!
//! # `idempotency_undecodable`
//! Status 500. The request was done, but its stored response cannot be read. It is not run again.
//!
//! # `idempotency_scope_invalid`
//! Status 500. The server could not tell who is asking.
//!
//! # `idempotency_commit_refused`
//! Status 500. The database refused to commit the request's transaction, because of another one or of a constraint that is
//! checked at the commit. Nothing of the request is left; retry with the same key.
//!
//! # `idempotency_fingerprint_failed`
//! Status 500. The server could not fingerprint the request.
//!
//! # `idempotency_misuse`
//! Status 500. The server is misconfigured.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Response, StatusCode};
use serde::Serialize;

use crate::error::{Error, ErrorKind};
use crate::http::key::{Format, IDEMPOTENCY_KEY, KeyRules, Syntax};

/// The header that marks a replayed response, unless another is configured.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const TYPE: &str = "https://docs.rs/idem-core/latest/idem_core/http/problem/index.html#";

#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
    code: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

/// Renders an error as a response.
pub fn render(error: &Error) -> Response<Bytes> {
    let tombstone = error.tombstone();
    let location = tombstone.and_then(|tombstone| tombstone.location.as_deref());
    let problem = Problem {
        r#type: format!("{TYPE}{}", error.code()),
        title: error.title(),
        status: error.status(),
        detail: detail(error),
        code: error.code(),
        retryable: error.is_retryable(),
        original_status: tombstone.and_then(|tombstone| tombstone.status),
        location: location.map(|location| String::from_utf8_lossy(location).into_owned()),
    };
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(after) = error.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
    }
    if let Some(Ok(location)) = location.map(HeaderValue::from_bytes) {
        headers.insert(LOCATION, location);
    }
    response
}

/// `Retry-After` has no fractions, and 0 would invite a storm.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)).max(1)
}

/// What a caller without a key, or with one that cannot be used, can do; `None` for other errors.
///
/// `rules` are those of the header that the operation reads its key from, `None` if it takes the key from elsewhere in
/// the request.
pub fn key_help(error: &Error, rules: Option<&KeyRules>) -> Option<String> {
    let place = match rules {
        // As most people write it; headers are compared without regard to case.
        Some(rules) if rules.header == IDEMPOTENCY_KEY => "an Idempotency-Key header".to_owned(),
        Some(rules) => format!("a header `{}`", rules.header),
        None => "the value that this operation takes its key from".to_owned(),
    };
    match error.kind() {
        ErrorKind::KeyRequired => Some(format!(
            "This operation needs a key. Send {place}, unique to this request, and the same when it is retried."
        )),
        ErrorKind::KeyInvalid => {
            let reason = error.source().map(ToString::to_string);
            let reason = error.detail().or(reason.as_deref()).map(|reason| format!(" ({reason})"));
            let reason = reason.unwrap_or_default();
            Some(match rules {
                Some(rules) => {
                    format!(
                        "The key cannot be used{reason}. Send one line of {place} with {}.",
                        wanted(rules)
                    )
                }
                None => format!("The key cannot be used{reason}. Mend {place}."),
            })
        }
        _ => None,
    }
}

/// What a key has to be.
fn wanted(rules: &KeyRules) -> String {
    let quoted = if rules.syntax == Syntax::Strict { ", in double quotes" } else { "" };
    match rules.format {
        Format::Any => format!("1 to {} {}{quoted}", rules.max_len, rules.format.expected()),
        format => format!("{}{quoted}", format.expected()),
    }
}

/// What the caller can do, in a sentence or two: the `detail` of a problem document, for renderers of your own.
///
/// It says nothing of the stored request. Faults of the server are not explained to strangers: they are in its log.
pub fn detail(error: &Error) -> String {
    if let Some(help) = error.help() {
        return help.to_owned();
    }
    if let Some(help) = key_help(error, Some(&KeyRules::default())) {
        return help;
    }
    let help = match error.kind() {
        ErrorKind::KeyRequired | ErrorKind::KeyInvalid => "The request has no key that can be used.",
        ErrorKind::Mismatch => {
            "This key was already used for a different request. Send a new key for a new request; to retry the \
             earlier one, send exactly what was sent then."
        }
        ErrorKind::InFlight => {
            "The first request with this key is still running, or was cut off. Retry with the same key in a moment to \
             get its response."
        }
        ErrorKind::KeyExpired => {
            "This key was used before, and its response is no longer known. Find out what became of that request \
             before you send a new key."
        }
        ErrorKind::OutcomeUnknown => {
            "It is not known whether the first request with this key was carried out, and it will not be tried again. \
             Ask the operator before you send a new key."
        }
        ErrorKind::AnswerUnavailable => {
            "The request with this key was carried out, but its response was not kept. It will not be carried out \
             again; look up its result instead."
        }
        ErrorKind::TooManyKeys => {
            "Too many requests with new keys were sent. This one was not carried out; retry with the same key after the \
             time that Retry-After tells."
        }
        ErrorKind::StoreUnavailable | ErrorKind::Overloaded => {
            "The request was not carried out. Retry with the same key."
        }
        ErrorKind::LeaseLost | ErrorKind::Aborted => {
            "The request took too long and may have been carried out in part. Retry with the same key, never with a \
             new one."
        }
        ErrorKind::CommitRefused => {
            "The request was undone, since its changes could not be committed. Retry with the same key."
        }
        ErrorKind::RequestTooLarge => {
            let reason = error.detail().map(|reason| format!(" ({reason})")).unwrap_or_default();
            return format!("The body of the request is too large{reason}. The request was not carried out.");
        }
        ErrorKind::Undecodable => {
            "The request with this key was carried out, but its response cannot be read. It will not be carried out \
             again."
        }
        ErrorKind::ScopeInvalid | ErrorKind::FingerprintFailed | ErrorKind::Misuse => {
            "The request was not carried out because of a fault in the server."
        }
    };
    help.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::{ReplayError, Tombstone};
    use crate::key::KeyError;

    fn body(response: &Response<Bytes>) -> Value {
        serde_json::from_slice(response.body()).unwrap()
    }

    const KINDS: [ErrorKind; 18] = [
        ErrorKind::KeyRequired,
        ErrorKind::KeyInvalid,
        ErrorKind::ScopeInvalid,
        ErrorKind::Mismatch,
        ErrorKind::InFlight,
        ErrorKind::KeyExpired,
        ErrorKind::OutcomeUnknown,
        ErrorKind::AnswerUnavailable,
        ErrorKind::StoreUnavailable,
        ErrorKind::Overloaded,
        ErrorKind::TooManyKeys,
        ErrorKind::Undecodable,
        ErrorKind::LeaseLost,
        ErrorKind::Aborted,
        ErrorKind::CommitRefused,
        ErrorKind::FingerprintFailed,
        ErrorKind::RequestTooLarge,
        ErrorKind::Misuse,
    ];

    #[test]
    fn every_kind_has_the_six_members_and_the_media_type() {
        for kind in KINDS {
            let response = render(&Error::new(kind));
            let problem = body(&response);
            assert_eq!(response.status().as_u16(), kind.status());
            assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
            assert_eq!(problem["type"], format!("{TYPE}{}", kind.code()));
            assert_eq!(problem["title"], kind.title());
            assert_eq!(problem["status"], kind.status());
            assert_eq!(problem["code"], kind.code());
            assert_eq!(problem["retryable"], kind.is_retryable());
            assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
            assert_eq!(problem.as_object().unwrap().len(), 6, "{problem}");
        }
    }

    #[test]
    fn every_code_has_its_section_in_the_docs() {
        let source = include_str!("problem.rs");
        for kind in KINDS {
            let section = format!("//! # `{}`\n//! Status {}", kind.code(), kind.status());
            assert!(source.contains(&section), "{section}");
        }
    }

    #[test]
    fn retry_after_is_whole_seconds_and_only_where_a_retry_helps() {
        for kind in KINDS {
            let response = render(&Error::new(kind));
            let after = response.headers().get(RETRY_AFTER);
            assert_eq!(after.is_some(), kind.is_retryable(), "{kind:?}");
            assert!(after.is_none_or(|after| after == "1"));
        }
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn an_invalid_key_is_told_what_was_expected() {
        let error = Error::new(ErrorKind::KeyInvalid).with_source(KeyError::Malformed("one header line"));
        let detail = body(&render(&error))["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("expected one header line"), "{detail}");
    }

    #[test]
    fn a_caller_without_a_key_is_told_where_to_put_it() {
        let required = Error::new(ErrorKind::KeyRequired);
        assert!(body(&render(&required))["detail"].as_str().unwrap().contains("an Idempotency-Key header"));
        let header = HeaderName::from_static("x-request-key");
        let rules = KeyRules { header, ..KeyRules::default() };
        let elsewhere = key_help(&required, Some(&rules)).unwrap();
        assert!(
            elsewhere.contains("`x-request-key`") && !elsewhere.contains("Idempotency-Key"),
            "{elsewhere}"
        );
        let within = key_help(&required, None).unwrap();
        assert!(!within.contains("header"), "{within}");
        let helped = render(&required.with_help(elsewhere.clone()));
        assert_eq!(body(&helped)["detail"], elsewhere);
        assert_eq!(key_help(&Error::new(ErrorKind::Mismatch), None), None);
    }

    #[test]
    fn an_invalid_key_is_told_what_the_operation_accepts() {
        let error = Error::new(ErrorKind::KeyInvalid);
        let rules = KeyRules { max_len: 64, syntax: Syntax::Strict, ..KeyRules::default() };
        let help = key_help(&error, Some(&rules)).unwrap();
        assert!(help.contains("with 1 to 64 printable ASCII characters, in double quotes."), "{help}");
        let help = key_help(&error, Some(&KeyRules { format: Format::UuidV7, ..rules })).unwrap();
        assert!(help.contains("with a UUID of version 7"), "{help}");
    }

    #[test]
    fn a_tombstone_tells_the_original_status_and_location() {
        let location = Some(b"/charges/1".to_vec());
        let error = Error::from_replay(ReplayError::Tombstone(Tombstone { status: Some(201), location }));
        let response = render(&error);
        let problem = body(&response);
        assert_eq!(response.status(), 410);
        assert_eq!(response.headers()[LOCATION], "/charges/1");
        assert_eq!((&problem["original_status"], &problem["location"]), (&201.into(), &"/charges/1".into()));
    }

    #[test]
    fn faults_of_the_server_are_not_explained_to_strangers() {
        let error = Error::new(ErrorKind::Misuse).with_detail("secret table missing");
        assert!(!render(&error).body().windows(6).any(|window| window == b"secret"));
    }
}
