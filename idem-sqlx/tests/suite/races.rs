//! Many callers of one process at once: each gets its own right answer, also beside some that went away.

use std::sync::Arc;

use futures_util::future::join_all;
use idem_core::owner::Owner;
use idem_core::record::State;
use idem_core::store::{Claimed, Fenced, Release, Store as _};
use tokio::sync::Barrier;

use super::{Backend, Options};
use crate::common::{DAY, HOUR, answer, claim, completed, granted, id};

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
        let grants = join_all(claims.iter().map(|(id, claim)| store.claim(id, claim))).await;
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
        for (n, mine, fenced) in join_all(steps).await {
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
