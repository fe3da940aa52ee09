//! Section 3: the fingerprint.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Json};
use idem::Store as _;
use idem::axum::idempotent;
use idem::core::fingerprint::{Fingerprint, Secrets};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::Answer;
use crate::server::{App, Caller, Server, Setup};
use crate::stores::Kind;

const MIB: usize = 1024 * 1024;

/// What is sent: query, media type, body.
type Sent = (&'static str, &'static str, &'static [u8]);

impl Server {
    async fn send(&self, key: &str, (query, media_type, body): Sent) -> Answer {
        let sending = self.post(&format!("/charges{query}"), key, body);
        if media_type.is_empty() { sending } else { sending.header("content-type", media_type) }.send().await
    }

    /// Asserts that requests count as the same, or as different, whichever comes first.
    async fn assert_compares(&self, pairs: impl IntoIterator<Item = (Sent, Sent)>, same: bool) {
        for (at, (a, b)) in pairs.into_iter().enumerate() {
            for (first, second) in [(a, b), (b, a)] {
                let key = format!("pair-{}", self.runs());
                assert_eq!(self.send(&key, first).await.status, 201);
                let second = self.send(&key, second).await;
                let shown = format!("{at}: {} and {}", a.2.escape_ascii(), b.2.escape_ascii());
                assert_eq!(
                    (second.status, second.is_replayed()),
                    (if same { 201 } else { 422 }, same),
                    "{shown}"
                );
            }
        }
    }
}

fn json(body: &'static str) -> Sent {
    ("", "application/json", body.as_bytes())
}

fn form(body: &'static str) -> Sent {
    ("", "application/x-www-form-urlencoded", body.as_bytes())
}

fn at(query: &'static str) -> Sent {
    (query, "", b"a")
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem)]
async fn blind(State(app): State<App>, Extension(caller): Extension<Caller>) -> Response {
    app.work(Bytes::new()).await
}

/// 3.1
pub(crate) async fn everything_that_was_asked_for_counts_whatever_the_handler_extracts(kind: Kind) {
    let server = Setup::on(kind).await.route("/blind", post(blind).put(blind)).start().await;
    let send = |method: &'static str, query: &'static str, body: &'static str| {
        server.request(method, &format!("/blind{query}")).key("k-1").body(body).send()
    };
    let first = send("POST", "?a=1", "body").await;
    send("POST", "?a=1", "other").await.assert_conflict();
    send("POST", "?a=2", "body").await.assert_conflict();
    send("PUT", "?a=1", "body").await.assert_conflict();
    send("POST", "?a=1", "body").await.assert_replays(&first);
    assert_eq!(server.runs(), 1);
}

#[derive(Deserialize)]
struct Order {
    total: u64,
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, fingerprint = order.total)]
async fn by_total(State(app): State<App>, Json(order): Json<Order>) -> Response {
    app.work(order.total.to_string().into()).await
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, fingerprint = none)]
async fn uncompared(State(app): State<App>, body: Bytes) -> Response {
    app.work(body).await
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, fingerprint = raw)]
async fn by_bytes(State(app): State<App>, body: Bytes) -> Response {
    app.work(body).await
}

