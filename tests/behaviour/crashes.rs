//! Section 6: crashes, disconnects, zombies.
//!
//! A process that is killed is in `examples/payments/tests`; here the crash is a handler that runs in its caller's
//! future (`inline`) and is dropped with it, which leaves the record just so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::future::join_all;
use idem::axum::{Mark, idempotent};
use idem::core::http::response::encode;
use idem::core::store::{Settled, StoreErrorKind};
use idem::{ErrorKind, Idempotency, State as RecordState, Store as _};
use tokio::sync::Notify;

use crate::client::eventually;
use crate::faulty::{Fault, Step};
use crate::gate::Gate;
use crate::server::{App, Caller, Leave, Server, Setup};
use crate::stores::Kind;

const ALWAYS: usize = usize::MAX;

async fn a_client_that_leaves(kind: Kind, leave: Leave) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).start().await;
    for run in 1..=5 {
        let key = format!("k-{run}");
        let line = format!("idempotency-key: {key}");
        let client = server.raw("/charges", &[line.as_bytes()], b"a").await;
        gate.begun(run).await;
        server.hang_up(client, leave, run).await;
        server.charge(&key, "a").await.assert_in_flight();
        gate.open();
        server.settled().await;
        let retry = server.charge(&key, "a").await;
        assert!(retry.is_replayed() && retry.text() == format!("charged in run {run}"), "{retry:?}");
        assert_eq!(server.runs(), run);
    }
}

/// 6.1
pub(crate) async fn a_client_that_hangs_up_does_not_stop_the_handler_and_its_retry_replays(kind: Kind) {
    a_client_that_leaves(kind, Leave::Fin).await;
}

/// 6.1
pub(crate) async fn a_connection_that_is_reset_does_not_stop_the_handler_and_its_retry_replays(kind: Kind) {
    a_client_that_leaves(kind, Leave::Rst).await;
}

