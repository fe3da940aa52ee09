//! Opening: which servers are taken, who may use them, and what is told if not.

mod common;

use common::{DAY, HOUR, answer, at, claim, completed, granted, id, released, told};
use idem_core::store::{Claimed, Fenced, Release, Settle, Settled, Store as _, StoreErrorKind};
use idem_redis::RedisStore;
use idem_testkit::{RedisCluster, RedisServer};

async fn refused(url: &str) -> String {
    let error = RedisStore::open(url).await.expect_err(url);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
    told(&error)
}

#[tokio::test]
async fn a_server_that_may_evict_records_is_refused_unless_that_is_allowed() {
    let server = RedisServer::start(&["maxmemory 100mb", "maxmemory-policy volatile-lru"]);
    let message = refused(server.url()).await;
    assert!(message.contains("maxmemory-policy volatile-lru"), "{message}");
    assert!(message.contains(".allow_eviction()"), "{message}");
    let store = at(&server).allow_eviction().open().await.unwrap();
    completed(&store, &id("done"), DAY).await;
}

#[tokio::test]
async fn a_server_that_a_connection_is_made_to_later_is_refused_as_well_if_it_may_evict_records() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let allows = at(&server).allow_eviction().open().await.unwrap();
    completed(&store, &id("done"), DAY).await;
    server.command(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    // The first may have been sent by the old connection.
    let error = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
    assert!(told(&error).contains("allkeys-lru"), "{}", told(&error));
    let error = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
    assert!(told(&error).contains("allkeys-lru"), "{}", told(&error));
    completed(&allows, &id("allowed"), DAY).await;
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    completed(&store, &id("new"), DAY).await;
}

#[tokio::test]
async fn each_primary_of_a_cluster_is_refused_if_it_may_evict_records() {
    let cluster = RedisCluster::start(&[]);
    RedisStore::cluster(cluster.urls()).open().await.unwrap();
    for primary in cluster.primaries() {
        let policy = |policy: &str| {
            cluster.node(primary).command(&[
                "CONFIG",
                "SET",
                "maxmemory",
                "100mb",
                "maxmemory-policy",
                policy,
            ]);
        };
        policy("volatile-ttl");
        let error = RedisStore::cluster(cluster.urls()).open().await.unwrap_err();
        assert!(told(&error).contains("volatile-ttl"), "{}", told(&error));
        policy("noeviction");
    }
}

