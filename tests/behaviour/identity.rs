//! Section 1: identity of a record.

use std::fmt::Write as _;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use idem::axum::idempotent;
use idem::core::store::StoreErrorKind;
use idem::{Key, Scope, Store as _};

use crate::faulty::{Fault, Step};
use crate::gate::Gate;
use crate::logs::Logs;
use crate::server::{App, Caller, Setup};
use crate::stores::Kind;
use crate::ways::Way;

#[idempotent(key = header, ttl = "24h", scope = caller.id, operation = "charges.refund", engine = app.idem)]
async fn refund(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

#[idempotent(key = header, ttl = "24h", scope = shared, operation = "messages.deliver", engine = app.idem)]
async fn deliver(State(app): State<App>, body: Bytes) -> Response {
    app.work(body).await
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem)]
async fn unpinned(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 1.1
pub(crate) async fn two_scopes_never_see_each_others_records(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).start().await;
    let alice = server.begin("/charges", "k-1", "a");
    gate.begun(1).await;
    let of_bob =
        |body: &'static str| server.request_by("Bearer bob", "POST", "/charges").key("k-1").body(body).send();
    // No 409 while the other's call is running, and no 422 for another payload.
    let bob = tokio::spawn(of_bob("b"));
    gate.begun(2).await;
    gate.open();
    gate.open();
    let (alice, bob) = (alice.await.unwrap(), bob.await.unwrap());
    assert_eq!((alice.status, bob.status, server.runs()), (200, 200, 2));
    server.charge("k-1", "a").await.assert_replays(&alice);
    of_bob("b").await.assert_replays(&bob);
    assert_ne!(alice.body, bob.body);
}

/// 1.1
pub(crate) async fn two_operations_never_see_each_others_records(kind: Kind) {
    let server = Setup::on(kind).await.route("/refunds", post(refund)).start().await;
    let charged = server.charge("k-1", "a").await;
    let refunded = server.post("/refunds", "k-1", "b").send().await;
    refunded.assert_fresh(201, "charged in run 2");
    server.charge("k-1", "a").await.assert_replays(&charged);
    server.post("/refunds", "k-1", "b").send().await.assert_replays(&refunded);
}

/// 1.2
pub(crate) async fn a_token_that_was_rotated_between_two_attempts_does_not_run_the_work_twice(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let first = server.charge("k-1", "a").await;
    let rotated = server.request_by("Bearer alice.2", "POST", "/charges").key("k-1").body("a").send().await;
    rotated.assert_replays(&first);
    assert_eq!(server.runs(), 1);
}

/// 1.2
pub(crate) async fn callers_share_the_records_of_an_operation_whose_scope_is_shared(kind: Kind) {
    let server = Setup::on(kind).await.route("/messages", post(deliver)).start().await;
    let first = server.post("/messages", "k-1", "a").send().await;
    let bob = server.request_by("Bearer bob", "POST", "/messages").key("k-1").body("a").send().await;
    bob.assert_replays(&first);
}

/// 1.3
pub(crate) async fn an_operation_left_out_is_named_by_module_and_function(kind: Kind) {
    let server = Setup::on(kind).await.route("/unpinned", post(unpinned)).start().await;
    server.post("/unpinned", "k-1", "a").send().await.assert_fresh(201, "charged in run 1");
    let name = Way::current().unpinned();
    assert_eq!(server.inspect(&server.id_of(name, "k-1")).await.unwrap().operation, name);
}

/// Two functions of one name in one module: their names alone do not tell them apart.
fn twins() -> [MethodRouter<App>; 2] {
    let one = {
        #[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
        async fn twin(State(app): State<App>, body: Bytes) -> Response {
            app.work(body).await
        }
        post(twin)
    };
    let other = {
        #[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
        async fn twin(State(app): State<App>, body: Bytes) -> Response {
            app.work(body).await
        }
        post(twin)
    };
    [one, other]
}

/// 1.3
pub(crate) async fn an_engine_refuses_one_unpinned_operation_from_two_places_in_the_source(kind: Kind) {
    let [one, other] = twins();
    let server = Setup::on(kind).await.route("/a", one).route("/b", other).start().await;
    let first = server.post("/a", "k-1", "a").send().await;
    server.post("/b", "k-2", "a").send().await.assert_problem(500, "idempotency_misuse");
    server.post("/a", "k-1", "a").send().await.assert_replays(&first);
    assert_eq!(server.runs(), 1);
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, operation = "charges.refund", engine = app.idem)]
async fn give_back(State(app): State<App>, Extension(caller): Extension<Caller>, body: String) -> Response {
    app.work(body.into()).await
}

