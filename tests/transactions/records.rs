//! What is left of a transaction: the record, what it replays, how long, and what an operator sees of it.

macro_rules! tests {
    () => {
        mod records {
            use std::time::Duration;

            use axum::Router;
            use axum::body::Body;
            use axum::extract::{Json, State};
            use axum::http::{Request, StatusCode, header};
            use axum::response::{IntoResponse, Response};
            use axum::routing::post;
            use http_body_util::BodyExt;
            use idem::core::answer::Codec;
            use idem::axum::idempotent;
            use idem::core::store::Settled;
            use idem::{
 Answer, ErrorKind, Key, Outcome, RecordId, Scope, State as RecordState, Transactional,
};
            use tower::ServiceExt;

            use super::{Connection, Place, Store};

            async fn write(connection: &mut Connection, entry: &str) -> Result<(), sqlx::Error> {
                let insert = format!("INSERT INTO ledger (entry) VALUES ('{entry}')");
                sqlx::query(sqlx::AssertSqlSafe(insert)).execute(connection).await?;
                Ok(())
            }

            async fn entries(place: &Place) -> Vec<String> {
                let all = sqlx::query_scalar("SELECT entry FROM ledger ORDER BY entry");
                all.fetch_all(&place.pool).await.unwrap()
            }

            /// Writes an entry and answers with its number, or fails.
            async fn enter(
                idem: &Transactional<Store>,
                key: &str,
                entry: &'static str,
            ) -> Result<Outcome<Result<u64, String>>, idem::Error> {
                let call = idem.call("enter").key(key).fingerprint(entry).ttl(Duration::from_hours(1));
                call.transact(move |mut tx, _| async move {
                    write(&mut tx, entry).await.map_err(|error| error.to_string())?;
                    if entry == "fails" { Err(entry.to_owned()) } else { Ok(17) }
                })
                .await
            }

            fn id(idem: &Transactional<Store>, key: &str) -> RecordId {
                idem.record_id("enter", &Scope::SHARED, &Key::new(key).unwrap())
            }

            #[idempotent(
                key = header, ttl = "1h", scope = shared, engine = idem, transaction = tx, max_response_bytes = 5
            )]
            async fn repeat(
                State(idem): State<Transactional<Store>>,
                Json(work): Json<String>,
            ) -> impl IntoResponse {
                write(tx, &work).await.unwrap();
                (StatusCode::CREATED, [(header::LOCATION, "/entries/1")], work)
            }

            async fn send(place: &Place, key: &str, body: &'static str) -> (u16, Response) {
                let router = Router::new().route("/repeat", post(repeat)).with_state(place.idem.clone());
                let request = Request::post("/repeat")
                    .header("idempotency-key", key)
                    .header("content-type", "application/json")
                    .body(Body::from(body))
                    .unwrap();
                let response = router.oneshot(request).await.unwrap();
                (response.status().as_u16(), response)
            }

            async fn text(response: Response) -> String {
                String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
            }

            /// 5.7
            #[tokio::test]
            async fn what_an_extractor_rejects_begins_no_transaction_and_leaves_the_key_free() {
                let place = Place::new().await;
                let (status, _) = send(&place, "k", "no json").await;
                assert_eq!((status, entries(&place).await.len()), (400, 0));
                assert_eq!(send(&place, "k", "\"rent\"").await.0, 201);
                assert_eq!(entries(&place).await, ["rent"]);
            }

            /// 5.8
            #[tokio::test]
            async fn an_answer_over_the_limit_is_410_after_that_and_its_writes_are_kept() {
                let place = Place::new().await;
                let (status, first) = send(&place, "k", "\"a long one\"").await;
                assert_eq!((status, &*text(first).await), (201, "a long one"));
                for _ in 0..2 {
                    let (status, gone) = send(&place, "k", "\"a long one\"").await;
                    assert_eq!(status, 410);
                    assert_eq!(gone.headers()[header::LOCATION], "/entries/1");
                    let problem: serde_json::Value = serde_json::from_str(&text(gone).await).unwrap();
                    assert_eq!(problem["code"], "idempotency_response_unavailable");
                    assert_eq!(problem["original_status"], 201);
                    assert_eq!(send(&place, "k", "\"another\"").await.0, 422);
                }
                assert_eq!(entries(&place).await, ["a long one"]);
            }

            /// 5.9
            #[tokio::test]
            async fn an_answer_that_cannot_be_decoded_is_an_error_and_never_a_second_run() {
                let place = Place::new().await;
                assert_eq!(enter(&place.idem, "k", "rent").await.unwrap(), Outcome::Fresh(Ok(17)));
                let call = || place.idem.call("enter").key("k").fingerprint("rent");
                for _ in 0..2 {
                    // The type of the answer has changed between releases.
                    let told = call().transact(move |mut tx, _| async move {
                        write(&mut tx, "twice").await.unwrap();
                        Ok::<_, String>(vec![String::new()])
                    });
                    assert_eq!(told.await.unwrap_err().kind(), ErrorKind::Undecodable);
                    let mut tx = place.pool.begin().await.unwrap();
                    let told = call().claim_in::<Vec<String>>(&mut tx).await.unwrap_err();
                    assert_eq!(told.kind(), ErrorKind::Undecodable);
                }
                assert_eq!(enter(&place.idem, "k", "rent").await.unwrap(), Outcome::Replayed(Ok(17)));
                assert_eq!(entries(&place).await, ["rent"]);
            }

            /// 6.7
            #[tokio::test]
            async fn slow_work_does_not_eat_its_own_replay_window() {
                let place = Place::new().await;
                let ttl = Duration::from_mins(1);
                let spent = Duration::from_millis(1_100);
                let call = place.idem.call("enter").key("k").fingerprint("slow").ttl(ttl);
                let told = call.transact(move |mut tx, _| async move {
                    write(&mut tx, "slow").await.unwrap();
                    // A span that has to pass: the clock is the database's.
                    tokio::time::sleep(spent).await;
                    Ok::<_, String>(17_u64)
                });
                assert_eq!(told.await.unwrap(), Outcome::Fresh(Ok(17)));
                let record = place.idem.inspect(&id(&place.idem, "k")).await.unwrap().unwrap();
                let left = record.expires_in.unwrap();
                assert!(left > ttl - spent && left <= ttl, "{left:?}");
                assert!(record.age >= spent, "{:?}", record.age);
            }

            /// 6.9
            #[tokio::test]
            async fn an_operator_sees_what_is_committed_settles_a_failure_and_makes_a_key_forgotten() {
                let place = Place::new().await;
                let idem = &place.idem;
                for (key, entry, state) in [
                    ("failed-1234567890123", "fails", RecordState::Failed),
                    ("paid-123456789012345", "rent", RecordState::Completed),
                ] {
                    let id = id(idem, key);
                    assert_eq!(idem.inspect(&id).await.unwrap(), None);
                    let _told = enter(idem, key, entry).await.unwrap();
                    let record = idem.inspect(&id).await.unwrap().unwrap();
                    assert_eq!((record.state, record.attempt, record.lease_left), (state, 1, None), "{key}");
                    assert_eq!((&*record.operation, record.hint.as_str()), ("enter", &key[..8]));
                    assert_eq!(record.answer_len.is_some(), state == RecordState::Completed, "{key}");
                    let left = record.expires_in.unwrap();
                    assert!(left > Duration::from_mins(59) && left <= Duration::from_hours(1), "{left:?}");
                }
                let failed = id(idem, "failed-1234567890123");
                let answer = Answer::json(Codec::JsonOk, &18).unwrap();
                assert_eq!(idem.settle(&failed, answer).await.unwrap(), Settled::Done);
                assert_eq!(enter(idem, "failed-1234567890123", "fails").await.unwrap(), Outcome::Replayed(Ok(18)));
                assert_eq!(entries(&place).await, ["rent"]);

                assert_eq!(idem.forget(&failed).await.unwrap(), Settled::Done);
                assert_eq!(idem.forget(&failed).await.unwrap(), Settled::Absent);
                assert_eq!(enter(idem, "failed-1234567890123", "food").await.unwrap(), Outcome::Fresh(Ok(17)));
                assert_eq!(entries(&place).await, ["food", "rent"]);
            }
        }
    };
}

pub(crate) use tests;
