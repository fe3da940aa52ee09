//! Other servers take over: slots that move, primaries that fail, Sentinels that name another.

mod common;

use std::time::{Duration, Instant};

use common::{DAY, LEASE, answer, claim, completed, granted, id, key, told};
use idem_core::record::RecordId;
use idem_core::store::{Claim, Claimed, Fenced, Release, Settle, Settled, Store as _};
use idem_redis::RedisStore;
use idem_testkit::{Proxy, RedisCluster, RedisSentinels, RedisServer};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_that_a_failover_loses_before_its_completion_is_stored_all_the_same() {
    let primary = RedisServer::start(&["repl-diskless-sync-delay 0"]);
    let other = RedisServer::start(&["repl-diskless-sync-delay 0"]);
    let proxy = Proxy::before(primary.url()).await;
    let store = RedisStore::builder().url(proxy.url()).answers_within(7).open().await.unwrap();
    let follow = |server: &RedisServer, whom: &RedisServer| {
        server.command(&["REPLICAOF", "127.0.0.1", &whom.port().to_string()]);
        while server.info("replication").get("master_link_status").is_none_or(|status| status != "up") {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let large = answer("a long answer, which is apart");
    for (name, is_settled) in [("completed", false), ("settled", true)] {
        let (id, ours) = (id(name), claim("payload"));
        granted(&store, &id, &ours).await;
        if is_settled {
            assert_eq!(store.release(&id, ours.owner, Release::Unknown).await.unwrap(), Fenced::Held);
        }
        follow(&other, &primary);
        other.command(&["REPLICAOF", "NO", "ONE"]);
        let before = primary.contents("idem:").len();
        let answers = proxy.hold_answers().await;
        let storing = tokio::spawn({
            let (store, id, answer) = (store.clone(), id.clone(), large.clone());
            async move {
                if is_settled {
                    let settled =
                        store.settle(&id, &Settle::Complete { answer, retention: DAY }).await.unwrap();
                    assert_eq!(settled, Settled::Done);
                } else {
                    let stored = store.complete(&id, ours.owner, &answer, DAY).await.unwrap();
                    assert_eq!(stored, Fenced::Held);
                }
            }
        });
        // The answer is there, and its record does not know yet.
        while primary.contents("idem:").len() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The other takes over and gives back, and with it all but the answer.
        follow(&primary, &other);
        primary.command(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(primary.contents("idem:").len(), before);
        drop(answers);
        storing.await.unwrap();
        let replay = store.claim(&id, &claim("payload")).await.unwrap();
        assert!(matches!(&replay, Claimed::Completed { answer, .. } if *answer == large), "{replay:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_stored_also_while_its_slot_is_on_its_way() {
    let cluster = RedisCluster::start(&[]);
    for replicas in [0, 1] {
        let store = RedisStore::cluster(cluster.urls())
            .answers_within(7)
            .wait_replicas(replicas)
            .timeout(20 * SECOND)
            .open()
            .await
            .unwrap();
        let (id, ours) = (id(&format!("{replicas} replicas")), claim("payload"));
        granted(&store, &id, &ours).await;
        let from = cluster.primary_of(&key(&id));
        let to = cluster.primaries().into_iter().find(|node| *node != from).unwrap();
        let migration = cluster.begin_migration(&key(&id), to);
        let large = answer("a long answer, which is apart");
        assert_eq!(store.complete(&id, ours.owner, &large, DAY).await.unwrap(), Fenced::Held);
        let replay = store.claim(&id, &claim("payload")).await.unwrap();
        assert!(matches!(&replay, Claimed::Completed { answer, .. } if *answer == large), "{replay:?}");
        migration.move_keys();
        migration.end();
        let replay = store.claim(&id, &claim("payload")).await.unwrap();
        assert!(matches!(&replay, Claimed::Completed { answer, .. } if *answer == large), "{replay:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_lags_is_no_reason_to_make_connections_anew() {
    let mut sentinels = RedisSentinels::start(&[]);
    let store = RedisStore::sentinel(sentinels.name(), sentinels.urls())
        .response_timeout(SECOND / 2)
        .wait_replicas(2)
        .open()
        .await
        .unwrap();
    completed(&store, &id("before"), DAY).await;
    let primary = sentinels.primary();
    let replica = (primary + 1) % 3;
    sentinels.pause(replica);
    let connections =
        || sentinels.server(primary).info("stats")["total_connections_received"].parse::<u64>().unwrap();
    // Those who ask make connections, too.
    let asking = connections();
    let asking = connections() - asking;
    let before = connections();
    for n in 0..5 {
        let error = store.claim(&id(&format!("new {n}")), &claim("payload")).await.unwrap_err();
        assert!(told(&error).contains("1 of the 2 replicas"), "{}", told(&error));
    }
    assert_eq!(connections() - before, asking);
    sentinels.resume(replica);
}
