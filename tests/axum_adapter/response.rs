//! What is kept of a response, and what its callers get.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use futures_util::{FutureExt, StreamExt};
use http_body_util::BodyExt;
use idem::axum::{Mark, Refused};
use idem::{InFlight, OnCrash, OnStoreError};
use tokio::sync::{Notify, mpsc};
use tower::ServiceExt;

use super::harness::{App, post, request, send};

const MIB: usize = 1024 * 1024;

/// An application that answers the same every time.
fn answering(make: impl Fn() -> Response + Send + Sync + 'static) -> App {
    App::new(move |_, _| std::future::ready(make()))
}

/// A body in pieces, whose length is not known before it ends.
fn pieces(pieces: Vec<Vec<u8>>) -> Body {
    Body::from_stream(futures_util::stream::iter(
        pieces.into_iter().map(|piece| Ok::<_, Infallible>(Bytes::from(piece))),
    ))
}

#[tokio::test]
async fn a_replay_has_the_same_status_headers_and_bytes_and_the_marker() {
    let bytes: Vec<u8> = (0..=255).collect();
    let expected = bytes.clone();
    let app = answering(move || {
        let headers = AppendHeaders([
            ("content-type", "application/octet-stream"),
            ("location", "/charges/1"),
            ("link", "</a>; rel=\"next\", </b>; rel=\"prev\""),
            ("x-custom", "1"),
            ("link", "</c>; rel=\"last\""),
            ("etag", "\"v1\""),
        ]);
        (StatusCode::CREATED, headers, bytes.clone()).into_response()
    });
    let first = app.post("k-1", "").await;
    let again = app.post("k-1", "").await;
    again.assert_replays(&first);
    assert_eq!(again.body, expected);
    assert_eq!(again.lines("link"), [&b"</a>; rel=\"next\", </b>; rel=\"prev\""[..], b"</c>; rel=\"last\""]);
    let mut headers = again.headers.clone();
    headers.remove("idempotent-replayed");
    assert_eq!(headers, first.headers);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn header_values_are_replayed_as_bytes() {
    let app = answering(|| {
        let mut response = Response::default();
        response.headers_mut().insert("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        response
    });
    let first = app.post("k-1", "").await;
    let again = app.post("k-1", "").await;
    again.assert_replays(&first);
    assert_eq!(again.lines("x-latin"), [b"caf\xe9"]);
}

#[tokio::test]
async fn headers_of_one_connection_moment_or_caller_reach_the_first_caller_only() {
    let app = answering(|| {
        AppendHeaders([
            ("set-cookie", "session=1"),
            ("date", "Tue, 01 Dec 2026 00:00:00 GMT"),
            ("retry-after", "5"),
            ("x-request-id", "r-1"),
            ("ratelimit-policy", "q=1"),
            ("x-ratelimit-remaining", "9"),
            ("access-control-allow-origin", "*"),
            ("proxy-status", "x"),
            ("server-timing", "db"),
            ("x-kept", "1"),
        ])
        .into_response()
    });
    let first = app.post("k-1", "").await;
    assert_eq!(first.headers["set-cookie"], "session=1");
    let again = app.post("k-1", "").await;
    again.assert_replays(&first);
    let mut names: Vec<_> = again.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "idempotent-replayed", "x-kept"]);
}

#[tokio::test]
async fn the_marker_can_be_named() {
    let app = answering(|| "ok".into_response()).configured(|builder| builder.replay_header("X-Replayed"));
    app.post("k-1", "").await;
    let again = app.post("k-1", "").await;
    assert_eq!(again.headers["x-replayed"], "true");
    assert!(!again.is_replayed());
}

#[tokio::test]
async fn empty_answers_and_redirects_are_answers() {
    let makers: [fn() -> Response; 6] = [
        || ().into_response(),
        || "".into_response(),
        || StatusCode::NO_CONTENT.into_response(),
        || StatusCode::NOT_MODIFIED.into_response(),
        || Redirect::to("/charges/1").into_response(),
        || (StatusCode::ACCEPTED, pieces(vec![])).into_response(),
    ];
    for make in makers {
        let app = answering(make);
        let first = app.post("k-1", "").await;
        let again = app.post("k-1", "").await;
        again.assert_replays(&first);
        assert_eq!(again.lines("location"), first.lines("location"));
        assert_eq!(app.runs(), 1, "{first:?}");
    }
}

