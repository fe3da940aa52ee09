//! Servers that break off, hang, pause, restart or are not there.

mod common;

use std::time::{Duration, Instant};

use common::{DAY, LEASE, answer, at, claim, completed, granted, id, told};
use idem_core::engine::Idempotency;
use idem_core::store::{Claimed, Fenced, Release, Settle, Settled, Store as _, StoreErrorKind};
use idem_redis::RedisStore;
use idem_testkit::{Proxy, RedisServer, Reply};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_connection_that_is_cut_is_made_again_without_telling_the_caller() {
    let server = RedisServer::start(&[]);
    let store = at(&server).connections(2).open().await.unwrap();
    for n in 0..20 {
        let (id, ours) = (id(&n.to_string()), claim("payload"));
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert_eq!(granted(&store, &id, &ours).await, 1);
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert_eq!(store.complete(&id, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    }
}

#[tokio::test]
async fn a_record_is_not_forgotten_twice_because_a_reply_was_lost() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::before(server.url()).await;
    let store = RedisStore::open(proxy.url()).await.unwrap();
    let others = at(&server).open().await.unwrap();
    // So that the server has the scripts.
    completed(&store, &id("before"), DAY).await;
    assert_eq!(store.settle(&id("before"), &Settle::Forget).await.unwrap(), Settled::Done);
    let held = id("held");
    completed(&others, &held, DAY).await;
    let connections = proxy.hold_connections().await;
    // The first answer says what is there, the second that it is gone.
    proxy.lose_answer(2);
    let forgetting = tokio::spawn({
        let held = held.clone();
        async move { store.settle(&held, &Settle::Forget).await }
    });
    while !server.contents("idem:").is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ours = claim("payload");
    assert_eq!(granted(&others, &held, &ours).await, 1);
    // Only now can it be sent again.
    drop(connections);
    assert_eq!(forgetting.await.unwrap().unwrap(), Settled::Done);
    let rival = others.claim(&held, &claim("payload")).await.unwrap();
    assert!(matches!(rival, Claimed::InFlight { .. }), "{rival:?}");
    assert_eq!(others.complete(&held, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
}

#[tokio::test]
async fn a_claim_that_may_have_arrived_is_of_unknown_fate_whatever_its_repetition_is_told() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::before(server.url()).await;
    let let_in = || server.command(&["ACL", "SETUSER", "app", "on", ">pass", "~*", "&*", "+@all"]);
    let_in();
    let url = proxy.url().replace("redis://", "redis://app:pass@");
    for (n, refusal) in
        [["ACL", "SETUSER", "app", "-evalsha"], ["ACL", "SETUSER", "app", "off"]].iter().enumerate()
    {
        let store = RedisStore::open(&url).await.unwrap();
        completed(&store, &id(&format!("before {n}")), DAY).await;
        let before = server.contents("idem:").len();
        let connections = proxy.hold_connections().await;
        proxy.lose_next_answer();
        let (held, ours) = (id(&format!("held {n}")), claim("payload"));
        let claiming = tokio::spawn({
            let (store, held, ours) = (store.clone(), held.clone(), ours.clone());
            async move { store.claim(&held, &ours).await }
        });
        while server.contents("idem:").len() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.command(refusal);
        drop(connections);
        // The engine clears in the background what is of unknown fate, and nothing else.
        let error = claiming.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{}", told(&error));
        assert!(told(&error).contains("may have been taken"), "{}", told(&error));
        // What was never sent is refused as ever.
        let error = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
        let_in();
        assert_eq!(store.release(&held, ours.owner, Release::Undo(LEASE)).await.unwrap(), Fenced::Held);
        assert_eq!(granted(&store, &held, &claim("payload")).await, 1);
    }
}

#[tokio::test]
async fn a_pause_of_the_server_is_waited_for() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    completed(&store, &id("before"), DAY).await;
    // Longer than a reply may take, so that the claim is sent twice.
    server.command(&["CLIENT", "PAUSE", "2500", "ALL"]);
    let begun = Instant::now();
    assert_eq!(granted(&store, &id("held"), &claim("payload")).await, 1);
    assert!(begun.elapsed() > 2 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_server_that_hangs_is_an_error_in_time_and_works_again_when_it_goes_on() {
    let mut server = RedisServer::start(&[]);
    let limit = SECOND / 2;
    let store = at(&server)
        .timeout(limit)
        .response_timeout(SECOND / 5)
        .connect_timeout(SECOND / 5)
        .open()
        .await
        .unwrap();
    let ours = claim("payload");
    granted(&store, &id("held"), &ours).await;
    server.pause();
    let begun = Instant::now();
    let error = store.complete(&id("held"), ours.owner, &answer("done"), DAY).await.unwrap_err();
    assert!(error.is_retryable(), "{}", told(&error));
    assert!(begun.elapsed() < 2 * limit, "{:?}", begun.elapsed());
    server.resume();
    let begun = Instant::now();
    assert_eq!(store.complete(&id("held"), ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_half_open_connection_is_given_up_although_nobody_waits_for_long() {
    let mut server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    completed(&store, &id("done"), DAY).await;
    let connections = || server.info("stats")["total_connections_received"].parse::<u64>().unwrap();
    let before = connections();
    server.pause();
    for _ in 0..2 {
        let claim = claim("payload");
        let held = id("held");
        let asked = tokio::time::timeout(SECOND * 3 / 5, store.claim(&held, &claim)).await;
        assert!(asked.is_err(), "{asked:?}");
    }
    server.resume();
    let replay = store.claim(&id("done"), &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
    // Those of the questions, and another one of the store at least.
    assert!(server.info("stats")["total_connections_received"].parse::<u64>().unwrap() >= before + 2);
}

#[tokio::test]
async fn a_server_that_is_away_is_told_at_once_and_used_again_as_soon_as_it_is_back() {
    let mut server = RedisServer::start(&["appendonly yes", "appendfsync always"]);
    let store = at(&server).open().await.unwrap();
    completed(&store, &id("done"), DAY).await;
    let ours = claim("payload");
    granted(&store, &id("held"), &ours).await;
    server.kill();
    for _ in 0..3 {
        let begun = Instant::now();
        let error = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{}", told(&error));
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    }
    server.restart();
    let begun = Instant::now();
    // With every write on disk before it is acknowledged, nothing is lost.
    let replay = store.claim(&id("done"), &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    let conflict = store.claim(&id("held"), &claim("payload")).await.unwrap();
    assert!(matches!(conflict, Claimed::InFlight { .. }), "{conflict:?}");
    assert_eq!(store.renew(&id("held"), ours.owner, LEASE).await.unwrap(), Fenced::Held);
}

#[tokio::test]
async fn a_server_that_keeps_nothing_forgets_claims_when_it_restarts() {
    let mut server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let ours = claim("payload");
    granted(&store, &id("held"), &ours).await;
    server.kill();
    server.restart();
    // As the documentation says: the work is run a second time, and the first holder is told that it lost its lease.
    assert_eq!(granted(&store, &id("held"), &claim("payload")).await, 1);
    assert_eq!(store.complete(&id("held"), ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Lost);
}

#[tokio::test]
async fn a_holder_whose_claim_the_server_forgot_is_aborted_when_it_renews_and_answers_what_the_record_says() {
    let mut server = RedisServer::start(&[]);
    let engine = async || {
        let store = at(&server).open().await.unwrap();
        Idempotency::builder(store).lease(SECOND).build().unwrap()
    };
    let (first, second) = (engine().await, engine().await);
    let (started, has_started) = tokio::sync::oneshot::channel();
    let (dropped, is_dropped) = tokio::sync::oneshot::channel::<()>();
    let held = tokio::spawn(async move {
        let call = first.call("charge").key("k").fingerprint(&7);
        call.run(|_| async move {
            let _dropped = dropped;
            let _ = started.send(());
            std::future::pending::<Result<u32, String>>().await
        })
        .await
    });
    has_started.await.unwrap();
    server.kill();
    server.restart();
    let call = second.call("charge").key("k").fingerprint(&7);
    let outcome = call.run(|run| async move { Ok::<u32, String>(run.attempt()) }).await.unwrap();
    assert!(!outcome.is_replayed());
    assert!(is_dropped.await.is_err(), "the first is not let go on");
    let outcome = held.await.unwrap().unwrap();
    assert!(outcome.is_replayed());
    assert_eq!(outcome.into_inner(), Ok(1));
}

#[tokio::test]
async fn steps_wait_for_as_many_replicas_as_they_are_told_to() {
    let primary = RedisServer::start(&[]);
    let store = at(&primary).response_timeout(SECOND / 2).wait_replicas(1).open().await.unwrap();
    let error = store.claim(&id("held"), &claim("payload")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{}", told(&error));
    assert!(told(&error).contains("0 of the 1 replicas"), "{}", told(&error));

    let follow = format!("replicaof 127.0.0.1 {}", primary.port());
    let mut replica = RedisServer::start(&[&follow]);
    while primary.info("replication").get("connected_slaves").is_none_or(|count| count != "1")
        || replica.info("replication").get("master_link_status").is_none_or(|status| status != "up")
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (kept, ours) = (id("kept"), claim("payload"));
    assert_eq!(granted(&store, &kept, &ours).await, 1);
    assert!(!matches!(replica.command(&["GET", &common::key(&kept)]), Reply::Nil));
    assert_eq!(store.complete(&kept, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);

    // With its replica away nothing is granted or stored for sure; what is there is still told.
    replica.pause();
    let begun = Instant::now();
    let replay = store.claim(&kept, &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
    assert!(begun.elapsed() < SECOND / 5, "{:?}", begun.elapsed());
    let ours = claim("payload");
    let new = id("new");
    let error = store.claim(&new, &ours).await.unwrap_err();
    assert!(told(&error).contains("0 of the 1 replicas"), "{}", told(&error));
    // What is not acknowledged is there all the same: an answer is replayed.
    let (half, holder) = (id("half"), claim("payload"));
    store.claim(&half, &holder).await.unwrap_err();
    let error = store.complete(&half, holder.owner, &answer("done"), DAY).await.unwrap_err();
    assert!(told(&error).contains("0 of the 1 replicas"), "{}", told(&error));
    let replay = store.claim(&half, &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
    replica.resume();
    // Its fate was not known, and the same owner may ask again.
    assert_eq!(granted(&store, &new, &ours).await, 1);
    assert_eq!(store.complete(&new, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
}
