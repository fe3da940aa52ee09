//! Section 4: what a caller gets.

use std::time::{Duration, Instant, SystemTime};

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::future::join_all;
use idem::axum::idempotent;
use idem::core::store::StoreErrorKind;
use idem::{Error, ErrorKind, Idempotency, MemoryStore, State as RecordState};

use crate::client::{Answer, eventually};
use crate::faulty::{Fault, Step};
use crate::gate::Gate;
use crate::server::{App, Caller, Leave, Server, Setup, Visit};
use crate::stores::{Kind, Opened};

const ALWAYS: usize = usize::MAX;

/// 4.1
pub(crate) async fn the_first_call_runs_and_is_answered_without_the_marker(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    server.charge("k-1", "a").await.assert_fresh(201, "charged in run 1");
    let record = server.inspect(&server.id("k-1")).await.unwrap();
    assert_eq!((record.state, record.attempt, server.runs()), (RecordState::Completed, 1, 1));
}

/// 4.1
pub(crate) async fn a_first_answer_has_no_marker_even_if_the_handler_passes_one_on(kind: Kind) {
    let setup =
        Setup::on(kind).await.work(|_| async { ([("idempotent-replayed", "true")], "from upstream") });
    let server = setup.start().await;
    let first = server.charge("k-1", "a").await;
    first.assert_fresh(200, "from upstream");
    server.charge("k-1", "a").await.assert_replays(&first);
}

/// 4.2
pub(crate) async fn a_retry_gets_the_stored_answer_with_the_marker_and_the_handler_does_not_run(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let first = server.charge("k-1", "a").await;
    for _ in 0..3 {
        let again = server.charge("k-1", "a").await;
        again.assert_replays(&first);
        assert_eq!(again.headers["location"], "/charges/1");
    }
    assert_eq!((server.runs(), server.store.count(Step::Complete)), (1, 1));
}

/// 4.2
pub(crate) async fn a_replay_does_not_extend_the_expiry(kind: Kind) {
    let ttl = Duration::from_millis(700);
    let server = Setup::on(kind).await.ttl(ttl).start().await;
    let begun = Instant::now();
    let first = server.charge("k-1", "a").await;
    // Asked for without a pause, it would never expire if replaying extended it.
    loop {
        let again = server.charge("k-1", "a").await;
        if !again.is_replayed() {
            again.assert_fresh(201, "charged in run 2");
            break;
        }
        again.assert_replays(&first);
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not expire");
    }
    assert!(begun.elapsed() >= ttl, "{:?}", begun.elapsed());
}

/// 4.2
pub(crate) async fn the_marker_may_have_another_name(kind: Kind) {
    let server = Setup::on(kind).await.configure(|b| b.replay_header("X-Replayed")).start().await;
    assert!(!server.charge("k-1", "a").await.headers.contains_key("x-replayed"));
    let again = server.charge("k-1", "a").await;
    assert_eq!((&again.headers["x-replayed"], again.is_replayed()), (&"true".parse().unwrap(), false));
}

/// 4.2
pub(crate) async fn a_hook_is_told_of_each_replay_and_of_nothing_else(kind: Kind) {
    let (tell, told) = std::sync::mpsc::channel();
    let setup = Setup::on(kind).await.configure(move |b| {
        b.on_replay(move |replay| {
            let location = replay.parts().headers["location"].clone();
            tell.send((replay.operation().to_owned(), replay.parts().status, location)).unwrap();
            panic!("a hook that fails");
        })
    });
    let server = setup.start().await;
    let first = server.charge("k-1", "a").await;
    server.charge("k-1", "b").await.assert_conflict();
    assert!(told.try_recv().is_err());
    server.charge("k-1", "a").await.assert_replays(&first);
    let (operation, status, location) = told.try_recv().unwrap();
    assert_eq!(
        (operation.as_str(), status.as_u16(), location),
        ("charges.create", 201, "/charges/1".parse().unwrap())
    );
}

