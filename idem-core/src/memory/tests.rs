use std::sync::Arc;
use std::time::Duration;

use super::MemoryStore;
use crate::answer::{Answer, AnswerKind, Codec};
use crate::clock::ManualClock;
use crate::fingerprint::Fingerprints;
use crate::key::{Key, Scope};
use crate::owner::Owner;
use crate::record::{RecordId, State};
use crate::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Store, StoreErrorKind};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn id(key: &str) -> RecordId {
    RecordId::new(&Scope::SHARED, &"memory.test".into(), &Key::new(key).unwrap())
}

fn claim() -> Claim {
    Claim {
        owner: Owner::random(),
        fingerprints: Fingerprints::none(),
        lease: HOUR,
        binding: DAY,
        on_crash: OnCrash::Retry,
        rebind: false,
    }
}

fn answer(len: usize) -> Answer {
    Answer::build(AnswerKind::Full, Codec::JsonOk, len, |payload| payload.resize(payload.len() + len, b'x'))
}

fn keep(ttl: Duration) -> Retention {
    Retention { ttl, tombstone_ttl: None }
}

async fn complete(store: &MemoryStore, key: &str, answer_len: usize, retention: Retention) {
    let claim = claim();
    assert!(matches!(store.claim(&id(key), &claim).await.unwrap(), Claimed::Granted { .. }), "{key}");
    let held = store.complete(&id(key), claim.owner, &answer(answer_len), retention).await.unwrap();
    assert_eq!(held, Fenced::Held);
}

async fn is_full(store: &MemoryStore, key: &str) -> bool {
    store.claim(&id(key), &claim()).await.is_err_and(|error| error.kind() == StoreErrorKind::Full)
}

#[tokio::test]
async fn a_full_store_refuses_new_keys_while_live_ones_answer() {
    let store = MemoryStore::builder().max_records(3).build();
    for key in ["one", "two", "three"] {
        complete(&store, key, 1, keep(HOUR)).await;
    }
    assert!(is_full(&store, "four").await);
    for key in ["one", "two", "three"] {
        assert!(matches!(store.claim(&id(key), &claim()).await.unwrap(), Claimed::Completed { .. }));
    }
    assert_eq!(store.len(), 3);
}

#[tokio::test]
async fn expired_records_make_room_wherever_they_are() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().max_records(500).clock(clock.clone()).build();
    for n in 0..499 {
        complete(&store, &format!("live-{n}"), 1, keep(DAY)).await;
    }
    complete(&store, "short", 1, keep(HOUR)).await;
    assert!(is_full(&store, "new").await);
    clock.advance(HOUR);
    complete(&store, "new", 1, keep(DAY)).await;
    assert!(is_full(&store, "newer").await);
    assert_eq!(store.len(), 500);
}

#[tokio::test]
async fn a_released_record_makes_room() {
    let store = MemoryStore::builder().max_records(1).build();
    let first = claim();
    let _ = store.claim(&id("one"), &first).await.unwrap();
    assert!(is_full(&store, "two").await);
    assert_eq!(store.release(&id("one"), first.owner, Release::Undo(HOUR)).await.unwrap(), Fenced::Held);
    assert!(store.is_empty());
    complete(&store, "two", 1, keep(HOUR)).await;
}

#[tokio::test]
async fn too_many_bytes_refuse_new_keys_and_complete_what_was_begun() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().max_bytes(10_000).clock(clock.clone()).build();
    let begun = claim();
    let _ = store.claim(&id("begun"), &begun).await.unwrap();
    complete(&store, "large", 10_000, keep(HOUR)).await;
    assert!(is_full(&store, "new").await);
    let held = store.complete(&id("begun"), begun.owner, &answer(10_000), keep(DAY)).await.unwrap();
    assert_eq!(held, Fenced::Held);
    clock.advance(HOUR);
    assert!(is_full(&store, "new").await, "the answer that is still live fills it alone");
    clock.advance(DAY);
    complete(&store, "new", 1, keep(HOUR)).await;
}

