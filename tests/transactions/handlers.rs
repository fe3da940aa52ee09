//! Handlers of axum, through their router.

macro_rules! tests {
    () => {
        mod handlers {
            use std::sync::Arc;
            use std::time::Duration;

            use axum::Router;
            use axum::body::Body;
            use axum::extract::{Path, State};
            use axum::http::{Method, Request, StatusCode};
            use axum::response::{IntoResponse, Response};
            use axum::routing::{any, post};
            use http_body_util::BodyExt;
            use idem::axum::{Captured, HttpCall, Mark, idempotent};
            use idem::{Transactional, Writes};
            use tokio::sync::Notify;
            use tower::ServiceExt;

            use super::super::answer::{Answer, outcome};
            use super::{Connection, Place, Store};

            async fn write(connection: &mut Connection, entry: &str) -> Result<(), sqlx::Error> {
                let insert = format!("INSERT INTO ledger (entry) VALUES ('{entry}')");
                sqlx::query(sqlx::AssertSqlSafe(insert)).execute(connection).await?;
                Ok(())
            }

            #[derive(Clone)]
            struct App {
                idem: Transactional<Store>,
                entered: Arc<Notify>,
                open: Arc<Notify>,
            }

            #[idempotent(key = header, ttl = "1h", scope = shared, engine = app.idem, transaction = tx)]
            async fn enter(State(app): State<App>, work: String) -> Answer<(StatusCode, String)> {
                write(tx, &work).await?;
                if work == "slow" {
                    app.entered.notify_one();
                    app.open.notified().await;
                }
                Ok((StatusCode::CREATED, outcome(&work)?))
            }

            #[idempotent(
                key = header, ttl = "1h", scope = shared, engine = app.idem, transaction = tx, missing = run
            )]
            async fn answer_with(State(app): State<App>, Path(status): Path<u16>) -> impl IntoResponse {
                write(tx, &status.to_string()).await.unwrap();
                StatusCode::from_u16(status).unwrap()
            }

            #[idempotent(key = header, ttl = "1h", scope = shared, engine = app.idem, transaction = tx, inline)]
            async fn marked(State(app): State<App>, work: String) -> (StatusCode, Result<String, String>) {
                write(tx, &work).await.unwrap();
                match &*work {
                    "final" => idem::current().unwrap().mark(Mark::Final),
                    "retryable" => idem::current().unwrap().mark(Mark::Retryable),
                    _ => idem::current().unwrap().mark(Mark::Tombstone),
                }
                let status = if work == "final" { 503 } else { 200 };
                (StatusCode::from_u16(status).unwrap(), Err(work))
            }

            async fn by_hand(State(app): State<App>, captured: Captured<String>) -> Response {
                let (work, request) = captured.into_parts();
                HttpCall::of(app.idem.call("by hand"), request)
                    .shared()
                    .transact(move |mut tx| async move {
                        write(&mut tx, &work).await.unwrap();
                        let writes = if work == "undone" { Writes::Undo } else { Writes::Keep };
                        (work.into_response(), writes)
                    })
                    .await
            }

            struct Answered {
                status: u16,
                text: String,
                replayed: bool,
            }

            struct Service {
                place: Place,
                app: App,
                router: Router,
            }

            impl Service {
                async fn new() -> Self {
                    let place = Place::new().await;
                    let app = App { idem: place.idem.clone(), entered: Arc::default(), open: Arc::default() };
                    let router = Router::new()
                        .route("/enter", post(enter))
                        .route("/answer/{status}", any(answer_with))
                        .route("/marked", post(marked))
                        .route("/by-hand", post(by_hand))
                        .with_state(app.clone());
                    Self { place, app, router }
                }

                async fn entries(&self) -> Vec<String> {
                    sqlx::query_scalar("SELECT entry FROM ledger ORDER BY entry")
                        .fetch_all(&self.place.pool)
                        .await
                        .unwrap()
                }

                fn send(
                    &self,
                    method: Method,
                    path: &str,
                    key: Option<&str>,
                    body: &'static str,
                ) -> impl Future<Output = Answered> + use<> {
                    let mut request = Request::builder().method(method).uri(path);
                    if let Some(key) = key {
                        request = request.header("idempotency-key", key);
                    }
                    let sent = self.router.clone().oneshot(request.body(Body::from(body)).unwrap());
                    async move {
                        let response = sent.await.unwrap();
                        let status = response.status().as_u16();
                        let replayed = response.headers().contains_key("idempotent-replayed");
                        let body = response.into_body().collect().await.unwrap().to_bytes();
                        Answered { status, text: String::from_utf8(body.to_vec()).unwrap(), replayed }
                    }
                }

                async fn post(&self, path: &str, key: &str, body: &'static str) -> Answered {
                    self.send(Method::POST, path, Some(key), body).await
                }
            }

            #[tokio::test]
            async fn writes_and_response_are_committed_together() {
                let service = Service::new().await;
                for replayed in [false, true] {
                    let answered = service.post("/enter", "k", "rent").await;
                    assert_eq!((answered.status, &*answered.text, answered.replayed), (201, "rent, 1", replayed));
                    assert_eq!(service.entries().await, ["rent"]);
                }
                assert_eq!(service.post("/enter", "k", "food").await.status, 422);
                assert_eq!(service.entries().await, ["rent"]);
            }

            #[tokio::test]
            async fn a_stored_err_is_replayed_and_its_writes_are_gone() {
                let service = Service::new().await;
                // Its status does not matter: the handler gave up.
                for (work, status) in [("declined", 402), ("unwilling", 200)] {
                    for replayed in [false, true] {
                        let answered = service.post("/enter", work, work).await;
                        assert_eq!((answered.status, answered.replayed), (status, replayed), "{work}");
                        assert_eq!(service.entries().await, [""; 0], "{work}");
                    }
                    assert_eq!(service.post("/enter", work, "rent").await.status, 422);
                }
            }

            #[tokio::test]
            async fn a_5xx_is_undone_and_runs_again_and_a_key_stays_bound() {
                let service = Service::new().await;
                assert_eq!(service.post("/enter", "k", "fails at first").await.status, 503);
                assert_eq!(service.entries().await, [""; 0]);
                assert_eq!(service.post("/enter", "k", "rent").await.status, 422);
                let second = service.post("/enter", "k", "fails at first").await;
                assert_eq!((second.status, &*second.text), (201, "fails at first, 2"));
                assert_eq!(service.entries().await, ["fails at first"]);
            }

            #[tokio::test]
            async fn a_401_of_the_handler_is_neither_stored_nor_written() {
                let service = Service::new().await;
                for _ in 0..2 {
                    let answered = service.post("/enter", "k", "stranger").await;
                    assert_eq!((answered.status, answered.replayed), (401, false));
                    let answered = service.post("/answer/401", "l", "").await;
                    assert_eq!((answered.status, answered.replayed), (401, false));
                    assert_eq!(service.entries().await, [""; 0]);
                }
            }

            #[tokio::test]
            async fn a_stored_response_that_is_no_err_keeps_its_writes() {
                let service = Service::new().await;
                for (path, kept) in [("200", true), ("303", true), ("402", true), ("500", false)] {
                    let path = format!("/answer/{path}");
                    let first = service.post(&path, &path, "").await;
                    let second = service.post(&path, &path, "").await;
                    assert_eq!((first.replayed, second.replayed), (false, kept), "{path}");
                }
                assert_eq!(service.entries().await, ["200", "303", "402"]);
            }

            #[tokio::test]
            async fn a_mark_is_obeyed_and_a_5xx_undone_even_if_it_is_final() {
                let service = Service::new().await;
                for (work, first, second) in
                    [("final", 503, 503), ("retryable", 200, 200), ("tombstone", 200, 410)]
                {
                    assert_eq!(service.post("/marked", work, work).await.status, first, "{work}");
                    assert_eq!(service.post("/marked", work, work).await.status, second, "{work}");
                }
                // The `Err` inside of a tuple is no failure of the handler.
                assert_eq!(service.entries().await, ["tombstone"]);
            }

            #[tokio::test]
            async fn a_panic_is_undone_and_the_key_stays_bound() {
                let service = Service::new().await;
                let sent = tokio::spawn(service.send(Method::POST, "/enter", Some("k"), "panics"));
                assert!(sent.await.is_err_and(|error| error.is_panic()));
                assert_eq!(service.entries().await, [""; 0]);
                assert_eq!(service.post("/enter", "k", "rent").await.status, 422);
            }

            #[tokio::test]
            async fn while_the_first_is_at_it_the_second_gets_409_and_a_client_that_hangs_up_stops_nothing() {
                let service = Service::new().await;
                tokio::select! {
                    _ = service.post("/enter", "k", "slow") => panic!("the gate is closed"),
                    () = service.app.entered.notified() => {}
                }
                let rival = service.post("/enter", "k", "slow").await;
                assert_eq!(rival.status, 409, "{}", rival.text);
                // The other payload cannot be seen before it is committed.
                assert_eq!(service.post("/enter", "k", "rent").await.status, 409);
                assert_eq!(service.entries().await, [""; 0]);
                service.app.open.notify_one();
                service.app.idem.drain(Duration::from_secs(30)).await;
                let again = service.post("/enter", "k", "slow").await;
                assert_eq!((again.status, &*again.text, again.replayed), (201, "slow, 1", true));
                assert_eq!(service.entries().await, ["slow"]);
            }

            #[tokio::test]
            async fn what_has_no_record_runs_in_a_transaction_all_the_same() {
                let service = Service::new().await;
                for _ in 0..2 {
                    for (status, method, key) in [
                        (200, Method::GET, Some("no, key")),
                        (401, Method::GET, Some("k")),
                        (500, Method::GET, None),
                        (201, Method::POST, None),
                        (429, Method::POST, None),
                    ] {
                        let answered = service.send(method, &format!("/answer/{status}"), key, "").await;
                        assert_eq!((answered.status, answered.replayed), (status, false));
                    }
                }
                assert_eq!(service.entries().await, ["200", "200", "201", "201"]);
            }

            #[tokio::test]
            async fn by_hand_a_handler_says_itself_what_becomes_of_its_writes() {
                let service = Service::new().await;
                for replayed in [false, true] {
                    for work in ["rent", "undone"] {
                        let answered = service.post("/by-hand", work, work).await;
                        assert_eq!((&*answered.text, answered.replayed), (work, replayed));
                    }
                    assert_eq!(service.entries().await, ["rent"]);
                }
            }
        }
    };
}

pub(crate) use tests;
