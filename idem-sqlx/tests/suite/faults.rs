//! Faults of the database and the set-up: an error of the right kind, in time, and no lasting harm.

use std::time::{Duration, Instant};

use idem_core::store::{Claimed, Fenced, Store as _, StoreError, StoreErrorKind};

use super::{Backend, Options};
use crate::common::writers::full_text;
use crate::common::{DAY, answer, claim, completed, granted, id};

pub(crate) const SHORT: Duration = Duration::from_millis(700);

pub(crate) async fn a_step_that_waits_for_a_lock_is_timed_out_and_is_taken_when_it_is_free<B: Backend>() {
    let home = B::new().await;
    let short = Options { timeout: Some(SHORT), ..Options::default() };
    let store = B::open_at(&home.place(), short).await.unwrap();
    let held = claim("payload");
    granted(&store, &id("held"), &held).await;
    completed(&store, &id("done"), DAY).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;

    let started = Instant::now();
    let (held_id, done) = (id("held"), answer("done"));
    let (finished, renewed) = tokio::join!(
        store.complete(&held_id, held.owner, &done, DAY),
        store.renew(&held_id, held.owner, SHORT),
    );
    for late in [finished.unwrap_err(), renewed.unwrap_err()] {
        assert_eq!(late.kind(), StoreErrorKind::TimedOut, "{}", full_text(&late));
    }
    assert!(started.elapsed() >= SHORT && started.elapsed() < SHORT * 4, "{:?}", started.elapsed());
    // Readers do not mind.
    assert!(matches!(store.claim(&id("done"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    assert!(matches!(store.claim(&held_id, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));

    B::execute(&mut other, "COMMIT").await;
    let freed = Instant::now();
    assert_eq!(store.complete(&held_id, held.owner, &done, DAY).await.unwrap(), Fenced::Held);
    granted(&store, &id("fresh"), &claim("payload")).await;
    assert!(freed.elapsed() < Duration::from_secs(1), "{:?}", freed.elapsed());
}

pub(crate) async fn claims_that_meet_a_lock_are_answered_when_it_is_free<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let mut other = home.direct().await;
    for round in 0..5 {
        let key = id(&format!("one {round}"));
        completed(&store, &key, DAY).await;
        B::execute(&mut other, B::LOCK).await;
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let (store, key) = (store.clone(), key.clone());
                tokio::spawn(async move {
                    let key = if n % 2 == 0 { key } else { id(&format!("new {round}")) };
                    store.claim(&key, &claim("payload")).await.unwrap()
                })
            })
            .collect();
        tokio::task::yield_now().await;
        B::execute(&mut other, "COMMIT").await;
        let mut grants = 0;
        for (n, task) in tasks.into_iter().enumerate() {
            match (n % 2, task.await.unwrap()) {
                (0, Claimed::Completed { .. }) | (1, Claimed::InFlight { .. }) => {}
                (1, Claimed::Granted { attempt: 1 }) => grants += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(grants, 1);
    }
}

pub(crate) async fn a_table_that_is_not_there_says_to_migrate<B: Backend>() {
    let home = B::new().await;
    let place = home.place();
    let unmigrated = || B::open_at(&place, Options { migrate: false, ..Options::default() });
    let says_to_migrate = |refused: &StoreError| {
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
        assert!(full_text(refused).contains("run `migrate`"), "{}", full_text(refused));
    };
    says_to_migrate(&unmigrated().await.unwrap_err());
    let store = home.open().await;
    unmigrated().await.map(drop).unwrap();
    let mut direct = home.direct().await;
    B::execute(&mut direct, "ALTER TABLE idem_records RENAME TO elsewhere").await;
    says_to_migrate(&store.claim(&id("k"), &claim("payload")).await.unwrap_err());
    B::execute(&mut direct, "ALTER TABLE elsewhere RENAME TO idem_records").await;
    granted(&store, &id("k"), &claim("payload")).await;

    B::execute(&mut direct, "UPDATE idem_migrations SET version = 99").await;
    for refused in
        [unmigrated().await.unwrap_err(), B::open_at(&place, Options::default()).await.unwrap_err()]
    {
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured);
        assert!(full_text(&refused).contains("newer release"), "{}", full_text(&refused));
    }
}

pub(crate) async fn a_record_that_this_release_does_not_know_is_corrupt_and_is_not_run<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let mut direct = home.direct().await;
    for damage in B::DAMAGES {
        B::execute(&mut direct, "DELETE FROM idem_records").await;
        completed(&store, &id("k"), DAY).await;
        B::execute(&mut direct, &format!("UPDATE idem_records SET {damage}")).await;
        let refused = store.claim(&id("k"), &claim("payload")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Corrupt, "{damage}: {}", full_text(&refused));
    }
}

pub(crate) async fn a_closed_store_says_so_on_every_clone<B: Backend>() {
    let home = B::new().await;
    for store in home.variants(Options::default()).await {
        completed(&store, &id("k"), DAY).await;
        let clone = store.clone();
        B::close(&store).await;
        B::close(&store).await;
        for refused in [
            clone.claim(&id("k"), &claim("p")).await.unwrap_err(),
            clone.look_up(&id("k")).await.unwrap_err(),
            clone.sweep(1).await.unwrap_err(),
            B::migrate(&clone).await.unwrap_err(),
        ] {
            assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
        }
    }
}