#[tokio::test]
async fn a_streamed_answer_is_replayed_with_its_length_computed_anew() {
    let app = answering(|| Response::new(pieces(vec![vec![0; 3], vec![], vec![255; 70_000], vec![7]])));
    let first = app.post("k-1", "").await;
    let again = app.post("k-1", "").await;
    again.assert_replays(&first);
    assert_eq!(
        (again.body.len(), &again.headers["content-length"]),
        (70_004, &HeaderValue::from_static("70004"))
    );
}

#[tokio::test]
async fn trailers_are_replayed_with_what_they_follow() {
    let app = answering(|| {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("1"));
        Response::new(Body::new(Body::from("abc").with_trailers(std::future::ready(Some(Ok(trailers))))))
    });
    let first = app.post("k-1", "").await;
    assert_eq!(first.trailers.as_ref().unwrap()["x-sum"], "1");
    let again = app.post("k-1", "").await;
    again.assert_replays(&first);
    assert_eq!(again.trailers, first.trailers);
}

#[tokio::test]
async fn declines_are_replayed_and_what_may_still_succeed_is_not() {
    for status in [200, 201, 303, 400, 402, 404, 410, 422] {
        let app = answering(move || StatusCode::from_u16(status).unwrap().into_response());
        let first = app.post("k-1", "").await;
        app.post("k-1", "").await.assert_replays(&first);
        assert_eq!(app.runs(), 1, "{status}");
    }
    for status in [401, 403, 407, 408, 409, 421, 423, 425, 426, 428, 429, 500, 502, 503] {
        let app = answering(move || StatusCode::from_u16(status).unwrap().into_response());
        for run in 1..=2 {
            let answered = app.post("k-1", "a").await;
            assert_eq!((answered.status.as_u16(), answered.is_replayed(), app.runs()), (status, false, run));
        }
        app.post("k-1", "b").await.assert_problem(422, "idempotency_conflict");
    }
}

#[tokio::test]
async fn a_predicate_decides_what_is_stored() {
    let app = answering(|| (StatusCode::BAD_GATEWAY, [("x-final", "1")]).into_response())
        .calling(|call| call.store_if(|parts| parts.headers.contains_key("x-final")));
    let first = app.post("k-1", "").await;
    app.post("k-1", "").await.assert_replays(&first);

    let app = answering(|| "ok".into_response()).calling(|call| call.store_if(|_| false));
    assert!(!app.post("k-1", "").await.is_replayed());
    assert!(!app.post("k-1", "").await.is_replayed());
}