/// 4.2
pub(crate) async fn the_key_is_sent_back_where_that_is_asked_for_and_is_not_stored(kind: Kind) {
    let server = Setup::on(kind).await.configure(|b| b.echo_key(true)).start().await;
    for (key, body) in [("\"k-1\"", "a"), ("k-1", "a"), ("k-1", "b")] {
        assert_eq!(server.charge(key, body).await.headers["idempotency-key"], key, "{body}");
    }
    assert!(!server.charge("not a key", "a").await.headers.contains_key("idempotency-key"));
    let silent = server.beside().start().await;
    let replay = silent.charge("k-1", "a").await;
    assert!(replay.is_replayed() && !replay.headers.contains_key("idempotency-key"));
}

/// 4.2
pub(crate) async fn the_expiry_is_told_where_that_is_asked_for_and_does_not_move(kind: Kind) {
    let hour = Duration::from_hours(1);
    let server = Setup::on(kind).await.ttl(hour).configure(|b| b.echo_expiry(true)).start().await;
    let expiry = |answer: &Answer| {
        let date = answer.headers["idempotency-expires"].to_str().unwrap();
        httpdate::parse_http_date(date).unwrap()
    };
    let begun = SystemTime::now() + hour;
    let first = server.charge("k-1", "a").await;
    let again = server.charge("k-1", "a").await;
    again.assert_replays(&first);
    let bounds = begun - Duration::from_secs(2)..=SystemTime::now() + hour + Duration::from_secs(2);
    assert!(bounds.contains(&expiry(&first)) && bounds.contains(&expiry(&again)), "{first:?} {again:?}");
    assert!(!server.charge("k-1", "b").await.headers.contains_key("idempotency-expires"));
    let failing = server.beside().configure(|b| b.echo_expiry(true));
    let failing = failing.work(|_| async { StatusCode::INTERNAL_SERVER_ERROR }).start().await;
    assert!(!failing.charge("k-2", "a").await.headers.contains_key("idempotency-expires"));
}

/// 4.3
pub(crate) async fn a_mismatch_may_have_another_status_but_never_that_of_a_success(kind: Kind) {
    let server = Setup::on(kind).await.configure(|b| b.mismatch_status(409)).start().await;
    let first = server.charge("k-1", "a").await;
    let refused = server.charge("k-1", "b").await;
    refused.assert_problem(409, "idempotency_conflict");
    assert_eq!((refused.retry_after(), refused.json()["status"].as_u64()), (None, Some(409)));
    server.charge("k-1", "a").await.assert_replays(&first);
    for status in [200, 302, 500, 503] {
        let faulty = Idempotency::builder(MemoryStore::new()).mismatch_status(status).build();
        assert_eq!(faulty.unwrap_err().kind(), ErrorKind::Misuse, "{status}");
    }
}

/// 4.3
pub(crate) async fn every_problem_links_to_the_docs_that_are_named(kind: Kind) {
    let url = "https://example.org/docs/idempotency";
    let server = Setup::on(kind).await.configure(move |b| b.docs_url(url)).start().await;
    let first = server.charge("k-1", "a").await;
    assert!(!first.headers.contains_key("link"));
    let link = format!("<{url}>; rel=\"describedby\"");
    for problem in [server.charge("k-1", "b").await, server.charge("not a key", "a").await] {
        assert_eq!(problem.headers["link"], link.as_str());
        assert!(problem.json()["type"].as_str().unwrap().ends_with(problem.json()["code"].as_str().unwrap()));
    }
    assert!(!server.charge("k-1", "a").await.headers.contains_key("link"));
}

/// 4.3
pub(crate) async fn errors_may_be_written_in_the_style_of_the_house(kind: Kind) {
    fn house_style(error: &Error) -> http::Response<Bytes> {
        let body = serde_json::json!({ "error": { "code": error.code(), "message": error.title() } });
        let response = http::Response::builder()
            .status(if error.kind() == ErrorKind::Mismatch { 400 } else { error.status() })
            .header("content-type", "application/json");
        response.body(body.to_string().into()).unwrap()
    }

    let gate = Gate::new();
    let setup = Setup::on(kind).await.work(gate.work()).configure(|b| b.render_errors(house_style));
    let server = setup.start().await;
    let first = server.begin("/charges", "k-1", "a");
    gate.begun(1).await;
    let running = server.charge("k-1", "a").await;
    assert_eq!((running.status, &running.json()["error"]["code"]), (409, &"idempotency_in_flight".into()));
    running.assert_retry_after();
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    let refused = server.charge("k-1", "b").await;
    assert_eq!(
        (refused.status, &refused.headers["content-type"]),
        (400, &"application/json".parse().unwrap())
    );
    assert_eq!(refused.json()["error"]["message"], "Idempotency-Key is already used");
    assert!(server.charge("k-1", "a").await.is_replayed());
    assert_eq!(server.runs(), 1);
}