/// 6.1
pub(crate) async fn a_drop_while_the_claim_is_under_way_releases_it(kind: Kind) {
    for (path, operation) in
        [("/charges", "charges.create"), ("/cancelled", "charges.cancelled"), ("/inline", "charges.inline")]
    {
        let setup = Setup::on(kind).await.route("/cancelled", post(cancelled));
        let server = setup.route("/inline", post(in_place)).start().await;
        server.store.fail(Step::Claim, 1, Fault::Slow(Duration::from_millis(300)));
        let client = server.raw(path, &[b"idempotency-key: k-1"], b"a").await;
        server.store.reached(Step::Claim, 1).await;
        server.hang_up(client, Leave::Rst, 1).await;
        server.settled().await;
        assert_eq!((server.runs(), server.store.count(Step::Release)), (0, 1), "{path}");
        // As if nobody had ever asked: free for any payload.
        assert_eq!(server.inspect(&server.id_of(operation, "k-1")).await, None);
        server.post(path, "k-1", "b").send().await.assert_fresh(201, "charged in run 1");
    }
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, operation = "charges.cancelled", engine = app.idem,
    on_disconnect = cancel
)]
async fn cancelled(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 6.1
pub(crate) async fn with_on_disconnect_cancel_the_handler_is_dropped_and_the_key_is_free_at_once_but_bound(
    kind: Kind,
) {
    let gate = Gate::new();
    let setup = Setup::on(kind).await.work(gate.work()).route("/cancelled", post(cancelled));
    let server = setup.start().await;
    let client = server.raw("/cancelled", &[b"idempotency-key: k-1"], b"a").await;
    gate.begun(1).await;
    server.hang_up(client, Leave::Rst, 1).await;
    gate.dropped(1).await;
    server.settled().await;
    server.post("/cancelled", "k-1", "b").send().await.assert_conflict();
    gate.open();
    server.post("/cancelled", "k-1", "a").send().await.assert_fresh(200, "charged in run 2");
}

#[idem::idempotent(key = order, ttl = "24h", scope = shared, engine = idem, lease = "400ms", skip(gate, idem))]
async fn ship(order: &str, gate: &Gate, idem: &Idempotency) -> Result<u32, idem::Error> {
    gate.pass().await;
    Ok(idem::current().map_or(0, |run| run.attempt()))
}

/// 6.1
pub(crate) async fn a_function_that_borrows_counts_as_crashed_when_it_is_dropped(kind: Kind) {
    let (server, gate) = (Setup::on(kind).await.start().await, Gate::new());
    let mut dropped = Box::pin(ship("o-1", &gate, server.idem()));
    tokio::select! {
        _ = &mut dropped => unreachable!("the gate is shut"),
        () = gate.begun(1) => {}
    }
    drop(dropped);
    let begun = Instant::now();
    gate.open();
    assert_eq!(ship("o-1", &gate, server.idem()).await.unwrap_err().kind(), ErrorKind::InFlight);
    let attempt = loop {
        match ship("o-1", &gate, server.idem()).await {
            Ok(attempt) => break attempt,
            Err(error) => assert_eq!(error.kind(), ErrorKind::InFlight),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "its lease does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(attempt, 2);
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, operation = "charges.leased", engine = app.idem,
    lease = "800ms"
)]
async fn leased(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 6.2
pub(crate) async fn a_handler_may_take_much_longer_than_its_lease(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/leased", post(leased)).start().await;
    let first = server.begin("/leased", "k-1", "a");
    gate.begun(1).await;
    let begun = Instant::now();
    // Three leases long, nobody else gets it.
    while begun.elapsed() < Duration::from_millis(2400) {
        server.post("/leased", "k-1", "a").send().await.assert_in_flight();
        server.post("/leased", "k-1", "b").send().await.assert_conflict();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(server.store.count(Step::Renew) >= 3);
    gate.open();
    let first = first.await.unwrap();
    first.assert_fresh(200, "charged in run 1");
    server.post("/leased", "k-1", "a").send().await.assert_replays(&first);
    assert_eq!(server.runs(), 1);
}

/// 6.2
pub(crate) async fn a_handler_that_ends_soon_renews_nothing_and_its_answer_outlives_its_lease(kind: Kind) {
    let server = Setup::on(kind).await.route("/leased", post(leased)).start().await;
    let begun = Instant::now();
    let first = server.post("/leased", "k-1", "a").send().await;
    // Lease and retention are two separate times.
    while begun.elapsed() < Duration::from_secs(1) {
        server.post("/leased", "k-1", "a").send().await.assert_replays(&first);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((server.store.count(Step::Renew), server.runs()), (0, 1));
}

/// 6.2
pub(crate) async fn a_renewal_that_fails_is_tried_again_while_the_lease_may_last(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/leased", post(leased)).start().await;
    server.store.fail(Step::Renew, 2, Fault::Lost(StoreErrorKind::Unavailable));
    let first = server.begin("/leased", "k-1", "a");
    server.store.reached(Step::Renew, 4).await;
    gate.open();
    first.await.unwrap().assert_fresh(200, "charged in run 1");
}

/// 6.2
pub(crate) async fn when_no_renewal_gets_through_the_handler_is_aborted_and_another_takes_over(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/leased", post(leased)).start().await;
    server.store.fail(Step::Renew, ALWAYS, Fault::Lost(StoreErrorKind::Unavailable));
    let first = server.begin("/leased", "k-1", "a");
    gate.dropped(1).await;
    let told = first.await.unwrap();
    // Its own clock may be ahead of the store's, whose record then still says that it is in flight.
    let code = told.json()["code"].clone();
    assert!(code == "idempotency_lease_lost" || code == "idempotency_in_flight", "{code}");
    assert_eq!(told.status, 409);
    told.assert_retry_after();
    server.store.heal();
    gate.open();
    eventually("the lease ends", async || server.post("/leased", "k-1", "a").send().await.status != 409)
        .await;
    let record = server.inspect(&server.id_of("charges.leased", "k-1")).await.unwrap();
    assert_eq!((record.state, record.attempt, server.runs()), (RecordState::Completed, 2, 2));
}

#[idempotent(key = header, ttl = "24h", scope = caller.id, engine = app.idem, max_run = "400ms")]
async fn bounded(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 6.2
pub(crate) async fn a_handler_that_hangs_is_aborted_at_the_ceiling_and_its_key_is_free_but_bound(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/bounded", post(bounded)).start().await;
    let begun = Instant::now();
    let aborted = server.post("/bounded", "k-1", "a").send().await;
    aborted.assert_problem(503, "idempotency_aborted");
    aborted.assert_retry_after();
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(10), "{took:?}");
    gate.dropped(1).await;
    server.post("/bounded", "k-1", "b").send().await.assert_conflict();
    gate.open();
    let second = server.post("/bounded", "k-1", "a").send().await;
    second.assert_fresh(200, "charged in run 2");
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, operation = "charges.inline", engine = app.idem,
    lease = "700ms", inline
)]
async fn in_place(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// 6.3
pub(crate) async fn after_a_crash_duplicates_get_409_until_the_lease_ends_and_then_one_takes_over(
    kind: Kind,
) {
    let gate = Gate::new();
    let setup = Setup::on(kind).await.route("/inline", post(in_place));
    let setup = setup.work({
        let gate = gate.clone();
        move |visit| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                format!("attempt {}", visit.attempt)
            }
        }
    });
    let server = setup.start().await;
    let before = Instant::now();
    let client = server.raw("/inline", &[b"idempotency-key: k-1"], b"a").await;
    gate.begun(1).await;
    server.hang_up(client, Leave::Rst, 1).await;
    gate.dropped(1).await;
    let id = server.id_of("charges.inline", "k-1");
    loop {
        let answer = server.post("/inline", "k-1", "b").send().await;
        answer.assert_conflict();
        if server.inspect(&id).await.unwrap().state == RecordState::Lapsed {
            break;
        }
        if before.elapsed() < Duration::from_millis(400) {
            server.post("/inline", "k-1", "a").send().await.assert_in_flight();
        }
        assert!(before.elapsed() < Duration::from_secs(20), "the lease does not end");
    }
    assert!(before.elapsed() >= Duration::from_millis(700));
    // Bound for the ttl, as after any failure; of those who ask again one takes over.
    server.post("/inline", "k-1", "b").send().await.assert_conflict();
    let racing: Vec<_> = (0..8).map(|_| server.begin("/inline", "k-1", "a")).collect();
    gate.begun(2).await;
    gate.open();
    let answers: Vec<_> = join_all(racing).await.into_iter().map(Result::unwrap).collect();
    for answer in answers {
        if answer.status == 200 { assert_eq!(answer.text(), "attempt 2") } else { answer.assert_in_flight() }
    }
    let replay = server.post("/inline", "k-1", "a").send().await;
    assert!(replay.is_replayed() && replay.text() == "attempt 2", "{replay:?}");
    assert_eq!(server.runs(), 2);
}

#[idempotent(
    key = header, ttl = "24h", scope = caller.id, operation = "payouts.create", engine = app.idem,
    on_crash = reject, lease = "1s", max_run = "2s", inline
)]
async fn at_most_once(State(app): State<App>, Extension(caller): Extension<Caller>, body: Bytes) -> Response {
    app.work(body).await
}

/// A handler that runs at most once, and ends as it is told.
async fn running_at_most_once(kind: Kind, hanging: Arc<Notify>) -> Server {
    let setup = Setup::on(kind).await.route("/payouts", post(at_most_once));
    let setup = setup.work(move |visit| {
        let hanging = hanging.clone();
        async move {
            match &visit.body[..] {
                b"panic" => panic!("as it is told"),
                b"hang" => {
                    hanging.notify_one();
                    std::future::pending().await
                }
                b"fail" => StatusCode::BAD_GATEWAY.into_response(),
                b"refuse" => StatusCode::TOO_MANY_REQUESTS.into_response(),
                b"retryable" => (StatusCode::BAD_GATEWAY, Extension(Mark::Retryable)).into_response(),
                b"decline" => StatusCode::PAYMENT_REQUIRED.into_response(),
                _ => "paid".into_response(),
            }
        }
    });
    setup.start().await
}

/// 6.3
pub(crate) async fn with_on_crash_reject_whatever_ends_without_an_answer_is_unknown_and_never_runs_again(
    kind: Kind,
) {
    let hanging = Arc::new(Notify::new());
    let server = running_at_most_once(kind, hanging.clone()).await;
    let send = |how: &'static str| server.post("/payouts", how, how).send();
    assert_eq!(send("panic").await.status, 500);
    assert_eq!(send("fail").await.status, 502);
    assert_eq!(send("refuse").await.status, 429);
    send("hang").await.assert_problem(503, "idempotency_aborted");
    hanging.notified().await;
    // A crash: the caller is gone, and the handler with it.
    let client = server.raw("/payouts", &[b"idempotency-key: crash"], b"hang").await;
    hanging.notified().await;
    server.hang_up(client, Leave::Rst, 1).await;
    let id = server.id_of("payouts.create", "crash");
    eventually("the lease ends", async || server.inspect(&id).await.unwrap().state == RecordState::Unknown)
        .await;
    let runs = server.runs();
    for (key, payload) in
        [("panic", "panic"), ("fail", "fail"), ("refuse", "refuse"), ("hang", "hang"), ("crash", "hang")]
    {
        for _ in 0..2 {
            let unknown = server.post("/payouts", key, payload).send().await;
            unknown.assert_problem(409, "idempotency_outcome_unknown");
            assert_eq!((unknown.retry_after(), unknown.json()["retryable"].as_bool()), (None, Some(false)));
        }
        server.post("/payouts", key, "another").send().await.assert_conflict();
        let record = server.inspect(&server.id_of("payouts.create", key)).await.unwrap();
        assert_eq!((record.state, record.expires_in), (RecordState::Unknown, None), "{key}");
    }
    assert_eq!((server.runs(), runs), (5, 5));
}

/// 6.3
pub(crate) async fn with_on_crash_reject_what_is_answered_replays_and_what_is_marked_retryable_runs_again(
    kind: Kind,
) {
    let server = running_at_most_once(kind, Arc::default()).await;
    let send = |how: &'static str| server.post("/payouts", how, how).send();
    for how in ["pay", "decline"] {
        let first = send(how).await;
        send(how).await.assert_replays(&first);
    }
    assert_eq!(server.runs(), 2);
    for run in 3..=4 {
        assert_eq!((send("retryable").await.status, server.runs()), (502, run));
    }
}

/// 6.3
pub(crate) async fn an_unknown_outcome_is_settled_with_an_answer_or_forgotten(kind: Kind) {
    let server = running_at_most_once(kind, Arc::default()).await;
    let id = |key: &str| server.id_of("payouts.create", key);
    let send = |key: &'static str| server.post("/payouts", key, "fail").send();
    for key in ["k-1", "k-2"] {
        assert_eq!(send(key).await.status, 502);
        send(key).await.assert_problem(409, "idempotency_outcome_unknown");
    }
    let mut headers = HeaderMap::new();
    headers.insert("location", HeaderValue::from_static("/payouts/9"));
    let paid = encode(StatusCode::CREATED, &headers, b"paid after all");
    assert_eq!(server.idem().settle(&id("k-1"), paid.clone()).await.unwrap(), Settled::Done);
    assert_eq!(server.idem().forget(&id("k-2")).await.unwrap(), Settled::Done);

    let replay = send("k-1").await;
    assert!(replay.is_replayed());
    assert_eq!((replay.status, replay.text()), (201, "paid after all"));
    assert_eq!(replay.headers["location"], "/payouts/9");
    server.post("/payouts", "k-1", "another").send().await.assert_conflict();
    server.post("/payouts", "k-2", "pay").send().await.assert_fresh(200, "paid");
    assert_eq!(server.runs(), 3);
    // What is answered is settled already.
    assert_eq!(server.idem().settle(&id("k-2"), paid.clone()).await.unwrap(), Settled::Refused);
    assert_eq!(server.idem().settle(&id("k-3"), paid).await.unwrap(), Settled::Absent);
}

/// Two holders of one key, the first of them forgotten while it runs.
struct Overlap {
    server: Server,
    gates: [Gate; 2],
    first: tokio::task::JoinHandle<crate::client::Answer>,
    second: tokio::task::JoinHandle<crate::client::Answer>,
}

async fn overlap(kind: Kind, ends: StatusCode) -> Overlap {
    let gates = [Gate::new(), Gate::new()];
    let setup = Setup::on(kind).await.work({
        let gates = gates.clone();
        move |visit| {
            let gate = gates[visit.run as usize - 1].clone();
            async move {
                gate.pass().await;
                let status = if visit.run == 1 { ends } else { StatusCode::CREATED };
                (status, format!("run {}", visit.run))
            }
        }
    });
    let server = setup.start().await;
    let first = server.begin("/charges", "k-1", "a");
    gates[0].begun(1).await;
    assert_eq!(server.idem().forget(&server.id("k-1")).await.unwrap(), Settled::Done);
    let second = server.begin("/charges", "k-1", "a");
    gates[1].begun(1).await;
    Overlap { server, gates, first, second }
}

/// 6.4
pub(crate) async fn a_late_holder_cannot_overwrite_its_successor_and_is_told_of_it(kind: Kind) {
    let Overlap { server, gates, first, second } = overlap(kind, StatusCode::OK).await;
    gates[0].open();
    first.await.unwrap().assert_in_flight();
    let record = server.inspect(&server.id("k-1")).await.unwrap();
    assert_eq!((record.state, record.attempt), (RecordState::InFlight, 1));
    server.charge("k-1", "a").await.assert_in_flight();
    gates[1].open();
    let second = second.await.unwrap();
    second.assert_fresh(201, "run 2");
    server.charge("k-1", "a").await.assert_replays(&second);
}

/// 6.4
pub(crate) async fn a_late_holder_answers_what_its_successor_has_answered(kind: Kind) {
    let Overlap { server, gates, first, second } = overlap(kind, StatusCode::OK).await;
    gates[1].open();
    let second = second.await.unwrap();
    second.assert_fresh(201, "run 2");
    gates[0].open();
    first.await.unwrap().assert_replays(&second);
    server.charge("k-1", "a").await.assert_replays(&second);
}

/// 6.4
pub(crate) async fn a_late_holder_that_fails_cannot_release_its_successors_claim(kind: Kind) {
    let Overlap { server, gates, first, second } = overlap(kind, StatusCode::BAD_GATEWAY).await;
    gates[0].open();
    // What it knows of its own failure it may say; the record is not its own.
    assert!([409, 502].contains(&first.await.unwrap().status));
    server.charge("k-1", "a").await.assert_in_flight();
    gates[1].open();
    second.await.unwrap().assert_fresh(201, "run 2");
    assert_eq!(server.runs(), 2);
}

/// 6.4
pub(crate) async fn a_handler_is_aborted_when_a_renewal_finds_its_lease_lost(kind: Kind) {
    let gate = Gate::new();
    let server = Setup::on(kind).await.work(gate.work()).route("/leased", post(leased)).start().await;
    let first = server.begin("/leased", "k-1", "a");
    gate.begun(1).await;
    server.idem().forget(&server.id_of("charges.leased", "k-1")).await.unwrap();
    gate.dropped(1).await;
    first.await.unwrap().assert_problem(409, "idempotency_lease_lost");
    gate.open();
    server.post("/leased", "k-1", "b").send().await.assert_fresh(200, "charged in run 2");
}

/// 6.5
pub(crate) async fn a_claim_whose_reply_was_lost_is_repeated_and_granted(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    server.store.fail(Step::Claim, 1, Fault::ReplyLost(StoreErrorKind::Unavailable));
    let first = server.charge("k-1", "a").await;
    first.assert_fresh(201, "charged in run 1");
    assert_eq!(server.store.count(Step::Claim), 2);
    assert_eq!(server.inspect(&server.id("k-1")).await.unwrap().attempt, 1);
    server.charge("k-1", "a").await.assert_replays(&first);
}

/// 6.5
pub(crate) async fn a_completion_whose_reply_was_lost_is_repeated_and_held(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    for (run, kind) in (1..).zip([StoreErrorKind::Unavailable, StoreErrorKind::TimedOut]) {
        let key = format!("{kind:?}");
        server.store.fail(Step::Complete, 1, Fault::ReplyLost(kind));
        let first = server.charge(&key, "a").await;
        first.assert_fresh(201, &format!("charged in run {run}"));
        server.settled().await;
        assert_eq!(server.store.count(Step::Complete), 2 * run);
        server.charge(&key, "a").await.assert_replays(&first);
    }
}

/// 6.6
pub(crate) async fn sweepers_reclaim_what_is_expired_and_nothing_else(kind: Kind) {
    let gate = Gate::new();
    let hanging = Arc::new(Notify::new());
    let server = running_at_most_once(kind, hanging).await;
    let brief = server.beside().ttl(Duration::from_millis(200)).start().await;
    let held = server.beside().work(gate.work()).route("/leased", post(leased)).start().await;
    // In flight and renewed, unknown, unexpired; and twenty that expire.
    let running = held.begin("/leased", "running", "a");
    gate.begun(1).await;
    assert_eq!(server.post("/payouts", "unknown", "fail").send().await.status, 502);
    let kept = server.charge("kept", "a").await;
    for at in 0..20 {
        assert_eq!(brief.charge(&format!("brief-{at}"), "a").await.status, 201);
    }
    let begun = Instant::now();
    let to_sweep = if kind.sweeps_itself() { 0 } else { 20 };
    let mut swept = 0;
    while swept < to_sweep || begun.elapsed() < Duration::from_millis(1800) {
        let batches = join_all((0..3).map(|_| server.store.sweep(3))).await;
        for batch in batches {
            let batch = batch.unwrap();
            assert!(batch <= 3, "a batch of {batch}");
            swept += batch;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "only {swept} were swept");
        tokio::task::yield_now().await;
    }
    assert_eq!(swept, to_sweep);
    for at in 0..20 {
        assert!(brief.inspect(&brief.id(&format!("brief-{at}"))).await.is_none());
    }
    held.post("/leased", "running", "a").send().await.assert_in_flight();
    gate.open();
    running.await.unwrap().assert_fresh(200, "charged in run 1");
    let unknown = server.post("/payouts", "unknown", "fail").send().await;
    unknown.assert_problem(409, "idempotency_outcome_unknown");
    server.charge("kept", "a").await.assert_replays(&kept);
}

/// 6.7
pub(crate) async fn a_slow_handler_does_not_eat_its_own_replay_window(kind: Kind) {
    let ttl = Duration::from_millis(1500);
    let setup = Setup::on(kind).await.ttl(ttl).work(move |visit| async move {
        tokio::time::sleep(ttl + Duration::from_millis(100)).await;
        format!("run {}", visit.run)
    });
    let server = setup.start().await;
    let first = server.charge("k-1", "a").await;
    // Counted from the claim it would be over by now.
    server.charge("k-1", "a").await.assert_replays(&first);
    let left = server.inspect(&server.id("k-1")).await.unwrap().expires_in.unwrap();
    assert!(left <= ttl && left > Duration::ZERO, "{left:?}");
}

/// 6.8
pub(crate) async fn a_handler_knows_its_attempt_and_keys_that_stay_the_same_over_all_attempts(kind: Kind) {
    let setup = Setup::on(kind).await.work(|visit| async move {
        let run = idem::current().unwrap();
        let status = if visit.attempt < 3 { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
        (status, format!("{} {} {}", run.attempt(), run.derive("stripe"), run.derive("ledger")))
    });
    let server = setup.start().await;
    let mut seen = Vec::new();
    for attempt in 1..=3 {
        let answer = server.charge("k-1", "a").await;
        let told: Vec<_> = answer.text().split(' ').map(str::to_owned).collect();
        assert_eq!(told[0], attempt.to_string());
        assert_ne!(told[1], told[2], "one key for two labels");
        seen.push(told[1..].to_vec());
    }
    assert!(seen.iter().all(|keys| keys == &seen[0]), "{seen:?}");
    let id = server.id("k-1");
    assert_eq!(seen[0], [id.derive("stripe"), id.derive("ledger")]);
    let other = server.charge("k-2", "a").await;
    assert!(!other.text().contains(&seen[0][0]));
}

/// 6.9
pub(crate) async fn an_operator_can_look_at_a_record_in_every_state(kind: Kind) {
    let gate = Gate::new();
    let setup = Setup::on(kind).await.work({
        let gate = gate.clone();
        move |visit| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                if visit.attempt == 1 { StatusCode::BAD_GATEWAY } else { StatusCode::CREATED }
            }
        }
    });
    let server = setup.start().await;
    let id = server.id("order-1234567890");
    assert_eq!(server.inspect(&id).await, None);
    for (attempt, ended) in [(1, RecordState::Failed), (2, RecordState::Completed)] {
        let running = server.begin("/charges", "order-1234567890", "a");
        gate.begun(attempt).await;
        let record = server.inspect(&id).await.unwrap();
        assert_eq!((record.state, record.attempt), (RecordState::InFlight, attempt));
        let left = record.lease_left.unwrap();
        assert!(left > Duration::from_secs(5) && left <= Duration::from_secs(30), "{left:?}");
        gate.open();
        running.await.unwrap();
        let record = server.inspect(&id).await.unwrap();
        assert_eq!((record.state, record.attempt, record.lease_left), (ended, attempt, None));
        assert_eq!((record.operation.as_str(), record.hint.as_str()), ("charges.create", "order-12"));
        let left = record.expires_in.unwrap();
        assert!(left > Duration::from_hours(23) && left <= Duration::from_hours(24), "{left:?}");
        assert!(record.age < Duration::from_mins(1));
        assert_eq!(record.answer_len.is_some(), ended == RecordState::Completed);
    }
}

/// 6.9
pub(crate) async fn an_operator_can_forget_a_record_and_its_key_runs_as_new(kind: Kind) {
    let server = Setup::on(kind).await.start().await;
    server.charge("k-1", "a").await.assert_fresh(201, "charged in run 1");
    assert_eq!(server.idem().forget(&server.id("k-1")).await.unwrap(), Settled::Done);
    assert_eq!(server.idem().forget(&server.id("k-1")).await.unwrap(), Settled::Absent);
    server.charge("k-1", "b").await.assert_fresh(201, "charged in run 2");
    assert_eq!(server.inspect(&server.id("k-1")).await.unwrap().attempt, 1);
}
