//! The layer around services of tonic, over real connections.

mod server;

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use idem::core::http::problem;
use idem::{Error, ErrorKind, InFlight};
use server::{Counted, layer, message};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;

/// A call under this key, for this service.
fn call(key: &str, service: &str) -> Request<HealthCheckRequest> {
    let mut request = Request::new(HealthCheckRequest { service: service.to_owned() });
    request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

#[tokio::test]
async fn a_unary_call_that_is_repeated_runs_once_and_its_message_and_metadata_are_replayed() {
    let service = Counted::new();
    let mut client = service.behind(layer()).await;
    let first = client.check(call("k-1", "charge")).await.unwrap();
    // Without `grpc-status` in its trailers an answer is none.
    let again = client.check(call("k-1", "charge")).await.unwrap();
    assert!(!first.metadata().contains_key("idempotent-replayed"));
    assert_eq!(again.metadata().get("idempotent-replayed").unwrap(), "true");
    assert_eq!((again.get_ref(), service.runs()), (&message(1), 1));
    for response in [&first, &again] {
        assert_eq!(response.metadata().get("x-run").unwrap(), "1");
        assert_eq!(response.metadata().get_bin("x-bytes-bin").unwrap().to_bytes().unwrap(), &[0, 255][..]);
    }
    assert_eq!(client.check(call("k-2", "charge")).await.unwrap().into_inner(), message(2));
    let mismatch = client.check(call("k-1", "refund")).await.unwrap_err();
    // What tonic makes of a problem document, which is no message.
    assert_eq!((mismatch.code(), service.runs()), (Code::Internal, 2));
}

#[tokio::test]
async fn a_status_other_than_ok_is_an_answer_that_is_replayed() {
    let service = Counted::new();
    let mut client = service.behind(layer()).await;
    for _ in 0..2 {
        let failed = client.check(call("k-1", "fail")).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "failed in run 1"));
    }
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn a_status_of_which_the_layer_is_told_leaves_the_key_to_a_retry() {
    let service = Counted::new();
    let unavailable = HeaderValue::from(Code::Unavailable as i32);
    let layer = layer().call(move |call, _| {
        let unavailable = unavailable.clone();
        call.store_if(move |parts| parts.headers.get("grpc-status") != Some(&unavailable))
    });
    let mut client = service.behind(layer).await;
    assert_eq!(client.check(call("k-1", "come again")).await.unwrap_err().code(), Code::Unavailable);
    for _ in 0..2 {
        assert_eq!(client.check(call("k-1", "come again")).await.unwrap().into_inner(), message(2));
    }
    assert_eq!(service.runs(), 2);
}

#[tokio::test]
async fn a_stream_that_ends_is_kept_whole() {
    let service = Counted::new();
    let mut client = service.behind(layer()).await;
    let messages = service.streaming();
    for number in 0..3 {
        messages.send(Ok(message(number))).unwrap();
    }
    drop(messages);
    for replayed in [false, true] {
        let response = client.watch(call("k-1", "history")).await.unwrap();
        assert_eq!(response.metadata().contains_key("idempotent-replayed"), replayed);
        let mut stream = response.into_inner();
        for number in 0..3 {
            assert_eq!(stream.message().await.unwrap(), Some(message(number)));
        }
        assert_eq!(stream.message().await.unwrap(), None);
        assert!(stream.trailers().await.unwrap().is_some());
    }
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn a_stream_that_is_not_to_be_kept_is_sent_as_it_comes_and_a_retry_is_refused() {
    let service = Counted::new();
    let mut client = service.behind(layer()).await;
    let messages = service.streaming();
    let mut stream = client.watch(call("k-1", "news")).await.unwrap().into_inner();
    for number in 0..3 {
        messages.send(Ok(message(number))).unwrap();
        assert_eq!(stream.message().await.unwrap(), Some(message(number)), "before the stream ends");
    }
    // 410 with a problem document, of which a client is told when it reads.
    let mut refused = client.watch(call("k-1", "news")).await.unwrap().into_inner();
    assert_eq!(refused.message().await.unwrap_err().code(), Code::Internal);
    assert_eq!(service.runs(), 1);
    drop(messages);
    assert_eq!(stream.message().await.unwrap(), None);
}

/// What clients of gRPC understand, beside the problem document.
fn for_grpc(error: &Error) -> http::Response<Bytes> {
    let code = match error.kind() {
        ErrorKind::InFlight => Code::Aborted,
        ErrorKind::Mismatch | ErrorKind::KeyRequired | ErrorKind::KeyInvalid => Code::InvalidArgument,
        ErrorKind::StoreUnavailable | ErrorKind::Overloaded => Code::Unavailable,
        _ => Code::Internal,
    };
    let mut response = problem::render(error);
    response.headers_mut().insert("grpc-status", HeaderValue::from(code as i32));
    response.headers_mut().insert("grpc-message", HeaderValue::from_static("see%20the%20body"));
    response
}

#[tokio::test]
async fn errors_may_be_told_as_a_status_that_clients_understand() {
    let service = Counted::new();
    let mut client =
        service.behind(layer().call(|call, _| call.http(|http| http.render_errors(for_grpc)))).await;
    let running = tokio::spawn({
        let mut client = client.clone();
        async move { client.check(call("k-1", "wait")).await }
    });
    service.has_begun().await;
    assert_eq!(client.check(call("k-1", "wait")).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(client.check(call("k-1", "other")).await.unwrap_err().code(), Code::InvalidArgument);
    service.go.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap().into_inner(), message(1));
    let keyless = Request::new(HealthCheckRequest::default());
    let refused = client.check(keyless).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "see the body"));
    assert_eq!(client.check(call("k-1", "wait")).await.unwrap().into_inner(), message(1));
}

#[tokio::test]
async fn a_call_whose_client_goes_away_runs_to_its_end() {
    let service = Counted::new();
    let patient = layer().call(|call, _| call.in_flight(InFlight::Wait(Duration::from_mins(1))));
    let mut client = service.behind(patient).await;
    let running = tokio::spawn({
        let mut client = client.clone();
        async move { client.check(call("k-1", "wait")).await }
    });
    service.has_begun().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    service.go.add_permits(1);
    let answer = client.check(call("k-1", "wait")).await.unwrap();
    assert!(answer.metadata().contains_key("idempotent-replayed"));
    assert_eq!((answer.into_inner(), service.runs()), (message(1), 1));
}