/// 4.3
pub(crate) async fn another_payload_under_a_completed_key_is_422_and_says_nothing_of_the_stored_request(
    kind: Kind,
) {
    let server = Setup::on(kind).await.work(|_| async { "the answer" }).start().await;
    let first = server.charge("k-1", "the request").await;
    let refused = server.charge("k-1", "another").await;
    refused.assert_conflict();
    assert!(!refused.text().contains("the answer") && !refused.text().contains("the request"));
    assert!(!refused.headers.contains_key("location"));
    server.charge("k-1", "the request").await.assert_replays(&first);
    assert_eq!(server.runs(), 1);
}

/// 4.3
pub(crate) async fn another_payload_under_a_key_in_flight_is_422_and_does_not_wait(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/wait", post(wait)).start().await;
    for (run, path) in [(1, "/charges"), (2, "/wait")] {
        let first = server.begin(path, "k-1", "a");
        gate.begun(run).await;
        server.post(path, "k-1", "b").send().await.assert_conflict();
        gate.open();
        assert_eq!(first.await.unwrap().status, 200);
    }
    assert_eq!(server.runs(), 2);
}

/// 4.3
pub(crate) async fn another_payload_under_a_failed_key_is_422(kind: Kind) {
    let server = Setup::on(kind).await.work(|_| async { StatusCode::BAD_GATEWAY }).start().await;
    assert_eq!(server.charge("k-1", "a").await.status, 502);
    server.charge("k-1", "b").await.assert_conflict();
    assert_eq!(server.runs(), 1);
}

/// 4.3
pub(crate) async fn one_who_waits_and_finds_another_payload_completed_gets_422(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/wait", post(wait)).start().await;
    let first = server.begin("/wait", "k-1", "a");
    gate.begun(1).await;
    let waiting = server.begin("/wait", "k-1", "a");
    server.store.reached(Step::Claim, 2).await;
    // While it waits, the record becomes another's: forgotten, and claimed for another payload.
    server.idem().forget(&server.id_of("charges.wait", "k-1")).await.unwrap();
    let second = server.begin("/wait", "k-1", "b");
    gate.begun(2).await;
    // Whoever was first after that, all three agree on what the record says.
    gate.open();
    gate.open();
    gate.open();
    let (first, waiting, second) = (first.await.unwrap(), waiting.await.unwrap(), second.await.unwrap());
    let fresh = [&waiting, &second].map(|answer| answer.status == 200);
    assert_ne!(fresh[0], fresh[1], "{first:?} {waiting:?} {second:?}");
    if fresh[0] { &second } else { &waiting }.assert_conflict();
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, operation = "charges.wait", engine = app.idem,
    in_flight = wait("60s")
)]
async fn wait(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem, in_flight = wait("300ms"))]
async fn wait_briefly(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 4.4
pub(crate) async fn a_retry_of_a_running_call_is_409_with_a_retry_after_of_about_a_second(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).start().await;
    let first = server.begin("/charges", "k-1", "a");
    gate.begun(1).await;
    let refused = server.charge("k-1", "a").await;
    refused.assert_in_flight();
    // The lease of 30 seconds has only begun.
    refused.assert_retry_after();
    assert_eq!(refused.json()["retryable"], true);
    gate.open();
    let first = first.await.unwrap();
    server.charge("k-1", "a").await.assert_replays(&first);
    assert_eq!(server.runs(), 1);
}

