//! The middleware: around an application, a scope, a resource, an attribute, and among other middleware.

use std::rc::Rc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::middleware::{Compress, Next, from_fn};
use actix_web::web::ServiceConfig;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use futures_util::StreamExt as _;
use idem::actix::{IdempotencyMiddleware, Mark, Said, idempotent};
use idem::{Idempotency, Key, Missing, OnCrash, Scope};
use serde::Deserialize;

use super::server::{Server, State, send, serve, serve_wrapped};

fn once(idem: &Idempotency) -> IdempotencyMiddleware<Said, Said> {
    IdempotencyMiddleware::new(idem).routes("test").shared()
}

fn start(routes: fn(&mut ServiceConfig)) -> Server {
    let state = State::new();
    serve_wrapped(&state, once(&state.idem), routes)
}

/// A handler that cannot leave its thread; it reads its body as it comes.
async fn work(state: web::Data<State>, request: HttpRequest, mut body: web::Payload) -> HttpResponse {
    let run = Rc::new(state.run());
    let mut text = Vec::new();
    while let Some(chunk) = body.next().await {
        text.extend_from_slice(&chunk.unwrap());
    }
    tokio::task::yield_now().await;
    let text = String::from_utf8(text).unwrap();
    let answer = format!("{run} {} {text}", request.path());
    HttpResponse::Created().insert_header(("location", "/1")).append_header(("x-a", "1")).body(answer)
}

async fn slow(state: web::Data<State>, body: String) -> String {
    let run = Rc::new(state.run());
    state.gate.pass().await;
    assert_ne!((body.as_str(), *run), ("panic", 1), "the ledger is on fire");
    format!("charged in run {run}")
}

fn at_work(config: &mut ServiceConfig) {
    config
        .route("/charges", web::post().to(work))
        .route("/slow", web::post().to(slow))
        .service(web::scope("/v1").route("/charges/{id}", web::route().to(work)));
}

async fn assert_once(server: &Server, path: &str) {
    let first = server.post(path, "k-1", "a").await;
    first.assert_fresh(201, &format!("{} {path} a", server.state.runs()));
    let runs = server.state.runs();
    let replay = server.post(path, "k-1", "a").await;
    replay.assert_replays(&first);
    assert_eq!((replay.lines("location"), replay.lines("x-a")), (vec![&b"/1"[..]], vec![&b"1"[..]]));
    server.post(path, "k-1", "b").await.assert_problem(422, "idempotency_conflict");
    assert_eq!(server.state.runs(), runs, "{path}");
}

#[tokio::test]
async fn around_an_application_a_scope_or_a_resource_a_request_happens_once() {
    assert_once(&start(at_work), "/v1/charges/7").await;
    let state = State::new();
    let mine = once(&state.idem);
    let server = serve(&state, move |config| {
        config
            .service(web::scope("/scope").wrap(mine.clone()).route("/{id}", web::post().to(work)))
            .service(web::resource("/resource/{id}").wrap(mine.clone()).route(web::post().to(work)))
            .route("/bare", web::post().to(work));
    });
    assert_once(&server, "/scope/7").await;
    assert_once(&server, "/resource/7").await;
    for run in [3, 4] {
        server.post("/bare", "k-1", "a").await.assert_fresh(201, &format!("{run} /bare a"));
    }
}

