//! Claims that meet, in one process: each gets its own right answer, and what they share is left as it was.

macro_rules! tests {
    () => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn all_who_ask_at_once_for_an_answer_get_it() {
            let place = Place::new().await;
            let idem = place.engine().await;
            fresh(call(&idem, "k", "payload").transact(pay).await).unwrap();
            for round in 0..10 {
                // The store has not replayed lately, and does not look before it begins.
                fresh(call(&idem, &format!("other {round}"), "payload").transact(pay).await).unwrap();
                let gate = Arc::new(tokio::sync::Barrier::new(16));
                let callers: Vec<_> = (0..16)
                    .map(|n| {
                        let (idem, gate) = (idem.clone(), Arc::clone(&gate));
                        tokio::spawn(async move {
                            gate.wait().await;
                            let call = call(&idem, "k", "payload");
                            if n % 4 == 0 { call.run(|_| async { Ok(String::new()) }).await } else { call.transact(pay).await }
                        })
                    })
                    .collect();
                for caller in callers {
                    let ended = caller.await.unwrap();
                    assert!(matches!(ended, Ok(Outcome::Replayed(Ok(ref text))) if text == "attempt 1"), "{ended:?}");
                }
            }
        }

        #[tokio::test]
        async fn claims_in_one_transaction_end_in_any_order() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let mut tx = place.pool.begin().await.unwrap();
            let mut parts = Vec::new();
            for key in ["a", "b", "a"] {
                match call(&idem, key, "payload").claim_in::<String>(&mut tx).await {
                    Ok(Joined::Granted(part)) => parts.push(part),
                    other => assert_eq!(other.unwrap_err().kind(), ErrorKind::InFlight),
                }
                let entry = sqlx::query("INSERT INTO ledger (entry) VALUES ('joined')");
                entry.execute(&mut *tx).await.unwrap();
            }
            let [a, b] = parts.try_into().expect("two are granted");
            // The second came after it, so it is undone, too.
            a.fail(&mut tx).await.unwrap();
            let lost = b.complete(&mut tx, &"done").await.unwrap_err();
            assert_eq!(lost.kind(), ErrorKind::LeaseLost);
            tx.commit().await.unwrap();
            assert!(place.entries().await.is_empty());
            assert_eq!(fresh(call(&idem, "a", "payload").transact(pay).await).unwrap(), "attempt 2");
            assert_eq!(fresh(call(&idem, "b", "another").transact(pay).await).unwrap(), "attempt 1");
        }

        #[tokio::test]
        async fn a_claim_beyond_the_limit_of_new_keys_takes_no_second_connection_and_leaves_nothing() {
            let place = Place::new().await;
            let (store, pool) = place.cramped().await;
            let hour = Duration::from_hours(1);
            let idem = Transactional::builder(store).max_new_keys(1, hour).build().unwrap();
            fresh(call(&idem, "k", "payload").transact(pay).await).unwrap();
            let mut tx = pool.begin().await.unwrap();
            let refused = call(&idem, "new", "payload").claim_in::<String>(&mut tx).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooManyKeys);
            let replayed = call(&idem, "k", "payload").claim_in::<String>(&mut tx).await;
            assert!(matches!(replayed, Ok(Joined::Replayed(ref text)) if text == "attempt 1"), "{replayed:?}");
            sqlx::query("INSERT INTO ledger (entry) VALUES ('joined')").execute(&mut *tx).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(place.entries().await, ["joined", "paid"]);
            let other = place.engine().await;
            assert_eq!(fresh(call(&other, "new", "another").transact(pay).await).unwrap(), "attempt 1");
        }

        #[tokio::test]
        async fn a_claim_in_the_transaction_of_another_is_undone_with_it() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let inner = idem.clone();
            let outer = call(&idem, "outer", "payload").transact::<String, String, _, _>(|mut tx, _| async move {
                write(&mut tx, "before").await?;
                let joined = call(&inner, "inner", "payload").claim_in::<String>(&mut **tx).await;
                let Ok(Joined::Granted(part)) = joined else { panic!("{joined:?}") };
                write(&mut tx, "after").await?;
                part.complete(&mut **tx, &"done").await.unwrap();
                Err("no luck".to_owned())
            });
            assert_eq!(fresh(outer.await).unwrap_err(), "no luck");
            assert!(place.entries().await.is_empty());
            assert_eq!(fresh(call(&idem, "inner", "another").transact(pay).await).unwrap(), "attempt 1");
            assert_eq!(fresh(call(&idem, "outer", "payload").transact(pay).await).unwrap(), "attempt 2");
        }

        #[tokio::test]
        async fn work_may_take_longer_than_its_lease_and_the_time_that_its_answer_is_kept() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let lease = Duration::from_secs(1);
            let long = call(&idem, "k", "payload").lease(lease).ttl(Duration::from_millis(1));
            let ended = long.transact(move |mut tx, _| async move {
                let started = Instant::now();
                while started.elapsed() < lease * 5 / 4 {
                    // Busy, for whoever is idle is given up.
                    sqlx::query(SLOW).execute(&mut **tx).await.map_err(|error| error.to_string())?;
                }
                write(&mut tx, "paid").await?;
                Ok(String::new())
            });
            fresh(ended.await).unwrap();
            assert_eq!(place.entries().await, ["paid"]);
        }

        #[tokio::test]
        async fn work_in_a_transaction_that_the_caller_has_may_take_longer_than_that_too() {
            let place = Place::new().await;
            let idem = place.engine().await;
            let short = Duration::from_millis(100);
            let mut tx = place.pool.begin().await.unwrap();
            let long = call(&idem, "k", "payload").lease(short).ttl(short);
            let joined = long.claim_in::<String>(&mut tx).await.unwrap();
            let Joined::Granted(part) = joined else { panic!("{joined:?}") };
            tokio::time::sleep(short * 5 / 2).await;
            part.complete(&mut tx, &"done").await.unwrap();
            tx.commit().await.unwrap();
        }

        /// Sees that the connection is in no transaction and nothing is locked.
        async fn assert_untouched(place: &Place, pool: &Pool) {
            sqlx::raw_sql("INSERT INTO ledger (entry) VALUES ('probe')").execute(pool).await.unwrap();
            let seen: Vec<_> = place.entries().await.into_iter().filter(|entry| entry == "probe").collect();
            assert_eq!(seen.len(), 1, "what is written without a transaction is there for all");
            sqlx::query("DELETE FROM ledger WHERE entry = 'probe'").execute(&place.pool).await.unwrap();
            let locks: i64 = sqlx::query_scalar(LOCKS).fetch_one(&place.pool).await.unwrap();
            assert_eq!(locks, 0);
        }

        #[tokio::test]
        async fn the_only_connection_is_as_it_was_whatever_went_wrong() {
            let place = Place::new().await;
            let (store, pool) = place.cramped().await;
            let idem = Transactional::new(store);
            let slow = |begun: oneshot::Sender<()>| {
                |mut tx: Tx<Transaction>, _: Run| async move {
                    write(&mut tx, "slow").await?;
                    let statement = sqlx::query(SLOW).persistent(PREPARED);
                    let statement = statement.execute(&mut **tx);
                    begun.send(()).unwrap();
                    statement.await.map_err(|error| error.to_string())?;
                    std::future::pending::<Result<String, String>>().await
                }
            };

            fresh(call(&idem, "done", "payload").transact(pay).await).unwrap();
            assert_untouched(&place, &pool).await;
            assert_eq!(refused(call(&idem, "done", "another").transact(pay).await), ErrorKind::Mismatch);
            assert_untouched(&place, &pool).await;
            for _ in 0..2 {
                assert!(call(&idem, "done", "payload").transact(pay).await.unwrap().is_replayed());
                assert_untouched(&place, &pool).await;
            }
            fresh(call(&idem, "failed", "payload").transact(fail).await).unwrap_err();
            assert_untouched(&place, &pool).await;
            let panicking = call(&idem, "panicked", "payload");
            let panicking = panicking.transact::<String, String, _, _>(|mut tx, _| async move {
                write(&mut tx, "panicked").await?;
                panic!("on purpose")
            });
            assert!(tokio::spawn(panicking).await.unwrap_err().is_panic());
            assert_untouched(&place, &pool).await;

            // Aborted in the middle of a statement.
            let aborted = call(&idem, "aborted", "payload").max_run(Duration::from_millis(20));
            assert_eq!(refused(aborted.transact(slow(oneshot::channel().0)).await), ErrorKind::Aborted);
            assert_untouched(&place, &pool).await;

            // Dropped in the middle of a statement.
            let (begun, has_begun) = oneshot::channel();
            let dropped = call(&idem, "dropped", "payload").transact_inline(slow(begun));
            tokio::select! {
                biased;
                _ = dropped => unreachable!("it never ends"),
                begun = has_begun => begun.unwrap(),
            }
            assert_untouched(&place, &pool).await;

            for (key, attempt) in [("failed", 2), ("panicked", 2), ("aborted", 2), ("dropped", 1)] {
                let ended = fresh(call(&idem, key, "payload").transact(pay).await);
                assert_eq!(ended.unwrap(), format!("attempt {attempt}"), "{key}");
                assert_untouched(&place, &pool).await;
            }
            assert_eq!(place.entries().await, ["paid"; 5]);
            assert!(idem.is_idle());
        }
    };
}

pub(crate) use tests;
