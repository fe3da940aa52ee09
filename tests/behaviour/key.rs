//! Section 2: the key.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{any, post};
use axum::{Extension, Json};
use idem::axum::{Format, Syntax, idempotent};
use idem::{ErrorKind, Idempotency, MemoryStore};
use serde::Deserialize;
use uuid::Uuid;

use crate::server::{App, Caller, Setup};
use crate::stores::Kind;

/// 2.1
pub(crate) async fn a_key_is_the_same_with_and_without_quotes(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let first = server.charge("abc", "a").await;
    server.charge("\"abc\"", "a").await.assert_replays(&first);
    let second = server.charge("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", "a").await;
    server.charge("8e03978e-40d5-43dd-bc93-6894a57f9324", "a").await.assert_replays(&second);
}

/// 2.1
pub(crate) async fn with_strict_syntax_only_the_quoted_form_is_a_key(kind: Kind) {
    let server = Setup::on(kind).await.configure(|b| b.syntax(Syntax::Strict)).start().await;
    let refused = server.charge("abc", "a").await;
    refused.assert_problem(400, "idempotency_key_invalid");
    assert!(refused.text().contains("in double quotes"), "{}", refused.text());
    assert_eq!((server.runs(), server.asked()), (0, 0));
    let first = server.charge("\"abc\"", "a").await;
    server.charge("\"abc\";v=1", "a").await.assert_replays(&first);
}

