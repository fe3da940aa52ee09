//! Other servers take over: slots that move, primaries that fail, Sentinels that name another.

mod common;

use std::time::{Duration, Instant};

use common::{DAY, LEASE, answer, claim, completed, granted, id, key, told};
use idem_core::record::RecordId;
use idem_core::store::{Claim, Claimed, Fenced, Store as _};
use idem_redis::RedisStore;
use idem_testkit::{RedisCluster, RedisSentinels};

const SECOND: Duration = Duration::from_secs(1);

/// Claims of a key each.
fn claims(count: usize) -> Vec<(RecordId, Claim)> {
    (0..count).map(|n| (id(&format!("key-{n}")), claim("payload"))).collect()
}

async fn is_in_flight(store: &RedisStore, id: &RecordId) {
    let found = store.claim(id, &claim("payload")).await.unwrap();
    assert!(matches!(found, Claimed::InFlight { .. }), "{found:?}");
}

async fn is_replayed(store: &RedisStore, id: &RecordId) {
    let found = store.claim(id, &claim("payload")).await.unwrap();
    assert!(matches!(found, Claimed::Completed { .. }), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_while_claims_are_open_disturb_nobody() {
    let cluster = RedisCluster::start(&[]);
    let store = RedisStore::cluster(cluster.urls()).answers_within(10).open().await.unwrap();
    let claims = claims(12);
    for (id, ours) in &claims {
        assert_eq!(granted(&store, id, ours).await, 1);
    }
    for (n, (id, ours)) in claims.iter().enumerate() {
        let key = key(id);
        let from = cluster.primary_of(&key);
        let to = *cluster.primaries().iter().find(|node| **node != from).unwrap();
        if n % 2 == 0 {
            cluster.migrate(&key, to);
            is_in_flight(&store, id).await;
        } else {
            // In the middle: what has not gone yet is found where it was, what has is found where it will be.
            let migration = cluster.begin_migration(&key, to);
            is_in_flight(&store, id).await;
            assert_eq!(store.renew(id, ours.owner, LEASE).await.unwrap(), Fenced::Held);
            assert!(migration.move_keys() > 0);
            is_in_flight(&store, id).await;
            assert_eq!(store.complete(id, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
            is_replayed(&store, id).await;
            migration.move_keys();
            migration.end();
        }
        assert_eq!(store.complete(id, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
        is_replayed(&store, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_of_a_cluster_that_fails_is_followed_by_its_replica() {
    let mut cluster = RedisCluster::start(&[]);
    let store =
        RedisStore::cluster(cluster.urls()).wait_replicas(1).timeout(20 * SECOND).open().await.unwrap();
    let claims = claims(12);
    for (id, ours) in &claims {
        assert_eq!(granted(&store, id, ours).await, 1);
    }
    let lost = cluster.primary_of(&key(&claims[0].0));
    cluster.kill(lost);
    let begun = Instant::now();
    // Without replicas to wait for: the one that took over has none.
    let plain = RedisStore::cluster(cluster.urls()).timeout(20 * SECOND).open().await.unwrap();
    for (id, ours) in &claims {
        let renewed = plain.renew(id, ours.owner, LEASE).await;
        assert_eq!(renewed.unwrap_or_else(|error| panic!("{}", told(&error))), Fenced::Held);
        is_in_flight(&plain, id).await;
        assert_eq!(plain.complete(id, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
        is_replayed(&plain, id).await;
    }
    println!("went on after {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_of_a_cluster_that_hangs_is_followed_by_its_replica() {
    let mut cluster = RedisCluster::start(&[]);
    let store = RedisStore::cluster(cluster.urls()).wait_replicas(1).open().await.unwrap();
    let plain = RedisStore::cluster(cluster.urls())
        .response_timeout(SECOND / 2)
        .timeout(20 * SECOND)
        .open()
        .await
        .unwrap();
    let claims = claims(12);
    for (id, ours) in &claims {
        assert_eq!(granted(&store, id, ours).await, 1);
        is_in_flight(&plain, id).await;
    }
    let lost = cluster.primary_of(&key(&claims[0].0));
    cluster.pause(lost);
    let begun = Instant::now();
    for (id, ours) in &claims {
        let stored = plain.complete(id, ours.owner, &answer("done"), DAY).await;
        assert_eq!(stored.unwrap_or_else(|error| panic!("{}", told(&error))), Fenced::Held);
    }
    println!("went on after {:?}", begun.elapsed());
    cluster.resume(lost);
    for (id, _) in &claims {
        is_replayed(&plain, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_sentinels_replace_is_followed() {
    let mut sentinels = RedisSentinels::start(&[]);
    let store = RedisStore::sentinel(sentinels.name(), sentinels.urls())
        .wait_replicas(1)
        .response_timeout(SECOND)
        .timeout(20 * SECOND)
        .open()
        .await
        .unwrap();
    let claims = claims(6);
    for (id, ours) in &claims {
        assert_eq!(granted(&store, id, ours).await, 1);
    }

    // Both run: the old one becomes a replica, and says so.
    sentinels.fail_over();
    sentinels.settle();
    for (id, ours) in &claims {
        is_in_flight(&store, id).await;
        assert_eq!(store.renew(id, ours.owner, LEASE).await.unwrap(), Fenced::Held);
    }

    // The primary is gone: its successor is waited for.
    let primary = sentinels.primary();
    sentinels.kill(primary);
    let begun = Instant::now();
    for (id, ours) in &claims {
        is_in_flight(&store, id).await;
        let stored = store.complete(id, ours.owner, &answer("done"), DAY).await;
        assert_eq!(stored.unwrap_or_else(|error| panic!("{}", told(&error))), Fenced::Held);
    }
    println!("went on after {:?}", begun.elapsed());
    completed(&store, &id("new"), DAY).await;
    for (id, _) in &claims {
        is_replayed(&store, id).await;
    }
}
