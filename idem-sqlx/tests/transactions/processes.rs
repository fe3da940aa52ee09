//! Several processes on one database, some of which are killed. The others are the test program again.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::common::process::{hear_line, say};

/// An answer that may have the process stop when it is to be stored: then the work has ended, and nothing is committed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) point: Option<Point>,
}

/// Where a process stops in the course of a call, until it is told to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeTheClaim,
    InTheBody,
    BeforeTheCommit,
    AfterTheCommit,
}

impl Point {
    pub(crate) const ALL: [Self; 4] =
        [Self::BeforeTheClaim, Self::InTheBody, Self::BeforeTheCommit, Self::AfterTheCommit];

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|point| format!("{point:?}") == name).expect("a point")
    }

    /// Stops if this is the point.
    pub(crate) fn stop_if(self, here: Self) {
        if self == here {
            say("here");
            hear_line();
        }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(point) = self.point {
            point.stop_if(Point::BeforeTheCommit);
        }
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { text: String::deserialize(deserializer)?, point: None })
    }
}

/// How many rounds four processes race; `IDEM_TEST_ROUNDS=1000` looks for what is seldom.
pub(crate) fn rounds() -> usize {
    std::env::var("IDEM_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40)
}

macro_rules! tests {
    () => {
        use crate::common::process::{Process, hear_line, runtime, say};
        use crate::processes::{Answer, Point};

        /// What another process does.
        pub(crate) fn play(play: &str, place: &str) {
            match play.split_once(' ') {
                Some(("stop", point)) => runtime().block_on(stop(place, Point::named(point))),
                None if play == "race" => runtime().block_on(race(place)),
                _ => panic!("no such play: {play}"),
            }
        }

        /// Locks no more than what it writes.
        async fn insert(tx: &mut Tx<Transaction>, entry: &str) -> Result<(), String> {
            let insert = sqlx::AssertSqlSafe(format!("INSERT INTO ledger (entry) VALUES ('{entry}')"));
            sqlx::query(insert).execute(&mut ***tx).await.map(drop).map_err(|error| error.to_string())
        }

        /// Calls once, and stops where it is told.
        async fn stop(place: &str, point: Point) {
            let idem = Transactional::new(Place::store_at(place).await);
            point.stop_if(Point::BeforeTheClaim);
            let ended = call(&idem, "k", "payload").transact(move |mut tx, _| async move {
                insert(&mut tx, "other").await?;
                point.stop_if(Point::InTheBody);
                Ok::<_, String>(Answer { text: "other".to_owned(), point: Some(point) })
            });
            ended.await.unwrap().into_inner().unwrap();
            point.stop_if(Point::AfterTheCommit);
        }

        fn start(play: &str, place: &Place) -> Process {
            Process::start(&format!("{STORE} {play}"), place.place())
        }

        #[test]
        fn a_process_that_is_killed_leaves_all_or_nothing() {
            let runtime = runtime();
            for point in Point::ALL {
                let place = runtime.block_on(Place::new());
                let mut process = start(&format!("stop {point:?}"), &place);
                assert_eq!(process.hear(), "here");
                process.kill();
                runtime.block_on(async {
                    let committed = point == Point::AfterTheCommit;
                    let expected: &[&str] = if committed { &["other"] } else { &[] };
                    assert_eq!(place.entries().await, expected, "{point:?}");
                    let idem = place.engine().await;
                    // Its connection ends a moment after it.
                    let retry = call(&idem, "k", "payload").in_flight(InFlight::Wait(SOON)).transact(pay).await;
                    match retry.unwrap() {
                        Outcome::Replayed(Ok(text)) if committed => assert_eq!(text, "other"),
                        Outcome::Fresh(Ok(text)) if !committed => assert_eq!(text, "attempt 1"),
                        other => panic!("{point:?}: {other:?}"),
                    }
                    let expected = if committed { "other" } else { "paid" };
                    assert_eq!(place.entries().await, [expected], "{point:?}");
                });
            }
        }

        #[test]
        fn waiters_in_another_process_get_the_answer_and_hold_no_connection_meanwhile() {
            let runtime = runtime();
            let place = runtime.block_on(Place::new());
            let mut process = start(&format!("stop {:?}", Point::InTheBody), &place);
            assert_eq!(process.hear(), "here");
            runtime.block_on(async {
                let (store, pool) = place.cramped().await;
                let idem = Transactional::new(store);
                let waiters: Vec<_> = (0..8)
                    .map(|_| {
                        let call = call(&idem, "k", "payload").in_flight(InFlight::Wait(SOON * 4));
                        tokio::spawn(call.transact(pay))
                    })
                    .collect();
                if Place::TELLS_OTHER_PROCESSES {
                    // The one connection is there for others.
                    for n in 0..3 {
                        let other = call(&idem, &format!("other {n}"), "payload").transact(|mut tx, _| async move {
                            insert(&mut tx, "beside").await?;
                            Ok(String::new())
                        });
                        fresh(other.await).unwrap();
                        sqlx::query(SLOW).execute(&pool).await.unwrap();
                    }
                }
                assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
                process.tell("go on");
                for waiter in waiters {
                    let ended = waiter.await.unwrap();
                    assert!(matches!(ended, Ok(Outcome::Replayed(Ok(ref text))) if text == "other"), "{ended:?}");
                }
                let entries = place.entries().await;
                assert_eq!(entries.iter().filter(|entry| *entry != "beside").collect::<Vec<_>>(), ["other"]);
            });
            process.end();
        }

        /// Asks for the two keys of each round with all tasks at once, in a transaction or under a lease, patient or not;
        /// says what was neither a run, nor a replay, nor a rival's turn.
        async fn race(place: &str) {
            let idem = Transactional::new(Place::store_at(place).await);
            let pool = Place::pool_at(place).await;
            for round in 0.. {
                let gate = Arc::new(tokio::sync::Barrier::new(33));
                let tasks: Vec<_> = (0..32)
                    .map(|task| {
                        let (idem, gate, pool) = (idem.clone(), Arc::clone(&gate), pool.clone());
                        tokio::spawn(async move {
                            let key = format!("{round} {}", task % 2);
                            let patient = task % 8 < 2;
                            let how = if patient { InFlight::Wait(SOON * 4) } else { InFlight::Reject };
                            let call = call(&idem, &key, "payload").in_flight(how);
                            gate.wait().await;
                            let ended = if task % 4 < 2 {
                                call.transact(|mut tx, _| async move {
                                    insert(&mut tx, &key).await.map(|()| String::new())
                                })
                                .await
                            } else {
                                call.run(|_| async move {
                                    let insert = format!("INSERT INTO ledger (entry) VALUES ('{key}')");
                                    let done = sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&pool).await;
                                    done.map(|_| String::new()).map_err(|error| error.to_string())
                                })
                                .await
                            };
                            match ended {
                                Ok(Outcome::Fresh(Ok(_)) | Outcome::Replayed(Ok(_))) => String::new(),
                                Err(error) if error.kind() == ErrorKind::InFlight && !patient => String::new(),
                                other => format!("task {task}: {other:?}; "),
                            }
                        })
                    })
                    .collect();
                say("ready");
                if hear_line().is_none() {
                    break;
                }
                gate.wait().await;
                let mut wrong = String::new();
                for task in tasks {
                    wrong += &task.await.unwrap();
                }
                say(&wrong.replace('\n', " "));
            }
        }

        #[test]
        fn processes_that_mix_transactions_and_leases_on_neighbouring_keys_run_each_once() {
            let place = runtime().block_on(Place::new());
            let mut processes = [0; 4].map(|_| start("race", &place));
            for round in 0..crate::processes::rounds() {
                for process in &mut processes {
                    assert_eq!(process.hear(), "ready");
                }
                for process in &mut processes {
                    process.tell("go");
                }
                for process in &mut processes {
                    assert_eq!(process.hear(), "", "round {round}");
                }
            }
            for process in &mut processes {
                assert_eq!(process.hear(), "ready");
            }
            processes.into_iter().for_each(Process::end);
            let mut expected: Vec<_> =
                (0..crate::processes::rounds()).flat_map(|n| [format!("{n} 0"), format!("{n} 1")]).collect();
            expected.sort();
            assert_eq!(runtime().block_on(place.entries()), expected);
        }
    };
}

pub(crate) use tests;