#[tokio::test]
async fn a_predicate_that_panics_leaves_the_decision_to_the_status_and_runs_nothing_again() {
    let app =
        answering(|| "ok".into_response()).calling(|call| call.store_if(|_| panic!("the predicate's own")));
    let first = app.post("k-1", "").await;
    assert_eq!((first.status.as_u16(), app.runs()), (200, 1));
    app.post("k-1", "").await.assert_replays(&first);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn the_handlers_mark_is_obeyed_whatever_the_status_and_the_predicate() {
    for by_extension in [true, false] {
        let marking = move |status: StatusCode, mark: Mark| {
            App::new(move |_, _| async move {
                if by_extension {
                    return (status, [("location", "/charges/1")], Extension(mark), "body").into_response();
                }
                idem::current().unwrap().mark(mark);
                (status, [("location", "/charges/1")], "body").into_response()
            })
            .calling(|call| call.store_if(|parts| parts.status != StatusCode::OK))
        };
        let app = marking(StatusCode::OK, Mark::Final);
        let first = app.post("k-1", "").await;
        app.post("k-1", "").await.assert_replays(&first);

        let app = marking(StatusCode::CREATED, Mark::Retryable);
        app.post("k-1", "a").await;
        assert!(!app.post("k-1", "a").await.is_replayed());
        app.post("k-1", "b").await.assert_problem(422, "idempotency_conflict");

        let app = marking(StatusCode::CREATED, Mark::Tombstone);
        assert_eq!(app.post("k-1", "").await.text(), "body");
        let again = app.post("k-1", "").await;
        again.assert_problem(410, "idempotency_response_unavailable");
        assert_eq!(
            (again.json()["original_status"].as_u64(), &again.headers["location"]),
            (Some(201), &HeaderValue::from_static("/charges/1"))
        );
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn an_extension_has_precedence_over_a_mark_set_earlier() {
    let app = App::new(|_, _| async {
        idem::current().unwrap().mark(Mark::Retryable);
        (Extension(Mark::Final), "ok").into_response()
    });
    let first = app.post("k-1", "").await;
    app.post("k-1", "").await.assert_replays(&first);
}

#[tokio::test]
async fn under_on_crash_reject_only_what_is_marked_retryable_runs_again() {
    let app =
        answering(|| StatusCode::BAD_GATEWAY.into_response()).calling(|call| call.on_crash(OnCrash::Reject));
    assert_eq!(app.post("k-1", "").await.status, 502);
    app.post("k-1", "").await.assert_problem(409, "idempotency_outcome_unknown");

    let app = answering(|| (StatusCode::BAD_GATEWAY, Extension(Mark::Retryable)).into_response())
        .calling(|call| call.on_crash(OnCrash::Reject));
    app.post("k-1", "").await;
    assert_eq!(app.post("k-1", "").await.status, 502);
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn an_answer_at_the_limit_is_replayed_and_one_over_it_becomes_a_tombstone() {
    for (len, kept) in [(MIB - 1, true), (MIB, true), (MIB + 1, false), (3 * MIB, false)] {
        for chunked in [false, true] {
            let app = answering(move || {
                let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
                let body = if chunked {
                    pieces(bytes.chunks(65_521).map(<[u8]>::to_vec).collect())
                } else {
                    bytes.into()
                };
                (StatusCode::CREATED, [("location", "/exports/1")], body).into_response()
            });
            let first = app.post("k-1", "").await;
            assert!(
                first.body.len() == len
                    && first.body.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8)
            );
            let again = app.post("k-1", "").await;
            if kept {
                again.assert_replays(&first);
            } else {
                again.assert_problem(410, "idempotency_response_unavailable");
                let problem = again.json();
                assert_eq!(
                    (&problem["original_status"], &problem["location"]),
                    (&201.into(), &"/exports/1".into())
                );
                assert_eq!(problem["retryable"], false);
                assert_eq!(again.headers["location"], "/exports/1");
                app.post("k-1", "other").await.assert_problem(422, "idempotency_conflict");
            }
            assert_eq!(app.runs(), 1);
        }
    }
}

#[tokio::test]
async fn the_engines_own_limit_decides_what_is_too_long() {
    let app = answering(|| "12345".into_response()).configured(|builder| builder.max_response_bytes(4));
    assert_eq!(app.post("k-1", "").await.text(), "12345");
    app.post("k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
}

/// A handler whose body is what the test sends it.
fn streaming(content_type: &'static str) -> (App, mpsc::UnboundedSender<Result<Bytes, std::io::Error>>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let app = App::new(move |_, _| {
        let mut receiver = receiver.lock().unwrap().take().expect("the handler runs once");
        async move {
            let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
            ([("content-type", content_type)], Body::from_stream(stream)).into_response()
        }
    });
    (app, sender)
}

/// Sends `POST /charges`; the response must begin although its body has not ended.
async fn begin(app: &App) -> Response {
    let response = app.router().oneshot(post("k-1", ""));
    tokio::time::timeout(Duration::from_secs(10), response).await.expect("the response is held back").unwrap()
}

async fn data(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    body.frame().await.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
}

#[tokio::test]
async fn an_event_stream_passes_at_once_and_leaves_a_tombstone() {
    for content_type in
        ["text/event-stream", "Text/Event-Stream; charset=utf-8", "multipart/x-mixed-replace; boundary=b"]
    {
        let (app, events) = streaming(content_type);
        let mut response = begin(&app).await;
        app.post("k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            events.send(Ok(event.into())).unwrap();
            assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), event);
        }
        drop(events);
        assert!(data(response.body_mut()).await.is_none());
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn a_stream_that_grows_too_long_goes_on_while_it_is_written() {
    let (app, chunks) = streaming("application/x-ndjson");
    chunks.send(Ok(vec![1; MIB].into())).unwrap();
    chunks.send(Ok(vec![2; 1].into())).unwrap();
    let mut response = begin(&app).await;
    assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), vec![1; MIB]);
    assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), vec![2; 1]);
    assert!(data(response.body_mut()).now_or_never().is_none());
    chunks.send(Ok(vec![3; 5].into())).unwrap();
    assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), vec![3; 5]);
    app.post("k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
}

