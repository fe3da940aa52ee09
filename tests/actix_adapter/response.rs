//! What is kept of a response, and what its first caller gets.

use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, web};
use bytes::Bytes;
use futures_util::stream;
use idem::actix::{Refused, idempotent};

use super::server::{Server, State, serve};

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn respond(state: web::Data<State>, how: String) -> HttpResponse {
    let run = state.run();
    let chunks = |count: usize| {
        stream::iter((0..count).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1000]))))
    };
    match how.as_str() {
        "bytes" => HttpResponse::Ok().body((0..=u8::MAX).collect::<Vec<_>>()),
        "headers" => {
            let mut response = HttpResponse::Ok();
            for link in ["<b>", "<a>, <c>", "<a>"] {
                response.append_header(("link", link));
            }
            response.append_header(("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap()));
            response.append_header(("set-cookie", "session=1")).reason("Fine").body("")
        }
        "stream" => HttpResponse::Ok().streaming(chunks(300)),
        "long stream" => HttpResponse::Created().insert_header(("location", "/1")).streaming(chunks(1100)),
        "events" => HttpResponse::Ok().content_type("text/event-stream").streaming(chunks(1)),
        "broken" => {
            let end = stream::iter([Err(std::io::Error::other("the disk is gone"))]);
            HttpResponse::Ok().streaming(futures_util::StreamExt::chain(chunks(1), end))
        }
        "upgrade" => HttpResponse::build(StatusCode::SWITCHING_PROTOCOLS)
            .upgrade("echo")
            .streaming(stream::iter([Ok::<_, std::io::Error>(Bytes::from(format!("run {run}")))])),
        status => HttpResponse::build(StatusCode::from_bytes(status.as_bytes()).unwrap()).finish(),
    }
}

fn start() -> Server {
    serve(&State::new(), |config| {
        config.route("/respond", web::post().to(respond));
    })
}

#[tokio::test]
async fn a_replay_has_the_status_the_bytes_and_the_headers_of_the_first_answer() {
    let server = start();
    for (key, how) in ["bytes", "stream", "204", "205", "304", "303", "200", "404"].into_iter().enumerate() {
        let key = format!("k-{key}");
        let first = server.post("/respond", &key, how).await;
        assert!(first.status != 500, "{first:?}");
        server.post("/respond", &key, how).await.assert_replays(&first);
    }
    assert_eq!(server.state.runs(), 8);
}

/// The lines of a raw response before its body, sorted, without `date`.
fn lines(response: &[u8]) -> Vec<Vec<u8>> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in response[..end].split(|byte| *byte == b'\n') {
        lines.push(line.trim_ascii_end().to_vec());
    }
    lines.retain(|line| !line.starts_with(b"date:"));
    lines.sort();
    lines
}

#[tokio::test]
async fn on_the_wire_a_replay_differs_by_its_marker_only() {
    let server = start();
    for how in ["bytes", "204", "304", "200", "201"] {
        let first = server.raw("/respond", how, how).await;
        let mut expected = lines(&first);
        expected.push(b"idempotent-replayed: true".to_vec());
        expected.sort();
        let replay = server.raw("/respond", how, how).await;
        assert_eq!(lines(&replay), expected, "{how}");
        let body = |response: &[u8]| response.split(|byte| *byte == b'\n').count();
        assert_eq!(body(&replay), body(&first) + 1, "{how}");
    }
}

#[tokio::test]
async fn repeated_headers_stay_apart_and_bytes_stay_bytes() {
    let server = start();
    let first = server.post("/respond", "k-1", "headers").await;
    let replay = server.post("/respond", "k-1", "headers").await;
    replay.assert_replays(&first);
    for answer in [&first, &replay] {
        assert_eq!(answer.lines("link"), [&b"<b>"[..], b"<a>, <c>", b"<a>"]);
        assert_eq!(answer.lines("x-latin"), [b"caf\xe9"]);
    }
    assert_eq!((first.lines("set-cookie").len(), replay.lines("set-cookie").len()), (1, 0));
    let raw = server.raw("/respond", "k-2", "headers").await;
    assert!(raw.starts_with(b"HTTP/1.1 200 Fine\r\n"), "the first caller gets the reason");
    let raw = server.raw("/respond", "k-2", "headers").await;
    assert!(raw.starts_with(b"HTTP/1.1 200 OK\r\n"), "a replay has the usual one");
}

#[tokio::test]
async fn what_cannot_be_kept_reaches_its_first_caller_and_is_410_after_that() {
    let server = start();
    let first = server.post("/respond", "k-1", "long stream").await;
    assert_eq!((first.status, first.body.len()), (201, 1_100_000));
    let gone = server.post("/respond", "k-1", "long stream").await;
    gone.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!(gone.lines("location"), [b"/1"]);

    server.post("/respond", "k-2", "events").await.assert_fresh(200, &"x".repeat(1000));
    server.post("/respond", "k-2", "events").await.assert_problem(410, "idempotency_response_unavailable");

    let upgraded = String::from_utf8(server.raw("/respond", "k-3", "upgrade").await).unwrap();
    assert!(upgraded.starts_with("HTTP/1.1 101 ") && upgraded.contains("upgrade: echo"), "{upgraded}");
    assert!(upgraded.contains("run 3"), "{upgraded}");
    server.post("/respond", "k-3", "upgrade").await.assert_problem(410, "idempotency_response_unavailable");

    let broken = server.raw("/respond", "k-4", "broken").await;
    // actix-web does not send what it had written when the rest breaks off.
    assert!(!broken.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&broken));
    server.post("/respond", "k-4", "broken").await.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!(server.state.runs(), 4);
}

#[tokio::test]
async fn middleware_may_write_errors_its_own_way() {
    let server = serve(&State::new(), |config| {
        let own = from_fn(async |request, next: actix_web::middleware::Next<_>| {
            let response = next.call(request).await?;
            let code =
                response.response().extensions().get::<Refused>().map(|refused| refused.error().code());
            let status = response.status();
            Ok::<_, actix_web::Error>(match code {
                Some(code) => response.into_response(HttpResponse::build(status).body(code)),
                None => response,
            })
        });
        config.service(web::resource("/respond").wrap(own).route(web::post().to(respond)));
    });
    server.post("/respond", "two words", "200").await.assert_fresh(400, "idempotency_key_invalid");
    server.post("/respond", "k-1", "200").await.assert_fresh(200, "");
    server.post("/respond", "k-1", "201").await.assert_fresh(422, "idempotency_conflict");
}
