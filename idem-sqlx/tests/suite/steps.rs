//! The contract where the conformance suite does not look: what is written and asked, and by which clock.

use std::time::{Duration, Instant};

use idem_core::owner::Owner;
use idem_core::record::State;
use idem_core::store::{Claim, Claimed, Fenced, OnCrash, Release, Retention, Settle, Settled, Store as _};
use idem_testkit::Proxy;

use super::{Backend, Options, Served};
use crate::common::{DAY, HOUR, answer, claim, completed, granted, id, released};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn a_replay_a_conflict_and_a_mismatch_write_nothing<B: Backend>() {
    let home = B::quiet().await;
    for (n, store) in home.variants(Options::default()).await.into_iter().enumerate() {
        let (done, busy) = (id("done"), id("busy"));
        completed(&store, &done, DAY).await;
        granted(&store, &busy, &claim("payload")).await;
        let mut observer = home.direct().await;
        home.tidy(&mut observer).await;
        let before = home.written(&mut observer).await;
        for _ in 0..20 {
            assert!(matches!(
                store.claim(&done, &claim("payload")).await.unwrap(),
                Claimed::Completed { .. }
            ));
            assert!(matches!(store.claim(&done, &claim("another")).await.unwrap(), Claimed::Mismatch));
            assert!(matches!(store.claim(&busy, &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
            assert!(matches!(store.claim(&busy, &claim("another")).await.unwrap(), Claimed::Mismatch));
            let lost = store.complete(&busy, Owner::random(), &answer("late"), DAY).await.unwrap();
            assert_eq!(lost, Fenced::Lost);
        }
        assert_eq!(home.written(&mut observer).await, before, "variant {n}");
        granted(&store, &id("fresh"), &claim("payload")).await;
        assert!(
            home.written(&mut observer).await != before || !B::is_seen(n),
            "the observer sees what is written, variant {n}"
        );
    }
}

pub(crate) async fn each_step_is_one_statement_and_one_trip<B: Served>() {
    let home = B::new().await;
    let proxy = Proxy::before(&home.place()).await;
    for prepared in [true, false] {
        let table = if prepared { "keys_prepared" } else { "keys_simple" };
        let options = Options { connections: 1, prepared, ..Options::table(table) };
        let store = B::open_at(proxy.url(), options).await.unwrap();
        // Once, so that everything is prepared.
        for end in [Release::Undo(HOUR), Release::KeepBinding(HOUR)] {
            released(&store, &id("before"), end).await;
        }
        let early = claim("payload");
        assert_eq!(granted(&store, &id("before"), &early).await, 2);
        assert_eq!(store.renew(&id("before"), early.owner, HOUR).await.unwrap(), Fenced::Held);
        let fenced = store.complete(&id("before"), early.owner, &answer("done"), DAY).await.unwrap();
        assert_eq!(fenced, Fenced::Held);
        let mut seen = (proxy.trips(), proxy.statements());
        let mut expect = |what: &str, trips: u64| {
            let now = (proxy.trips(), proxy.statements());
            assert_eq!((now.0 - seen.0, now.1 - seen.1), (trips, trips), "{what}, prepared: {prepared}");
            seen = now;
        };
        let holder = claim("payload");
        granted(&store, &id("k"), &holder).await;
        expect("a claim", 1);
        assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::InFlight { .. }));
        expect("a conflict", 1);
        assert!(matches!(store.claim(&id("k"), &claim("another")).await.unwrap(), Claimed::Mismatch));
        expect("a mismatch", 1);
        assert_eq!(store.renew(&id("k"), holder.owner, HOUR).await.unwrap(), Fenced::Held);
        expect("a renewal", 1);
        assert_eq!(store.complete(&id("k"), holder.owner, &answer("done"), DAY).await.unwrap(), Fenced::Held);
        expect("a completion", 1);
        assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
        expect("a replay", 1);
        released(&store, &id("failed"), Release::KeepBinding(HOUR)).await;
        expect("a claim and a release", 2);
        granted(&store, &id("failed"), &claim("payload")).await;
        expect("a take-over", 2);
    }
    assert_eq!(proxy.connections(), 2);
}

pub(crate) async fn a_lease_starts_when_the_wait_was_over_not_when_it_began<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let held = Claim { lease: HOUR, ..claim("payload") };
    granted(&store, &id("held"), &held).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;
    let waiting = tokio::spawn({
        let (store, owner) = (store.clone(), held.owner);
        async move { store.renew(&id("held"), owner, 2 * SECOND).await }
    });
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1_500) {
        // The lock must really be waited for: that takes time, and nothing tells of it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
    }
    B::execute(&mut other, "COMMIT").await;
    assert_eq!(waiting.await.unwrap().unwrap(), Fenced::Held);
    let left = store.look_up(&id("held")).await.unwrap().unwrap().lease_left.unwrap();
    assert!(left > SECOND && left <= 2 * SECOND, "{left:?}");
}