/// 1.3
pub(crate) async fn a_pinned_operation_replays_after_its_function_was_renamed_and_moved(kind: Kind) {
    let old = Setup::on(kind).await.route("/refunds", post(refund)).start().await;
    let new = old.beside().route("/refunds", post(give_back)).start().await;
    let first = old.post("/refunds", "k-1", "a").send().await;
    new.post("/refunds", "k-1", "a").send().await.assert_replays(&first);
    assert_eq!(old.runs(), 1);
}

/// 1.4
pub(crate) async fn full_keys_payloads_and_bodies_reach_neither_logs_nor_errors_nor_debug(kind: Kind) {
    let logs = Logs::default();
    let _guard = tracing::subscriber::set_default(logs.clone());
    let (key, payload) = ("order-17-of-alice-and-nobody-else", "pay-the-sum-of-1,000,000");
    let server = Setup::on(kind).await.work(|_| async { "the-stored-body" }).start().await;
    let mut told = Vec::new();
    // Fresh, replayed, mismatched; then with a store that is away when it is asked, and when it should remember.
    server.charge(key, payload).await;
    told.push(server.charge(key, "another-payload").await);
    server.charge(key, payload).await;
    server.store.fail(Step::Complete, 1, Fault::Lost(StoreErrorKind::Unavailable));
    server.charge(&format!("{key}-2"), payload).await;
    server.store.fail(Step::Claim, 9, Fault::Lost(StoreErrorKind::Unavailable));
    told.push(server.charge(&format!("{key}-3"), payload).await);
    server.store.heal();
    server.settled().await;
    told.push(server.charge("not a key of this caller", payload).await);
    let record = server.inspect(&server.id(key)).await.unwrap();
    assert_eq!(record.hint.as_str(), "order-17");

    let mut shown = logs.text();
    assert!(shown.contains("charges.create"), "nothing was logged at all: {shown}");
    let id = server.id(key);
    let found = server.store.look_up(&id).await.unwrap();
    let scope = Scope::new("alice");
    write!(shown, "{:?} {id:?} {record:?} {found:?} {:?} {scope:?}", server.idem(), Key::new(key)).unwrap();
    for answer in &told {
        shown += answer.text();
    }
    for secret in [&key[9..], payload, "another-payload", "the-stored-body", "not a key of"] {
        assert!(!shown.contains(secret), "`{secret}` is shown in {shown}");
    }
}

/// 1.4
pub(crate) async fn the_store_keeps_the_operation_in_clear_and_neither_key_nor_scope_nor_payload(kind: Kind) {
    let server = Setup::on(kind).await.work(|_| async { "done" }).start().await;
    let key = "order-17-of-alice-and-nobody-else";
    let payload = "pay-the-sum-of-1,000,000";
    let answered =
        server.request_by("Bearer account-of-alice", "POST", "/charges").key(key).body(payload).send().await;
    answered.assert_fresh(200, "done");
    let written = server.opened.written();
    let holds = |text: &str| written.windows(text.len()).any(|window| window == text.as_bytes());
    // What is only in memory is looked at through `Debug`, above.
    assert_eq!(holds("charges.create"), kind != Kind::Memory);
    assert_eq!(holds("order-17"), kind != Kind::Memory);
    for secret in [&key[..9], key, payload, "account-of-alice"] {
        assert!(!holds(secret), "`{secret}` is written down");
    }
}

/// 1.5
pub(crate) async fn keys_are_compared_byte_for_byte_so_case_and_trailing_blanks_count(kind: Kind) {
    let server = Setup::on(kind).await.ttl(Duration::from_mins(10)).start().await;
    let keys = ["abc", "ABC", "aBc", "\"abc \"", "\" abc\"", "abc.", "\"abc\\\"\"", "abb"];
    for (run, key) in (1..).zip(keys) {
        server.charge(key, key).await.assert_fresh(201, &format!("charged in run {run}"));
    }
    for key in keys {
        assert!(server.charge(key, key).await.is_replayed(), "{key}");
    }
}