/// 4.4
pub(crate) async fn one_who_waits_gets_the_replay_when_the_first_has_finished(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/wait", post(wait)).start().await;
    let first = server.begin("/wait", "k-1", "a");
    gate.begun(1).await;
    let waiting: Vec<_> = (0..3).map(|_| server.begin("/wait", "k-1", "a")).collect();
    server.store.reached(Step::Claim, 4).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    gate.open();
    let first = first.await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().assert_replays(&first);
    }
    assert_eq!(server.runs(), 1);
}

/// 4.4
pub(crate) async fn one_who_waits_runs_when_the_first_has_failed(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.route("/wait", post(wait));
    let server = server.work({
        let gate = gate.clone();
        move |visit| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                if visit.run == 1 { StatusCode::BAD_GATEWAY } else { StatusCode::CREATED }
            }
        }
    });
    let server = server.start().await;
    let first = server.begin("/wait", "k-1", "a");
    gate.begun(1).await;
    let waiting = server.begin("/wait", "k-1", "a");
    server.store.reached(Step::Claim, 2).await;
    gate.open();
    gate.open();
    assert_eq!(first.await.unwrap().status, 502);
    waiting.await.unwrap().assert_fresh(201, "");
    assert_eq!(server.runs(), 2);
}

/// 4.4
pub(crate) async fn one_who_waits_and_hangs_up_changes_nothing(kind: Kind) {
    let gate = Gate::new();
    let setup = Setup::on(kind).await.work({
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                StatusCode::BAD_GATEWAY
            }
        }
    });
    let server = setup.route("/wait", post(wait)).start().await;
    let first = server.begin("/wait", "k-1", "a");
    gate.begun(1).await;
    let waiting = server.raw("/wait", &[b"idempotency-key: k-1"], b"a").await;
    server.store.reached(Step::Claim, 2).await;
    server.hang_up(waiting, Leave::Rst, 1).await;
    let id = server.id_of("charges.wait", "k-1");
    assert_eq!(server.inspect(&id).await.unwrap().state, RecordState::InFlight);
    gate.open();
    assert_eq!(first.await.unwrap().status, 502);
    server.settled().await;
    // It would be its turn now, were it still there.
    let record = server.inspect(&id).await.unwrap();
    assert_eq!((record.state, record.attempt, server.runs()), (RecordState::Failed, 1, 1));
}

/// 4.4
pub(crate) async fn one_who_waits_gets_409_at_the_deadline(kind: Kind) {
    let gate = Gate::new();
    let server =
        Setup::on(kind).await.work(gate.work()).route("/wait-briefly", post(wait_briefly)).start().await;
    let first = server.begin("/wait-briefly", "k-1", "a");
    gate.begun(1).await;
    let begun = Instant::now();
    let refused = server.post("/wait-briefly", "k-1", "a").send().await;
    refused.assert_in_flight();
    refused.assert_retry_after();
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    gate.open();
    let first = first.await.unwrap();
    server.post("/wait-briefly", "k-1", "a").send().await.assert_replays(&first);
}

/// Waits until a record is gone.
async fn expired(server: &Server, key: &str) {
    eventually("the record has expired", async || server.inspect(&server.id(key)).await.is_none()).await;
}

/// 4.5
pub(crate) async fn an_expired_key_runs_as_new_whatever_the_payload_swept_or_not(kind: Kind) {
    let server = Setup::on(kind).await.ttl(Duration::from_millis(300)).start().await;
    let mut run = 1;
    server.charge("k-1", "a").await.assert_fresh(201, "charged in run 1");
    for sweep in [false, true] {
        for payload in ["b", "b", "a"] {
            expired(&server, "k-1").await;
            if sweep {
                idem::Store::sweep(&server.store, 100).await.unwrap();
            }
            run += 1;
            server.charge("k-1", payload).await.assert_fresh(201, &format!("charged in run {run}"));
        }
    }
    expired(&server, "k-1").await;
    server.charge("k-1", "a").await;
    let record = server.inspect(&server.id("k-1")).await;
    assert!(record.is_none_or(|record| record.attempt == 1), "it is a new record");
}