#[tokio::test]
async fn a_url_that_leads_to_a_replica_or_into_a_cluster_is_refused_and_told_what_to_use() {
    let primary = RedisServer::start(&[]);
    let replica = RedisServer::start(&[&format!("replicaof 127.0.0.1 {}", primary.port())]);
    let message = refused(replica.url()).await;
    assert!(message.contains(&format!("a replica of 127.0.0.1:{}", primary.port())), "{message}");
    assert!(message.contains("RedisStore::sentinel"), "{message}");

    let cluster = RedisCluster::start(&[]);
    for url in cluster.urls() {
        let message = refused(&url).await;
        assert!(message.contains("RedisStore::cluster"), "{message}");
    }
    // And the other way round.
    let error = RedisStore::cluster([primary.url()]).open().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
    assert!(told(&error).contains("cluster support disabled"), "{}", told(&error));
    let error = RedisStore::sentinel("primary", [primary.url()]).open().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so_without_the_password() {
    let server = RedisServer::start(&["requirepass correct-horse"]);
    let store = at(&server).open().await.unwrap();
    completed(&store, &id("done"), DAY).await;
    for wrong in [
        server.url().replace("correct-horse", "battery-staple"),
        server.url().replace(":correct-horse@", "mallory:battery-staple@"),
        server.url().replace(":correct-horse@", ""),
    ] {
        let message = refused(&wrong).await;
        assert!(message.contains("password"), "{message}");
        assert!(!message.contains("battery-staple"), "{message}");
    }
    let builder = format!("{:?} {store:?}", RedisStore::builder().url(server.url()));
    assert!(!builder.contains("correct-horse"), "{builder}");
}

#[tokio::test]
async fn a_place_that_cannot_be_is_refused() {
    for url in ["", "postgres://localhost", "redis://", "redis://localhost:port"] {
        refused(url).await;
    }
    let error = RedisStore::builder().open().await.unwrap_err();
    assert!(told(&error).contains("no server was named"), "{}", told(&error));
    let error = RedisStore::builder().url("redis://127.0.0.1").prefix("{all}").open().await.unwrap_err();
    assert!(told(&error).contains("brace"), "{}", told(&error));
    let error = RedisStore::sentinel("primary", [""; 0]).open().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
}

#[tokio::test]
async fn a_server_that_has_too_few_replicas_takes_no_claims_and_is_unavailable() {
    let server = RedisServer::start(&["min-replicas-to-write 1"]);
    let limit = std::time::Duration::from_millis(200);
    let store = at(&server).timeout(limit).open().await.unwrap();
    let error = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{}", told(&error));
    assert!(told(&error).contains("too few replicas"), "{}", told(&error));
    assert!(store.look_up(&id("new")).await.unwrap().is_none());
}

/// The user of REDIS.md.
#[tokio::test]
async fn a_user_needs_no_more_rights_than_the_documentation_says() {
    let server = RedisServer::start(&[]);
    let rights = include_str!("../REDIS.md").lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    server.command(&rights.split_whitespace().collect::<Vec<_>>());
    let url = server.url().replace("redis://", "redis://app:password@");
    let store = RedisStore::builder().url(&url).answers_within(0).open().await.unwrap();
    completed(&store, &id("done"), DAY).await;
    let replay = store.claim(&id("done"), &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
    released(&store, &id("failed"), Release::KeepBinding(HOUR)).await;
    let ours = claim("payload");
    assert_eq!(granted(&store, &id("failed"), &ours).await, 2);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.changed(&id("failed"), HOUR).await }
    });
    while server.contents("idem:").iter().all(|(_, value)| value.get(3) != Some(&b'1')) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(store.renew(&id("failed"), ours.owner, HOUR).await.unwrap(), Fenced::Held);
    assert_eq!(store.complete(&id("failed"), ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    waiting.await.unwrap();
    assert_eq!(store.settle(&id("failed"), &Settle::Forget).await.unwrap(), Settled::Done);
    let denied = server.command(&["ACL", "LOG"]);
    assert!(denied.list().is_empty(), "{denied:?}");

    // One who may not even run scripts is told what is wrong.
    server.command(&["ACL", "SETUSER", "nobody", "on", ">password", "~idem:*", "+info"]);
    let url = server.url().replace("redis://", "redis://nobody:password@");
    let store = RedisStore::open(&url).await.unwrap();
    let error = store.claim(&id("done"), &claim("payload")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(told(&error).contains("may not"), "{}", told(&error));
}

#[tokio::test]
async fn time_outs_may_be_as_long_as_a_duration() {
    let server = RedisServer::start(&[]);
    let forever = std::time::Duration::MAX;
    let store = at(&server).timeout(forever).response_timeout(forever).connect_timeout(forever);
    completed(&store.open().await.unwrap(), &id("done"), DAY).await;
}

#[tokio::test]
async fn sockets_databases_and_prefixes_are_places_of_their_own() {
    let server = RedisServer::start(&[]);
    let socket = format!("redis+unix://{}?db=3", server.socket().display());
    let stores = [
        at(&server).open().await.unwrap(),
        at(&server).prefix("other:").connections(3).open().await.unwrap(),
        RedisStore::open(&format!("{}/2", server.url())).await.unwrap(),
        RedisStore::open(&socket).await.unwrap(),
    ];
    for store in &stores {
        assert_eq!(granted(store, &id("held"), &claim("payload")).await, 1);
    }
    stores[0].close().await;
    let error = stores[0].clone().look_up(&id("held")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{}", told(&error));
}