pub(crate) async fn a_replay_does_not_wait_for_a_writer_elsewhere<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    completed(&store, &id("k"), DAY).await;
    let mut other = home.direct().await;
    B::execute(&mut other, B::LOCK).await;
    let started = Instant::now();
    for _ in 0..8 {
        assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    B::execute(&mut other, "ROLLBACK").await;
}

pub(crate) async fn huge_spans_are_cut_and_zero_spans_are_over<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let huge = Claim { lease: Duration::MAX, binding: Duration::MAX, ..claim("payload") };
    granted(&store, &id("huge"), &huge).await;
    for _ in 0..2 {
        assert_eq!(store.renew(&id("huge"), huge.owner, Duration::MAX).await.unwrap(), Fenced::Held);
    }
    let record = store.look_up(&id("huge")).await.unwrap().unwrap();
    assert_eq!(record.state, State::InFlight);
    assert!(record.lease_left.unwrap() > HOUR * 24 * 365 * 1000);
    let for_ever = Retention { ttl: Duration::MAX, tombstone_ttl: Some(Duration::MAX) };
    let fenced = store.complete(&id("huge"), huge.owner, &answer("done"), for_ever).await.unwrap();
    assert_eq!(fenced, Fenced::Held);
    assert_eq!(store.look_up(&id("huge")).await.unwrap().unwrap().state, State::Completed);

    let zero = Claim { lease: Duration::ZERO, ..claim("payload") };
    granted(&store, &id("zero"), &zero).await;
    assert_eq!(store.look_up(&id("zero")).await.unwrap().unwrap().state, State::Lapsed);
    assert_eq!(granted(&store, &id("zero"), &claim("payload")).await, 2);
    released(&store, &id("unbound"), Release::KeepBinding(Duration::ZERO)).await;
    assert_eq!(granted(&store, &id("unbound"), &claim("another")).await, 1);
}

pub(crate) async fn a_record_is_never_refused_between_its_expiry_and_its_end<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    for n in 0..100 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
    let mut observer = home.direct().await;
    let between = "SELECT count(*) FROM idem_records WHERE gone_at > expires_at";
    assert_eq!(B::number(&mut observer, between).await, 0);
    completed(&store, &id("refused"), Retention { tombstone_ttl: Some(HOUR), ..DAY }).await;
    assert_eq!(B::number(&mut observer, between).await, 1);
}

pub(crate) async fn a_settled_record_does_not_belong_to_its_former_holder<B: Backend>() {
    let home = B::new().await;
    let store = home.open().await;
    let holder = Claim { lease: Duration::ZERO, on_crash: OnCrash::Reject, ..claim("payload") };
    granted(&store, &id("k"), &holder).await;
    assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Unknown));
    let settle = Settle::Complete { answer: answer("settled"), retention: DAY };
    assert_eq!(store.settle(&id("k"), &settle).await.unwrap(), Settled::Done);
    assert_eq!(store.complete(&id("k"), holder.owner, &answer("late"), DAY).await.unwrap(), Fenced::Lost);
    match store.claim(&id("k"), &claim("payload")).await.unwrap() {
        Claimed::Completed { answer: found, .. } => assert_eq!(found, answer("settled")),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.settle(&id("k"), &settle).await.unwrap(), Settled::Refused);
    assert_eq!(store.settle(&id("k"), &Settle::Forget).await.unwrap(), Settled::Done);
    assert_eq!(store.settle(&id("k"), &Settle::Forget).await.unwrap(), Settled::Absent);
    assert_eq!(store.settle(&id("k"), &settle).await.unwrap(), Settled::Absent);
}

pub(crate) async fn debug_shows_no_key_owner_or_answer<B: Backend>() {
    let home = B::new().await;
    for store in home.variants(Options::default()).await {
        completed(&store, &id("secret-key-of-somebody"), DAY).await;
        let record = store.look_up(&id("secret-key-of-somebody")).await.unwrap();
        let shown = format!("{store:?} {record:?}");
        assert!(!shown.contains("secret-key-of-somebody") && !shown.contains("done"), "{shown}");
    }
}
