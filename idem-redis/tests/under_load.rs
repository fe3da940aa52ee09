//! What is done to a server in the middle of claims and completions, and what its callers hear of it.

use std::future::Future;
use std::time::{Duration, Instant};

use idem_core::store::{Claimed, Fenced, Release, Settle, Settled, Store as _, StoreErrorKind};
use idem_redis::{RedisBuilder, RedisStore};
use idem_testkit::stores::claims::{DAY, HOUR, answer, claim, completed, granted, id};
use idem_testkit::stores::writers::{Writers, Written, full_text};
use idem_testkit::{Proxy, RedisServer};

const SECOND: Duration = Duration::from_secs(1);

/// A store, some of whose answers are apart from their records.
fn at(server: &RedisServer) -> RedisBuilder {
    RedisStore::builder().url(server.url()).answers_within(14)
}

/// Lets something be done to a server beside writers.
async fn written_while(store: &RedisStore, done: impl Future<Output = ()>) -> Written {
    let writers = Writers::start(store, "key").await;
    done.await;
    writers.stop().await
}

/// Sees that nobody heard of it, and nothing was lost.
async fn nobody_noticed(store: &RedisStore, written: Written) {
    assert!(written.answered.len() > 100 && written.held.len() > 30, "{}", written.answered.len());
    assert_eq!(written.errors.iter().collect::<Vec<_>>(), [""; 0]);
    assert_eq!(written.answers_missing_in(store).await, [""; 0]);
    assert_eq!(written.claims_missing_in(store).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_forgotten_again_and_again_are_no_matter() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let written = written_while(&store, async {
        for _ in 0..100 {
            server.command(&["SCRIPT", "FLUSH"]);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let written = written.await;
    assert!(server.commandstats()["eval"] > 20, "they were sent whole");
    nobody_noticed(&store, written).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_killed_again_and_again_are_no_matter() {
    let server = RedisServer::start(&[]);
    for connections in [1, 3] {
        server.command(&["FLUSHALL"]);
        let store = at(&server).connections(connections).open().await.unwrap();
        let mut killed = 0;
        let written = written_while(&store, async {
            for _ in 0..50 {
                killed += server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).integer();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let written = written.await;
        assert!(killed > 25, "{killed}");
        nobody_noticed(&store, written).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_that_are_shorter_than_a_step_may_take_are_no_matter() {
    let mut server = RedisServer::start(&[]);
    // Each pause is longer than a reply may take: steps are repeated, and what was sent before is executed, too.
    let store = at(&server).response_timeout(SECOND / 5).connect_timeout(SECOND / 5).open().await.unwrap();
    let writers = Writers::start(&store, "key").await;
    for kind in ["WRITE", "ALL"] {
        server.command(&["CLIENT", "PAUSE", "700", kind]);
        tokio::time::sleep(SECOND).await;
    }
    for _ in 0..2 {
        server.pause();
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.resume();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    nobody_noticed(&store, writers.stop().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_server_is_an_error_in_time_to_all_and_works_within_a_second_when_it_goes_on() {
    let mut server = RedisServer::start(&[]);
    let limit = Duration::from_millis(700);
    let store = at(&server)
        .timeout(limit)
        .response_timeout(limit / 2)
        .connect_timeout(limit / 2)
        .open()
        .await
        .unwrap();
    completed(&store, &id("done"), DAY).await;
    let writers = Writers::start(&store, "key").await;
    for round in 0..3 {
        server.pause();
        let began = Instant::now();
        let steps: Vec<_> = (0..64)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move {
                    let key = id(&format!("hung-{round}-{n}"));
                    store.claim(&key, &claim("payload")).await.unwrap_err()
                })
            })
            .collect();
        for step in steps {
            let error = step.await.unwrap();
            assert!(error.is_retryable(), "{}", full_text(&error));
        }
        let took = began.elapsed();
        assert!(took < 3 * limit, "{took:?}");
        // However long it lasts.
        tokio::time::sleep(limit * round).await;
        server.resume();
        let back = Instant::now();
        let replay = store.claim(&id("done"), &claim("payload")).await.unwrap();
        assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
        granted(&store, &id(&format!("after-{round}")), &claim("payload")).await;
        assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
    }
    let written = writers.stop().await;
    assert!(!written.errors.is_empty());
    assert_eq!(written.answers_missing_in(&store).await, [""; 0]);
    assert_eq!(written.claims_missing_in(&store).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kills_of_a_server_that_writes_before_it_replies() {
    let mut server = RedisServer::start(&["appendonly yes", "appendfsync always"]);
    let store = at(&server).open().await.unwrap();
    for round in 0..3 {
        let writers = Writers::start(&store, &round.to_string()).await;
        server.kill();
        let began = Instant::now();
        let refused = store.claim(&id("refused"), &claim("payload")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
        assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
        server.restart();
        let back = Instant::now();
        granted(&store, &id(&format!("after-{round}")), &claim("payload")).await;
        assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
        let written = writers.stop().await;
        assert!(written.answered.len() > 100, "{}", written.answered.len());
        assert_eq!(written.answers_missing_in(&store).await, [""; 0]);
        assert_eq!(written.claims_missing_in(&store).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_nothing_loses_all_that_it_had_and_its_holders_are_told() {
    let mut server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let written = written_while(&store, async {
        server.kill();
        server.restart();
    });
    let written = written.await;
    let missing = written.answers_missing_in(&store).await.len();
    assert!(missing >= 100, "{missing} of {}", written.answered.len());
    // Who holds such a claim learns it when it completes or renews, and its answer replaces nobody's.
    let (key, owner) = &written.held[0];
    assert_eq!(granted(&store, &id(key), &claim("another payload")).await, 1);
    assert_eq!(store.renew(&id(key), *owner, HOUR).await.unwrap(), Fenced::Lost);
    assert_eq!(store.complete(&id(key), *owner, &answer("late"), DAY).await.unwrap(), Fenced::Lost);
    let missing = written.claims_missing_in(&store).await.len();
    assert!(missing >= 30, "{missing} of {}", written.held.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_too_many_clients_is_unavailable_until_one_leaves() {
    let server = RedisServer::start(&["maxclients 3"]);
    let store = at(&server).timeout(SECOND).open().await.unwrap();
    let mut others = vec![server.connect().unwrap(), server.connect().unwrap()];
    completed(&store, &id("before"), DAY).await;
    // It takes the store's place.
    others[0].command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    others[1] = server.connect().unwrap();
    others.push(server.connect().unwrap());
    for other in &mut others {
        other.command(&["PING"]);
    }
    let refused = store.claim(&id("k"), &claim("payload")).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{}", full_text(&refused));
    others.pop();
    let left = Instant::now();
    granted(&store, &id("k"), &claim("payload")).await;
    assert!(left.elapsed() < SECOND, "{:?}", left.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_whose_reply_was_lost_is_repeated_and_not_taken_for_a_rival() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::before(server.url()).await;
    let store = RedisStore::builder().url(proxy.url()).answers_within(20).open().await.unwrap();
    // Once, so that the server has the scripts: the reply that gets lost is then that of the step itself.
    completed(&store, &id("before"), DAY).await;
    for text in ["short", "a long answer, which is apart"] {
        let (key, holder, next) = (id(text), claim("payload"), claim("payload"));
        proxy.lose_answer(1);
        assert_eq!(granted(&store, &key, &holder).await, 1);
        proxy.lose_answer(1);
        assert_eq!(store.renew(&key, holder.owner, HOUR).await.unwrap(), Fenced::Held);
        assert_eq!(
            store.release(&key, holder.owner, Release::KeepBinding(HOUR)).await.unwrap(),
            Fenced::Held
        );
        // The second reply is that to the take-over.
        proxy.lose_answer(2);
        assert_eq!(granted(&store, &key, &next).await, 2);
        // That to the script, if the answer is apart.
        proxy.lose_answer(if text.len() > 20 { 2 } else { 1 });
        assert_eq!(store.complete(&key, next.owner, &answer(text), DAY).await.unwrap(), Fenced::Held);
        for reply in [1, 2] {
            proxy.lose_answer(reply);
            match store.claim(&key, &claim("payload")).await.unwrap() {
                Claimed::Completed { answer: found, .. } => assert_eq!(found, answer(text)),
                other => panic!("{other:?}"),
            }
        }
        // Another answer of the same owner is told that all is well, and the first one stays.
        assert_eq!(
            store.complete(&key, next.owner, &answer("another one"), DAY).await.unwrap(),
            Fenced::Held
        );
        let record = store.look_up(&key).await.unwrap().unwrap();
        assert_eq!(record.answer, Some(answer(text)));

        let unknown = id(&format!("unknown {text}"));
        granted(&store, &unknown, &holder).await;
        assert_eq!(store.release(&unknown, holder.owner, Release::Unknown).await.unwrap(), Fenced::Held);
        proxy.lose_answer(if text.len() > 20 { 2 } else { 1 });
        let how = Settle::Complete { answer: answer(text), retention: DAY };
        assert_eq!(store.settle(&unknown, &how).await.unwrap(), Settled::Done);
        let record = store.look_up(&unknown).await.unwrap().unwrap();
        assert_eq!(record.answer, Some(answer(text)));
    }
    // Three records with their answers, and two with an answer apart: none is left that no record has.
    assert_eq!(server.contents("idem:").len(), 7);
    assert!(proxy.connections() >= 12, "{} connections", proxy.connections());
}