#[idempotent(
    key = header, ttl = app.ttl, scope = caller.id, operation = "charges.create", engine = app.idem,
    expired = reject, tombstone_ttl = "1s"
)]
async fn once_and_for_all(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Response {
    app.work(body).await
}

/// 4.5
pub(crate) async fn with_expired_reject_an_old_key_is_409_for_the_tombstones_time(kind: Kind) {
    let setup = Setup::on(kind).await.ttl(Duration::from_millis(300)).route("/once", post(once_and_for_all));
    let server = setup.start().await;
    let begun = Instant::now();
    server.post("/once", "k-1", "a").send().await.assert_fresh(201, "charged in run 1");
    let mut refused = 0;
    let again = loop {
        let again = server.post("/once", "k-1", if refused % 2 == 0 { "a" } else { "b" }).send().await;
        match again.status {
            409 => again.assert_problem(409, "idempotency_key_expired"),
            201 if again.is_replayed() => assert_eq!(refused, 0, "it came back"),
            // Its payload was compared while it was live.
            422 => again.assert_conflict(),
            _ => break again,
        }
        refused += u32::from(again.status == 409);
        assert!(begun.elapsed() < Duration::from_secs(20), "it is refused for ever");
    };
    assert!(refused > 0 && begun.elapsed() >= Duration::from_millis(1300));
    again.assert_fresh(201, "charged in run 2");
}

/// Asserts that a call was refused since the store could not be asked.
#[track_caller]
fn assert_unavailable(answer: &Answer) {
    answer.assert_problem(503, "idempotency_store_unavailable");
    answer.assert_retry_after();
    assert_eq!(answer.json()["retryable"], true);
}

/// 4.6
pub(crate) async fn while_the_store_is_away_a_call_is_503_and_does_not_run(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let first = server.charge("k-1", "a").await;
    server.store.fail(Step::Claim, ALWAYS, Fault::Lost(StoreErrorKind::Unavailable));
    for key in ["k-1", "k-2"] {
        assert_unavailable(&server.charge(key, "a").await);
    }
    assert_eq!(server.runs(), 1);
    server.store.heal();
    server.charge("k-1", "a").await.assert_replays(&first);
}

/// 4.6
pub(crate) async fn while_the_store_hangs_a_call_is_503_within_the_stores_time_out(kind: Kind) {
    let limit = Duration::from_millis(300);
    let server = Setup::on(kind).await.configure(move |b| b.store_timeout(limit)).start().await;
    server.store.fail(Step::Claim, ALWAYS, Fault::Hang);
    let begun = Instant::now();
    assert_unavailable(&server.charge("k-1", "a").await);
    let took = begun.elapsed();
    assert!(took >= limit && took < Duration::from_secs(4), "{took:?}");
    assert_eq!(server.runs(), 0);
}

/// 4.6
pub(crate) async fn a_claim_that_may_have_got_through_is_released_so_that_the_retry_is_not_409(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    for kind in [StoreErrorKind::TimedOut, StoreErrorKind::Unavailable] {
        let key = format!("{kind:?}");
        // Claimed each time, and each time the reply is lost.
        server.store.fail(Step::Claim, ALWAYS, Fault::ReplyLost(kind));
        assert_unavailable(&server.charge(&key, "a").await);
        server.store.heal();
        let runs = server.runs();
        server.settled().await;
        // Nothing ran, so nothing is bound either.
        let retry = server.charge(&key, "b").await;
        retry.assert_fresh(201, &format!("charged in run {}", runs + 1));
        assert_eq!(server.inspect(&server.id(&key)).await.unwrap().attempt, 1);
    }
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem, on_store_error = run)]
async fn run_anyway(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 4.6
pub(crate) async fn with_on_store_error_run_a_call_runs_unprotected(kind: Kind) {
    let server = Setup::on(kind).await.route("/anyway", post(run_anyway)).start().await;
    server.store.fail(Step::Claim, ALWAYS, Fault::Lost(StoreErrorKind::Unavailable));
    for run in 1..=2 {
        let answer = server.post("/anyway", "k-1", "a").send().await;
        answer.assert_fresh(201, &format!("charged in run {run}"));
    }
}

/// 4.7
pub(crate) async fn if_the_answer_cannot_be_stored_yet_its_caller_gets_it_and_duplicates_409_until_it_is(
    kind: Kind,
) {
    let server = Setup::on(kind).await.start().await;
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::TimedOut] {
        let key = format!("{kind:?}");
        let runs = server.runs();
        server.store.fail(Step::Complete, ALWAYS, Fault::Lost(kind));
        let first = server.charge(&key, "a").await;
        first.assert_fresh(201, &format!("charged in run {}", runs + 1));
        server.charge(&key, "a").await.assert_in_flight();
        server.charge(&key, "b").await.assert_conflict();
        server.store.heal();
        server.settled().await;
        server.charge(&key, "a").await.assert_replays(&first);
        assert_eq!(server.runs(), runs + 1);
    }
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, operation = "charges.brief", engine = app.idem,
    lease = "400ms"
)]
async fn briefly_leased(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Response {
    app.work(body).await
}

/// 4.7
pub(crate) async fn if_the_store_stays_away_longer_than_the_lease_another_takes_over(kind: Kind) {
    let server = Setup::on(kind).await.route("/brief", post(briefly_leased)).start().await;
    // Away for everything that the first holder still wants; what only could not be stored is held by renewals.
    for step in [Step::Complete, Step::Renew] {
        server.store.fail(step, ALWAYS, Fault::Lost(StoreErrorKind::Unavailable));
    }
    let send = || server.post("/brief", "k-1", "a").send();
    send().await.assert_fresh(201, "charged in run 1");
    let id = server.id_of("charges.brief", "k-1");
    eventually("the lease ends", async || server.inspect(&id).await.unwrap().state == RecordState::Lapsed)
        .await;
    send().await.assert_fresh(201, "charged in run 2");
    server.store.heal();
    server.settled().await;
    // The first answer comes too late and is not stored; the second is.
    let replay = send().await;
    assert!(replay.is_replayed() && replay.text() == "charged in run 2", "{replay:?}");
}

/// 4.8
pub(crate) async fn a_caller_without_access_gets_401_or_403_and_the_store_is_not_asked(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    let first = server.charge("k-1", "a").await;
    let asked = server.asked();
    for key in ["k-1", "k-2"] {
        let stranger = server.anonymous("POST", "/charges").key(key).body("a").send().await;
        stranger.assert_fresh(401, "who are you?");
    }
    server.charge("k-1", "a").await.assert_replays(&first);
    assert_eq!(server.asked(), asked + 1);
    server.revoke();
    for key in ["k-1", "k-2"] {
        server.charge(key, "a").await.assert_fresh(403, "not any more");
    }
    assert_eq!((server.asked(), server.runs()), (asked + 1, 1));
}

/// 4.9
pub(crate) async fn of_64_racing_calls_one_runs_and_nobody_else(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).start().await;
    let racing: Vec<_> = (0..64).map(|_| server.begin("/charges", "k-1", "a")).collect();
    gate.begun(1).await;
    server.store.reached(Step::Claim, 64).await;
    gate.open();
    let answers: Vec<_> = join_all(racing).await.into_iter().map(Result::unwrap).collect();
    let fresh: Vec<_> =
        answers.iter().filter(|answer| answer.status == 200 && !answer.is_replayed()).collect();
    assert_eq!((fresh.len(), server.runs()), (1, 1));
    for answer in answers.iter().filter(|answer| answer.status != 200 || answer.is_replayed()) {
        if answer.status == 200 { answer.assert_replays(fresh[0]) } else { answer.assert_in_flight() }
    }
}

