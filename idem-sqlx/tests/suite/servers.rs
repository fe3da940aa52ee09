//! Faults of the server and the way to it: an error of the right kind, in time, and no lasting harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::store::{Claimed, Fenced, Release, Store as _, StoreErrorKind};
use idem_testkit::{Proxy, Server};
use tokio::sync::Barrier;

use super::faults::SHORT;
use super::{Backend, Options, Served};
use crate::common::writers::{Writers, full_text};
use crate::common::{DAY, HOUR, answer, claim, completed, granted, id};

const SECOND: Duration = Duration::from_secs(1);

fn short() -> Options {
    Options { timeout: Some(SHORT), connections: 2, ..Options::default() }
}

pub(crate) async fn a_hung_server_is_timed_out_and_works_at_once_when_it_goes_on<B: Served>() {
    let mut server = Server::<B::Product>::start(&[]);
    let home = B::on(server.database().await);
    for store in home.variants(short()).await {
        let held = claim("payload");
        granted(&store, &id("held"), &held).await;
        completed(&store, &id("done"), DAY).await;
        for round in 0..2 {
            server.pause();
            let started = Instant::now();
            // More than there are connections: the second half waits for one.
            let claims: Vec<_> = (0..6)
                .map(|n| {
                    let store = store.clone();
                    tokio::spawn(async move {
                        let key = id(&format!("fresh {round} {n}"));
                        store.claim(&key, &claim("payload")).await.unwrap_err().kind()
                    })
                })
                .collect();
            for claim in claims {
                assert_eq!(claim.await.unwrap(), StoreErrorKind::TimedOut);
            }
            let late = store.renew(&id("held"), held.owner, HOUR).await.unwrap_err();
            assert_eq!(late.kind(), StoreErrorKind::TimedOut, "{}", full_text(&late));
            let took = started.elapsed();
            assert!(took >= SHORT && took < SHORT * 4, "{took:?}");
            server.resume();
            let back = Instant::now();
            let replayed = store.claim(&id("done"), &claim("payload")).await.unwrap();
            assert!(matches!(replayed, Claimed::Completed { .. }));
            granted(&store, &id(&format!("after {round}")), &claim("payload")).await;
            assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
        }
        assert_eq!(
            store.complete(&id("held"), held.owner, &answer("done"), DAY).await.unwrap(),
            Fenced::Held
        );
    }
}

pub(crate) async fn what_was_acknowledged_survives_a_killed_server_which_is_used_again_within_a_second<
    B: Served,
