//! One claim for one request, however many stand in its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use axum::{Json, Router};
use idem::axum::idempotent;
use idem::tower::IdempotencyLayer;
use idem::{Idempotency, MemoryStore, SqliteStore, Transactional};
use serde::Deserialize;

use crate::client::{post as request, send};

#[derive(Clone)]
struct App {
    idem: Idempotency,
    store: MemoryStore,
    runs: Arc<AtomicU32>,
}

impl App {
    fn new() -> Self {
        let store = MemoryStore::new();
        Self { idem: Idempotency::new(store.clone()), store, runs: Arc::default() }
    }

    fn run(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

fn layer(idem: &Idempotency) -> IdempotencyLayer<idem::tower::Said, idem::tower::Said> {
    IdempotencyLayer::new(idem).routes("test").shared()
}

/// What a handler sees of its run.
fn seen() -> String {
    let run = idem::current().expect("a handler has a run");
    format!("{run:?} {} {}", run.attempt(), run.derive("provider"))
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn annotated(State(app): State<App>) -> String {
    format!("{} {}", app.run(), seen())
}

async fn bare(State(app): State<App>) -> String {
    format!("{} {}", app.run(), seen())
}

#[tokio::test]
async fn under_a_layer_an_annotated_handler_does_not_claim_and_sees_the_layers_run() {
    let (app, plain) = (App::new(), App::new());
    let router =
        Router::new().route("/charges", post(annotated)).layer(layer(&app.idem)).with_state(app.clone());
    let first = send(&router, request("/charges", "k-1", "")).await;
    send(&router, request("/charges", "k-1", "")).await.assert_replay(200, first.text());
    assert_eq!((app.runs(), app.store.len()), (1, 1));
    // The same as under a layer alone: derived keys and all.
    let router =
        Router::new().route("/charges", post(bare)).layer(layer(&plain.idem)).with_state(plain.clone());
    send(&router, request("/charges", "k-1", "")).await.assert_fresh(200, first.text());
}

#[tokio::test]
async fn of_nested_layers_the_outer_one_claims() {
    let app = App::new();
    let router = Router::new().route("/charges", post(bare)).layer(layer(&app.idem)).layer(layer(&app.idem));
    let router = router.with_state(app.clone());
    let first = send(&router, request("/charges", "k-1", "")).await;
    send(&router, request("/charges", "k-1", "")).await.assert_replay(200, first.text());
    assert_eq!((app.runs(), app.store.len()), (1, 1));
}

#[tokio::test]
async fn a_handler_that_another_task_runs_does_not_claim_either_and_has_the_layers_run() {
    let app = App::new();
    let spawned = from_fn(async |request: axum::extract::Request, next: Next| {
        tokio::spawn(next.run(request)).await.unwrap()
    });
    let router = Router::new().route("/charges", post(annotated)).layer(spawned).layer(layer(&app.idem));
    let router = router.with_state(app.clone());
    let first = send(&router, request("/charges", "k-1", "")).await;
    assert_eq!(first.status, 200, "{first:?}");
    send(&router, request("/charges", "k-1", "")).await.assert_replay(200, first.text());
    assert_eq!((app.runs(), app.store.len()), (1, 1));
}

#[tokio::test]
async fn a_request_that_a_handler_makes_of_its_own_claims_for_itself() {
    let app = App::new();
    let inner = Router::new().route("/parts", post(annotated)).with_state(app.clone());
    let batch = async move || {
        for key in ["part-1", "part-2", "part-1"] {
            send(&inner, request("/parts", key, "")).await;
        }
        "done"
    };
    let router: Router = Router::new().route("/batch", post(batch)).layer(layer(&app.idem));
    send(&router, request("/batch", "k-1", "")).await.assert_fresh(200, "done");
    assert_eq!((app.runs(), app.store.len()), (2, 3));
}

#[derive(Deserialize)]
struct Asked {
    status: u16,
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, store_if = |parts| parts.status != 402)]
async fn picky(State(app): State<App>, Json(asked): Json<Asked>) -> (StatusCode, String) {
    (StatusCode::from_u16(asked.status).unwrap(), format!("run {}", app.run()))
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem)]
async fn answering(State(app): State<App>, Json(asked): Json<Asked>) -> (StatusCode, String) {
    (StatusCode::from_u16(asked.status).unwrap(), format!("run {}", app.run()))
}

/// A layer cannot tell a decline from an extractor's rejection by its status; the attribute can.
#[tokio::test]
async fn under_a_layer_the_attribute_says_which_answers_its_handler_has_made() {
    let app = App::new();
    let router = Router::new()
        .route("/answering", post(answering))
        .route("/picky", post(picky))
        .layer(layer(&app.idem))
        .with_state(app.clone());
    let ask = async |path: &str, key: &str, body: &'static str| {
        let mut request = request(path, key, body);
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        send(&router, request).await
    };
    ask("/answering", "k-1", r#"{"status":422}"#).await.assert_fresh(422, "run 1");
    ask("/answering", "k-1", r#"{"status":422}"#).await.assert_replay(422, "run 1");
    // Rejected by the extractor: free, and unbound.
    assert_eq!(ask("/answering", "k-2", r#"{"status":"none"}"#).await.status, 422);
    ask("/answering", "k-2", r#"{"status":200}"#).await.assert_fresh(200, "run 2");
    // Its predicate counts: what it does not store has failed, and stays bound.
    ask("/picky", "k-3", r#"{"status":402}"#).await.assert_fresh(402, "run 3");
    ask("/picky", "k-3", r#"{"status":200}"#).await.assert_problem(422, "idempotency_conflict");
    ask("/picky", "k-3", r#"{"status":402}"#).await.assert_fresh(402, "run 4");
    ask("/picky", "k-4", r#"{"status":503}"#).await.assert_fresh(503, "run 5");
    ask("/picky", "k-4", r#"{"status":503}"#).await.assert_replay(503, "run 5");
}

#[derive(Clone)]
struct Bank {
    idem: Transactional<SqliteStore>,
    runs: Arc<AtomicU32>,
}

#[idempotent(key = header, ttl = "24h", scope = shared, engine = bank.idem, transaction = tx, operation = "transfer")]
async fn transfer(State(bank): State<Bank>) -> Result<String, StatusCode> {
    let run = bank.runs.fetch_add(1, Ordering::SeqCst) + 1;
    sqlx::query("INSERT INTO ledger VALUES (1)")
        .execute(&mut **tx)
        .await
        .map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(format!("run {run}"))
}

/// What it writes is committed with a record, and the layer's cannot be in its transaction: if the process dies before
/// the layer has stored its answer, the transaction's record still knows.
#[tokio::test]
async fn under_a_layer_a_transaction_keeps_its_own_record_and_runs_once_whatever_the_layer_forgets() {
    let home = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(home.path().join("idem.db")).await.unwrap();
    let pool = sqlx::SqlitePool::connect_with(
        sqlx::sqlite::SqliteConnectOptions::new().filename(home.path().join("idem.db")),
    )
    .await
    .unwrap();
    sqlx::query("CREATE TABLE ledger (amount INTEGER)").execute(&pool).await.unwrap();
    let bank = Bank { idem: Transactional::new(store), runs: Arc::default() };
    let of_layer = Idempotency::new(MemoryStore::new());
    let layered = |idem: &Idempotency| {
        Router::new().route("/transfers", post(transfer)).layer(layer(idem)).with_state(bank.clone())
    };
    send(&layered(&of_layer), request("/transfers", "k-1", "")).await.assert_fresh(200, "run 1");
    send(&layered(&of_layer), request("/transfers", "k-1", "")).await.assert_replay(200, "run 1");
    // As if its record had been lost: to the layer that is a first answer, and the handler has not run again.
    let forgetful = Idempotency::new(MemoryStore::new());
    send(&layered(&forgetful), request("/transfers", "k-1", "")).await.assert_fresh(200, "run 1");
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM ledger").fetch_one(&pool).await.unwrap();
    assert_eq!((rows, bank.runs.load(Ordering::SeqCst)), (1, 1));
}
