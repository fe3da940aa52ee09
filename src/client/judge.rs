//! Whether an answer is final.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;

use super::response::Response;
use super::retry_after;

/// What an answer says about another attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Final,
    /// Try again, not before this has passed if it is said.
    Again(Option<Duration>),
}

/// The only member of a problem document that matters here; idem's own have it.
#[derive(Deserialize)]
struct Problem {
    retryable: Option<bool>,
}

pub(super) fn judge(response: &Response, clock: impl FnOnce() -> SystemTime) -> Judged {
    // Whatever is replayed is stored, and would be the same next time.
    if response.is_replayed() {
        return Judged::Final;
    }
    let after = retry_after::asked(response.headers(), clock);
    let again = match response.status() {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            says_retryable(&response.http).unwrap_or(true)
        }
        // "Still running", "used too long ago" and an application's own conflict are all 409.
        StatusCode::CONFLICT => says_retryable(&response.http).unwrap_or(after.is_some()),
        status if status.is_server_error() => says_retryable(&response.http).unwrap_or(true),
        _ => false,
    };
    if again { Judged::Again(after) } else { Judged::Final }
}

/// What a problem document says, if the body is one that does.
fn says_retryable(response: &http::Response<Bytes>) -> Option<bool> {
    let media_type = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/problem+json") {
        return None;
    }
    serde_json::from_slice::<Problem>(response.body()).ok()?.retryable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        Response { http: response, replayed: false, attempts: 1 }
    }

    fn judged(status: u16, headers: &[(&str, &str)], body: &str) -> Judged {
        judge(&answer(status, headers, body), || SystemTime::UNIX_EPOCH)
    }

    const PROBLEM: (&str, &str) = ("content-type", "Application/Problem+JSON; charset=utf-8");
    const YES: &str = r#"{"title": "Busy", "retryable": true}"#;
    const NO: &str = r#"{"title": "Over", "retryable": false}"#;

    #[test]
    fn time_outs_and_faults_of_the_server_are_tried_again() {
        for status in [408, 425, 429, 500, 501, 502, 503, 504, 599] {
            assert_eq!(judged(status, &[], "no problem document"), Judged::Again(None), "{status}");
        }
        assert_eq!(judged(503, &[("retry-after", "3")], ""), Judged::Again(Some(Duration::from_secs(3))));
    }

    #[test]
    fn no_other_status_is_tried_again_whatever_its_body_says() {
        for status in [200, 201, 304, 400, 401, 402, 403, 404, 410, 412, 413, 422, 423, 451] {
            assert_eq!(judged(status, &[PROBLEM, ("retry-after", "1")], YES), Judged::Final, "{status}");
        }
    }

    #[test]
    fn a_conflict_is_tried_again_if_it_is_said_to_pass() {
        let soon = ("retry-after", "1");
        assert_eq!(judged(409, &[PROBLEM], YES), Judged::Again(None));
        assert_eq!(judged(409, &[PROBLEM, soon], YES), Judged::Again(Some(Duration::from_secs(1))));
        assert_eq!(judged(409, &[PROBLEM, soon], NO), Judged::Final);
        assert_eq!(judged(409, &[soon], YES), Judged::Again(Some(Duration::from_secs(1))));
        // An application's own: the thing exists, and will exist next time.
        assert_eq!(judged(409, &[], YES), Judged::Final);
        assert_eq!(judged(409, &[PROBLEM], "{}"), Judged::Final);
        assert_eq!(judged(409, &[PROBLEM], "not JSON"), Judged::Final);
    }

    #[test]
    fn a_problem_that_is_not_retryable_is_final() {
        assert_eq!(judged(500, &[PROBLEM], NO), Judged::Final);
        assert_eq!(judged(500, &[("content-type", "application/json")], NO), Judged::Again(None));
    }

    #[test]
    fn a_replay_is_final_whatever_its_status() {
        let stored = Response { replayed: true, ..answer(503, &[("retry-after", "1")], "") };
        assert_eq!(judge(&stored, || SystemTime::UNIX_EPOCH), Judged::Final);
    }
}