/// 3.1
pub(crate) async fn a_fingerprint_of_ones_own_counts_instead_of_the_request(kind: Kind) {
    let server = Setup::on(kind).await.route("/total", post(by_total)).start().await;
    let send = |body: &'static str| server.request("POST", "/total").key("k-1").json(body).send();
    let first = send(r#"{"total":5,"sent_at":"10:00"}"#).await;
    send(r#"{"total":5,"sent_at":"10:01"}"#).await.assert_replays(&first);
    send(r#"{"total":6,"sent_at":"10:00"}"#).await.assert_conflict();
}

/// 3.1
pub(crate) async fn with_fingerprint_none_any_payload_gets_the_stored_answer(kind: Kind) {
    let server = Setup::on(kind).await.route("/none", post(uncompared)).start().await;
    let first = server.post("/none", "k-1", "a").send().await;
    server.post("/none", "k-1", "b").send().await.assert_replays(&first);
}

/// 3.2
pub(crate) async fn json_that_means_the_same_is_the_same(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let pairs = [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (r#"{"a":{"x":1,"y":[{"p":1,"q":2}]}}"#, r#"{"a":{"y":[{"q":2,"p":1}],"x":1}}"#),
        (r#"{"a":[1,2]}"#, "\n{ \"a\" :\t[ 1 ,\r\n2 ] } "),
        (r#"{"a":"é/\n"}"#, r#"{"\u0061":"\u00e9\/\u000a"}"#),
        (r#"{"a":"😀"}"#, r#"{"a":"\uD83D\uDE00"}"#),
        (r#"{"a":1}"#, r#"{"a":1.0}"#),
        (r#"{"a":1}"#, r#"{"a":1e0}"#),
        (r#"{"a":100}"#, r#"{"a":1.00E+2}"#),
        (r#"{"a":0.001}"#, r#"{"a":1e-3}"#),
        ("9007199254740993", "9007199254740993.0"),
    ];
    server.assert_compares(pairs.map(|(a, b)| (json(a), json(b))), true).await;
    let patch = |body: &'static str| ("", "application/merge-patch+json", body.as_bytes());
    server.assert_compares([(patch(r#"{"a":1,"b":2}"#), patch(r#"{"b":2,"a":1}"#))], true).await;
}

/// 3.2
pub(crate) async fn json_that_means_something_else_differs(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let pairs = [
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        ("9007199254740992", "9007199254740993"),
        (r#"{"a":9007199254740992}"#, r#"{"a":9007199254740993}"#),
        (r#"{"a":0.1}"#, r#"{"a":0.10000000000000001}"#),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":""}"#, r#"{"a":null}"#),
        (r#"{"a":[]}"#, r#"{"a":{}}"#),
        (r#"{"a":"b"}"#, r#"{"A":"b"}"#),
        (r#"{"a":"b"}"#, r#"{"a":"b "}"#),
        (r#"{"a":true}"#, r#"{"a":false}"#),
    ];
    server.assert_compares(pairs.map(|(a, b)| (json(a), json(b))), false).await;
}

/// 3.2
pub(crate) async fn json_with_duplicate_members_or_none_at_all_is_compared_byte_for_byte(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let same = [r#"{"a":1,"a":1}"#, r#"{"a":1"#, "not json", "", "{\"a\":\"\u{0}\"}"];
    server.assert_compares(same.map(|body| (json(body), json(body))), true).await;
    let differ = [
        (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
        (r#"{"a":1,"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1,"a":1}"#, r#"{"a":1, "a":1}"#),
        (r#"{"a":1"#, r#"{ "a":1"#),
        ("[1,]", "[1]"),
    ];
    server.assert_compares(differ.map(|(a, b)| (json(a), json(b))), false).await;
}

/// 3.2
pub(crate) async fn json_of_any_depth_and_numbers_of_any_size_are_compared(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let deep = |open: &str, close: &str| [open.repeat(150_000), close.repeat(150_000)].concat();
    for (at, body) in
        [deep("[", "]"), deep("[", ""), deep("{\"a\":", "}"), "9".repeat(900_000)].iter().enumerate()
    {
        let send = |body: String| {
            server
                .post("/charges", &format!("k-{at}"), body)
                .header("content-type", "application/json")
                .send()
        };
        let first = send(body.clone()).await;
        assert_eq!(first.status, 201);
        send(body.clone()).await.assert_replays(&first);
        send(format!("{body}1")).await.assert_conflict();
    }
    let same = [("1e999999999", "10e999999998"), ("0e999999999", "0"), ("-0", "-0.0")];
    server.assert_compares(same.map(|(a, b)| (json(a), json(b))), true).await;
    let differ = [("1e999999999", "1e999999998"), ("1e-999999999", "0"), ("1e99999999999999999999", "1")];
    server.assert_compares(differ.map(|(a, b)| (json(a), json(b))), false).await;
}

/// 3.2
pub(crate) async fn with_fingerprint_raw_json_is_compared_byte_for_byte(kind: Kind) {
    let server = Setup::on(kind).await.route("/raw", post(by_bytes)).start().await;
    let send = |body: &'static str| server.request("POST", "/raw").key("k-1").json(body).send();
    let first = send(r#"{"a":1}"#).await;
    send(r#"{"a":1}"#).await.assert_replays(&first);
    send(r#"{"a": 1}"#).await.assert_conflict();
}

/// 3.3
pub(crate) async fn the_query_counts_by_its_sorted_names_and_the_order_of_repeated_ones(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let same =
        [("?a=1&b=2", "?b=2&a=1"), ("?a=1&b=2&a=3", "?a=1&a=3&b=2"), ("?a=x%20y", "?a=x+y"), ("", "?")];
    server.assert_compares(same.map(|(a, b)| (at(a), at(b))), true).await;
    let differ = [
        ("?dry=1", "?dry=0"),
        ("?dry=1", ""),
        ("?a=1&a=2", "?a=2&a=1"),
        ("?a=1", "?a=1&a=1"),
        ("?a=1", "?A=1"),
    ];
    server.assert_compares(differ.map(|(a, b)| (at(a), at(b))), false).await;
}

/// 3.3
pub(crate) async fn of_the_headers_only_the_essence_of_the_media_type_counts(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let typed = |media_type: &'static str| ("", media_type, &b"{}"[..]);
    let same = [
        ("application/json", "application/json; charset=utf-8"),
        ("application/json", "Application/JSON"),
        ("text/plain", "text/plain;charset=latin1"),
    ];
    server.assert_compares(same.map(|(a, b)| (typed(a), typed(b))), true).await;
    let differ = [("application/json", "text/plain"), ("application/json", ""), ("text/plain", "text/html")];
    server.assert_compares(differ.map(|(a, b)| (typed(a), typed(b))), false).await;

    let first = server.post("/charges", "k-1", "a").header("user-agent", "a/1").send().await;
    let other = server.post("/charges", "k-1", "a").header("user-agent", "b/2").header("x-trace", "7");
    other.send().await.assert_replays(&first);
}

/// 3.3
pub(crate) async fn headers_that_are_named_count_too(kind: Kind) {
    let setup = Setup::on(kind).await.configure(|b| b.fingerprint_headers(["X-Version", "X-Tenant"]));
    let server = setup.start().await;
    let sent = |key: &str, version: &str| {
        server.post("/charges", key, "a").header("x-version", version).header("x-trace", version).send()
    };
    let first = sent("k-1", "1").await;
    sent("k-1", "1").await.assert_replays(&first);
    sent("k-1", "2").await.assert_conflict();
    server.charge("k-1", "a").await.assert_conflict();
    sent("k-1", "1").await.assert_replays(&first);
    let without = server.charge("k-2", "a").await;
    server.post("/charges", "k-2", "a").header("x-trace", "7").send().await.assert_replays(&without);
}

/// 3.4
pub(crate) async fn forms_are_compared_by_their_pairs(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let same = [("a=1&b=x+y", "b=x%20y&a=1"), ("a=1&b=2&a=3", "b=2&a=1&a=3"), ("a=%e9%88", "a=%E9%88")];
    server.assert_compares(same.map(|(a, b)| (form(a), form(b))), true).await;
    let differ = [("a=1&a=2", "a=2&a=1"), ("a=1", "a=2"), ("a=1", "a=1&b="), ("a=%ff", "a=%fe")];
    server.assert_compares(differ.map(|(a, b)| (form(a), form(b))), false).await;
}

const MULTIPART: &str = "multipart/form-data; boundary=b";

/// A multipart body of two parts under the boundary `b`.
const PARTS: &[u8] = b"--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n5\r\n\
    --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n\
    \x89PNG\r\n\xff\r\n--b--\r\n";

/// The body with every `from` replaced.
fn with(body: &[u8], from: &str, to: &str) -> &'static [u8] {
    let mut changed = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from.as_bytes()) {
        changed.extend_from_slice(&rest[..at]);
        changed.extend_from_slice(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    changed.extend_from_slice(rest);
    changed.leak()
}

/// 3.4
pub(crate) async fn multipart_is_compared_by_its_parts_and_never_by_its_boundary(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let sent = |body| ("", MULTIPART, body);
    let renamed = |boundary: &str, media_type| ("", media_type, with(PARTS, "--b", &format!("--{boundary}")));
    let same = [
        (sent(PARTS), renamed("----Retry2", "multipart/form-data; boundary=----Retry2")),
        (sent(PARTS), renamed("q r", "Multipart/Form-Data; charset=utf-8; boundary=\"q r\"")),
        (
            sent(PARTS),
            sent(with(PARTS, "Content-Disposition: form-data; ", "content-disposition:Form-Data;")),
        ),
        (sent(PARTS), sent(with(PARTS, "\"amount\"", "amount"))),
    ];
    server.assert_compares(same, true).await;
    let swapped = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n\
        \x89PNG\r\n\xff\r\n--b\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n5\r\n--b--\r\n";
    let differ = [
        (sent(PARTS), sent(&swapped[..])),
        (sent(PARTS), sent(with(PARTS, "\n5\r", "\n6\r"))),
        (sent(PARTS), sent(with(PARTS, "amount", "fee"))),
        (sent(PARTS), sent(with(PARTS, "a.png", "b.png"))),
        (sent(PARTS), sent(with(PARTS, "image/png", "image/gif"))),
        (sent(PARTS), ("", "multipart/mixed; boundary=b", PARTS)),
    ];
    server.assert_compares(differ, false).await;
}

/// 3.4
pub(crate) async fn malformed_multipart_is_compared_byte_for_byte(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let cut = &PARTS[..PARTS.len() - 10];
    let sent = |body| ("", MULTIPART, body);
    server.assert_compares([(sent(cut), sent(cut)), (sent(b""), sent(b""))], true).await;
    let differ = [
        (sent(cut), sent(PARTS)),
        (sent(cut), ("", "multipart/form-data; boundary=c", cut)),
        (sent(cut), sent(with(cut, "Content-Type: ", "content-type: "))),
        (sent(b""), sent(b"--b--\r\n")),
    ];
    server.assert_compares(differ, false).await;
}

fn secrets(signs: (u32, &str), also: Option<(u32, &str)>) -> Secrets {
    let secrets = Secrets::new(signs.0, signs.1).unwrap();
    match also {
        Some((id, secret)) => secrets.also(id, secret).unwrap(),
        None => secrets,
    }
}

/// 3.5
pub(crate) async fn a_rotated_secret_never_turns_a_live_record_into_a_422(kind: Kind) {
    let (one, two) = ((1, "the first secret"), (2, "the second secret"));
    let old =
        Setup::on(kind).await.configure(move |b| b.fingerprint_secrets(secrets(one, None))).start().await;
    let new = old.beside().configure(move |b| b.fingerprint_secrets(secrets(two, Some(one)))).start().await;
    let first = old.charge("k-1", "a").await;
    new.charge("k-1", "a").await.assert_replays(&first);
    new.charge("k-1", "b").await.assert_conflict();
    // The other way, while both releases run side by side: the old one was told of the new secret before.
    let both = old.beside().configure(move |b| b.fingerprint_secrets(secrets(one, Some(two)))).start().await;
    let second = new.charge("k-2", "a").await;
    both.charge("k-2", "a").await.assert_replays(&second);
    assert_eq!(old.runs(), 2);
}

/// 3.5
pub(crate) async fn a_record_under_a_secret_that_is_gone_is_an_error_and_never_a_run(kind: Kind) {
    let (one, two) = ((1, "the first secret"), (2, "the second secret"));
    let old =
        Setup::on(kind).await.configure(move |b| b.fingerprint_secrets(secrets(one, None))).start().await;
    let new = old.beside().configure(move |b| b.fingerprint_secrets(secrets(two, None))).start().await;
    let unkeyed = old.beside().start().await;
    old.charge("k-1", "a").await.assert_fresh(201, "charged in run 1");
    for server in [new, unkeyed] {
        for payload in ["a", "b"] {
            server.charge("k-1", payload).await.assert_problem(500, "idempotency_undecodable");
        }
    }
    assert_eq!(old.runs(), 1);
}

/// 3.6
pub(crate) async fn with_a_secret_the_stored_fingerprint_does_not_give_the_payload_away(kind: Kind) {
    let plain = Setup::on(kind).await.start().await;
    let keyed = |secret: &'static str| {
        plain
            .beside()
            .configure(move |b: idem::Builder| b.fingerprint_secrets(secrets((1, secret), None)))
            .start()
    };
    let (one, other) = (keyed("one").await, keyed("other").await);
    let mut stored = Vec::new();
    for (server, key) in [(&plain, "k-1"), (&one, "k-2"), (&one, "k-3"), (&other, "k-4")] {
        server.charge(key, "low entropy").await;
        let record = server.store.look_up(&server.id(key)).await.unwrap().unwrap();
        // What comes before it names version and secret.
        stored.push(record.fingerprint.to_bytes()[Fingerprint::ENCODED_LEN - 32..].to_vec());
    }
    assert_eq!(stored[1], stored[2], "one secret tells equal payloads");
    assert!(stored[0] != stored[1] && stored[1] != stored[3] && stored[0] != stored[3]);
}

/// 3.7
pub(crate) async fn a_body_over_the_limit_is_413_before_anything_is_claimed(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let refused = server.post("/charges", "k-1", vec![b'x'; MIB + 1]).send().await;
    refused.assert_problem(413, "idempotency_request_too_large");
    assert_eq!((server.runs(), server.asked()), (0, 0));
    let first = server.post("/charges", "k-1", vec![b'x'; MIB]).send().await;
    server.post("/charges", "k-1", vec![b'x'; MIB]).send().await.assert_replays(&first);
}

/// 3.7
pub(crate) async fn a_chunked_body_over_the_limit_is_413_too(kind: Kind) {
    let server = Setup::on(kind).await.configure(|builder| builder.max_request_bytes(1000)).start().await;
    for (len, status) in [(1001, "413"), (1000, "201")] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = "POST /charges HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nidempotency-key: k-1\r\n\
                    authorization: Bearer alice\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunks = format!(
            "{head}1f4\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(500),
            len - 500,
            "x".repeat(len - 500)
        );
        stream.write_all(chunks.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{len}: {answer}");
    }
    assert_eq!((server.runs(), server.asked()), (1, 1));
}

/// 3.7
pub(crate) async fn every_byte_of_a_body_of_any_size_counts_and_the_handler_reads_them_all(kind: Kind) {
    let server = Setup::on(kind).await.work(|visit| async move { visit.body }).start().await;
    for len in [1, 64 * 1024, 900 * 1024] {
        let body: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        let key = format!("k-{len}");
        let first = server.post("/charges", &key, body.clone()).send().await;
        assert!(first.body == body, "the handler did not read {len} bytes");
        for at in [0, len / 2, len - 1] {
            let mut other = body.clone();
            other[at] ^= 1;
            server.post("/charges", &key, other).send().await.assert_conflict();
        }
        server.post("/charges", &key, body[1..].to_vec()).send().await.assert_conflict();
        let again = server.post("/charges", &key, body.clone()).send().await;
        assert!(again.is_replayed() && again.body == body);
    }
    assert_eq!(server.runs(), 3);
}
