use http::header::{CONTENT_TYPE, HeaderName};

use super::*;
use crate::http::policy::EXPIRES;

fn policy(change: impl FnOnce(HttpPolicy) -> HttpPolicy) -> HttpPolicy {
    let policy = change(HttpPolicy::default());
    assert_eq!(policy.fault(), None);
    policy
}

fn text(status: u16, body: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(body.as_bytes()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn stored() -> Response<Bytes> {
    let mut response = text(201, "done");
    response.headers_mut().insert("location", HeaderValue::from_static("/c/1"));
    response
}

#[test]
fn a_mismatch_has_the_status_that_the_operation_chose_and_its_own_code() {
    let policy = policy(|http| http.mismatch_status(409));
    let error = policy.explain(Error::new(ErrorKind::Mismatch), true);
    let response = policy.render(&error);
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((response.status().as_u16(), &body["status"]), (409, &409.into()));
    assert_eq!(body["code"], "idempotency_conflict");
    assert!(!response.headers().contains_key(RETRY_AFTER));
    let other = policy.explain(Error::new(ErrorKind::KeyExpired), true);
    assert_eq!(other.status(), ErrorKind::KeyExpired.status());
}

#[test]
fn the_docs_url_becomes_a_link_of_every_error_also_of_a_replaced_one() {
    let url = "https://example.org/idempotency#keys";
    let link = format!("<{url}>; rel=\"describedby\"");
    for policy in [
        policy(|http| http.docs_url(url)),
        policy(|http| http.docs_url(url).render_errors(|_| text(400, "no"))),
    ] {
        assert_eq!(policy.render(&Error::new(ErrorKind::Mismatch)).headers()[LINK], link);
    }
    assert!(!HttpPolicy::default().render(&Error::new(ErrorKind::Mismatch)).headers().contains_key(LINK));
}

#[test]
fn a_replaced_renderer_decides_status_headers_and_body_and_what_it_forgets_is_added() {
    let policy = policy(|http| http.render_errors(|error| text(error.status(), error.code())));
    let response = policy.render(&Error::new(ErrorKind::InFlight));
    assert_eq!((response.status().as_u16(), &response.body()[..]), (409, &b"idempotency_in_flight"[..]));
    assert_eq!(response.headers()[RETRY_AFTER], "1");
    assert!(!response.headers().contains_key(CONTENT_TYPE));
}

#[test]
fn a_replaced_renderer_cannot_make_a_success_of_an_error_nor_break_the_answer() {
    let success = policy(|http| http.render_errors(|_| text(200, "fine")));
    assert_eq!(success.render(&Error::new(ErrorKind::Mismatch)).status(), 422);
    let panics = policy(|http| http.render_errors(|_| panic!("no body")));
    let response = panics.render(&Error::new(ErrorKind::Mismatch));
    assert_eq!(response.status(), 422);
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
}

#[test]
fn a_replay_is_marked_and_told_and_otherwise_as_it_was_stored() {
    let (tell, told) = std::sync::mpsc::channel();
    let policy = policy(|http| {
        http.replay_header("X-Replayed").on_replay(move |replay| {
            let parts = replay.parts();
            tell.send((replay.operation().to_owned(), parts.status, parts.headers.clone())).unwrap();
        })
    });
    let sent = policy.replay("charge", stored(), Duration::from_mins(1));
    assert_eq!((sent.status().as_u16(), &sent.body()[..]), (201, &b"done"[..]));
    assert_eq!(sent.headers()["x-replayed"], "true");
    assert_eq!(sent.headers().len(), 2);
    assert_eq!(told.try_recv().unwrap(), ("charge".to_owned(), sent.status(), sent.headers().clone()));
}

#[test]
fn a_hook_that_panics_does_not_cost_the_answer() {
    let policy = policy(|http| http.on_replay(|_| panic!("hook")));
    assert_eq!(policy.replay("charge", stored(), Duration::ZERO).body(), stored().body());
}

#[test]
fn the_expiry_is_a_date_and_told_only_where_it_is_asked_for() {
    let replayed = |policy: &HttpPolicy, left| policy.replay("charge", stored(), left).headers().clone();
    assert!(!replayed(&HttpPolicy::default(), Duration::from_mins(1)).contains_key(EXPIRES));
    let policy_with = policy(|http| http.echo_expiry(true));
    let before = SystemTime::now();
    let headers = replayed(&policy_with, Duration::from_hours(1));
    let date = httpdate::parse_http_date(headers[EXPIRES].to_str().unwrap()).unwrap();
    let in_time = date.duration_since(before).unwrap();
    assert!(in_time > Duration::from_secs(3590) && in_time <= Duration::from_secs(3600 + 10), "{in_time:?}");
    assert_eq!(replayed(&policy_with, Duration::MAX)[EXPIRES], "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn the_expirys_header_has_the_name_that_it_was_given_whatever_else_is_said() {
    for named in [
        policy(|http| http.expiry_header("X-Expires")),
        policy(|http| http.echo_expiry(true).expiry_header("X-Expires")),
        policy(|http| http.expiry_header("X-Expires").echo_expiry(true)),
    ] {
        let replayed = named.replay("charge", stored(), Duration::ZERO);
        assert!(replayed.headers().contains_key("x-expires") && !replayed.headers().contains_key(EXPIRES));
    }
    let off = policy(|http| http.expiry_header("X-Expires").echo_expiry(false));
    assert!(!off.replay("charge", stored(), Duration::ZERO).headers().contains_key("x-expires"));
}

#[test]
fn the_key_is_sent_back_as_it_came_unless_the_handler_said_otherwise() {
    let line = HeaderValue::from_static("\"abc\"");
    let mut headers = HeaderMap::new();
    HttpPolicy::default().tell_key(&mut headers, Some(&line));
    assert!(headers.is_empty());
    let policy = policy(|http| http.echo_key(true).key_header("X-Key"));
    policy.tell_key(&mut headers, None);
    assert!(headers.is_empty());
    policy.tell_key(&mut headers, Some(&line));
    assert_eq!(headers["x-key"], line);
    headers.insert("x-key", HeaderValue::from_static("mine"));
    policy.tell_key(&mut headers, Some(&line));
    assert_eq!(headers["x-key"], "mine");
}

#[test]
fn a_value_that_cannot_be_is_a_fault() {
    for faulty in [
        HttpPolicy::default().mismatch_status(500),
        HttpPolicy::default().mismatch_status(200),
        HttpPolicy::default().mismatch_status(0),
        HttpPolicy::default().max_len(0),
        HttpPolicy::default().max_len(256),
        HttpPolicy::default().docs_url(""),
        HttpPolicy::default().docs_url("https://example.org/a\nb"),
        HttpPolicy::default().docs_url("https://example.org/>; rel=\"x\""),
        HttpPolicy::default().key_header("X Key"),
        HttpPolicy::default().replay_header(""),
        HttpPolicy::default().expiry_header("é"),
        HttpPolicy::default().replay_header("Transfer-Encoding"),
        HttpPolicy::default().replay_header("content-type"),
        HttpPolicy::default().expiry_header("Content-Length"),
        HttpPolicy::default().expiry_header("Set-Cookie"),
        HttpPolicy::default().expiry_header("Location"),
        HttpPolicy::default().fingerprint_headers(["Accept", "a:b"]),
    ] {
        assert!(faulty.fault().is_some(), "{faulty:?}");
    }
}

#[test]
fn headers_that_count_are_in_one_order_and_none_twice() {
    let policy = policy(|http| http.fingerprint_headers(["X-B", "x-a", "X-b"]));
    assert_eq!(policy.fingerprint_headers[..], ["x-a", "x-b"].map(HeaderName::from_static));
}