/// 4.9
pub(crate) async fn calls_that_race_through_two_engines_are_one_run(kind: Kind) {
    let gate = Gate::new();
    let one = Setup::on(kind).await.work(gate.work()).start().await;
    let other = one.beside().work(gate.work()).start().await;
    let racing: Vec<_> =
        (0..32).map(|at| if at % 2 == 0 { &one } else { &other }.begin("/charges", "k-1", "a")).collect();
    gate.begun(1).await;
    one.store.reached(Step::Claim, 16).await;
    other.store.reached(Step::Claim, 16).await;
    gate.open();
    let answers = join_all(racing).await.into_iter().map(Result::unwrap);
    let fresh = answers.filter(|answer| answer.status == 200 && !answer.is_replayed()).count();
    assert_eq!((fresh, one.runs()), (1, 1));
    assert!(one.charge("k-1", "a").await.is_replayed() && other.charge("k-1", "a").await.is_replayed());
}

/// 4.9
pub(crate) async fn of_calls_that_race_without_pause_each_key_runs_once(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    for round in 0..20 {
        let key = format!("k-{round}");
        let answers = join_all((0..8).map(|_| server.charge(&key, "a"))).await;
        assert!(answers.iter().all(|answer| [201, 409].contains(&answer.status)), "{answers:?}");
        assert_eq!(server.runs(), round + 1);
    }
}