#[tokio::test]
async fn on_the_wire_a_replay_differs_by_its_marker_only() {
    let server = start(at_work);
    let text = async || String::from_utf8(server.raw("/charges", "k-1", "a").await).unwrap();
    let without_date = |answer: &str| {
        answer.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().concat()
    };
    let mut lines: Vec<String> = Vec::new();
    for answer in [text().await, text().await] {
        let answer = without_date(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut head: Vec<_> = head.lines().filter(|line| *line != "idempotent-replayed: true").collect();
        head.sort_unstable();
        lines.push(format!("{head:?} {body}"));
        assert_eq!(answer.contains("idempotent-replayed: true"), lines.len() == 2, "{answer}");
    }
    assert_eq!(lines[0], lines[1]);
}

#[tokio::test]
async fn an_operation_is_service_method_and_pattern_and_has_no_identifier_in_it() {
    let state = State::new();
    let mine = once(&state.idem);
    let server =
        serve(&state, move |config| {
            config.service(web::scope("/v2").wrap(mine.clone()).service(
                web::scope("/accounts/{account}").route("/charges/{id:\\d+}", web::route().to(work)),
            ));
        });
    let wrapped = serve_wrapped(&state, once(&state.idem), at_work);
    for (server, path, operation) in [
        (&wrapped, "/v1/charges/7", "test POST /v1/charges/{id}"),
        (&wrapped, "/charges", "test POST /charges"),
        (&server, "/v2/accounts/a/charges/7", "test POST /v2/accounts/{account}/charges/{id:\\d+}"),
    ] {
        assert_eq!(server.post(path, "k-1", "").await.status, 201);
        let id = state.idem.record_id(operation.to_owned(), &Scope::SHARED, &Key::new("k-1").unwrap());
        assert!(state.idem.inspect(&id).await.unwrap().is_some(), "{operation}");
    }
    // Another identifier under one key is another request, and another method is another operation.
    wrapped.post("/v1/charges/8", "k-1", "").await.assert_problem(422, "idempotency_conflict");
    let put = wrapped.request("PUT", "/v1/charges/8").header("idempotency-key", "k-1");
    send(put).await.assert_fresh(201, "4 /v1/charges/8 ");
}

#[tokio::test]
async fn what_no_pattern_matches_passes_without_a_record() {
    let server = start(at_work);
    for _ in 0..2 {
        let answer = server.post("/elsewhere", "k-1", "").await;
        assert_eq!((answer.status, answer.is_replayed()), (404, false));
    }
    assert_eq!(server.state.store.len(), 0);
}

struct User {
    name: String,
}

#[tokio::test]
async fn the_scope_is_an_extension_that_authentication_put_there() {
    let state = State::new();
    let mine = IdempotencyMiddleware::new(&state.idem)
        .operation("charges.create")
        .scope_of(|user: &User| user.name.clone());
    let server = serve(&state, move |config| {
        let authenticate = from_fn(async |request: actix_web::dev::ServiceRequest, next: Next<_>| {
            let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
            if let Some(name) = token.map(str::to_owned) {
                request.extensions_mut().insert(User { name });
            }
            next.call(request).await
        });
        config.service(
            web::resource("/charges").wrap(mine.clone()).wrap(authenticate).route(web::post().to(work)),
        );
    });
    let ask = async |name: &str, body: &'static str| {
        let request = server.request("POST", "/charges").header("idempotency-key", "k-1");
        let request = if name.is_empty() { request } else { request.header("authorization", name) };
        send(request.body(body)).await
    };
    let first = ask("alice", "a").await;
    ask("bob", "b").await.assert_fresh(201, "2 /charges b");
    ask("alice", "a").await.assert_replays(&first);
    // Nobody has said who is asking: that is not shared by accident.
    ask("", "a").await.assert_problem(500, "idempotency_scope_invalid");
    assert_eq!(state.runs(), 2);
}

#[tokio::test]
async fn key_scope_and_options_may_come_from_anywhere_in_the_request() {
    let state = State::new();
    let mine = IdempotencyMiddleware::new(&state.idem)
        .operations(|request| request.path().strip_prefix("/hooks/").map(|_| "hooks.receive"))
        .scope(|request| request.path().rsplit('/').next().map(str::to_owned))
        .call(|call, _, body| call.key(&body.escape_ascii().to_string()))
        .call(|call, request, _| {
            let named = request.headers().contains_key("x-delivery");
            if named { call.key_header(Some("x-delivery")) } else { call }
        });
    let server = serve_wrapped(&state, mine, |config| {
        config.route("/hooks/{sender}", web::post().to(work));
    });
    let send_to = async |path: &str, delivery: Option<&str>| {
        let request = server.request("POST", path).body("id=1");
        send(delivery.into_iter().fold(request, |request, value| request.header("x-delivery", value))).await
    };
    let first = send_to("/hooks/a", None).await;
    send_to("/hooks/a", None).await.assert_replays(&first);
    send_to("/hooks/b", None).await.assert_fresh(201, "2 /hooks/b id=1");
    let named = send_to("/hooks/a", Some("d-1")).await;
    send_to("/hooks/a", Some("d-1")).await.assert_replays(&named);
    assert_eq!((state.runs(), state.store.len()), (3, 3));
}

