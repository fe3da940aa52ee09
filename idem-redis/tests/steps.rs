//! The contract on Redis, where the shared suite does not look: what is sent, written and kept, and for how long.

mod common;

use std::time::{Duration, Instant};

use common::{DAY, HOUR, LEASE, answer, at, claim, completed, granted, id, key, released, told};
use idem_core::answer::{Answer, AnswerKind, Codec};
use idem_core::owner::Owner;
use idem_core::record::State;
use idem_core::store::{
    Claim, Claimed, Fenced, OnCrash, Release, Retention, Settle, Settled, Store as _, StoreErrorKind,
};
use idem_redis::RedisStore;
use idem_testkit::RedisServer;

const SECOND: Duration = Duration::from_secs(1);

fn of_len(len: usize) -> Answer {
    Answer::build(AnswerKind::Full, Codec::Http, len, |payload| payload.extend(vec![b'x'; len - 4]))
}

/// Takes a step, and counts the scripts that are run and the changes of the server's data.
async fn counted(server: &RedisServer, what: &str, expected: (u64, u64), step: impl Future<Output = ()>) {
    let changes = || server.info("persistence")["rdb_changes_since_last_save"].parse::<u64>().unwrap();
    let before = changes();
    server.forget_commandstats();
    step.await;
    let stats = server.commandstats();
    let scripts = ["evalsha", "eval"].iter().filter_map(|name| stats.get(*name)).sum::<u64>();
    assert_eq!((scripts, changes() - before), expected, "{what}: {stats:?}");
    // What scripts call is counted, too, and each script reads its record once: so nothing else was sent.
    assert_eq!(stats.get("get"), Some(&scripts), "{what}: {stats:?}");
}

#[tokio::test]
async fn a_fresh_call_is_two_commands_and_what_is_refused_is_one_that_writes_nothing() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    // So that the server has the scripts.
    completed(&store, &id("before"), DAY).await;
    released(&store, &id("failed"), Release::KeepBinding(HOUR)).await;
    granted(&store, &id("failed"), &claim("payload")).await;
    let (done, held, failed) = (id("done"), id("held"), id("another failed"));
    counted(&server, "a fresh call", (2, 2), completed(&store, &done, DAY)).await;
    let replay = async {
        let found = store.claim(&done, &claim("payload")).await.unwrap();
        assert!(matches!(found, Claimed::Completed { .. }), "{found:?}");
    };
    counted(&server, "a replay", (1, 0), replay).await;
    let mismatch = async {
        let found = store.claim(&done, &claim("another payload")).await.unwrap();
        assert!(matches!(found, Claimed::Mismatch), "{found:?}");
    };
    counted(&server, "a mismatch", (1, 0), mismatch).await;
    granted(&store, &held, &claim("payload")).await;
    let conflict = async {
        let found = store.claim(&held, &claim("payload")).await.unwrap();
        assert!(matches!(found, Claimed::InFlight { .. }), "{found:?}");
    };
    counted(&server, "a conflict", (1, 0), conflict).await;
    released(&store, &failed, Release::KeepBinding(HOUR)).await;
    let retry = async {
        assert_eq!(granted(&store, &failed, &claim("payload")).await, 2);
    };
    counted(&server, "a retry", (2, 1), retry).await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let forget = || server.command(&["SCRIPT", "FLUSH"]);
    let (one, ours) = (id("one"), claim("payload"));
    granted(&store, &one, &ours).await;
    forget();
    assert_eq!(store.renew(&one, ours.owner, LEASE).await.unwrap(), Fenced::Held);
    forget();
    assert!(store.look_up(&one).await.unwrap().is_some());
    forget();
    assert_eq!(store.complete(&one, ours.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    forget();
    let found = store.claim(&one, &claim("payload")).await.unwrap();
    assert!(matches!(found, Claimed::Completed { .. }), "{found:?}");
    forget();
    released(&store, &id("two"), Release::KeepBinding(HOUR)).await;
    forget();
    assert_eq!(granted(&store, &id("two"), &claim("payload")).await, 2);
    forget();
    assert_eq!(store.settle(&one, &Settle::Forget).await.unwrap(), Settled::Done);
}

/// The time that a key has left; `None` if it stays.
fn left(server: &RedisServer, key: &str) -> Option<Duration> {
    match server.command(&["PTTL", key]).integer() {
        -1 => None,
        left => Some(Duration::from_millis(u64::try_from(left).unwrap_or_else(|_| panic!("no key {key}")))),
    }
}

#[tokio::test]
async fn the_server_keeps_each_state_as_long_as_it_is_needed() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let about = |what: &str, expected: Duration| {
        let left = left(&server, &key(&id(what))).expect(what);
        assert!(left <= expected + SECOND && left + 10 * SECOND > expected, "{what}: {left:?}");
    };
    let ours = claim("payload");
    granted(&store, &id("in flight"), &ours).await;
    about("in flight", LEASE + HOUR);
    assert_eq!(store.renew(&id("in flight"), ours.owner, 2 * LEASE).await.unwrap(), Fenced::Held);
    about("in flight", 2 * LEASE + HOUR);
    granted(&store, &id("reject"), &Claim { on_crash: OnCrash::Reject, ..claim("payload") }).await;
    assert_eq!(left(&server, &key(&id("reject"))), None);
    released(&store, &id("unknown"), Release::Unknown).await;
    assert_eq!(left(&server, &key(&id("unknown"))), None);
    released(&store, &id("failed"), Release::KeepBinding(2 * HOUR)).await;
    about("failed", 2 * HOUR);
    completed(&store, &id("completed"), DAY).await;
    about("completed", DAY.ttl);
    completed(&store, &id("refused"), Retention { ttl: HOUR, tombstone_ttl: Some(2 * HOUR) }).await;
    about("refused", 3 * HOUR);
    assert_eq!(
        store
            .settle(&id("unknown"), &Settle::Complete { answer: answer("done"), retention: DAY })
            .await
            .unwrap(),
        Settled::Done
    );
    about("unknown", DAY.ttl);
    released(&store, &id("undone"), Release::Undo(HOUR)).await;
    assert_eq!(server.command(&["EXISTS", &key(&id("undone"))]).integer(), 0);
}

