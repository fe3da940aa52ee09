//! The counters: their names, their labels, and that no key is among them.
#![cfg(all(feature = "metrics", feature = "memory"))]

#[path = "engine/faulty.rs"]
#[allow(dead_code, reason = "shared with the tests of the engine, which use all of it")]
mod faulty;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use faulty::{Fault, Faulty, Step};
use idem_core::engine::Idempotency;
use idem_core::error::ErrorKind;
use idem_core::memory::MemoryStore;
use idem_core::store::StoreErrorKind;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

/// Keeps what is counted, by name and labels.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

struct Count(Counts, String);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, value: u64) {
        self.0.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Counter::from_arc(Arc::new(Count(self.clone(), format!("{} {}", key.name(), labels.join(" ")))))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// What is counted while `test` runs on a runtime whose time is paused.
fn counted<F: Future<Output = ()>>(test: impl FnOnce() -> F) -> BTreeMap<String, u64> {
    let counts = Counts::default();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    with_local_recorder(&counts, || runtime.block_on(async { test().await }));
    counts.0.lock().unwrap().clone()
}

#[test]
fn calls_are_counted_by_outcome_and_troubles_by_what_they_are_never_by_key() {
    let counted = counted(|| async {
        let store = Faulty::new(MemoryStore::new());
        let idem = Idempotency::new(store.clone());
        let pay = async |payload: &str| {
            let call = idem.call("pay").key("a-very-secret-key").fingerprint(payload);
            let _ = call.run(|_| async { Ok::<_, String>(1) }).await;
        };
        store.fail(Step::Complete, 1, Fault::Lost(StoreErrorKind::Unavailable));
        pay("a").await;
        assert_eq!(idem.drain(Duration::from_secs(5)).await, 0);
        pay("a").await;
        pay("a").await;
        pay("b").await;
    });
    let expected = [
        ("idem_calls_total operation=pay outcome=fresh", 1),
        ("idem_calls_total operation=pay outcome=idempotency_conflict", 1),
        ("idem_calls_total operation=pay outcome=replayed", 2),
        ("idem_troubles_total operation=pay trouble=answer_delayed", 1),
    ];
    assert_eq!(counted, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[test]
fn a_renewal_that_crosses_the_end_of_its_run_is_no_trouble() {
    let counted = counted(|| async {
        let store = Faulty::new(MemoryStore::new());
        let idem = Idempotency::new(store.clone());
        // Sent after 10 s, taken after 13 s; the answer is stored after 11 s, and the holder hears of it after 15 s.
        store.fail(Step::Renew, 1, Fault::Slow(Duration::from_secs(3)));
        store.fail(Step::Complete, 1, Fault::SlowReply(Duration::from_secs(4)));
        let call = idem.call("pay").key("key").fingerprint("a").lease(Duration::from_secs(30));
        let work = async {
            tokio::time::sleep(Duration::from_secs(11)).await;
            Ok::<_, String>(1)
        };
        assert!(call.run(|_| work).await.is_ok());
        assert_eq!(store.count(Step::Renew), 1);
    });
    let expected = [("idem_calls_total operation=pay outcome=fresh".to_owned(), 1)];
    assert_eq!(counted, expected.into());
}

#[test]
fn a_lease_that_may_be_over_is_a_trouble_and_a_run_that_was_too_long_is_none() {
    let counted = counted(|| async {
        let store = Faulty::new(MemoryStore::new());
        let idem = Idempotency::new(store.clone());
        let hang = async |operation: &'static str, max_run| {
            let call = idem.call(operation).key("key").fingerprint("a").max_run(max_run);
            call.run(|_| std::future::pending::<Result<(), String>>()).await.unwrap_err().kind()
        };
        assert_eq!(hang("long", Duration::from_secs(100)).await, ErrorKind::Aborted);
        store.fail(Step::Renew, usize::MAX, Fault::Hang);
        // The store's clock does not go with the paused one, so that its record is in flight still.
        assert_eq!(hang("cut-off", Duration::from_secs(100)).await, ErrorKind::InFlight);
    });
    assert_eq!(counted.get("idem_troubles_total operation=long trouble=lease_lost"), None);
    assert_eq!(
        counted.get("idem_troubles_total operation=cut-off trouble=lease_lost"),
        Some(&1),
        "{counted:?}"
    );
}
