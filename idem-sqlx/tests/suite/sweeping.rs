//! Sweeping: what is gone is deleted, nothing else is, and nobody waits long.

use std::time::{Duration, Instant};

use idem_core::record::State;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Store as _};

use super::{Backend, Served};
use crate::common::{DAY, HOUR, claim, completed, granted, id, released};

const EXPIRED: i64 = 100_000;
const COUNT: &str = "SELECT count(*) FROM idem_records";
const GONE: Retention = Retention { ttl: Duration::ZERO, tombstone_ttl: None };

pub(crate) async fn two_sweepers_clear_many_records_beside_live_claims<B: Backend>() {
    let home = B::new().await;
    let (store, other) = (home.open().await, home.open().await);
    // Live ones before, among and after the expired ones.
    completed(&store, &id("done"), DAY).await;
    released(&store, &id("unknown"), Release::Unknown).await;
    let held = claim("payload");
    granted(&store, &id("held"), &held).await;
    let mut direct = home.direct().await;
    for half in 0..2 {
        let many = B::EXPIRED.replace("{N}", &(EXPIRED / 2).to_string());
        B::execute(&mut direct, &many.replace("{TEXT}", &format!("{half}-"))).await;
        completed(&store, &id(&format!("done after {half}")), DAY).await;
    }
    assert_eq!(B::number(&mut direct, COUNT).await, EXPIRED + 5);

    let started = Instant::now();
    let sweep = |store: B::Store| {
        tokio::spawn(async move {
            let mut swept = 0;
            loop {
                match store.sweep(5_000).await.unwrap() {
                    0 => return swept,
                    some => swept += some,
                }
            }
        })
    };
    let sweepers = [sweep(store.clone()), sweep(other)];
    let (mut steps, mut slowest) = (0, Duration::ZERO);
    while !sweepers.iter().all(tokio::task::JoinHandle::is_finished) {
        let started = Instant::now();
        granted(&store, &id(&format!("live {steps}")), &claim("payload")).await;
        assert_eq!(store.renew(&id("held"), held.owner, HOUR).await.unwrap(), Fenced::Held);
        slowest = slowest.max(started.elapsed());
        steps += 1;
    }
    let mut swept = 0;
    for sweeper in sweepers {
        swept += sweeper.await.unwrap();
    }
    println!("{swept} records in {:?} beside {steps} live steps, the slowest {slowest:?}", started.elapsed());
    // Each may have left to the other what the other was at.
    swept += store.sweep(u32::MAX).await.unwrap();
    assert_eq!(swept, EXPIRED as u64);
    assert_eq!(B::number(&mut direct, COUNT).await, 5 + steps);
    assert!(steps > 20, "{steps} steps beside the sweepers, the slowest took {slowest:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    for key in ["done", "done after 0", "done after 1"] {
        assert!(matches!(store.claim(&id(key), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert_eq!(store.look_up(&id("unknown")).await.unwrap().unwrap().state, State::Unknown);
}

pub(crate) async fn a_sweep_deletes_no_more_than_it_was_told_and_finds_the_rest_later<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    assert_eq!(store.sweep(10).await.unwrap(), 0);
    for n in 0..30 {
        completed(&store, &id(&n.to_string()), GONE).await;
        completed(&store, &id(&format!("live {n}")), DAY).await;
    }
    let refused = Retention { ttl: Duration::ZERO, tombstone_ttl: Some(HOUR) };
    completed(&store, &id("refused"), refused).await;
    let crashed =
        Claim { lease: Duration::ZERO, binding: Duration::ZERO, on_crash: OnCrash::Reject, ..claim("p") };
    granted(&store, &id("crashed"), &crashed).await;
    assert_eq!(store.sweep(0).await.unwrap(), 0);
    assert_eq!(store.sweep(20).await.unwrap(), 20);
    let mut direct = home.direct().await;
    assert_eq!(B::number(&mut direct, COUNT).await, 42);
    // Expired ones behind the place where the last sweep ended. Some take the place of one that is not yet deleted.
    for n in 0..5 {
        completed(&store, &id(&n.to_string()), GONE).await;
    }
    let expired = B::number(&mut direct, COUNT).await - 32;
    assert!((10..=15).contains(&expired), "{expired}");
    let mut swept = 0;
    for _ in 0..3 {
        swept += store.sweep(1_000).await.unwrap();
    }
    assert_eq!(swept, expired as u64);
    assert_eq!(B::number(&mut direct, COUNT).await, 32);
    assert!(matches!(store.claim(&id("refused"), &claim("payload")).await.unwrap(), Claimed::Expired));
    assert!(matches!(store.claim(&id("crashed"), &claim("p")).await.unwrap(), Claimed::Unknown));
}

pub(crate) async fn a_sweeper_works_until_it_is_stopped<B: Backend>() {
    const PATIENCE: Duration = Duration::from_secs(20);
    let home = B::new().await;
    let store = home.open().await;
    completed(&store, &id("k"), GONE).await;
    let one = B::spawn_sweeper(&store, Duration::from_millis(2));
    let two = B::spawn_sweeper(&store, Duration::ZERO);
    let mut direct = home.direct().await;
    tokio::time::timeout(PATIENCE, async {
        while B::number(&mut direct, COUNT).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is swept");
    tokio::time::timeout(PATIENCE, one.stop()).await.expect("it stops");
    drop(two);
    B::close(&store).await;
    // A sweeper of a closed store stops like any other.
    let late = B::spawn_sweeper(&store, Duration::from_millis(1));
    tokio::task::yield_now().await;
    tokio::time::timeout(PATIENCE, late.stop()).await.expect("it stops");
    B::number(&mut direct, COUNT).await;
}

pub(crate) async fn a_sweeper_leaves_to_others_what_they_are_at<B: Served>() {
    let home = B::new().await;
    let store = home.open().await;
    completed(&store, &id("k"), GONE).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;
    assert_eq!(store.sweep(10).await.unwrap(), 0, "it does not wait for a lock");
    B::execute(&mut other, "COMMIT").await;
    assert_eq!(store.sweep(10).await.unwrap(), 1);
}