#[tokio::test]
async fn an_answer_apart_from_its_record_is_its_winners_and_goes_with_it() {
    let server = RedisServer::start(&[]);
    let store = at(&server).answers_within(100).open().await.unwrap();
    let held = id("held");
    let late = Claim { lease: Duration::from_millis(20), ..claim("payload") };
    granted(&store, &held, &late).await;
    // A span of the server's time has to pass.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let winner = claim("payload");
    assert_eq!(granted(&store, &held, &winner).await, 2);
    let (mine, stale) = (of_len(20_000), of_len(30_000));
    assert_eq!(store.complete(&held, winner.owner, &mine, DAY).await.unwrap(), Fenced::Held);
    assert_eq!(store.complete(&held, late.owner, &stale, DAY).await.unwrap(), Fenced::Lost);
    assert_eq!(store.complete(&held, winner.owner, &stale, DAY).await.unwrap(), Fenced::Held);
    let Claimed::Completed { answer: found, .. } = store.claim(&held, &claim("payload")).await.unwrap()
    else {
        panic!("expected a replay")
    };
    assert!(found == mine);
    // The record and one answer: those that lost are gone.
    let contents = server.contents("idem:");
    assert_eq!(contents.len(), 2);
    let apart = String::from_utf8(contents[1].0.clone()).unwrap();
    assert!(apart.starts_with(&format!("{}:", key(&held))), "{apart}");
    let lasts = left(&server, &apart).unwrap();
    assert!(lasts > DAY.ttl && lasts < DAY.ttl + 2 * Duration::from_mins(1), "{lasts:?}");
    assert_eq!(store.settle(&held, &Settle::Forget).await.unwrap(), Settled::Done);
    assert!(server.contents("idem:").is_empty());

    // Its answer lost, a record is unreadable, and nothing runs again.
    completed(&at(&server).answers_within(0).open().await.unwrap(), &held, DAY).await;
    server.command(&["DEL", std::str::from_utf8(&server.contents("idem:")[1].0).unwrap()]);
    let error = store.claim(&held, &claim("payload")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}

#[tokio::test]
async fn a_record_that_this_release_cannot_read_is_an_error_and_stays() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let (id, ours) = (id("held"), claim("payload"));
    let unreadable = async |what: &str, kind: StoreErrorKind| {
        let before = server.contents("idem:");
        let errors = [
            store.claim(&id, &claim("payload")).await.unwrap_err(),
            store.claim(&id, &ours).await.unwrap_err(),
            store.look_up(&id).await.unwrap_err(),
            store.complete(&id, ours.owner, &answer("done"), DAY).await.unwrap_err(),
            store.renew(&id, ours.owner, LEASE).await.unwrap_err(),
            store.release(&id, ours.owner, Release::Undo(HOUR)).await.unwrap_err(),
            store.settle(&id, &Settle::Forget).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), kind, "{what}: {}", told(&error));
        }
        assert_eq!(server.contents("idem:"), before, "{what}");
    };
    granted(&store, &id, &ours).await;
    let key = key(&id);
    server.command(&["SETRANGE", &key, "0", "\u{2}"]);
    unreadable("another version", StoreErrorKind::Corrupt).await;
    server.command(&["SET", &key, "\u{1}"]);
    unreadable("a torso", StoreErrorKind::Corrupt).await;
    server.command(&["SET", &key, ""]);
    unreadable("nothing", StoreErrorKind::Corrupt).await;
    server.command(&["DEL", &key]);
    server.command(&["HSET", &key, "somebody", "else"]);
    unreadable("something else", StoreErrorKind::Corrupt).await;
}