#[tokio::test]
async fn what_is_excepted_and_what_is_safe_passes_unread_and_the_store_is_not_asked() {
    let state = State::new();
    let mine = IdempotencyMiddleware::new(&state.idem)
        .operation("all")
        .shared()
        .max_request_bytes(3)
        .except(|request| request.path() == "/search")
        .except(|request| request.headers().contains_key("x-dry-run"));
    let server = serve_wrapped(&state, mine, |config| {
        config.route("/search", web::post().to(work)).route("/charges", web::route().to(work));
    });
    for (method, path, dry) in
        [("POST", "/search", false), ("GET", "/charges", false), ("POST", "/charges", true)]
    {
        let request = server.request(method, path).header("idempotency-key", "no key,at all");
        let request = if dry { request.header("x-dry-run", "1") } else { request };
        let run = state.runs() + 1;
        send(request.body("longer than the limit"))
            .await
            .assert_fresh(201, &format!("{run} {path} longer than the limit"));
    }
    assert_eq!(state.store.len(), 0);
}

fn chunked(size: usize) -> reqwest::Body {
    let chunks = (0..size / 100).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 100]));
    reqwest::Body::wrap_stream(futures_util::stream::iter(chunks))
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_claims_nothing() {
    let state =
        State::configured(|builder| builder.max_request_bytes(1000).docs_url("https://example.com/keys"));
    let server = serve_wrapped(&state, once(&state.idem), at_work);
    for body in ["x".repeat(1001).into(), chunked(1100), vec![b'x'; 3 * 1024 * 1024].into()] {
        let refused = server.post("/charges", "k-1", body).await;
        refused.assert_problem(413, "idempotency_request_too_large");
        assert_eq!(refused.lines("link").len(), 1, "as the engine renders it: {refused:?}");
    }
    assert_eq!((state.runs(), state.store.len()), (0, 0));
    server
        .post("/charges", "k-1", chunked(1000))
        .await
        .assert_fresh(201, &format!("1 /charges {}", "x".repeat(1000)));
}

#[tokio::test]
async fn options_may_differ_from_resource_to_resource() {
    let state = State::new();
    let strict = once(&state.idem);
    let lenient = strict.clone().call(|call, _, _| call.missing(Missing::Run));
    let server = serve(&state, move |config| {
        config
            .service(web::resource("/strict").wrap(strict.clone()).route(web::post().to(work)))
            .service(web::resource("/lenient").wrap(lenient.clone()).route(web::post().to(work)));
    });
    send(server.request("POST", "/strict")).await.assert_problem(400, "idempotency_key_required");
    send(server.request("POST", "/lenient")).await.assert_fresh(201, "1 /lenient ");
}

#[derive(Deserialize)]
struct Asked {
    status: u16,
}

fn by_status(asked: &Asked, run: u32) -> HttpResponse {
    HttpResponse::build(StatusCode::from_u16(asked.status).unwrap()).body(format!("run {run}"))
}

async fn bare(state: web::Data<State>, asked: web::Json<Asked>) -> HttpResponse {
    by_status(&asked, state.run())
}

async fn marked(state: web::Data<State>, asked: web::Json<Asked>) -> HttpResponse {
    let mut response = by_status(&asked, state.run());
    response.extensions_mut().insert(Mark::Final);
    response
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem)]
async fn annotated(state: web::Data<State>, asked: web::Json<Asked>) -> HttpResponse {
    let attempt = idem::current().map(|run| run.attempt());
    assert_eq!(attempt, Some(1), "the middleware's run");
    by_status(&asked, state.run())
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = state.idem, store_if = |parts| parts.status != 402)]
async fn picky(state: web::Data<State>, asked: web::Json<Asked>) -> HttpResponse {
    by_status(&asked, state.run())
}

fn asking(config: &mut ServiceConfig) {
    config
        .route("/bare", web::post().to(bare))
        .route("/final", web::post().to(marked))
        .route("/annotated", web::post().to(annotated))
        .route("/picky", web::post().to(picky));
}

