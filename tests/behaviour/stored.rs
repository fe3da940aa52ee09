//! Section 5: what is stored.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json};
use futures_util::stream;
use idem::axum::{Mark, idempotent};
use idem::core::answer::{Answer, Codec};
use idem::core::store::Settled;
use idem::{ErrorKind, Idempotency, State as RecordState};
use serde::{Deserialize, Serialize};

use crate::client::eventually;
use crate::server::{App, Caller, Server, Setup, Visit};
use crate::stores::Kind;
use crate::ways::Way;

const MIB: usize = 1024 * 1024;

/// A handler that answers the status that it is sent.
fn status(visit: &Visit) -> StatusCode {
    StatusCode::from_bytes(&visit.body).unwrap()
}

async fn answering_statuses(kind: Kind) -> Server {
    let setup = Setup::on(kind).await.work(|visit| async move {
        let status = status(&visit);
        let has_body = ![204, 205, 304].contains(&status.as_u16());
        let body = if has_body { format!("run {}", visit.run) } else { String::new() };
        (status, [("location", "/elsewhere")], body)
    });
    setup.route("/mostly", post(store_server_errors)).route("/rebind", post(rebinding)).start().await
}

async fn assert_stored(server: &Server, status: u16) {
    let (key, status) = (format!("k-{status}"), status.to_string());
    let runs = server.runs();
    let first = server.charge(&key, &status).await;
    assert_eq!(first.status.to_string(), status);
    let again = server.charge(&key, &status).await;
    again.assert_replays(&first);
    assert_eq!(again.headers["location"], "/elsewhere");
    assert_eq!(server.runs(), runs + 1, "{status}");
    server.charge(&key, "299").await.assert_conflict();
}

async fn assert_not_stored_but_bound(server: &Server, status: u16) {
    let (key, text) = (format!("k-{status}"), status.to_string());
    let runs = server.runs();
    for run in 1..=3 {
        let answer = server.charge(&key, &text).await;
        assert_eq!((answer.status, answer.is_replayed(), server.runs()), (status, false, runs + run));
        server.charge(&key, "299").await.assert_conflict();
    }
    let record = server.inspect(&server.id(&key)).await.unwrap();
    assert_eq!((record.state, record.attempt, record.answer_len), (RecordState::Failed, 3, None));
}

/// 5.1
pub(crate) async fn every_2xx_and_3xx_is_replayed(kind: Kind) {
    let server = answering_statuses(kind).await;
    for status in [200, 201, 202, 203, 204, 206, 300, 301, 302, 303, 304, 307, 308] {
        assert_stored(&server, status).await;
    }
}

/// 5.2
pub(crate) async fn a_4xx_that_the_handler_made_is_replayed(kind: Kind) {
    let server = answering_statuses(kind).await;
    for status in [402, 404, 405, 406, 410, 412, 424, 451] {
        assert_stored(&server, status).await;
    }
    // What stands around a handler cannot tell these from what an extractor rejects: `tests/layer/rejections.rs`.
    if !Way::current().claims_before_extractors() {
        for status in [400, 413, 415, 422] {
            assert_stored(&server, status).await;
        }
    }
}

