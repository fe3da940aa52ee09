//! The same tests for every store. Each database has types of its own, so they are written once as a macro.

/// What the work of these tests writes.
pub(crate) const LEDGER: &str = "CREATE TABLE ledger (entry VARCHAR(40) NOT NULL)";

/// Where statements cannot be prepared, `false` says so.
macro_rules! tests {
    ($($prepared:literal)?) => {
        use std::sync::Arc;
        use std::time::{Duration, Instant};

        use idem_core::call::Call;
        use idem_core::error::{Error, ErrorKind};
        use idem_core::join::Joined;
        use idem_core::outcome::Outcome;
        use idem_core::policy::InFlight;
        use idem_core::run::Run;
        use idem_core::transaction::{TransactionalStore, Tx};
        use idem_core::transactional::Transactional;
        use tokio::sync::oneshot;

        type Transaction = <Store as TransactionalStore>::Transaction;
        type Ended = Result<Outcome<Result<String, String>>, Error>;

        /// Whether the work's statements are prepared once for each connection.
        const PREPARED: bool = true $(&& $prepared)?;

        /// Far more than anything here takes, and far less than a time-out.
        const SOON: Duration = Duration::from_secs(3);

        impl Place {
            async fn entries(&self) -> Vec<String> {
                sqlx::query_scalar("SELECT entry FROM ledger ORDER BY entry").fetch_all(&self.pool).await.unwrap()
            }

            async fn engine(&self) -> Transactional<Store> {
                Transactional::new(self.store().await)
            }
        }

        fn call(idem: &Transactional<Store>, key: &str, payload: &str) -> Call<Arc<Store>> {
            idem.call("tests").key(key).fingerprint(payload)
        }

        async fn write(tx: &mut Tx<Transaction>, entry: &'static str) -> Result<(), String> {
            let insert = sqlx::query("INSERT INTO ledger (entry) VALUES ('x')");
            insert.persistent(PREPARED).execute(&mut ***tx).await.map_err(|error| error.to_string())?;
            let name = sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE ledger SET entry = '{entry}' WHERE entry = 'x'")));
            name.persistent(PREPARED).execute(&mut ***tx).await.map_err(|error| error.to_string())?;
            Ok(())
        }

        async fn pay(mut tx: Tx<Transaction>, run: Run) -> Result<String, String> {
            write(&mut tx, "paid").await?;
            Ok(format!("attempt {}", run.attempt()))
        }

        async fn fail(mut tx: Tx<Transaction>, _: Run) -> Result<String, String> {
            write(&mut tx, "failed").await?;
            Err("no luck".to_owned())
        }

        fn fresh(ended: Ended) -> Result<String, String> {
            match ended {
                Ok(Outcome::Fresh(result)) => result,
                other => panic!("expected a run, got {other:?}"),
            }
        }

        fn refused(ended: Ended) -> ErrorKind {
            ended.expect_err("a refusal").kind()
        }

        #[tokio::test]
        async fn claim_writes_and_answer_commit_together() {
            let place = Place::new().await;
            let idem = place.engine().await;
            assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 1");
            for _ in 0..3 {
                let replayed = call(&idem, "k", "payload").transact(pay).await.unwrap();
                assert!(matches!(replayed, Outcome::Replayed(Ok(text)) if text == "attempt 1"));
            }
            assert_eq!(refused(call(&idem, "k", "another").transact(pay).await), ErrorKind::Mismatch);
            assert_eq!(place.entries().await, ["paid"]);
            assert!(idem.is_idle());
        }

        #[tokio::test]
        async fn an_err_undoes_the_writes_and_leaves_the_key_bound_to_its_payload() {
            let place = Place::new().await;
            let idem = place.engine().await;
            assert_eq!(fresh(call(&idem, "k", "payload").transact(fail).await).unwrap_err(), "no luck");
            assert!(place.entries().await.is_empty());
            assert_eq!(refused(call(&idem, "k", "another").transact(pay).await), ErrorKind::Mismatch);
            assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 2");
            assert_eq!(place.entries().await, ["paid"]);
        }

        #[tokio::test]
        async fn a_stored_err_is_replayed_and_its_writes_are_gone() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let declined = call(&idem, "k", "payload").transact_storing_err(fail).await;
            assert_eq!(fresh(declined).unwrap_err(), "no luck");
            let again = call(&idem, "k", "payload").transact_storing_err(pay).await.unwrap();
            assert!(matches!(again, Outcome::Replayed(Err(text)) if text == "no luck"));
            assert!(place.entries().await.is_empty());
        }

        #[tokio::test]
        async fn a_panic_undoes_the_writes_and_frees_the_key_which_stays_bound() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let panicking = call(&idem, "k", "payload").transact::<String, String, _, _>(|mut tx, _| async move {
                write(&mut tx, "panicked").await?;
                panic!("on purpose")
            });
            assert!(tokio::spawn(panicking).await.unwrap_err().is_panic());
            assert!(place.entries().await.is_empty());
            assert_eq!(refused(call(&idem, "k", "another").transact(pay).await), ErrorKind::Mismatch);
            assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 2");
        }

        #[tokio::test]
        async fn work_that_runs_too_long_is_undone_and_its_key_stays_bound() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let slow = call(&idem, "k", "payload").max_run(Duration::from_millis(50));
            let ended = slow.transact::<String, String, _, _>(|mut tx, _| async move {
                write(&mut tx, "slow").await?;
                std::future::pending().await
            });
            assert_eq!(refused(ended.await), ErrorKind::Aborted);
            assert!(place.entries().await.is_empty());
            assert_eq!(refused(call(&idem, "k", "another").transact(pay).await), ErrorKind::Mismatch);
            assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 2");
        }

        #[tokio::test]
        async fn an_inline_future_that_is_dropped_leaves_nothing_of_the_claim_either() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let (begun, has_begun) = oneshot::channel();
            let inline = call(&idem, "k", "payload").transact_inline::<String, String, _, _>(|mut tx, _| async move {
                write(&mut tx, "dropped").await?;
                begun.send(()).unwrap();
                std::future::pending().await
            });
            tokio::select! {
                _ = inline => unreachable!("it never ends"),
                begun = has_begun => begun.unwrap(),
            }
            let waiting = call(&idem, "k", "another").in_flight(InFlight::Wait(SOON));
            assert_eq!(fresh(waiting.transact(pay).await).unwrap(), "attempt 1");
            assert_eq!(place.entries().await, ["paid"]);
        }

        #[tokio::test]
        async fn work_whose_caller_goes_away_is_committed_all_the_same() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let (begun, has_begun) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            let caller = tokio::spawn(call(&idem, "k", "payload").transact(|tx, run| async move {
                begun.send(()).unwrap();
                goes_on.await.unwrap();
                pay(tx, run).await
            }));
            has_begun.await.unwrap();
            caller.abort();
            go_on.send(()).unwrap();
            assert_eq!(idem.drain(SOON).await, 0);
            assert_eq!(place.entries().await, ["paid"]);
            let replayed = call(&idem, "k", "payload").transact(pay).await.unwrap();
            assert!(replayed.is_replayed());
        }

        #[tokio::test]
        async fn a_rival_is_told_at_once_that_a_transaction_is_open_and_can_wait_for_it() {
            let place = Place::new().await;
            let (idem, other) = (place.engine().await, place.engine().await);
            let (begun, has_begun) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            let first = tokio::spawn(call(&idem, "k", "payload").transact(|mut tx, _| async move {
                write(&mut tx, "paid").await?;
                begun.send(()).unwrap();
                goes_on.await.unwrap();
                Ok::<_, String>("first".to_owned())
            }));
            has_begun.await.unwrap();
            let started = Instant::now();
            // In this process nobody needs to ask the database.
            assert_eq!(refused(call(&idem, "k", "payload").transact(pay).await), ErrorKind::InFlight);
            let lease = call(&idem, "k", "payload").run(|_| async { Ok::<String, String>("leased".to_owned()) });
            assert_eq!(refused(lease.await), ErrorKind::InFlight);
            assert!(started.elapsed() < SOON);
            if Place::TELLS_OTHER_PROCESSES {
                assert_eq!(refused(call(&other, "k", "payload").transact(pay).await), ErrorKind::InFlight);
                let lease = call(&other, "k", "payload").run(|_| async { Ok::<String, String>("leased".to_owned()) });
                assert_eq!(refused(lease.await), ErrorKind::InFlight);
                assert!(started.elapsed() < SOON);
            }
            let waiters: Vec<_> = [&idem, &other]
                .map(|idem| {
                    let call = call(idem, "k", "payload").in_flight(InFlight::Wait(SOON));
                    tokio::spawn(call.transact(pay))
                })
                .into();
            tokio::task::yield_now().await;
            go_on.send(()).unwrap();
            assert_eq!(fresh(first.await.unwrap()).unwrap(), "first");
            for waiter in waiters {
                let ended = waiter.await.unwrap().unwrap();
                assert!(matches!(ended, Outcome::Replayed(Ok(text)) if text == "first"));
            }
            assert_eq!(place.entries().await, ["paid"]);
        }

        #[tokio::test]
        async fn whoever_holds_a_lease_keeps_transactions_out() {
            let place = Place::new().await;
            let (idem, other) = (place.engine().await, place.engine().await);
            let (begun, has_begun) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            let leased = tokio::spawn(call(&idem, "k", "payload").run(|_| async move {
                begun.send(()).unwrap();
                goes_on.await.unwrap();
                Ok::<_, String>("leased".to_owned())
            }));
            has_begun.await.unwrap();
            for idem in [&idem, &other] {
                assert_eq!(refused(call(idem, "k", "payload").transact(pay).await), ErrorKind::InFlight);
                assert_eq!(refused(call(idem, "k", "another").transact(pay).await), ErrorKind::Mismatch);
            }
            go_on.send(()).unwrap();
            assert_eq!(fresh(leased.await.unwrap()).unwrap(), "leased");
            let replayed = call(&other, "k", "payload").transact(pay).await.unwrap();
            assert!(matches!(replayed, Outcome::Replayed(Ok(text)) if text == "leased"));
            assert!(place.entries().await.is_empty());
        }

        #[tokio::test]
        async fn one_connection_is_enough() {
            let place = Place::new().await;
            let (store, _pool) = place.cramped().await;
            let idem = Transactional::new(store);
            let (begun, has_begun) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel::<()>();
            let first = tokio::spawn(call(&idem, "a", "payload").transact(|mut tx, _| async move {
                write(&mut tx, "a").await?;
                begun.send(()).unwrap();
                goes_on.await.unwrap();
                Ok::<_, String>(String::new())
            }));
            has_begun.await.unwrap();
            assert_eq!(refused(call(&idem, "a", "payload").transact(pay).await), ErrorKind::InFlight);
            let next = tokio::spawn(call(&idem, "b", "payload").transact(pay));
            go_on.send(()).unwrap();
            fresh(first.await.unwrap()).unwrap();
            fresh(next.await.unwrap()).unwrap();
            assert_eq!(fresh(call(&idem, "c", "payload").transact(fail).await).unwrap_err(), "no luck");
            let inline = call(&idem, "d", "payload").transact_inline(pay);
            fresh(inline.await).unwrap();
            assert_eq!(place.entries().await, ["a", "paid", "paid"]);
        }

        #[tokio::test]
        async fn wherever_a_call_is_dropped_its_connection_is_left_outside_of_any_transaction() {
            let place = Place::new().await;
            let (store, pool) = place.cramped().await;
            let idem = Transactional::new(store);
            for cut in 0..150 {
                let call = call(&idem, &format!("k{cut}"), "payload").transact_inline(pay);
                // It never ends anything, it only cuts.
                let _ = tokio::time::timeout(Duration::from_micros(20 * cut), call).await;
                let entry = format!("mark {cut:03}");
                let mark = format!("INSERT INTO ledger (entry) VALUES ('{entry}')");
                sqlx::raw_sql(sqlx::AssertSqlSafe(mark)).execute(&pool).await.unwrap();
                // Written on the one connection of that pool, and seen on another.
                assert!(place.entries().await.contains(&entry), "{entry}");
            }
        }

        #[tokio::test]
        async fn a_transaction_that_outlives_its_work_is_not_committed() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let (keep, kept) = oneshot::channel();
            let ended = call(&idem, "k", "payload").transact(|mut tx, _| async move {
                write(&mut tx, "kept").await?;
                keep.send(tx).unwrap();
                Ok::<_, String>(String::new())
            });
            assert_eq!(refused(ended.await), ErrorKind::Misuse);
            drop(kept.await.unwrap());
            let waiting = call(&idem, "k", "payload").in_flight(InFlight::Wait(SOON));
            assert_eq!(fresh(waiting.transact(pay).await).unwrap(), "attempt 1");
            assert_eq!(place.entries().await, ["paid"]);
        }

        #[tokio::test]
        async fn work_without_a_key_commits_or_undoes_its_writes_if_it_may_run() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let unkeyed = || idem.call("tests").fingerprint("payload").missing(idem_core::policy::Missing::Run);
            let ended = unkeyed().transact(pay).await.unwrap();
            assert!(matches!(ended, Outcome::Unprotected(Ok(_))));
            let ended = unkeyed().transact(fail).await.unwrap();
            assert!(matches!(ended, Outcome::Unprotected(Err(_))));
            assert_eq!(refused(idem.call("tests").fingerprint("payload").transact(pay).await), ErrorKind::KeyRequired);
            assert_eq!(place.entries().await, ["paid"]);
        }

        #[tokio::test]
        async fn a_claim_can_be_part_of_a_transaction_that_the_caller_has() {
            let place = Place::new().await;
            let idem = place.engine().await;
            // Rolled back, it never was.
            for end in ["rollback", "fail", "commit"] {
                let mut tx = place.pool.begin().await.unwrap();
                let joined = call(&idem, "k", "payload").claim_in::<String>(&mut tx).await.unwrap();
                let Joined::Granted(part) = joined else { panic!("{joined:?} at {end}") };
                assert_eq!(part.run().attempt(), if end == "commit" { 2 } else { 1 });
                sqlx::query("INSERT INTO ledger (entry) VALUES ('joined')").execute(&mut *tx).await.unwrap();
                match end {
                    "rollback" => tx.rollback().await.unwrap(),
                    "fail" => {
                        part.fail(&mut tx).await.unwrap();
                        tx.commit().await.unwrap();
                        let mut tx = place.pool.begin().await.unwrap();
                        let other = call(&idem, "k", "another").claim_in::<String>(&mut tx).await;
                        assert_eq!(other.unwrap_err().kind(), ErrorKind::Mismatch);
                        tx.rollback().await.unwrap();
                    }
                    _ => {
                        part.complete(&mut tx, &"done").await.unwrap();
                        tx.commit().await.unwrap();
                    }
                }
            }
            let mut tx = place.pool.begin().await.unwrap();
            let joined = call(&idem, "k", "payload").claim_in::<String>(&mut tx).await.unwrap();
            assert!(matches!(joined, Joined::Replayed(text) if text == "done"));
            tx.rollback().await.unwrap();
            let replayed = call(&idem, "k", "payload").transact(pay).await.unwrap();
            assert!(matches!(replayed, Outcome::Replayed(Ok(text)) if text == "done"));
            assert_eq!(place.entries().await, ["joined"]);
        }
    };
}

pub(crate) use tests;