>() {
    let mut server = Server::<B::Product>::start(&[]);
    let home = B::on(server.database().await);
    let mut stores = home.variants(short()).await.into_iter();
    let (store, pooled) = (stores.next().unwrap(), stores.next().unwrap());
    completed(&pooled, &id("done"), DAY).await;
    for round in 0..2 {
        let writers = Writers::start(&store, &round.to_string()).await;
        server.kill();
        let started = Instant::now();
        let refused = store.claim(&id("refused"), &claim("payload")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
        assert!(started.elapsed() < SHORT, "own connections are refused at once: {:?}", started.elapsed());
        let refused = pooled.claim(&id("refused"), &claim("payload")).await.unwrap_err();
        assert!(refused.is_retryable(), "{}", full_text(&refused));
        assert!(started.elapsed() < SHORT * 4, "{:?}", started.elapsed());

        server.restart();
        let back = Instant::now();
        granted(&store, &id(&format!("after {round}")), &claim("payload")).await;
        assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
        let replayed = pooled.claim(&id("done"), &claim("payload")).await.unwrap();
        assert!(matches!(replayed, Claimed::Completed { .. }));
        assert!(back.elapsed() < 2 * SECOND, "{:?}", back.elapsed());

        let written = writers.stop().await;
        assert!(written.answered.len() >= 100, "{}", written.answered.len());
        assert_eq!(written.answers_missing_in(&store).await, [""; 0]);
        assert_eq!(written.claims_missing_in(&store).await, [""; 0]);
    }
}

pub(crate) async fn a_step_whose_answer_was_lost_is_repeated_and_not_taken_for_a_rival<B: Served>() {
    let home = B::new().await;
    let proxy = Proxy::before(&home.place()).await;
    let store = B::open_at(proxy.url(), Options::default()).await.unwrap();
    // Once, so that everything is prepared: the answer that gets lost is then that of the step itself.
    completed(&store, &id("before"), DAY).await;
    for prepared in [false, true] {
        let key = id(&format!("k {prepared}"));
        let holder = claim("payload");
        proxy.lose_next_answer();
        assert_eq!(granted(&store, &key, &holder).await, 1);
        proxy.lose_next_answer();
        assert_eq!(store.renew(&key, holder.owner, HOUR).await.unwrap(), Fenced::Held);
        proxy.lose_next_answer();
        assert_eq!(store.complete(&key, holder.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
        proxy.lose_next_answer();
        assert!(matches!(store.claim(&key, &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert!(proxy.connections() >= 8, "{} connections", proxy.connections());
}

pub(crate) async fn a_claim_that_may_have_been_taken_is_of_unknown_fate_whatever_its_repetition_is_told<
    B: Served,
>() {
    const AWAY: &str = "ALTER TABLE idem_records RENAME TO idem_away";
    const BACK: &str = "ALTER TABLE idem_away RENAME TO idem_records";
    let home = B::new().await;
    let proxy = Proxy::before(&home.place()).await;
    let mut other = home.direct().await;
    // By the statement that claims, and by what a store guesses when all keys have been new.
    for (prepared, new_keys) in [(true, 1), (false, 1), (true, 20)] {
        let store = B::open_at(proxy.url(), Options { prepared, connections: 1, ..Options::default() })
            .await
            .unwrap();
        for n in 0..new_keys {
            granted(&store, &id(&format!("{prepared} {new_keys} {n}")), &claim("payload")).await;
        }
        for is_late in [false, true] {
            let (key, ours) = (id(&format!("{prepared} {new_keys} held {is_late}")), claim("payload"));
            let before = B::number(&mut other, "SELECT count(*) FROM idem_records").await;
            let connections = proxy.hold_connections().await;
            let answers = proxy.hold_answers().await;
            let claiming = tokio::spawn({
                let (store, key, ours) = (store.clone(), key.clone(), ours.clone());
                async move { store.claim(&key, &ours).await }
            });
            while B::number(&mut other, "SELECT count(*) FROM idem_records").await == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            B::execute(&mut other, AWAY).await;
            if is_late {
                // It is answered, so late that the lease has to be renewed.
                tokio::time::sleep(Duration::from_millis(50)).await;
            } else {
                proxy.lose_next_answer();
            }
            drop((answers, connections));
            let told = claiming.await.unwrap();
            B::execute(&mut other, BACK).await;
            match told {
                // The engine clears in the background what is of unknown fate, and nothing else.
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{}", full_text(&error));
                    assert!(full_text(&error).contains("may have been taken"), "{}", full_text(&error));
                }
                // Where the server's own clock says how long it took.
                Ok(told) => assert!(is_late && matches!(told, Claimed::Granted { .. }), "{told:?}"),
            }
            let undone = store.release(&key, ours.owner, Release::Undo(HOUR)).await.unwrap();
            assert_eq!(undone, Fenced::Held);
            assert_eq!(granted(&store, &key, &claim("payload")).await, 1);
        }
        // What was never sent is refused as ever.
        B::execute(&mut other, AWAY).await;
        let refused = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{}", full_text(&refused));
        B::execute(&mut other, BACK).await;
    }
}

pub(crate) async fn connections_that_broke_while_they_were_idle_are_replaced<B: Served>() {
    let home = B::new().await;
    for store in home.variants(Options { connections: 8, ..Options::default() }).await {
        // As many connections as there may be, all idle.
        let gate = Arc::new(Barrier::new(8));
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let (store, gate) = (store.clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    gate.wait().await;
                    completed(&store, &id(&n.to_string()), DAY).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut other = home.direct().await;
        for n in 0..5 {
            let (key, holder) = (id(&format!("k {n}")), claim("payload"));
            granted(&store, &key, &holder).await;
            assert!(home.terminate(&mut other).await > 0);
            let fenced = store.complete(&key, holder.owner, &answer("done"), DAY).await.unwrap();
            assert_eq!(fenced, Fenced::Held);
        }
    }
}

pub(crate) async fn a_connection_that_is_ended_in_the_middle_of_a_step_is_replaced<B: Served>() {
    let home = B::new().await;
    let store = home.open().await;
    let holder = claim("payload");
    granted(&store, &id("held"), &holder).await;
    let (mut other, mut observer) = (home.direct().await, home.direct().await);
    B::execute(&mut other, B::LOCK).await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.renew(&id("held"), holder.owner, HOUR).await }
    });
    while B::number(&mut observer, B::BLOCKED).await == 0 {
        // InnoDB tells what it told before to whoever asks again within a tenth of a second.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert!(home.terminate(&mut observer).await > 0);
    B::execute(&mut other, "COMMIT").await;
    assert_eq!(waiting.await.unwrap().unwrap(), Fenced::Held);
}

pub(crate) async fn a_serialization_failure_reaches_nobody<B: Served>() {
    for isolation in B::ISOLATIONS {
        let server = Server::<B::Product>::start(&[isolation]);
        let home = B::on(server.database().await);
        let store = home.open().await;
        for round in 0..30 {
            let gate = Arc::new(Barrier::new(64));
            let tasks: Vec<_> = (0..64)
                .map(|task| {
                    let (store, gate) = (store.clone(), Arc::clone(&gate));
                    tokio::spawn(async move {
                        let (id, claim) = (id(&format!("{round}-{}", task % 4)), claim("payload"));
                        gate.wait().await;
                        match store.claim(&id, &claim).await.unwrap() {
                            Claimed::Granted { .. } if task % 3 == 0 => {
                                let how = Release::KeepBinding(HOUR);
                                assert_eq!(store.release(&id, claim.owner, how).await.unwrap(), Fenced::Held);
                            }
                            Claimed::Granted { .. } => {
                                let fenced = store.complete(&id, claim.owner, &answer("done"), DAY).await;
                                assert_eq!(fenced.unwrap(), Fenced::Held);
                            }
                            Claimed::InFlight { .. } | Claimed::Completed { .. } => {}
                            other => panic!("{other:?}"),
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    }
}

pub(crate) async fn other_keys_do_not_mind_a_lock<B: Served>() {
    let home = B::new().await;
    let store = B::open_at(&home.place(), short()).await.unwrap();
    granted(&store, &id("held"), &claim("payload")).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;
    completed(&store, &id("other"), DAY).await;
    B::execute(&mut other, "COMMIT").await;
}

pub(crate) async fn a_server_that_cannot_be_reached_says_so<B: Served>() {
    for url in ["postgres://127.0.0.1:1/none", "mysql://127.0.0.1:1/none", "nonsense"] {
        let refused = B::open_at(url, short()).await.unwrap_err();
        let kinds = [StoreErrorKind::Unavailable, StoreErrorKind::Misconfigured];
        assert!(kinds.contains(&refused.kind()), "{url}: {}", full_text(&refused));
    }
}
