//! What an annotated axum handler costs over the bare one: a router called in process, 1 kB of JSON in and out.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use http_body_util::BodyExt as _;
use idem::axum::idempotent;
use idem::{Idempotency, MemoryStore};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::payload::Charge;
use crate::rounds::{Candidate, table};

const REQUESTS: usize = 3_000;

#[derive(Clone)]
struct App {
    idem: Idempotency,
}

async fn bare(State(_): State<App>, Json(charge): Json<Charge>) -> (StatusCode, Json<Charge>) {
    (StatusCode::CREATED, Json(charge))
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn annotated(State(app): State<App>, Json(charge): Json<Charge>) -> (StatusCode, Json<Charge>) {
    (StatusCode::CREATED, Json(charge))
}

fn router() -> Router {
    let idem = Idempotency::new(MemoryStore::builder().max_records(10_000_000).build());
    Router::new().route("/bare", post(bare)).route("/annotated", post(annotated)).with_state(App { idem })
}

/// Sends a request for each key, whose body differs with it unless `equal`, and checks what comes back.
pub(crate) fn send(runtime: &Runtime, router: &Router, path: &str, bodies: &[Vec<u8>], replayed: bool) {
    runtime.block_on(async {
        for (i, body) in bodies.iter().enumerate() {
            let request = Request::post(path)
                .header("content-type", "application/json")
                .header("idempotency-key", format!("3f1c2a9e-{i:08}-4b1d"))
                .body(Body::from(body.clone()))
                .expect("a request");
            let response = router.clone().oneshot(request).await.expect("infallible");
            assert_eq!(response.status(), StatusCode::CREATED);
            assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert!(body.len() > 900);
        }
    });
}

pub(crate) fn measure() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let json = Charge::of_a_kilobyte().json();
    let equal = vec![json.clone(); REQUESTS];
    let different: Vec<_> = (0..REQUESTS)
        .map(|i| {
            let text = String::from_utf8(json.clone()).expect("JSON is text");
            text.replace("500000", &format!("{}", 100_000 + i)).into_bytes()
        })
        .collect();
    let filled = router();
    send(&runtime, &filled, "/annotated", &different, false);
    let leaked = |router: Router| std::mem::forget(router);
    table(
        &format!("axum handler, {} bytes of JSON in and out", json.len()),
        vec![
            Candidate::new("bare handler", REQUESTS as u32, router, |router| {
                send(&runtime, &router, "/bare", &different, false);
            }),
            Candidate::new("annotated, fresh, every body new", REQUESTS as u32, router, |router| {
                send(&runtime, &router, "/annotated", &different, false);
                leaked(router);
            }),
            Candidate::new("annotated, fresh, equal bodies (memo)", REQUESTS as u32, router, |router| {
                send(&runtime, &router, "/annotated", &equal, false);
                leaked(router);
            }),
            Candidate::new(
                "annotated, replay",
                REQUESTS as u32,
                || (),
                |()| {
                    send(&runtime, &filled, "/annotated", &different, true);
                },
            ),
        ],
    );
}