/// 4.10
pub(crate) async fn with_too_many_handlers_running_a_new_key_is_503_and_live_keys_still_replay(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.configure(|b| b.max_in_flight(1)).work(gate.work()).start().await;
    gate.open();
    let done = server.charge("k-1", "a").await;
    let running = server.begin("/charges", "k-2", "a");
    gate.begun(2).await;
    let refused = server.charge("k-3", "a").await;
    refused.assert_problem(503, "idempotency_overloaded");
    refused.assert_retry_after();
    server.charge("k-1", "a").await.assert_replays(&done);
    server.charge("k-1", "b").await.assert_conflict();
    server.charge("k-2", "a").await.assert_in_flight();
    gate.open();
    assert_eq!(running.await.unwrap().status, 200);
    gate.open();
    server.charge("k-3", "a").await.assert_fresh(200, "charged in run 3");
}

/// 4.10
pub(crate) async fn beyond_the_limit_of_new_keys_a_key_is_429_and_nothing_is_written_and_live_keys_still_replay(
    kind: Kind,
) {
    let hour = Duration::from_hours(1);
    let setup = Setup::on(kind).await.configure(move |builder| builder.max_new_keys(2, hour));
    let server = setup.work(|visit| async move { failing_at_first(&visit) }).start().await;
    let done = server.charge("k-1", "a").await;
    server.charge("k-2", "fails at first").await.assert_fresh(502, "");
    for _ in 0..3 {
        let refused = server.charge("k-3", "a").await;
        refused.assert_problem(429, "idempotency_too_many_keys");
        let seconds: u64 = refused.retry_after().unwrap().parse().unwrap();
        assert!((1700..=1800).contains(&seconds), "{seconds}");
        assert_eq!(refused.json()["retryable"], true);
        assert_eq!(server.inspect(&server.id("k-3")).await, None);
        server.charge("k-1", "a").await.assert_replays(&done);
        server.charge("k-1", "b").await.assert_conflict();
    }
    server.charge("k-2", "fails at first").await.assert_fresh(200, "");
    // Another caller has new keys of its own.
    let bob = server.request_by("Bearer bob", "POST", "/charges").key("k-3").body("a").send().await;
    bob.assert_fresh(200, "");
    assert_eq!(server.runs(), 4);
}

fn failing_at_first(visit: &Visit) -> StatusCode {
    if &visit.body[..] == b"fails at first" && visit.run == 2 {
        StatusCode::BAD_GATEWAY
    } else {
        StatusCode::OK
    }
}

/// 4.10
pub(crate) async fn a_full_memory_store_refuses_new_keys_with_503_and_live_keys_still_replay(_: Kind) {
    let store = MemoryStore::builder().max_records(2).build();
    let server = Setup::over(Opened::without_home(store)).start().await;
    let first = server.charge("k-1", "a").await;
    let second = server.charge("k-2", "a").await;
    for _ in 0..3 {
        let refused = server.charge("k-3", "a").await;
        refused.assert_problem(503, "idempotency_overloaded");
        refused.assert_retry_after();
        server.charge("k-1", "a").await.assert_replays(&first);
        server.charge("k-2", "a").await.assert_replays(&second);
    }
    server.idem().forget(&server.id("k-1")).await.unwrap();
    server.charge("k-3", "a").await.assert_fresh(201, "charged in run 3");
}