/// What release 0.1 writes; later ones have to read it.
#[tokio::test]
async fn records_of_layout_1_are_read() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let id = id("fixture");
    let fixture = |phase: u8, owner: &[u8; 16]| {
        let mut bytes = vec![1, phase, b'r', b'0', 0, 0, 0, 7];
        bytes.extend(owner);
        bytes.extend(claim("payload").fingerprints.current().to_bytes());
        // Created in 2027, its lease ended then, it expires in 2100 and is gone in 2200.
        for time in [1_800_000_000_000_u64, 1_800_000_030_000, 4_102_444_800_000, 7_258_118_400_000] {
            bytes.extend(time.to_be_bytes());
        }
        bytes.extend(b"\x05tests\x03fix");
        bytes
    };
    let mut completed = fixture(b'C', &[7; 16]);
    completed.push(b'=');
    completed.extend_from_slice(answer("done").as_bytes());
    server.command(&[&b"SET"[..], key(&id).as_bytes(), &completed]);
    let record = store.look_up(&id).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.operation.as_str()), (State::Completed, 7, "tests"));
    assert_eq!(record.hint.as_str(), "fix");
    assert_eq!(record.answer, Some(answer("done")));
    assert!(record.expires_in.unwrap() > 70 * 365 * 24 * HOUR);
    let mut failed = fixture(b'X', &[7; 16]);
    failed.push(b'-');
    server.command(&[&b"SET"[..], key(&id).as_bytes(), &failed]);
    assert_eq!(granted(&store, &id, &claim("payload")).await, 8);

    // And it writes the same: the fixture above but for owner, times and attempt.
    let ours = Claim { owner: Owner::from_bytes([9; 16]), ..claim("payload") };
    assert_eq!(store.settle(&id, &Settle::Forget).await.unwrap(), Settled::Done);
    granted(&store, &id, &ours).await;
    let written = server.contents("idem:")[0].1.clone();
    let expected = fixture(b'F', &[9; 16]);
    assert_eq!(written.len(), expected.len() + 1);
    assert_eq!(written[..7], expected[..7]);
    assert_eq!(written[8..61], expected[8..61]);
    assert_eq!(written[93..], [&b"\x05tests\x03fix"[..], b"-"].concat());
}

#[tokio::test]
async fn a_record_costs_little_more_memory_than_its_answer() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    completed(&store, &id("before"), DAY).await;
    for len in [1_000, 2_000, 8_000] {
        let (id, ours) = (id("a-key-of-usual-length-0123456789"), claim("payload"));
        granted(&store, &id, &ours).await;
        assert_eq!(store.complete(&id, ours.owner, &of_len(len), DAY).await.unwrap(), Fenced::Held);
        let used = server.command(&["MEMORY", "USAGE", &key(&id)]).integer();
        println!("a record with an answer of {len} bytes takes {used} bytes");
        assert!(used as f64 <= 1.3 * len as f64 + 200.0, "{used} bytes for {len}");
        assert_eq!(store.settle(&id, &Settle::Forget).await.unwrap(), Settled::Done);
    }
}

