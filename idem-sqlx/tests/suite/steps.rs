//! The contract where the conformance suite does not look: what is written and asked, and by which clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::owner::Owner;
use idem_core::record::State;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Settle, Settled, Store as _};
use tokio::sync::Barrier;

use super::{Backend, Options};
use crate::common::{DAY, HOUR, answer, claim, completed, granted, id, released};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn a_replay_a_conflict_and_a_mismatch_write_nothing<B: Backend>() {
    let home = B::quiet().await;
    for (n, store) in home.variants(Options::default()).await.into_iter().enumerate() {
        let (done, busy) = (id("done"), id("busy"));
        completed(&store, &done, DAY).await;
        granted(&store, &busy, &claim("payload")).await;
        let mut observer = home.direct().await;
        home.tidy(&mut observer).await;
        let before = home.written(&mut observer).await;
        for _ in 0..20 {
            assert!(matches!(
                store.claim(&done, &claim("payload")).await.unwrap(),
                Claimed::Completed { .. }
            ));
            assert!(matches!(store.claim(&done, &claim("another")).await.unwrap(), Claimed::Mismatch));
            assert!(matches!(store.claim(&busy, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
            assert!(matches!(store.claim(&busy, &claim("another")).await.unwrap(), Claimed::Mismatch));
            let lost = store.complete(&busy, Owner::random(), &answer("late"), DAY).await.unwrap();
            assert_eq!(lost, Fenced::Lost);
        }
        assert_eq!(home.written(&mut observer).await, before, "variant {n}");
        granted(&store, &id("fresh"), &claim("payload")).await;
        assert!(
            home.written(&mut observer).await != before || !B::is_seen(n),
            "the observer sees what is written, variant {n}"
        );
    }
}

pub(crate) async fn a_lease_starts_when_the_wait_was_over_not_when_it_began<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let held = Claim { lease: HOUR, ..claim("payload") };
    granted(&store, &id("held"), &held).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;
    let waiting = tokio::spawn({
        let (store, owner) = (store.clone(), held.owner);
        async move { store.renew(&id("held"), owner, 2 * SECOND).await }
    });
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1_500) {
        // The lock must really be waited for: that takes time, and nothing tells of it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
    }
    B::execute(&mut other, "COMMIT").await;
    assert_eq!(waiting.await.unwrap().unwrap(), Fenced::Held);
    let left = store.look_up(&id("held")).await.unwrap().unwrap().lease_left.unwrap();
    assert!(left > SECOND && left <= 2 * SECOND, "{left:?}");
}

pub(crate) async fn a_replay_does_not_wait_for_a_writer_elsewhere<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    completed(&store, &id("k"), DAY).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;
    let started = Instant::now();
    for _ in 0..8 {
        assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    B::execute(&mut other, "ROLLBACK").await;
}

pub(crate) async fn sixty_four_rivals_get_one_grant_and_sixty_three_answers<B: Backend>() {
    let home = B::new().await;
    for store in home.variants(Options::default()).await {
        for round in 0..50 {
            let id = id(&format!("round-{round}"));
            let start = Arc::new(Barrier::new(64));
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

pub(crate) async fn thirty_two_writers_see_no_error_and_lose_nothing<B: Backend>() {
    let home = B::new().await;
    // Four stores on one database, as four processes would be.
    let stores = [home.open().await, home.open().await, home.open().await, home.open().await];
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

pub(crate) async fn steps_taken_at_once_are_answered_each_by_itself<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
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

pub(crate) async fn dropped_callers_harm_nobody<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
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

pub(crate) fn a_store_outlives_the_runtime_that_opened_it<B: Backend>() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let home = first.block_on(B::new());
    let store = first.block_on(home.open());
    first.block_on(completed(&store, &id("one"), DAY));
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
        let found = store.claim(&id("one"), &claim("payload")).await.unwrap();
        assert!(matches!(found, Claimed::Completed { .. }));
    });
}

pub(crate) async fn many_waiters_hold_no_connection_and_wake_at_once<B: Backend>() {
    let home = B::new().await;
    for store in home.variants(Options { connections: 1, ..Options::default() }).await {
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
}

pub(crate) async fn waiters_learn_what_another_store_did<B: Backend>() {
    let home = B::new().await;
    let (here, elsewhere) = (home.open().await, home.open().await);
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

pub(crate) async fn huge_spans_are_cut_and_zero_spans_are_over<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let huge = Claim { lease: Duration::MAX, binding: Duration::MAX, ..claim("payload") };
    granted(&store, &id("huge"), &huge).await;
    for _ in 0..2 {
        assert_eq!(store.renew(&id("huge"), huge.owner, Duration::MAX).await.unwrap(), Fenced::Held);
    }
    let record = store.look_up(&id("huge")).await.unwrap().unwrap();
    assert_eq!(record.state, State::InFlight);
    assert!(record.lease_left.unwrap() > HOUR * 24 * 365 * 1000);
    let for_ever = Retention { ttl: Duration::MAX, tombstone_ttl: Some(Duration::MAX) };
    let fenced = store.complete(&id("huge"), huge.owner, &answer("done"), for_ever).await.unwrap();
    assert_eq!(fenced, Fenced::Held);
    assert_eq!(store.look_up(&id("huge")).await.unwrap().unwrap().state, State::Completed);

    let zero = Claim { lease: Duration::ZERO, ..claim("payload") };
    granted(&store, &id("zero"), &zero).await;
    assert_eq!(store.look_up(&id("zero")).await.unwrap().unwrap().state, State::Lapsed);
    assert_eq!(granted(&store, &id("zero"), &claim("payload")).await, 2);
    released(&store, &id("unbound"), Release::KeepBinding(Duration::ZERO)).await;
    assert_eq!(granted(&store, &id("unbound"), &claim("another")).await, 1);
}

pub(crate) async fn a_record_is_never_refused_between_its_expiry_and_its_end<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    for n in 0..100 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
    let mut observer = home.direct().await;
    let between = "SELECT count(*) FROM idem_records WHERE gone_at > expires_at";
    assert_eq!(B::number(&mut observer, between).await, 0);
    completed(&store, &id("refused"), Retention { tombstone_ttl: Some(HOUR), ..DAY }).await;
    assert_eq!(B::number(&mut observer, between).await, 1);
}

pub(crate) async fn a_settled_record_does_not_belong_to_its_former_holder<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
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

pub(crate) async fn debug_shows_no_key_owner_or_answer<B: Backend>() {
    let home = B::new().await;
    for store in home.variants(Options::default()).await {
        completed(&store, &id("secret-key-of-somebody"), DAY).await;
        let record = store.look_up(&id("secret-key-of-somebody")).await.unwrap();
        let shown = format!("{store:?} {record:?}");
        assert!(!shown.contains("secret-key-of-somebody") && !shown.contains("done"), "{shown}");
    }
}