/// 4.10
pub(crate) async fn one_who_waits_takes_no_room(kind: Kind) {
    let gate = Gate::new();
    let setup = Setup::on(kind).await.configure(|b| b.max_in_flight(2)).work(gate.work());
    let server = setup.route("/wait", post(wait)).start().await;
    let first = server.begin("/wait", "k-1", "a");
    gate.begun(1).await;
    let waiting: Vec<_> = (0..4).map(|_| server.begin("/wait", "k-1", "a")).collect();
    // Asking takes room for a moment, waiting does not.
    eventually("they wait", async || server.asked() >= 5 && server.idem().active() == 1).await;
    let other = server.begin("/wait", "k-2", "a");
    gate.begun(2).await;
    gate.open();
    gate.open();
    assert_eq!(other.await.unwrap().status, 200);
    let first = first.await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().assert_replays(&first);
    }
}

/// 4.11
pub(crate) async fn when_the_store_comes_back_the_next_call_works_at_once(kind: Kind) {
    let limit = Duration::from_millis(200);
    let server = Setup::on(kind).await.configure(move |b| b.store_timeout(limit)).start().await;
    for (key, fault) in [("k-1", Fault::Lost(StoreErrorKind::Unavailable)), ("k-2", Fault::Hang)] {
        server.store.fail(Step::Claim, ALWAYS, fault);
        let refused = join_all((0..10).map(|at| {
            let server = server.clone();
            async move { server.charge(&format!("{at}"), "a").await }
        }));
        refused.await.iter().for_each(assert_unavailable);
        server.store.heal();
        let back = Instant::now();
        assert_eq!(server.charge(key, "a").await.status, 201);
        assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    }
}

/// errors: below the table of section 4
pub(crate) async fn an_error_is_a_problem_document_with_exactly_these_members(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).start().await;
    let first = server.begin("/charges", "k-1", "a");
    gate.begun(1).await;
    for (answer, status, code, title, retryable) in [
        (
            server.request("POST", "/charges").send().await,
            400,
            "idempotency_key_required",
            "Idempotency-Key is missing",
            false,
        ),
        (
            server.charge("k 1", "a").await,
            400,
            "idempotency_key_invalid",
            "Idempotency-Key is invalid",
            false,
        ),
        (
            server.charge("k-1", "b").await,
            422,
            "idempotency_conflict",
            "Idempotency-Key is already used",
            false,
        ),
        (
            server.charge("k-1", "a").await,
            409,
            "idempotency_in_flight",
            "A request is outstanding for this Idempotency-Key",
            true,
        ),
    ] {
        answer.assert_problem(status, code);
        assert_eq!(answer.retry_after().is_some(), retryable, "{code}");
        let problem = answer.json();
        let members: Vec<_> = problem.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["code", "detail", "retryable", "status", "title", "type"], "{code}");
        assert_eq!(
            (&problem["status"], &problem["title"], &problem["retryable"]),
            (&status.into(), &title.into(), &retryable.into())
        );
        let kind = problem["type"].as_str().unwrap();
        assert!(kind.starts_with("https://") && kind.ends_with(code), "{kind}");
        assert!(!problem["detail"].as_str().unwrap().is_empty());
    }
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
}

/// errors: below the table of section 4
pub(crate) async fn the_renderer_of_errors_can_be_replaced(kind: Kind) {
    async fn plain(response: Response) -> Response {
        match response.extensions().get::<idem::axum::Refused>() {
            Some(refused) => (response.status(), refused.error().code()).into_response(),
            None => response,
        }
    }
    let styled = post(once_and_for_all).layer(axum::middleware::map_response(plain));
    let server = Setup::on(kind).await.route("/styled", styled).start().await;
    let refused = server.request("POST", "/styled").send().await;
    refused.assert_fresh(400, "idempotency_key_required");
    server.post("/styled", "k-1", "a").send().await.assert_fresh(201, "charged in run 1");
    server.post("/styled", "k-1", "b").send().await.assert_fresh(422, "idempotency_conflict");
}