#[tokio::test]
async fn a_server_without_memory_refuses_new_keys_and_serves_those_it_has() {
    let server = RedisServer::start(&[]);
    let store = at(&server).open().await.unwrap();
    let (held, renewed, failed) = (claim("payload"), claim("payload"), claim("payload"));
    let (large, long) = (claim("payload"), of_len(20_000));
    granted(&store, &id("held"), &held).await;
    granted(&store, &id("large"), &large).await;
    granted(&store, &id("renewed"), &renewed).await;
    granted(&store, &id("fails"), &failed).await;
    completed(&store, &id("done"), DAY).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.claim(&id("new"), &claim("payload")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full, "{}", told(&error));
    let replay = store.claim(&id("done"), &claim("payload")).await.unwrap();
    assert!(matches!(replay, Claimed::Completed { .. }), "{replay:?}");
    assert_eq!(store.renew(&id("renewed"), renewed.owner, LEASE).await.unwrap(), Fenced::Held);
    assert_eq!(store.complete(&id("held"), held.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    // Also where it would have a key of its own, which is refused.
    assert_eq!(store.complete(&id("large"), large.owner, &long, DAY).await.unwrap(), Fenced::Held);
    let record = store.look_up(&id("large")).await.unwrap().unwrap();
    assert!(record.answer.is_some_and(|answer| answer == long));
    let how = Release::KeepBinding(HOUR);
    assert_eq!(store.release(&id("fails"), failed.owner, how).await.unwrap(), Fenced::Held);
    assert_eq!(granted(&store, &id("fails"), &claim("payload")).await, 2);
    assert!(store.look_up(&id("held")).await.unwrap().is_some());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(granted(&store, &id("new"), &claim("payload")).await, 1);
}

#[tokio::test]
async fn waiters_are_told_what_another_store_did() {
    let server = RedisServer::start(&[]);
    let ours = at(&server).open().await.unwrap();
    let theirs = at(&server).open().await.unwrap();
    let (id, held) = (id("held"), claim("payload"));
    granted(&ours, &id, &held).await;
    let waiting = tokio::spawn({
        let id = id.clone();
        async move { theirs.changed(&id, HOUR).await }
    });
    // The record says that it is awaited.
    while server.contents("idem:")[0].1[3] != b'1' {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.forget_commandstats();
    // Longer than those pause who have to look.
    tokio::time::sleep(SECOND * 3 / 2).await;
    let looks = server.commandstats().get("evalsha").copied().unwrap_or_default();
    assert!(looks <= 3, "{looks} looks in a second and a half");
    let done = Instant::now();
    assert_eq!(ours.complete(&id, held.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
    waiting.await.unwrap();
    println!("told after {:?}", done.elapsed());
    assert!(done.elapsed() < SECOND / 2, "{:?}", done.elapsed());
    assert_eq!(server.commandstats().get("publish"), Some(&1));

    // Nobody waits for this one, so nothing is published.
    completed(&ours, &common::id("alone"), DAY).await;
    assert_eq!(server.commandstats().get("publish"), Some(&1));
}

#[tokio::test]
async fn waiters_who_cannot_be_told_look_for_themselves() {
    let server = RedisServer::start(&[]);
    server.command(&["ACL", "SETUSER", "deaf", "on", ">pass", "~*", "+@all", "resetchannels"]);
    let url = server.url().replace("redis://", "redis://deaf:pass@");
    for theirs in [at(&server).listen(false), RedisStore::builder().url(&url)] {
        let (ours, theirs) = (at(&server).open().await.unwrap(), theirs.open().await.unwrap());
        let (id, held) = (id("held"), claim("payload"));
        granted(&ours, &id, &held).await;
        let waiting = tokio::spawn({
            let id = id.clone();
            async move { theirs.changed(&id, HOUR).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(ours.complete(&id, held.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
        tokio::time::timeout(10 * SECOND, waiting).await.expect("an end of waiting").unwrap();
        assert_eq!(ours.settle(&id, &Settle::Forget).await.unwrap(), Settled::Done);
    }
}
