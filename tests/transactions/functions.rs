//! Plain functions.

macro_rules! tests {
    () => {
        mod functions {
            use std::sync::Arc;
            use std::time::Duration;

            use idem::{Transactional, idempotent};
            use tokio::sync::Notify;

            use super::super::answer::{Answer, Failure, outcome};
            use super::{Connection, Place, Store};

            async fn write(connection: &mut Connection, entry: &str) -> Result<(), sqlx::Error> {
                let insert = format!("INSERT INTO ledger (entry) VALUES ('{entry}')");
                sqlx::query(sqlx::AssertSqlSafe(insert)).execute(connection).await?;
                Ok(())
            }

            impl Place {
                async fn entries(&self) -> Vec<String> {
                    sqlx::query_scalar("SELECT entry FROM ledger ORDER BY entry")
                        .fetch_all(&self.pool)
                        .await
                        .unwrap()
                }
            }

            #[idempotent(key = key, ttl = "1h", engine = idem, skip(idem), transaction = tx)]
            async fn enter(key: u32, work: &'static str, idem: Transactional<Store>) -> Answer<String> {
                write(&mut **tx, work).await?;
                outcome(work)
            }

            #[idempotent(key = key, ttl = "1h", engine = idem, skip(idem), transaction = tx, store_err)]
            async fn enter_finally(key: u32, work: &str, idem: &Transactional<Store>) -> Answer<String> {
                write(tx, work).await?;
                outcome(work)
            }

            #[idempotent(key = key, ttl = "1h", engine = idem, skip(idem), transaction = tx, missing = run)]
            async fn enter_anyhow(key: Option<u32>, work: &str, idem: &Transactional<Store>) -> Answer<String> {
                write(tx, work).await?;
                outcome(work)
            }

            /// Where a run is, and when it goes on.
            #[derive(Clone, Default)]
            struct Gate {
                entered: Arc<Notify>,
                open: Arc<Notify>,
            }

            impl Gate {
                async fn pass(&self) {
                    self.entered.notify_one();
                    self.open.notified().await;
                }
            }

            #[idempotent(key = key, ttl = "1h", engine = idem, skip(gate, idem), transaction = tx)]
            async fn enter_slowly(key: u32, gate: Gate, idem: Transactional<Store>) -> Answer<String> {
                write(tx, "slow").await?;
                gate.pass().await;
                outcome("slow")
            }

            #[idempotent(
                key = key, ttl = "1h", engine = idem, skip(gate, idem), transaction = tx, in_flight = wait("30s")
            )]
            async fn enter_inline(
                key: u32,
                gate: Option<&Gate>,
                work: &str,
                idem: &Transactional<Store>,
            ) -> Answer<String> {
                write(tx, work).await?;
                if let Some(gate) = gate {
                    gate.pass().await;
                }
                outcome(work)
            }

            fn failure(code: &str) -> Answer<String> {
                Err(Failure(code.to_owned()))
            }

            #[tokio::test]
            async fn writes_and_answer_are_committed_together() {
                let place = Place::new().await;
                for _ in 0..2 {
                    assert_eq!(enter(1, "rent", place.idem.clone()).await.unwrap(), "rent, 1");
                    assert_eq!(place.entries().await, ["rent"]);
                }
                assert_eq!(enter(1, "food", place.idem.clone()).await, failure("idempotency_conflict"));
                assert_eq!(place.entries().await, ["rent"]);
            }

            #[tokio::test]
            async fn an_err_undoes_the_writes_and_leaves_the_key_bound() {
                let place = Place::new().await;
                let first = enter(1, "fails at first", place.idem.clone()).await;
                assert_eq!(first, failure("fails at first"));
                assert_eq!(place.entries().await, [""; 0]);
                assert_eq!(enter(1, "food", place.idem.clone()).await, failure("idempotency_conflict"));
                let second = enter(1, "fails at first", place.idem.clone()).await;
                assert_eq!(second.unwrap(), "fails at first, 2");
                assert_eq!(place.entries().await, ["fails at first"]);
            }

            #[tokio::test]
            async fn an_err_that_is_stored_is_replayed_and_its_writes_are_gone() {
                let place = Place::new().await;
                for _ in 0..2 {
                    assert_eq!(enter_finally(1, "fails at first", &place.idem).await, failure("fails at first"));
                    assert_eq!(place.entries().await, [""; 0]);
                }
                assert_eq!(enter_finally(2, "rent", &place.idem).await.unwrap(), "rent, 1");
                assert_eq!(place.entries().await, ["rent"]);
            }

            #[tokio::test]
            async fn a_panic_undoes_the_writes_and_leaves_the_key_bound() {
                let place = Place::new().await;
                let run = tokio::spawn(enter(1, "panics", place.idem.clone()));
                assert!(run.await.unwrap_err().is_panic());
                assert_eq!(place.entries().await, [""; 0]);
                assert_eq!(enter(1, "food", place.idem.clone()).await, failure("idempotency_conflict"));
            }

            #[tokio::test]
            async fn what_runs_inline_and_is_dropped_leaves_nothing_and_its_key_is_free() {
                let place = Place::new().await;
                let gate = Gate::default();
                tokio::select! {
                    _ = enter_inline(1, Some(&gate), "dropped", &place.idem) => panic!("the gate is closed"),
                    () = gate.entered.notified() => {}
                }
                assert_eq!(place.entries().await, [""; 0]);
                assert_eq!(enter_inline(1, None, "another", &place.idem).await.unwrap(), "another, 1");
                assert_eq!(place.entries().await, ["another"]);
            }

            #[tokio::test]
            async fn what_owns_its_arguments_goes_on_without_its_caller() {
                let place = Place::new().await;
                let gate = Gate::default();
                tokio::select! {
                    _ = enter_slowly(1, gate.clone(), place.idem.clone()) => panic!("the gate is closed"),
                    () = gate.entered.notified() => {}
                }
                let rival = enter_slowly(1, gate.clone(), place.idem.clone()).await;
                assert_eq!(rival, failure("idempotency_in_flight"));
                assert_eq!(place.entries().await, [""; 0]);
                gate.open.notify_one();
                place.idem.drain(Duration::from_secs(30)).await;
                assert_eq!(place.entries().await, ["slow"]);
                assert_eq!(enter_slowly(1, gate, place.idem.clone()).await.unwrap(), "slow, 1");
                assert_eq!(place.entries().await, ["slow"]);
            }

            #[tokio::test]
            async fn without_a_key_there_is_a_transaction_and_no_record() {
                let place = Place::new().await;
                for _ in 0..2 {
                    assert_eq!(enter_anyhow(None, "rent", &place.idem).await.unwrap(), "rent, 1");
                }
                assert_eq!(place.entries().await, ["rent", "rent"]);
                assert_eq!(enter_anyhow(None, "declined", &place.idem).await, failure("declined"));
                assert_eq!(place.entries().await, ["rent", "rent"]);
            }
        }
    };
}

pub(crate) use tests;