#[tokio::test]
async fn what_an_extractor_rejects_is_not_stored_and_leaves_the_key_free_and_unbound() {
    let state = State::new();
    let careful = once(&state.idem).call(|call, _, _| call.on_crash(OnCrash::Reject));
    let server = serve_wrapped(&state, careful, asking);
    for body in ["{", r#"{"status":"none"}"#] {
        assert_eq!(server.post_json("/bare", "k-1", body).await.status, 400);
    }
    for status in ["413", "415", "422", "400"] {
        let answer = server.post_json("/bare", "k-1", &format!(r#"{{"status":{status}}}"#)).await;
        assert_eq!((answer.status.to_string().as_str(), answer.is_replayed()), (status, false));
        assert_eq!(server.state.store.len(), 0, "{status} leaves nothing");
    }
    let first = server.post_json("/bare", "k-1", r#"{"status":201}"#).await;
    server.post_json("/bare", "k-1", r#"{"status":201}"#).await.assert_replays(&first);
    let declined = server.post_json("/final", "k-2", r#"{"status":422}"#).await;
    server.post_json("/final", "k-2", r#"{"status":422}"#).await.assert_replays(&declined);
}

#[tokio::test]
async fn an_annotated_handler_does_not_claim_and_says_which_answers_it_has_made() {
    let server = start(asking);
    let declined = server.post_json("/annotated", "k-1", r#"{"status":422}"#).await;
    declined.assert_fresh(422, "run 1");
    server.post_json("/annotated", "k-1", r#"{"status":422}"#).await.assert_replays(&declined);
    assert_eq!((server.state.runs(), server.state.store.len()), (1, 1), "one run, one record");
    // Rejected by an extractor: free, and unbound.
    assert_eq!(server.post_json("/annotated", "k-2", "{}").await.status, 400);
    server.post_json("/annotated", "k-2", r#"{"status":200}"#).await.assert_fresh(200, "run 2");
    // Its predicate counts: what it does not store has failed, and stays bound.
    server.post_json("/picky", "k-3", r#"{"status":402}"#).await.assert_fresh(402, "run 3");
    let other = server.post_json("/picky", "k-3", r#"{"status":200}"#).await;
    other.assert_problem(422, "idempotency_conflict");
    server.post_json("/picky", "k-3", r#"{"status":402}"#).await.assert_fresh(402, "run 4");
}

#[tokio::test]
async fn of_nested_middleware_the_outer_one_claims() {
    let state = State::new();
    let mine = once(&state.idem);
    let server = serve_wrapped(&state, mine.clone(), move |config| {
        config.service(web::resource("/charges").wrap(mine.clone()).route(web::post().to(work)));
    });
    assert_once(&server, "/charges").await;
    assert_eq!((state.runs(), state.store.len()), (1, 1));
}

#[tokio::test]
async fn multipart_is_compared_by_its_parts_and_reaches_the_handler_as_it_came() {
    let server = start(at_work);
    let form = |boundary: &str, text: &str| {
        format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n{text}\r\n--{boundary}--\r\n"
        )
    };
    let post = async |boundary: &str, text: &str| {
        let request = server.request("POST", "/charges").header("idempotency-key", "k-1");
        let media_type = format!("multipart/form-data; boundary={boundary}");
        send(request.header("content-type", media_type).body(form(boundary, text))).await
    };
    let first = post("one", "5").await;
    first.assert_fresh(201, &format!("1 /charges {}", form("one", "5")));
    post("another", "5").await.assert_replays(&first);
    post("one", "6").await.assert_problem(422, "idempotency_conflict");
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_the_handler_and_its_retry_replays() {
    let server = start(at_work);
    let stream = server.begin("/slow", "k-1", "").await;
    server.state.gate.begun(1).await;
    stream.set_zero_linger().unwrap();
    drop(stream);
    let rival = server.post("/slow", "k-1", "").await;
    rival.assert_problem(409, "idempotency_in_flight");
    assert_eq!(rival.lines("retry-after"), [b"1"]);
    server.post("/slow", "k-1", "other").await.assert_problem(422, "idempotency_conflict");
    server.state.gate.open(1);
    server.state.settled().await;
    let replay = server.post("/slow", "k-1", "").await;
    assert_eq!((replay.is_replayed(), replay.text()), (true, "charged in run 1"));
}

#[tokio::test]
async fn over_http_2_a_stream_that_is_reset_does_not_stop_the_handler() {
    let server = start(at_work);
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let url = format!("http://{}/slow", server.address);
    let post = || client.post(&url).header("idempotency-key", "k-1").body("a");
    let first = tokio::spawn(post().send());
    server.state.gate.begun(1).await;
    first.abort();
    server.state.gate.open(1);
    server.state.settled().await;
    let replay = post().send().await.unwrap();
    assert_eq!(replay.headers()["idempotent-replayed"], "true");
    assert_eq!(replay.text().await.unwrap(), "charged in run 1");
}

#[tokio::test]
async fn a_panic_is_the_servers_own_and_the_key_is_free_at_once_but_bound() {
    let server = start(at_work);
    server.state.gate.open(2);
    let answer = server.raw("/slow", "k-1", "panic").await;
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    server.post("/slow", "k-1", "other").await.assert_problem(422, "idempotency_conflict");
    server.post("/slow", "k-1", "panic").await.assert_fresh(200, "charged in run 2");
}

#[tokio::test]
async fn a_run_that_is_aborted_is_told_and_leaves_the_key_free_but_bound() {
    let state = State::new();
    let brief = once(&state.idem).call(|call, _, _| call.max_run(Duration::from_millis(100)));
    let server = serve_wrapped(&state, brief, at_work);
    let aborted = server.post("/slow", "k-1", "").await;
    assert_eq!((aborted.status, aborted.is_replayed()), (503, false), "{aborted:?}");
    assert_eq!(aborted.headers["content-type"], "application/problem+json");
    server.post("/slow", "k-1", "other").await.assert_problem(422, "idempotency_conflict");
    state.gate.open(1);
    server.post("/slow", "k-1", "").await.assert_fresh(200, "charged in run 2");
}

#[tokio::test]
async fn an_err_of_middleware_inside_passes_and_counts_as_failed() {
    let state = State::new();
    let mine = once(&state.idem);
    let server = serve(&state, move |config| {
        let failing = from_fn(async |request: actix_web::dev::ServiceRequest, next: Next<_>| {
            let response = next.call(request).await?;
            match response.request().app_data::<web::Data<State>>().unwrap().runs() {
                1 => Err(actix_web::error::ErrorPaymentRequired("not so")),
                _ => Ok(response),
            }
        });
        config
            .service(web::resource("/charges").wrap(failing).wrap(mine.clone()).route(web::post().to(work)));
    });
    server.post("/charges", "k-1", "a").await.assert_fresh(402, "not so");
    server.post("/charges", "k-1", "b").await.assert_problem(422, "idempotency_conflict");
    let second = server.post("/charges", "k-1", "a").await;
    second.assert_fresh(201, "2 /charges a");
    server.post("/charges", "k-1", "a").await.assert_replays(&second);
}

/// The recommended order: what is stored is not compressed, and each caller gets what it accepts.
#[tokio::test]
async fn with_compression_outside_each_caller_gets_the_encoding_that_it_accepts() {
    let state = State::new();
    let mine = once(&state.idem);
    let server = serve(&state, move |config| {
        let charges = web::resource("/charges").wrap(mine.clone()).wrap(Compress::default());
        config.service(charges.route(web::post().to(work)));
    });
    let text = "0123456789".repeat(100);
    let first = accepting(&server, "gzip", &text).await;
    let again = accepting(&server, "gzip", &text).await;
    let plain = accepting(&server, "identity", &text).await;
    for packed in [&first, &again] {
        assert_eq!(packed.lines("content-encoding"), [b"gzip"]);
        assert!(packed.body.len() < 500, "{packed:?}");
    }
    assert_eq!((first.is_replayed(), again.is_replayed(), plain.is_replayed()), (false, true, true));
    assert_eq!((&again.body, plain.text()), (&first.body, format!("1 /charges {text}").as_str()));
    assert!(!plain.headers.contains_key("content-encoding"));
}

/// It works, but whoever comes second gets the encoding that the first one asked for.
#[tokio::test]
async fn with_compression_inside_the_compressed_bytes_are_stored_with_their_encoding() {
    let state = State::new();
    let mine = once(&state.idem);
    let server = serve(&state, move |config| {
        let charges = web::resource("/charges").wrap(Compress::default()).wrap(mine.clone());
        config.service(charges.route(web::post().to(work)));
    });
    let text = "0123456789".repeat(100);
    let first = accepting(&server, "gzip", &text).await;
    for encoding in ["gzip", "identity"] {
        let again = accepting(&server, encoding, &text).await;
        again.assert_replays(&first);
        assert_eq!(again.lines("content-encoding"), [b"gzip"]);
        assert_eq!(again.lines("vary"), first.lines("vary"));
    }
    assert_eq!(state.runs(), 1);
}

async fn accepting(server: &Server, encoding: &str, body: &str) -> super::server::Answer {
    let request = server.request("POST", "/charges").header("idempotency-key", "k-1");
    send(request.header("accept-encoding", encoding).body(body.to_owned())).await
}