#[tokio::test]
async fn a_tombstone_gives_the_memory_of_its_answer_back() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().max_bytes(10_000).clock(clock.clone()).build();
    complete(&store, "large", 10_000, Retention { ttl: HOUR, tombstone_ttl: Some(DAY) }).await;
    assert!(is_full(&store, "new").await);
    clock.advance(HOUR);
    complete(&store, "new", 1, keep(HOUR)).await;
    assert!(matches!(store.claim(&id("large"), &claim()).await.unwrap(), Claimed::Expired));
    assert_eq!(store.look_up(&id("large")).await.unwrap().unwrap().state, State::Expired);
    clock.advance(DAY);
    assert!(store.look_up(&id("large")).await.unwrap().is_none());
}

#[tokio::test]
async fn expired_records_are_taken_out_while_new_ones_come() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().shards(8).clock(clock.clone()).build();
    for round in 0..20 {
        for n in 0..500 {
            complete(&store, &format!("{round}-{n}"), 1, keep(HOUR)).await;
        }
        clock.advance(HOUR);
    }
    // Without anybody sweeping: what is live, what has come since the last look, and a few.
    assert!(store.len() < 1_500, "{} records are held", store.len());
}

#[tokio::test]
async fn a_sweep_takes_no_more_than_its_limit_and_all_in_the_end() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().shards(4).clock(clock.clone()).build();
    for n in 0..1_000 {
        complete(&store, &format!("expired-{n}"), 1, keep(HOUR)).await;
    }
    for n in 0..50 {
        complete(&store, &format!("live-{n}"), 1, keep(DAY)).await;
    }
    assert_eq!(store.sweep(1_000).await.unwrap(), 0);
    clock.advance(HOUR);
    assert_eq!(store.sweep(300).await.unwrap(), 300);
    assert_eq!(store.len(), 750);
    assert_eq!(store.sweep(u32::MAX).await.unwrap(), 700);
    assert_eq!(store.len(), 50);
}

#[tokio::test]
async fn a_waiter_is_woken_by_the_completion_and_not_by_other_keys() {
    let store = MemoryStore::builder().shards(1).build();
    let (ours, theirs) = (claim(), claim());
    let _ = store.claim(&id("ours"), &ours).await.unwrap();
    let _ = store.claim(&id("theirs"), &theirs).await.unwrap();
    let waiter = {
        let store = store.clone();
        tokio::spawn(async move { store.changed(&id("ours"), HOUR).await })
    };
    tokio::task::yield_now().await;
    let _ = store.complete(&id("theirs"), theirs.owner, &answer(1), keep(HOUR)).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    let _ = store.complete(&id("ours"), ours.owner, &answer(1), keep(HOUR)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), waiter).await.expect("it is woken").unwrap();
}

#[tokio::test]
async fn a_change_before_the_wait_is_not_lost() {
    let store = MemoryStore::new();
    let ours = claim();
    let _ = store.claim(&id("key"), &ours).await.unwrap();
    let _ = store.release(&id("key"), ours.owner, Release::KeepBinding(HOUR)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), store.changed(&id("key"), HOUR)).await.expect("it returns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_in_a_thousand_races_of_waiting_and_completing() {
    let store = Arc::new(MemoryStore::new());
    for n in 0..1_000 {
        let id = id(&format!("race-{n}"));
        let ours = claim();
        let _ = store.claim(&id, &ours).await.unwrap();
        let waiter = {
            let (store, id) = (Arc::clone(&store), id.clone());
            tokio::spawn(async move { store.changed(&id, HOUR).await })
        };
        let _ = store.complete(&id, ours.owner, &answer(1), keep(HOUR)).await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), waiter).await.expect("it is woken").unwrap();
    }
}

#[test]
fn debug_shows_how_full_it_is_and_nothing_of_its_records() {
    assert_eq!(format!("{:?}", MemoryStore::new()), "MemoryStore { records: 0, .. }");
}
