//! `Retry-After`: how long a server asks to be left alone.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// What a response asks for, in seconds or as a date; `None` if it does not say, or not so that it can be understood.
///
/// A date is compared with the response's own `Date`, if it has one: our clock may be an hour off.
pub(super) fn asked(headers: &HeaderMap, clock: impl FnOnce() -> SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // What has more digits than fit is longer than anybody waits.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let then = httpdate::parse_http_date(value).ok()?;
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    Some(then.duration_since(date.unwrap_or_else(clock)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NOON: &str = "Mon, 30 Nov 2026 12:00:00 GMT";

    fn noon() -> SystemTime {
        httpdate::parse_http_date(NOON).unwrap()
    }

    fn asks(value: &str, date: Option<&'static str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_static(date));
        }
        asked(&headers, noon)
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        assert_eq!(asks("0", None), Some(Duration::ZERO));
        assert_eq!(asks(" 7 ", None), Some(Duration::from_secs(7)));
        assert_eq!(asks("Mon, 30 Nov 2026 12:00:09 GMT", None), Some(Duration::from_secs(9)));
        assert_eq!(asked(&HeaderMap::new(), noon), None);
    }

    #[test]
    fn a_date_is_measured_by_the_clock_of_the_server() {
        let (date, now) = ("Mon, 30 Nov 2026 15:00:30 GMT", Some("Mon, 30 Nov 2026 15:00:00 GMT"));
        assert_eq!(asks(date, now), Some(Duration::from_secs(30)));
        assert_eq!(asks(date, Some("yesterday")), Some(Duration::from_secs(3 * 3600 + 30)));
    }

    #[test]
    fn a_date_that_is_over_asks_for_nothing() {
        assert_eq!(asks("Mon, 30 Nov 2026 11:59:00 GMT", None), Some(Duration::ZERO));
    }

    #[test]
    fn what_cannot_be_understood_asks_for_nothing_and_what_is_too_long_for_a_very_long_time() {
        for value in ["", "-1", "1.5", "soon", "1 s", "+3"] {
            assert_eq!(asks(value, None), None, "{value}");
        }
        assert_eq!(asks(&"9".repeat(40), None), Some(Duration::from_secs(u64::MAX)));
    }
}