/// 2.2
pub(crate) async fn a_quoted_key_may_have_escapes_blanks_and_parameters_which_are_ignored(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    for (key, again) in [
        ("\"abc\"", "\"abc\";v=1"),
        ("\"abc\";v=1", "\"abc\";v=2;w"),
        (r#""a\"b\\c""#, r#""a\"b\\c";v=1"#),
        ("\"a b, c; d\"", "\"a b, c; d\""),
        ("!#$%&'()*+-./:<=>?@[]^_`{|}~", "\"!#$%&'()*+-./:<=>?@[]^_`{|}~\""),
    ] {
        assert_eq!(server.charge(key, "a").await.status, 201, "{key}");
        assert!(server.charge(again, "a").await.is_replayed(), "{again}");
    }
}

/// 2.3
pub(crate) async fn a_request_without_a_key_is_400_and_does_not_run(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let refused = server.request("POST", "/charges").body("a").send().await;
    refused.assert_problem(400, "idempotency_key_required");
    assert_eq!((server.runs(), server.asked()), (0, 0));
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem, missing = run)]
async fn run_if_missing(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Response {
    app.work(body).await
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem, missing = derive)]
async fn derive_if_missing(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Response {
    app.work(body).await
}

/// 2.3
pub(crate) async fn with_missing_run_a_request_without_a_key_passes_without_a_record(kind: Kind) {
    let server = Setup::on(kind).await.route("/run", post(run_if_missing)).start().await;
    for run in 1..=2 {
        let passed = server.request("POST", "/run").body("a").send().await;
        passed.assert_fresh(201, &format!("charged in run {run}"));
    }
    assert_eq!(server.asked(), 0);
    let first = server.post("/run", "k-1", "a").send().await;
    server.post("/run", "k-1", "a").send().await.assert_replays(&first);
    let malformed = server.post("/run", "not one key", "a").send().await;
    malformed.assert_problem(400, "idempotency_key_invalid");
}

/// 2.3
pub(crate) async fn with_missing_derive_the_fingerprint_is_the_key(kind: Kind) {
    let server = Setup::on(kind).await.route("/derive", post(derive_if_missing)).start().await;
    let first = server.request("POST", "/derive").json(r#"{"a":1,"b":2}"#).send().await;
    server.request("POST", "/derive").json(r#"{"b":2, "a":1}"#).send().await.assert_replays(&first);
    let other = server.request("POST", "/derive").json(r#"{"a":1,"b":3}"#).send().await;
    other.assert_fresh(201, "charged in run 2");
}

/// 2.4
pub(crate) async fn a_key_that_is_none_is_400_and_the_store_is_not_asked(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let long = "k".repeat(256);
    let quoted = format!("\"{long}\"");
    let values: [&[u8]; 22] = [
        b"",
        b"   ",
        b"\t",
        b"\"\"",
        b"\"   \"",
        b"a b",
        b"a,b",
        b"a;v=1",
        b"a\\b",
        b"a\"b",
        b"\"a",
        b"a\"",
        b"\"a\"b",
        b"\"a\", \"b\"",
        b"\"a\\n\"",
        b"a\tb",
        b"\"a\tb\"",
        "é".as_bytes(),
        "\"é\"".as_bytes(),
        b"a\xff",
        long.as_bytes(),
        quoted.as_bytes(),
    ];
    for value in values {
        let line = [b"idempotency-key:", value].concat();
        let answer = server.raw_answer("/charges", &[&line], b"a").await;
        let shown = String::from_utf8_lossy(value);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{shown}: {answer}");
        assert!(answer.contains(r#""code":"idempotency_key_invalid""#), "{shown}: {answer}");
        assert!(!answer.to_ascii_lowercase().contains("retry-after"), "{shown}: {answer}");
    }
    assert_eq!((server.runs(), server.asked()), (0, 0));
}

/// 2.4
pub(crate) async fn a_key_with_control_characters_is_400_and_the_store_is_not_asked(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    for control in (0..=31).chain([127]).filter(|control| !b"\t\r\n".contains(control)) {
        for line in [&b"idempotency-key: a"[..], b"idempotency-key: \"a"] {
            let line = [line, &[control], b"b\""].concat();
            let answer = server.raw_answer("/charges", &[&line], b"a").await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{control}: {answer}");
        }
    }
    assert_eq!((server.runs(), server.asked()), (0, 0));
}

/// 2.4
pub(crate) async fn two_header_lines_are_400_even_if_they_are_equal_and_the_store_is_not_asked(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    for second in ["k-1", "k-2", "\"k-1\"", ""] {
        let line = format!("Idempotency-Key: {second}");
        for lines in
            [[&b"idempotency-key: k-1"[..], line.as_bytes()], [line.as_bytes(), b"idempotency-key: k-1"]]
        {
            let answer = server.raw_answer("/charges", &lines, b"a").await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{second}: {answer}");
            assert!(answer.contains(r#""code":"idempotency_key_invalid""#), "{second}: {answer}");
        }
    }
    assert_eq!((server.runs(), server.asked()), (0, 0));
}

/// 2.4
pub(crate) async fn a_key_may_have_255_bytes(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let longest = "k".repeat(255);
    let first = server.charge(&longest, "a").await;
    server.charge(&format!("\"{longest}\""), "a").await.assert_replays(&first);
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem)]
async fn anything(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 2.4
pub(crate) async fn a_shorter_limit_refuses_longer_keys_and_a_longer_one_cannot_be_had(kind: Kind) {
    let server = Setup::on(kind).await.configure(|b| b.max_len(8)).start().await;
    for key in ["123456789", "\"123456789\"", "\"\\\"23456789\""] {
        let refused = server.charge(key, "a").await;
        refused.assert_problem(400, "idempotency_key_invalid");
        assert!(
            refused.text().contains("at most 8") && refused.text().contains("1 to 8"),
            "{}",
            refused.text()
        );
    }
    assert_eq!((server.runs(), server.asked()), (0, 0));
    let first = server.charge("12345678", "a").await;
    server.charge("\"12345678\"", "a").await.assert_replays(&first);
    let faulty = Idempotency::builder(MemoryStore::new()).max_len(256).build();
    assert_eq!(faulty.unwrap_err().kind(), ErrorKind::Misuse);
}

/// 2.4
pub(crate) async fn with_a_format_other_keys_are_400_and_two_spellings_stay_two_keys(kind: Kind) {
    let (v4, v7) = ("8e03978e-40d5-43dd-bc93-6894a57f9324", "018f4a5e-8c2b-7d3a-9b1c-2f6e8a4d0c57");
    let any = Setup::on(kind).await.configure(|b| b.format(Format::Uuid)).start().await;
    let seven = Setup::on(kind).await.configure(|b| b.format(Format::UuidV7)).start().await;
    for (server, key) in [(&any, "order-1"), (&any, &v4[1..]), (&seven, "order-1"), (&seven, v4)] {
        let refused = server.charge(key, "a").await;
        refused.assert_problem(400, "idempotency_key_invalid");
        assert!(refused.text().contains("a UUID"), "{}", refused.text());
    }
    assert_eq!((any.asked(), seven.asked()), (0, 0));
    for (server, key) in [(&any, v4), (&any, v7), (&seven, v7)] {
        let first = server.charge(key, "a").await;
        server.charge(&format!("\"{key}\""), "a").await.assert_replays(&first);
        assert!(!server.charge(&key.to_uppercase(), "a").await.is_replayed());
    }
}

/// 2.5
pub(crate) async fn a_safe_method_ignores_its_key_even_a_malformed_one_and_the_store_is_not_asked(
    kind: Kind,
) {
    let server = Setup::on(kind).await.route("/any", any(anything)).start().await;
    let mut runs = 0;
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        for key in ["k-1", "k-1", "not, one key", "é"] {
            let answer = server.request(method, "/any").key(key).send().await;
            runs += 1;
            assert_eq!((answer.status, answer.is_replayed(), server.runs()), (201, false, runs), "{method}");
        }
    }
    assert_eq!(server.asked(), 0);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let refused = server.request(method, "/any").key("not, one key").send().await;
        refused.assert_problem(400, "idempotency_key_invalid");
        let first = server.request(method, "/any").key(method).send().await;
        server.request(method, "/any").key(method).send().await.assert_replays(&first);
    }
}

#[derive(Deserialize)]
struct Order {
    id: String,
    customer: u32,
    reference: Option<String>,
}

#[idempotent(key = order.id, ttl = "24h", scope = shared, engine = app.idem)]
async fn by_field(State(app): State<App>, Json(order): Json<Order>) -> Response {
    app.work(order.id.into()).await
}

#[idempotent(key = order.reference, ttl = "24h", scope = shared, engine = app.idem)]
async fn by_option(State(app): State<App>, Json(order): Json<Order>) -> Response {
    app.work(order.id.into()).await
}

#[idempotent(key = (order.customer, order.id), ttl = "24h", scope = shared, engine = app.idem)]
async fn by_tuple(State(app): State<App>, Json(order): Json<Order>) -> Response {
    app.work(order.id.into()).await
}

#[idempotent(key = number, ttl = "24h", scope = shared, engine = app.idem)]
async fn by_path(State(app): State<App>, Path(number): Path<u64>, body: Bytes) -> Response {
    app.work(body).await
}

#[idempotent(key = Uuid::parse_str(&id), ttl = "24h", scope = shared, engine = app.idem)]
async fn by_uuid(State(app): State<App>, Path(id): Path<String>, body: Bytes) -> Response {
    app.work(body).await
}

#[idempotent(key = header("X-Message-Id"), ttl = "24h", scope = shared, engine = app.idem)]
async fn by_other_header(State(app): State<App>, body: Bytes) -> Response {
    app.work(body).await
}

/// 2.6
pub(crate) async fn the_key_may_be_a_field_of_the_body(kind: Kind) {
    let setup = Setup::on(kind).await.route("/field", post(by_field)).route("/option", post(by_option));
    let server = setup.start().await;
    let send = |path: &'static str, body: &'static str| server.request("POST", path).json(body).send();
    let first = send("/field", r#"{"id":"o-1","customer":1}"#).await;
    send("/field", r#"{"customer":1,"id":"o-1"}"#).await.assert_replays(&first);
    send("/field", r#"{"id":"o-1","customer":2}"#).await.assert_conflict();
    assert!(!send("/field", r#"{"id":"o-2","customer":1}"#).await.is_replayed());
    send("/field", r#"{"id":" ","customer":1}"#).await.assert_problem(400, "idempotency_key_invalid");
    assert_eq!(server.runs(), 2);

    let keyless = send("/option", r#"{"id":"o-1","customer":1,"reference":null}"#).await;
    keyless.assert_problem(400, "idempotency_key_required");
    let first = send("/option", r#"{"id":"o-1","customer":1,"reference":"r"}"#).await;
    send("/option", r#"{"id":"o-1","customer":1,"reference":"r"}"#).await.assert_replays(&first);
    assert_eq!(server.runs(), 3);
}

/// 2.6
pub(crate) async fn the_key_may_be_a_part_of_the_path_and_anything_that_parses(kind: Kind) {
    let setup =
        Setup::on(kind).await.route("/orders/{number}", post(by_path)).route("/m/{id}", post(by_uuid));
    let server = setup.start().await;
    let send = |path: &'static str| server.request("POST", path).body("a").send();
    let first = send("/orders/17").await;
    send("/orders/17").await.assert_replays(&first);
    assert!(!send("/orders/18").await.is_replayed());
    let first = send("/m/8e03978e-40d5-43dd-bc93-6894a57f9324").await;
    send("/m/8e03978e-40d5-43dd-bc93-6894a57f9324").await.assert_replays(&first);
    send("/m/17").await.assert_problem(400, "idempotency_key_invalid");
    assert_eq!(server.runs(), 3);
}

/// 2.6
pub(crate) async fn the_key_may_be_several_values_whose_parts_cannot_be_mistaken(kind: Kind) {
    let server = Setup::on(kind).await.route("/tuple", post(by_tuple)).start().await;
    let send = |body: &'static str| server.request("POST", "/tuple").json(body).send();
    let first = send(r#"{"id":"2-o","customer":1}"#).await;
    send(r#"{"id":"2-o","customer":1}"#).await.assert_replays(&first);
    assert!(!send(r#"{"id":"-o","customer":12}"#).await.is_replayed());
    assert_eq!(server.runs(), 2);
}

/// 2.6
pub(crate) async fn the_key_may_stand_in_another_header(kind: Kind) {
    let server = Setup::on(kind).await.route("/deliveries", post(by_other_header)).start().await;
    let send = |id: &'static str| {
        server.request("POST", "/deliveries").key("not one key").header("x-message-id", id).body("a").send()
    };
    let first = send("m-1").await;
    send("\"m-1\"").await.assert_replays(&first);
    send("m 1").await.assert_problem(400, "idempotency_key_invalid");
}

/// 2.6
pub(crate) async fn the_engine_may_read_keys_from_another_header(kind: Kind) {
    let server = Setup::on(kind).await.configure(|b| b.key_header("X-Request-Key")).start().await;
    let sent = |key: &str| server.request("POST", "/charges").header("x-request-key", key).body("a").send();
    let first = sent("k-1").await;
    sent("\"k-1\"").await.assert_replays(&first);
    assert!(!sent("k-2").await.is_replayed());
    let refused = server.charge("k-1", "a").await;
    refused.assert_problem(400, "idempotency_key_required");
    assert!(refused.text().contains("x-request-key"), "{}", refused.text());
}
