//! The contract on SQLite, where the shared suite does not look: what is written, and by which clock.
#![cfg(feature = "sqlite")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{DAY, HOUR, answer, claim, completed, granted, id, released};
use idem_core::owner::Owner;
use idem_core::record::State;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Settle, Settled, Store};
use idem_sqlx::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use tempfile::TempDir;

async fn store_in(dir: &TempDir) -> SqliteStore {
    SqliteStore::open(dir.path().join("idem.db")).await.unwrap()
}

async fn other_connection(dir: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(dir.path().join("idem.db")).connect().await.unwrap()
}

#[tokio::test]
async fn a_replay_a_conflict_and_a_mismatch_write_nothing() {
    let dir = TempDir::new().unwrap();
    let store = store_in(&dir).await;
    let (done, busy) = (id("done"), id("busy"));
    completed(&store, &done, DAY).await;
    granted(&store, &busy, &claim("payload")).await;
    let log = || std::fs::metadata(dir.path().join("idem.db-wal")).unwrap().len();
    let mut observer = other_connection(&dir).await;
    // Changes exactly if another connection has committed.
    let mut version =
        async || sqlx::query_scalar::<_, i64>("PRAGMA data_version").fetch_one(&mut observer).await.unwrap();
    let (version_before, log_before) = (version().await, log());

    for _ in 0..20 {
        assert!(matches!(store.claim(&done, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
        assert!(matches!(store.claim(&done, &claim("another")).await.unwrap(), Claimed::Mismatch));
        assert!(matches!(store.claim(&busy, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
        assert!(matches!(store.claim(&busy, &claim("another")).await.unwrap(), Claimed::Mismatch));
        assert_eq!(store.complete(&busy, Owner::random(), &answer("late"), DAY).await.unwrap(), Fenced::Lost);
    }
    assert_eq!((version().await, log()), (version_before, log_before));

    granted(&store, &id("fresh"), &claim("payload")).await;
    assert_ne!(version().await, version_before, "the observer sees what is written");
}

#[tokio::test]
async fn a_lease_starts_when_the_lock_was_given_not_when_it_was_asked_for() {
    let dir = TempDir::new().unwrap();
    let store = store_in(&dir).await;
    let mut other = other_connection(&dir).await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move {
            granted(&store, &id("k"), &Claim { lease: Duration::from_secs(1), ..claim("payload") }).await
        }
    });
    let held = Instant::now();
    while held.elapsed() < Duration::from_millis(700) {
        // The lock must really be waited for: that takes time, and nothing tells of it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
    }
    other.execute("COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap(), 1);
    let left = store.look_up(&id("k")).await.unwrap().unwrap().lease_left.unwrap();
    assert!(left > Duration::from_millis(600), "{left:?}");
}

#[tokio::test]
async fn a_replay_does_not_wait_for_a_writer_elsewhere() {
    let dir = TempDir::new().unwrap();
    let store = store_in(&dir).await;
    completed(&store, &id("k"), DAY).await;
    let mut other = other_connection(&dir).await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let started = Instant::now();
    for _ in 0..8 {
        assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    other.execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn sixty_four_rivals_get_one_grant_and_sixty_three_answers() {
    let dir = TempDir::new().unwrap();
    for store in [store_in(&dir).await, SqliteStore::in_memory().await.unwrap()] {
        for round in 0..50 {
            let id = id(&format!("round-{round}"));
            let start = Arc::new(tokio::sync::Barrier::new(64));
            let tasks: Vec<_> = (0..64)
                .map(|_| {
                    let (store, id, start) = (store.clone(), id.clone(), Arc::clone(&start));
                    tokio::spawn(async move {
                        start.wait().await;
                        store.claim(&id, &claim("payload")).await.unwrap()
                    })
                })
                .collect();
            let mut grants = 0;
            for task in tasks {
                match task.await.unwrap() {
                    Claimed::Granted { attempt: 1 } => grants += 1,
                    Claimed::InFlight { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(grants, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_writers_see_no_busy_error_and_lose_nothing() {
    let dir = TempDir::new().unwrap();
    // Four stores on one file, as four processes would be.
    let stores = [store_in(&dir).await, store_in(&dir).await, store_in(&dir).await, store_in(&dir).await];
    let tasks: Vec<_> = (0..32)
        .map(|writer| {
            let store = stores[writer % 4].clone();
            tokio::spawn(async move {
                for n in 0..25 {
                    completed(&store, &id(&format!("{writer}-{n}")), DAY).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for writer in 0..32 {
        for n in 0..25 {
            let found = stores[0].claim(&id(&format!("{writer}-{n}")), &claim("payload")).await.unwrap();
            assert!(matches!(found, Claimed::Completed { .. }), "{found:?}");
        }
    }
}

#[tokio::test]
async fn a_batch_answers_each_of_its_steps() {
    let store = SqliteStore::in_memory().await.unwrap();
    for round in 0..10 {
        let claims: Vec<_> = (0..100).map(|n| (id(&format!("{round}-{n}")), claim("payload"))).collect();
        let grants =
            futures_util::future::join_all(claims.iter().map(|(id, claim)| store.claim(id, claim))).await;
        assert!(grants.into_iter().all(|granted| matches!(granted, Ok(Claimed::Granted { attempt: 1 }))));
        // Every other one under a strange owner, among renewals and releases.
        let steps = claims.iter().enumerate().map(|(n, (id, claim))| {
            let store = &store;
            async move {
                let mine = n % 2 == 0;
                let owner = if mine { claim.owner } else { Owner::random() };
                let fenced = match n % 5 {
                    0 => store.renew(id, owner, HOUR).await,
                    1 => store.release(id, owner, Release::Undo(HOUR)).await,
                    2 => store.release(id, owner, Release::KeepBinding(HOUR)).await,
                    _ => store.complete(id, owner, &answer(&n.to_string()), DAY).await,
                };
                (n, mine, fenced.unwrap())
            }
        });
        for (n, mine, fenced) in futures_util::future::join_all(steps).await {
            assert_eq!(fenced == Fenced::Held, mine, "step {n}");
            let state = store.look_up(&claims[n].0).await.unwrap().map(|record| record.state);
            let expected = match n % 5 {
                _ if !mine => Some(State::InFlight),
                0 => Some(State::InFlight),
                1 => None,
                2 => Some(State::Failed),
                _ => Some(State::Completed),
            };
            assert_eq!(state, expected, "step {n}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_callers_harm_nobody() {
    let dir = TempDir::new().unwrap();
    let store = store_in(&dir).await;
    for round in 0..30 {
        let mut tasks: Vec<_> = (0..64)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { completed(&store, &id(&format!("{round}-{n}")), DAY).await })
            })
            .collect();
        for (n, task) in tasks.iter().enumerate() {
            if n % 2 == 1 {
                task.abort();
            }
            if n % 8 == 0 {
                tokio::task::yield_now().await;
            }
        }
        for (n, task) in tasks.drain(..).enumerate() {
            let finished = task.await;
            assert!(n % 2 == 1 || finished.is_ok(), "{finished:?}");
        }
        let one = id(&format!("{round}-0"));
        assert!(matches!(store.claim(&one, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
}

#[test]
fn a_store_outlives_the_runtime_that_opened_it() {
    let dir = TempDir::new().unwrap();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let store = first.block_on(store_in(&dir));
    let in_the_middle = first.block_on(async {
        let tasks: Vec<_> = (0..64)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { completed(&store, &id(&n.to_string()), DAY).await })
            })
            .collect();
        tokio::task::yield_now().await;
        tasks
    });
    first.shutdown_background();
    drop(in_the_middle);
    runtime().block_on(async {
        let tasks: Vec<_> = (0..64)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { completed(&store, &id(&format!("second-{n}")), DAY).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_hold_no_connection_and_wake_at_once() {
    let dir = TempDir::new().unwrap();
    let store = SqliteStore::builder().file(dir.path().join("idem.db")).readers(1).open().await.unwrap();
    let holder = claim("payload");
    granted(&store, &id("k"), &holder).await;
    let waiters: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                store.changed(&id("k"), HOUR).await;
                store.claim(&id("k"), &claim("payload")).await.unwrap()
            })
        })
        .collect();
    // Other keys go on meanwhile.
    for n in 0..20 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert_eq!(store.complete(&id("k"), holder.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    for waiter in waiters {
        assert!(matches!(waiter.await.unwrap(), Claimed::Completed { .. }));
    }
}

#[tokio::test]
async fn waiters_learn_what_another_store_did() {
    let dir = TempDir::new().unwrap();
    let (here, elsewhere) = (store_in(&dir).await, store_in(&dir).await);
    let holder = claim("payload");
    granted(&elsewhere, &id("k"), &holder).await;
    let (id, done) = (id("k"), answer("done"));
    let waiting = here.changed(&id, HOUR);
    let answering = elsewhere.complete(&id, holder.owner, &done, DAY);
    let (answered, ()) = tokio::join!(answering, waiting);
    assert_eq!(answered.unwrap(), Fenced::Held);
    // Nothing to wait for: at once.
    here.changed(&id, HOUR).await;
}

#[tokio::test]
async fn huge_spans_are_cut_and_zero_spans_are_over() {
    let store = SqliteStore::in_memory().await.unwrap();
    let huge = Claim { lease: Duration::MAX, binding: Duration::MAX, ..claim("payload") };
    granted(&store, &id("huge"), &huge).await;
    assert_eq!(store.renew(&id("huge"), huge.owner, Duration::MAX).await.unwrap(), Fenced::Held);
    assert_eq!(store.renew(&id("huge"), huge.owner, Duration::MAX).await.unwrap(), Fenced::Held);
    let record = store.look_up(&id("huge")).await.unwrap().unwrap();
    assert_eq!(record.state, State::InFlight);
    assert!(record.lease_left.unwrap() > HOUR * 24 * 365 * 1000);
    let for_ever = Retention { ttl: Duration::MAX, tombstone_ttl: Some(Duration::MAX) };
    assert_eq!(
        store.complete(&id("huge"), huge.owner, &answer("done"), for_ever).await.unwrap(),
        Fenced::Held
    );
    assert_eq!(store.look_up(&id("huge")).await.unwrap().unwrap().state, State::Completed);

    let zero = Claim { lease: Duration::ZERO, ..claim("payload") };
    granted(&store, &id("zero"), &zero).await;
    assert_eq!(store.look_up(&id("zero")).await.unwrap().unwrap().state, State::Lapsed);
    assert_eq!(granted(&store, &id("zero"), &claim("payload")).await, 2);
    released(&store, &id("unbound"), Release::KeepBinding(Duration::ZERO)).await;
    assert_eq!(granted(&store, &id("unbound"), &claim("another")).await, 1);
}

#[tokio::test]
async fn a_settled_record_does_not_belong_to_its_former_holder() {
    let store = SqliteStore::in_memory().await.unwrap();
    let holder = Claim { lease: Duration::ZERO, on_crash: OnCrash::Reject, ..claim("payload") };
    granted(&store, &id("k"), &holder).await;
    assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Unknown));
    let settle = Settle::Complete { answer: answer("settled"), retention: DAY };
    assert_eq!(store.settle(&id("k"), &settle).await.unwrap(), Settled::Done);
    assert_eq!(store.complete(&id("k"), holder.owner, &answer("late"), DAY).await.unwrap(), Fenced::Lost);
    match store.claim(&id("k"), &claim("payload")).await.unwrap() {
        Claimed::Completed { answer: found, .. } => assert_eq!(found, answer("settled")),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.settle(&id("k"), &settle).await.unwrap(), Settled::Refused);
    assert_eq!(store.settle(&id("k"), &Settle::Forget).await.unwrap(), Settled::Done);
    assert_eq!(store.settle(&id("k"), &Settle::Forget).await.unwrap(), Settled::Absent);
    assert_eq!(store.settle(&id("k"), &settle).await.unwrap(), Settled::Absent);
}

#[tokio::test]
async fn debug_shows_no_payload_owner_or_answer() {
    let store = SqliteStore::in_memory().await.unwrap();
    completed(&store, &id("secret-key-of-somebody"), DAY).await;
    let shown = format!("{store:?} {:?}", store.look_up(&id("secret-key-of-somebody")).await.unwrap());
    assert!(!shown.contains("secret-key-of-somebody") && !shown.contains("done"), "{shown}");
}

#[tokio::test]
async fn clones_of_a_store_in_memory_share_it_and_two_stores_do_not() {
    let (one, other) = (SqliteStore::in_memory().await.unwrap(), SqliteStore::in_memory().await.unwrap());
    completed(&one, &id("k"), DAY).await;
    assert!(matches!(
        one.clone().claim(&id("k"), &claim("payload")).await.unwrap(),
        Claimed::Completed { .. }
    ));
    assert_eq!(granted(&other, &id("k"), &claim("payload")).await, 1);
}