#[tokio::test]
async fn a_slow_stream_marked_as_a_tombstone_passes_at_once() {
    let (sender, receiver) = mpsc::unbounded_channel::<Result<Bytes, Infallible>>();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let app = App::new(move |_, _| {
        let mut receiver = receiver.lock().unwrap().take().expect("the handler runs once");
        let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        std::future::ready((Extension(Mark::Tombstone), Body::from_stream(stream)).into_response())
    });
    let mut response = begin(&app).await;
    sender.send(Ok("1".into())).unwrap();
    assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), "1");
    app.post("k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_neither_stored_nor_made_again() {
    let (app, chunks) = streaming("application/json");
    chunks.send(Ok("{\"a\":".into())).unwrap();
    chunks.send(Err(std::io::Error::other("the database went away"))).unwrap();
    let mut response = begin(&app).await;
    assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), "{\"a\":");
    assert!(
        data(response.body_mut()).await.unwrap().unwrap_err().to_string().contains("the database went away")
    );
    app.post("k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn an_upgrade_leaves_a_tombstone_also_if_it_is_marked_final() {
    let upgrade = || (StatusCode::SWITCHING_PROTOCOLS, [("upgrade", "chat")]);
    for app in [
        answering(move || upgrade().into_response()),
        answering(move || (upgrade().0, upgrade().1, Extension(Mark::Final)).into_response()),
        answering(move || upgrade().into_response()).calling(|call| call.store_if(|_| true)),
    ] {
        assert_eq!(app.post("k-1", "").await.headers["upgrade"], "chat");
        app.post("k-1", "").await.assert_problem(410, "idempotency_response_unavailable");
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn a_panic_reaches_the_application_and_the_key_is_free_at_once_but_bound() {
    let app = App::new(|run, _| async move {
        assert!(run > 1, "the first run panics");
        "ok".into_response()
    });
    let panicked = std::panic::AssertUnwindSafe(app.post("k-1", "a")).catch_unwind().await.unwrap_err();
    assert!(panicked.downcast_ref::<&str>().is_some_and(|message| message.contains("the first run panics")));
    // The release is not awaited by the panic.
    app.idem.drain(Duration::from_secs(5)).await;
    app.post("k-1", "b").await.assert_problem(422, "idempotency_conflict");
    assert_eq!(app.post("k-1", "a").await.text(), "ok");
}

#[tokio::test]
async fn a_second_call_is_409_with_retry_after_while_the_first_runs() {
    let go = Arc::new(Notify::new());
    let started = Arc::new(Notify::new());
    let app = App::new({
        let (go, started) = (go.clone(), started.clone());
        move |_, _| {
            let (go, started) = (go.clone(), started.clone());
            async move {
                started.notify_one();
                go.notified().await;
                "ok".into_response()
            }
        }
    });
    let first = tokio::spawn({
        let app = app.clone();
        async move { app.post("k-1", "a").await }
    });
    started.notified().await;
    let rejected = app.post("k-1", "a").await;
    rejected.assert_problem(409, "idempotency_in_flight");
    assert_eq!(rejected.headers["retry-after"], "1");
    assert_eq!(rejected.json()["retryable"], true);
    let mismatch = app.post("k-1", "b").await;
    mismatch.assert_problem(422, "idempotency_conflict");
    assert!(!mismatch.headers.contains_key("retry-after"));
    go.notify_one();
    let first = first.await.unwrap();
    app.post("k-1", "a").await.assert_replays(&first);
}

#[tokio::test]
async fn without_its_store_a_handler_runs_only_where_it_says_so() {
    let app = answering(|| "ok".into_response());
    app.store.go_down();
    let refused = app.post("k-1", "").await;
    refused.assert_problem(503, "idempotency_store_unavailable");
    assert_eq!((&refused.headers["retry-after"], app.runs()), (&HeaderValue::from_static("1"), 0));

    let app = answering(|| "ok".into_response()).calling(|call| call.on_store_error(OnStoreError::Run));
    app.store.go_down();
    assert_eq!(
        (app.post("k-1", "").await.text(), app.post("k-1", "").await.text(), app.runs()),
        ("ok", "ok", 2)
    );
}

#[tokio::test]
async fn an_unprotected_answer_streams() {
    let (app, chunks) = streaming("application/json");
    let app = app.calling(|call| call.on_store_error(OnStoreError::Run));
    app.store.go_down();
    let mut response = begin(&app).await;
    chunks.send(Ok("1".into())).unwrap();
    assert_eq!(data(response.body_mut()).await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn a_hundred_racing_requests_run_the_handler_once() {
    let go = Arc::new(Notify::new());
    let app = App::new({
        let go = go.clone();
        move |_, _| {
            let go = go.clone();
            async move {
                go.notified().await;
                "ok".into_response()
            }
        }
    });
    let racing: futures_util::stream::FuturesUnordered<_> = (0..100)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { app.post("k-1", "a").await.status.as_u16() })
        })
        .collect();
    let mut racing = racing.map(Result::unwrap);
    for _ in 0..99 {
        assert_eq!(racing.next().await, Some(409));
    }
    go.notify_one();
    assert_eq!(racing.next().await, Some(200));
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_handler_sees_its_attempt_and_derived_keys_that_stay_the_same() {
    let app = App::new(|_, _| async {
        let run = idem::current().unwrap();
        let status = if run.attempt() == 1 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
        (status, format!("{} {}", run.attempt(), run.derive("stripe"))).into_response()
    });
    let first = app.post("k-1", "").await;
    let second = app.post("k-1", "").await;
    assert_eq!(first.text().strip_prefix("1 "), second.text().strip_prefix("2 "));
}

#[tokio::test]
async fn a_layer_can_write_its_own_problems() {
    async fn house_style(response: Response) -> Response {
        match response.extensions().get::<Refused>() {
            Some(refused) => (response.status(), refused.error().code()).into_response(),
            None => response,
        }
    }
    let app = answering(|| "ok".into_response());
    let router = || app.router().layer(map_response(house_style));
    let refused = send(router(), request("POST", "/charges", "")).await;
    assert_eq!((refused.status.as_u16(), refused.text()), (400, "idempotency_key_required"));
    let refused = send(router(), post("k-1", vec![0; MIB + 1])).await;
    assert_eq!((refused.status.as_u16(), refused.text()), (413, "idempotency_request_too_large"));
    assert_eq!(send(router(), post("k-1", "")).await.text(), "ok");
}

#[tokio::test]
async fn an_answer_that_cannot_be_decoded_is_500_and_never_a_second_run() {
    let app = answering(|| "ok".into_response());
    let other = app.idem.call("charges.create").key("k-1").unfingerprinted();
    let stored = other.run(|_| async { Ok::<_, Infallible>("not a response".to_owned()) }).await.unwrap();
    assert!(!stored.is_replayed());
    let answered = app.post("k-1", "").await;
    answered.assert_problem(500, "idempotency_undecodable");
    assert!(!answered.text().contains("not a response"));
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn with_in_flight_wait_a_duplicate_gets_the_answer_of_the_first() {
    let (go, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let app = App::new({
        let (go, begun) = (go.clone(), begun.clone());
        move |_, _| {
            let (go, begun) = (go.clone(), begun.clone());
            async move {
                begun.notify_one();
                go.notified().await;
                "ok".into_response()
            }
        }
    })
    .calling(|call| call.in_flight(InFlight::Wait(Duration::from_mins(1))));
    let posting = || {
        let app = app.clone();
        tokio::spawn(async move { app.post("k-1", "").await })
    };
    let first = posting();
    begun.notified().await;
    let second = posting();
    while app.store.claims() < 2 {
        tokio::task::yield_now().await;
    }
    go.notify_one();
    second.await.unwrap().assert_replays(&first.await.unwrap());
    assert_eq!(app.runs(), 1);
}