/// 5.2
pub(crate) async fn a_4xx_that_says_try_again_is_not_stored_and_leaves_the_key_bound(kind: Kind) {
    let server = answering_statuses(kind).await;
    for status in [401, 403, 407, 408, 409, 421, 423, 425, 426, 428, 429] {
        assert_not_stored_but_bound(&server, status).await;
    }
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, engine = app.idem,
    store_if = |response| response.status.is_server_error()
)]
async fn store_server_errors(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Response {
    app.work(body).await
}

/// 5.2
pub(crate) async fn a_predicate_decides_instead_of_the_status(kind: Kind) {
    let server = answering_statuses(kind).await;
    let first = server.post("/mostly", "k-1", "503").send().await;
    server.post("/mostly", "k-1", "503").send().await.assert_replays(&first);
    for _ in 0..2 {
        let passed = server.post("/mostly", "k-2", "201").send().await;
        assert_eq!((passed.status, passed.is_replayed()), (201, false));
    }
    server.post("/mostly", "k-2", "503").send().await.assert_conflict();
}

/// 5.3
pub(crate) async fn a_5xx_is_not_stored_and_leaves_the_key_bound(kind: Kind) {
    let server = answering_statuses(kind).await;
    for status in [500, 501, 502, 503, 504, 599] {
        assert_not_stored_but_bound(&server, status).await;
    }
}

/// 5.3
pub(crate) async fn a_key_that_failed_is_bound_for_the_ttl_and_no_longer(kind: Kind) {
    let setup = Setup::on(kind).await.ttl(Duration::from_millis(400));
    let server = setup.work(|visit| async move { status(&visit) }).start().await;
    assert_eq!(server.charge("k-1", "500").await.status, 500);
    server.charge("k-1", "201").await.assert_conflict();
    eventually("it is bound no longer", async || server.inspect(&server.id("k-1")).await.is_none()).await;
    server.charge("k-1", "201").await.assert_fresh(201, "");
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem, rebind)]
async fn rebinding(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 5.3
pub(crate) async fn with_rebind_a_failed_key_takes_another_payload(kind: Kind) {
    let server = answering_statuses(kind).await;
    assert_eq!(server.post("/rebind", "k-1", "500").send().await.status, 500);
    let first = server.post("/rebind", "k-1", "201").send().await;
    first.assert_fresh(201, "run 2");
    server.post("/rebind", "k-1", "500").send().await.assert_conflict();
    server.post("/rebind", "k-1", "201").send().await.assert_replays(&first);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Refusal {
    Declined(u32),
    Idem(String),
}

impl From<idem::Error> for Refusal {
    fn from(error: idem::Error) -> Self {
        Self::Idem(error.code().to_owned())
    }
}

#[derive(Clone, Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[idem::idempotent(key = order, ttl = "24h", scope = shared, engine = idem, skip(runs, idem))]
async fn ship(order: String, approve: bool, runs: Runs, idem: Idempotency) -> Result<u32, Refusal> {
    let run = runs.next();
    if approve { Ok(run) } else { Err(Refusal::Declined(run)) }
}

#[idem::idempotent(key = order, ttl = "24h", scope = shared, engine = idem, skip(runs, idem), store_err)]
async fn ship_or_not(order: String, approve: bool, runs: Runs, idem: Idempotency) -> Result<u32, Refusal> {
    let run = runs.next();
    if approve { Ok(run) } else { Err(Refusal::Declined(run)) }
}

/// 5.4
pub(crate) async fn of_a_plain_function_ok_is_stored_and_err_is_not(kind: Kind) {
    let (server, runs) = (Setup::on(kind).await.start().await, Runs::default());
    let call =
        async |order: &str, approve| ship(order.into(), approve, runs.clone(), server.idem().clone()).await;
    assert_eq!(call("o-1", true).await, Ok(1));
    assert_eq!(call("o-1", true).await, Ok(1));
    assert_eq!(call("o-2", false).await, Err(Refusal::Declined(2)));
    assert_eq!(call("o-2", false).await, Err(Refusal::Declined(3)));
    // Bound to what was asked for.
    let conflict = Refusal::Idem(ErrorKind::Mismatch.code().to_owned());
    assert_eq!(call("o-2", true).await, Err(conflict));
}

/// 5.4
pub(crate) async fn with_store_err_an_err_is_stored_too(kind: Kind) {
    let (server, runs) = (Setup::on(kind).await.start().await, Runs::default());
    for _ in 0..2 {
        let call = async |order: &str, approve| {
            ship_or_not(order.into(), approve, runs.clone(), server.idem().clone()).await
        };
        assert_eq!(call("o-1", true).await, Ok(1));
        assert_eq!(call("o-2", false).await, Err(Refusal::Declined(2)));
    }
}

/// 5.5
pub(crate) async fn a_panic_is_the_applications_own_and_the_key_is_free_at_once_but_bound(kind: Kind) {
    let server = Setup::on(kind).await.work(|visit| async move {
        assert!(visit.run > 1, "the first run panics");
        format!("attempt {}", visit.attempt)
    });
    let server = server.start().await;
    server.charge("k-1", "a").await.assert_fresh(500, "the application's own page");
    // The lease of 30 seconds has only begun.
    server.charge("k-1", "b").await.assert_conflict();
    let second = server.charge("k-1", "a").await;
    second.assert_fresh(200, "attempt 2");
    server.charge("k-1", "a").await.assert_replays(&second);
}

/// A handler that marks its answer: by an extension, or from within.
async fn marking(kind: Kind, by_extension: bool) -> Server {
    let setup = Setup::on(kind).await.work(move |visit: Visit| async move {
        let text = std::str::from_utf8(&visit.body).unwrap();
        let (status, mark) = text.split_once(' ').unwrap();
        let mark = match mark {
            "final" => Mark::Final,
            "retryable" => Mark::Retryable,
            _ => Mark::Tombstone,
        };
        let answer = (
            StatusCode::from_bytes(status.as_bytes()).unwrap(),
            [("location", "/charges/7"), ("cache-control", "no-store")],
            format!("run {}", visit.run),
        );
        if by_extension {
            return (Extension(mark), answer).into_response();
        }
        idem::current().unwrap().mark(mark);
        answer.into_response()
    });
    setup.start().await
}

/// 5.6
pub(crate) async fn what_a_handler_marks_is_obeyed_whatever_the_status(kind: Kind) {
    for by_extension in [true, false] {
        let server = marking(kind, by_extension).await;
        for status in ["201", "402", "409", "500"] {
            let send = async |mark: &str| {
                server.charge(&format!("k-{status}-{mark}"), &format!("{status} {mark}")).await
            };
            let first = send("final").await;
            send("final").await.assert_replays(&first);
            assert_eq!(first.status.to_string(), status);

            for _ in 0..2 {
                let again = send("retryable").await;
                assert_eq!((again.status.to_string().as_str(), again.is_replayed()), (status, false));
            }
            server.charge(&format!("k-{status}-retryable"), "201 final").await.assert_conflict();

            let runs = server.runs();
            assert_eq!(send("tombstone").await.text(), format!("run {}", runs + 1));
            let gone = send("tombstone").await;
            gone.assert_problem(410, "idempotency_response_unavailable");
            assert_eq!(gone.json()["original_status"].to_string(), status);
            assert_eq!(
                (&gone.headers["location"], server.runs()),
                (&"/charges/7".parse().unwrap(), runs + 1)
            );
        }
    }
}

/// 5.6
pub(crate) async fn cache_control_no_store_has_no_say(kind: Kind) {
    let setup = Setup::on(kind).await.work(|_| async { ([("cache-control", "no-store, private")], "ok") });
    let server = setup.start().await;
    let first = server.charge("k-1", "a").await;
    let again = server.charge("k-1", "a").await;
    again.assert_replays(&first);
    assert_eq!(again.headers["cache-control"], "no-store, private");
}

#[derive(Deserialize)]
struct Order {
    total: u64,
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem)]
async fn typed(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(_): Path<u32>,
    Json(order): Json<Order>,
) -> Response {
    app.work(order.total.to_string().into()).await
}

/// 5.7
pub(crate) async fn what_an_extractor_rejects_claims_nothing_and_leaves_the_key_free(kind: Kind) {
    let server = Setup::on(kind).await.route("/typed/{number}", post(typed)).start().await;
    for (path, media_type, body, status) in [
        ("/typed/1", "application/json", r#"{"total":"#, 400),
        ("/typed/1", "application/json", r#"{"total":"five"}"#, 422),
        ("/typed/1", "text/plain", r#"{"total":5}"#, 415),
        ("/typed/one", "application/json", r#"{"total":5}"#, 400),
    ] {
        let rejected = server.post(path, "k-1", body).header("content-type", media_type).send().await;
        assert_eq!((rejected.status, rejected.headers.get("idempotent-replayed")), (status, None));
        assert_ne!(rejected.headers["content-type"], "application/problem+json", "it is the extractor's own");
    }
    assert_eq!((server.asked(), server.runs()), (0, 0));
    let send = || server.request("POST", "/typed/1").key("k-1").json(r#"{"total":5}"#).send();
    let first = send().await;
    first.assert_fresh(201, "charged in run 1");
    send().await.assert_replays(&first);
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}

/// A body of this pattern in pieces, whose length nobody knows beforehand.
fn streamed(len: usize) -> Body {
    let pieces: Vec<_> =
        pattern(len).chunks(10_007).map(Bytes::copy_from_slice).map(Ok::<_, Infallible>).collect();
    Body::from_stream(stream::iter(pieces))
}

/// 5.8
pub(crate) async fn an_answer_over_the_limit_reaches_its_first_caller_whole_and_is_410_after_that(
    kind: Kind,
) {
    let server = Setup::on(kind).await.work(|visit: Visit| async move {
        let text = std::str::from_utf8(&visit.body).unwrap();
        let (how, len) = text.split_once(' ').unwrap();
        let len: usize = len.parse().unwrap();
        let body = if how == "streamed" { streamed(len) } else { pattern(len).into() };
        (StatusCode::CREATED, [("location", "/exports/1")], body)
    });
    let server = server.start().await;
    for (len, is_kept) in [(MIB, true), (MIB + 1, false), (3 * MIB, false)] {
        for how in ["at-once", "streamed"] {
            let (key, body) = (format!("{how}-{len}"), format!("{how} {len}"));
            let runs = server.runs();
            let first = server.charge(&key, &body).await;
            assert_eq!(first.status, 201);
            assert!(first.body == pattern(len), "the first caller did not get all of {len} bytes");
            let again = server.charge(&key, &body).await;
            if is_kept {
                again.assert_replays(&first);
            } else {
                again.assert_problem(410, "idempotency_response_unavailable");
                let problem = again.json();
                assert_eq!(
                    (&problem["original_status"], &problem["retryable"]),
                    (&201.into(), &false.into())
                );
                assert_eq!(again.headers["location"], "/exports/1");
                assert_eq!(again.retry_after(), None);
            }
            server.charge(&key, "another").await.assert_conflict();
            assert_eq!(server.runs(), runs + 1);
        }
    }
}

/// 5.8
pub(crate) async fn the_limit_of_answers_may_be_set(kind: Kind) {
    let setup =
        Setup::on(kind).await.configure(|b| b.max_response_bytes(5)).work(|visit| async { visit.body });
    let server = setup.start().await;
    let first = server.charge("k-1", "12345").await;
    server.charge("k-1", "12345").await.assert_replays(&first);
    server.charge("k-2", "123456").await.assert_fresh(200, "123456");
    server.charge("k-2", "123456").await.assert_problem(410, "idempotency_response_unavailable");
}

/// 5.8
pub(crate) async fn an_event_stream_reaches_its_first_caller_and_is_410_after_that(kind: Kind) {
    let server = Setup::on(kind).await.work(|_| async {
        let events = ["1", "2"].map(|data| Ok::<_, Infallible>(Event::default().data(data)));
        ([("location", "/events/1")], Sse::new(stream::iter(events)))
    });
    let server = server.start().await;
    assert_eq!(server.charge("k-1", "a").await.text(), "data: 1\n\ndata: 2\n\n");
    let gone = server.charge("k-1", "a").await;
    gone.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!((&gone.json()["original_status"], server.runs()), (&200.into(), 1));
    assert_eq!(gone.headers["location"], "/events/1");
}

/// 5.9
pub(crate) async fn an_answer_that_cannot_be_decoded_is_an_error_and_never_a_second_run(kind: Kind) {
    let server = Setup::on(kind).await.work(|_| async { StatusCode::BAD_GATEWAY }).start().await;
    let answers = [
        Answer::json(Codec::JsonOk, "of a function").unwrap(),
        Answer::from_bytes(&b"garbage"[..]),
        Answer::from_bytes(&b""[..]),
        Answer::from_bytes(&b"\x01\x00\x03\x00\x01"[..]),
        Answer::from_bytes(&b"\xff\x00\x03\x00\x01\x00\xc8\x00"[..]),
    ];
    for (run, answer) in (1..).zip(answers) {
        let key = format!("k-{run}");
        server.charge(&key, "a").await.assert_fresh(502, "");
        assert_eq!(server.idem().settle(&server.id(&key), answer).await.unwrap(), Settled::Done);
        for _ in 0..2 {
            let error = server.charge(&key, "a").await;
            error.assert_problem(500, "idempotency_undecodable");
            assert_eq!((error.json()["retryable"].as_bool(), error.retry_after()), (Some(false), None));
        }
        server.charge(&key, "b").await.assert_conflict();
        assert_eq!(server.runs(), run);
    }
}

/// 5.9
pub(crate) async fn a_value_whose_type_has_changed_is_an_error_and_never_a_second_run(kind: Kind) {
    #[idem::idempotent(key = order, ttl = "24h", scope = shared, operation = "ship", engine = idem, skip(idem))]
    async fn old(order: String, idem: Idempotency) -> Result<u32, idem::Error> {
        Ok(17)
    }
    #[idem::idempotent(
        key = order, ttl = "24h", scope = shared, operation = "ship", engine = idem, skip(runs, idem)
    )]
    async fn new(order: String, runs: Runs, idem: Idempotency) -> Result<Vec<String>, idem::Error> {
        runs.next();
        Ok(Vec::new())
    }
    let (server, runs) = (Setup::on(kind).await.start().await, Runs::default());
    assert_eq!(old("o-1".into(), server.idem().clone()).await.unwrap(), 17);
    let error = new("o-1".into(), runs.clone(), server.idem().clone()).await.unwrap_err();
    assert_eq!((error.kind(), runs.0.load(Ordering::SeqCst)), (ErrorKind::Undecodable, 0));
}

/// The lines of a raw response, without what the server adds each time anew.
fn lines(response: &[u8]) -> Vec<Vec<u8>> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let lines = response[..end].split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end().to_vec());
    let mut lines: Vec<_> = lines.filter(|line| !line.starts_with(b"date:")).collect();
    // The header map of actix-web has no order but that of the lines of one name.
    if Way::current().is_actix() {
        lines.sort();
    }
    lines
}

/// headers: below the table of section 5
pub(crate) async fn on_the_wire_a_replay_differs_from_the_first_answer_by_its_marker_only(kind: Kind) {
    let setup = Setup::on(kind).await.work(|_| async {
        let bytes = HeaderValue::from_bytes(b"caf\xe9, \xff\x80 \"x\"").unwrap();
        let headers = AppendHeaders([
            ("x-z", HeaderValue::from_static("first by order, not by name")),
            ("location", HeaderValue::from_static("/charges/1?a=b,c")),
            ("link", HeaderValue::from_static("</a>; rel=\"next\", </b>; rel=\"prev\"")),
            ("link", HeaderValue::from_static("</c>")),
            ("link", HeaderValue::from_static("</c>")),
            ("x-bytes", bytes),
            ("etag", HeaderValue::from_static("\"1\"")),
            ("x-empty", HeaderValue::from_static("")),
            ("cache-control", HeaderValue::from_static("no-store")),
            ("content-type", HeaderValue::from_static("application/vnd.charge+json; v=1")),
            ("content-encoding", HeaderValue::from_static("x-none")),
        ]);
        (StatusCode::CREATED, headers, (0..=255).collect::<Vec<u8>>()).into_response()
    });
    let server = setup.start().await;
    let send = || server.raw_bytes("/charges", &[b"idempotency-key: k-1"], b"a");
    let (first, again) = (send().await, send().await);
    let all: Vec<u8> = (0..=255).collect();
    assert!(first.ends_with(&all) && again.ends_with(&all));
    let mut unmarked = lines(&again);
    let marker = unmarked.iter().position(|line| line == b"idempotent-replayed: true").expect("the marker");
    unmarked.remove(marker);
    let shown =
        |lines: &[Vec<u8>]| lines.iter().map(|line| line.escape_ascii().to_string()).collect::<Vec<_>>();
    assert_eq!(shown(&unmarked), shown(&lines(&first)));
    for line in [
        &b"link: </a>; rel=\"next\", </b>; rel=\"prev\""[..],
        b"x-bytes: caf\xe9, \xff\x80 \"x\"",
        b"content-length: 256",
    ] {
        assert!(unmarked.iter().any(|found| found == line), "{:?}", shown(&unmarked));
    }
    assert_eq!(unmarked.iter().filter(|line| line == &b"link: </c>").count(), 2);
    assert_eq!(server.runs(), 1);
}

/// headers: below the table of section 5
pub(crate) async fn an_answer_without_a_body_is_the_same_on_the_wire(kind: Kind) {
    let server = answering_statuses(kind).await;
    for status in ["200", "204", "205", "303", "304", "404"] {
        let key = format!("idempotency-key: {status}");
        let send = async || server.raw_bytes("/charges", &[key.as_bytes()], status.as_bytes()).await;
        let (first, again) = (send().await, send().await);
        let mut unmarked = lines(&again);
        let marker =
            unmarked.iter().position(|line| line == b"idempotent-replayed: true").expect("the marker");
        unmarked.remove(marker);
        assert_eq!(unmarked, lines(&first), "{status}: {}", again.escape_ascii());
        let body =
            |answer: &[u8]| answer[answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap()..].to_vec();
        assert_eq!(body(&again), body(&first), "{status}");
    }
}

/// headers: below the table of section 5
pub(crate) async fn what_belongs_to_one_connection_moment_or_caller_is_not_replayed(kind: Kind) {
    const NAMES: [&str; 41] = [
        "set-cookie",
        "age",
        "via",
        "server",
        "server-timing",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "proxy-connection",
        "proxy-status",
        "te",
        "trailer",
        "upgrade",
        "www-authenticate",
        "authentication-info",
        "authorization",
        "retry-after",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "access-control-allow-origin",
        "access-control-allow-methods",
        "access-control-allow-headers",
        "access-control-allow-credentials",
        "access-control-expose-headers",
        "access-control-max-age",
        "access-control-request-method",
        "access-control-request-headers",
        "x-request-id",
        "request-id",
        "traceparent",
        "tracestate",
        "alt-svc",
        "strict-transport-security",
    ];
    const THEN: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
    let setup = Setup::on(kind).await.work(|_| async {
        let mut headers: HeaderMap = NAMES
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")))
            .into_iter()
            .collect();
        headers.insert("date", HeaderValue::from_static(THEN));
        headers.insert("content-length", HeaderValue::from_static("4"));
        headers.insert("x-kept", HeaderValue::from_static("1"));
        (headers, "body")
    });
    let server = setup.start().await;
    let first = server.charge("k-1", "a").await;
    for name in NAMES {
        assert!(first.headers.contains_key(name), "the first caller gets `{name}`");
    }
    assert_eq!(first.headers["date"], THEN);
    let again = server.charge("k-1", "a").await;
    again.assert_replays(&first);
    for name in NAMES {
        assert!(!again.headers.contains_key(name), "`{name}` is replayed");
    }
    assert_ne!(again.headers["date"], THEN);
    assert_eq!(
        (&again.headers["content-length"], &again.headers["x-kept"]),
        (&"4".parse().unwrap(), &"1".parse().unwrap())
    );
}

/// headers: below the table of section 5
pub(crate) async fn a_streamed_answer_is_replayed_byte_for_byte_with_its_length(kind: Kind) {
    let server = Setup::on(kind).await.work(|_| async { streamed(100_000) }).start().await;
    let first = server.charge("k-1", "a").await;
    assert!(first.body == pattern(100_000));
    let again = server.charge("k-1", "a").await;
    assert!(again.is_replayed() && again.body == first.body);
    assert_eq!(again.headers["content-length"], "100000");
    assert!(!again.headers.contains_key("transfer-encoding"));
}

/// headers: below the table of section 5
pub(crate) async fn an_empty_answer_is_told_apart_from_none(kind: Kind) {
    let server = Setup::on(kind).await.work(|_| async {}).start().await;
    let first = server.charge("k-1", "").await;
    first.assert_fresh(200, "");
    let again = server.charge("k-1", "").await;
    again.assert_replays(&first);
    assert_eq!((&again.headers["content-length"], server.runs()), (&"0".parse().unwrap(), 1));
}
