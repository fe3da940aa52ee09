//! Other servers take over in the middle of claims and completions: what their callers hear of it, and what is lost.
//!
//! `IDEM_TEST_ROUNDS=20` counts what as many failovers lose, for each number of replicas that is waited for; with
//! `--nocapture` each round says what happened.

#[path = "common/rounds.rs"]
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::record::RecordId;
use idem_core::store::{Claimed, Fenced, Store as _};
use idem_redis::RedisStore;
use idem_testkit::stores::claims::{DAY, HOUR, answer, claim, completed, granted, id};
use idem_testkit::stores::writers::{Writers, full_text};
use idem_testkit::{RedisCluster, RedisSentinels, RedisServer};

use rounds::{Fate, Lost, PASSWORD, PATIENCE, behind, catch_up, fail};

/// The key of a record, for which a cluster looks.
fn key(id: &RecordId) -> String {
    format!("idem:{{{}}}", id.digest().map(|byte| format!("{byte:02x}")).concat())
}

/// A primary that does not serve a key.
fn elsewhere(cluster: &RedisCluster, key: &str) -> usize {
    let from = cluster.primary_of(key);
    cluster.primaries().into_iter().find(|node| *node != from).unwrap()
}

/// Cuts a replica off until [`reconnect`].
fn cut_off(replica: &RedisServer, primary: &RedisServer) {
    replica.command(&["CONFIG", "SET", "masterauth", "wrong"]);
    primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    while primary
        .info("replication")
        .iter()
        .any(|(name, said)| name.starts_with("slave") && said.contains(&format!("port={}", replica.port())))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn reconnect(replica: &RedisServer) {
    replica.command(&["CONFIG", "SET", "masterauth", "s3cret"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_that_are_killed_lose_nothing_that_all_their_replicas_had_acknowledged() {
    let mut all = RedisSentinels::start(&[PASSWORD]);
    for replicas in [0, 1, 2] {
        fail(Fate::Killed, &mut all, replicas).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_that_hang_lose_nothing_that_all_their_replicas_had_acknowledged() {
    let mut all = RedisSentinels::start(&[PASSWORD]);
    for replicas in [0, 1, 2] {
        fail(Fate::Hung, &mut all, replicas).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_made_to_a_primary_that_hung_meanwhile_is_not_used() {
    let mut all = RedisSentinels::start(&[PASSWORD]);
    let store = behind(&all).connect_timeout(PATIENCE).response_timeout(PATIENCE).open().await.unwrap();
    let old = all.primary();
    all.server(old).command(&["CLIENT", "KILL", "TYPE", "normal"]);
    all.pause(old);
    // Its Sentinels name the primary that hangs, and the connection is there when that one goes on.
    let ours = claim("payload");
    let claiming = tokio::spawn({
        let (store, ours) = (store.clone(), ours.clone());
        async move { store.claim(&id("k"), &ours).await }
    });
    all.settle();
    all.resume(old);
    let claimed = claiming.await.unwrap().unwrap();
    assert!(matches!(claimed, Claimed::Granted { attempt: 1 }), "{claimed:?}");
    all.settle();
    assert_eq!(store.complete(&id("k"), ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hung_for_long_is_asked_once_and_then_left_for_its_successor() {
    let mut all = RedisSentinels::start(&[PASSWORD]);
    let store = behind(&all).response_timeout(Duration::from_secs(12)).open().await.unwrap();
    let old = all.primary();
    all.pause(old);
    let pending = tokio::spawn({
        let store = store.clone();
        async move { store.claim(&id("pending"), &claim("payload")).await }
    });
    all.settle();
    all.resume(old);
    // It answers, and does not know yet that this is worth nothing.
    let claimed = pending.await.unwrap().unwrap();
    assert!(matches!(claimed, Claimed::Granted { attempt: 1 }), "{claimed:?}");
    completed(&store, &id("next"), DAY).await;
    all.settle();
    let replay = store.claim(&id("next"), &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_what_no_replica_had_and_its_holders_are_told() {
    let mut all = RedisSentinels::start(&[PASSWORD]);
    let store = behind(&all).open().await.unwrap();
    let [kept, lost] = ["kept", "lost"].map(|name| (id(name), claim("payload")));
    granted(&store, &kept.0, &kept.1).await;
    let primary = all.primary();
    all.settle();
    let replicas: Vec<_> = (0..3).filter(|server| *server != primary).collect();
    for replica in &replicas {
        catch_up(all.server(*replica), all.server(primary));
    }
    for replica in &replicas {
        cut_off(all.server(*replica), all.server(primary));
    }
    granted(&store, &lost.0, &lost.1).await;
    completed(&store, &id("answer"), DAY).await;
    let waits = behind(&all).wait_replicas(1).open().await.unwrap();
    let refused = waits.claim(&id("refused"), &claim("payload")).await.unwrap_err();
    assert!(refused.is_retryable(), "{}", full_text(&refused));

    all.kill(primary);
    for replica in &replicas {
        reconnect(all.server(*replica));
    }
    // What the replicas had goes on, and what they had not never was: it runs again, also while its holder runs.
    assert_eq!(store.complete(&kept.0, kept.1.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    for name in ["lost", "answer"] {
        assert_eq!(granted(&store, &id(name), &claim("payload")).await, 1);
    }
    assert_eq!(store.complete(&lost.0, lost.1.owner, &answer("late"), DAY).await.unwrap(), Fenced::Lost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_restarts_without_its_data_takes_it_from_all_replicas() {
    let mut primary = RedisServer::start(&["repl-diskless-sync-delay 0"]);
    let follow = format!("replicaof 127.0.0.1 {}", primary.port());
    let replicas = [RedisServer::start(&[&follow]), RedisServer::start(&[&follow])];
    let has_all = |replica: &RedisServer| replica.info("replication")["master_link_status"] == "up";
    let attached = || {
        while !replicas.iter().all(has_all) {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    attached();
    let store = RedisStore::builder().url(primary.url()).wait_replicas(2).open().await.unwrap();
    completed(&store, &id("k"), DAY).await;
    for replica in &replicas {
        assert_eq!(replica.contents("idem:").len(), 1);
    }
    primary.kill();
    while replicas.iter().any(has_all) {
        std::thread::sleep(Duration::from_millis(5));
    }
    primary.restart();
    attached();
    for replica in &replicas {
        assert_eq!(replica.contents("idem:").len(), 0);
    }
    assert_eq!(granted(&store, &id("k"), &claim("payload")).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_to_and_fro_while_many_look_at_its_record_is_no_matter() {
    let cluster = RedisCluster::start(&[]);
    let store = RedisStore::cluster(cluster.urls()).timeout(PATIENCE).answers_within(7).open().await.unwrap();
    let (held, ours) = (id("held"), claim("payload"));
    granted(&store, &held, &ours).await;
    let stop = Arc::new(AtomicBool::new(false));
    let rivals: Vec<_> = (0..16)
        .map(|_| {
            let (store, held, stop) = (store.clone(), held.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut refused = 0;
                while !stop.load(Ordering::Relaxed) {
                    match store.claim(&held, &claim("payload")).await {
                        Ok(Claimed::InFlight { .. }) => refused += 1,
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => panic!("{}", full_text(&error)),
                    }
                }
                refused
            })
        })
        .collect();
    for round in 0..4 {
        let key = key(&held);
        let migration = cluster.begin_migration(&key, elsewhere(&cluster, &key));
        assert_eq!(store.renew(&held, ours.owner, HOUR).await.unwrap(), Fenced::Held, "round {round}");
        assert_eq!(migration.move_keys(), 1);
        assert_eq!(store.renew(&held, ours.owner, HOUR).await.unwrap(), Fenced::Held, "round {round}");
        migration.end();
        assert_eq!(store.renew(&held, ours.owner, HOUR).await.unwrap(), Fenced::Held, "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    for rival in rivals {
        assert!(rival.await.unwrap() > 0, "each was refused");
    }
    let done = answer("a long answer, which is apart");
    assert_eq!(store.complete(&held, ours.owner, &done, DAY).await.unwrap(), Fenced::Held);
    cluster.migrate(&key(&held), elsewhere(&cluster, &key(&held)));
    let replay = store.claim(&held, &claim("payload")).await.unwrap();
    assert!(matches!(&replay, Claimed::Completed { answer, .. } if *answer == done), "{replay:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_replicas_take_over_in_good_order_loses_nothing() {
    let cluster = RedisCluster::start(&[]);
    let store = RedisStore::cluster(cluster.urls()).timeout(PATIENCE).open().await.unwrap();
    let writers = Writers::start(&store, "key").await;
    for primary in 0..3 {
        cluster.fail_over(primary);
    }
    let written = writers.stop().await;
    assert!(written.answered.len() > 300, "{}", written.answered.len());
    assert_eq!(written.errors.iter().collect::<Vec<_>>(), [""; 0]);
    assert_eq!(written.answers_missing_in(&store).await, [""; 0]);
    assert_eq!(written.claims_missing_in(&store).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_a_cluster_that_is_killed_or_hangs_loses_only_what_its_replica_had_not() {
    let mut cluster = RedisCluster::start(&[PASSWORD]);
    let store = RedisStore::cluster(cluster.urls()).timeout(PATIENCE).open().await.unwrap();
    // Of one primary, whose replica hears of the first and not of the second.
    let ids: Vec<_> =
        (0..).map(|n| id(&n.to_string())).filter(|id| cluster.primary_of(&key(id)) == 0).take(2).collect();
    let [kept, lost] = [claim("payload"), claim("payload")];
    granted(&store, &ids[0], &kept).await;
    let replica = cluster.replica_of(0);
    catch_up(cluster.node(replica), cluster.node(0));
    cut_off(cluster.node(replica), cluster.node(0));
    granted(&store, &ids[1], &lost).await;
    let writers = Writers::start(&store, "key").await;
    cluster.kill(0);
    reconnect(cluster.node(replica));
    cluster.settle();
    cluster.restart(0);
    cluster.pause(1);
    cluster.settle();
    cluster.resume(1);
    let written = writers.stop().await;
    assert_eq!(written.errors.iter().collect::<Vec<_>>(), [""; 0]);
    println!("killed and hung nodes of a cluster: {}", Lost::of(&written, &store).await);

    assert_eq!(store.complete(&ids[0], kept.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    assert_eq!(granted(&store, &ids[1], &claim("payload")).await, 1);
    assert_eq!(store.complete(&ids[1], lost.owner, &answer("late"), DAY).await.unwrap(), Fenced::Lost);
}
