//! What a sweeper tells: how much it deleted, how long it took, and that it failed.
#![cfg(all(feature = "metrics", feature = "sqlite"))]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{completed, id};
use idem_core::store::Retention;
use idem_sqlx::SqliteStore;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

/// Counts by name; of a histogram how often something was recorded.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

struct Count(Counts, String);

impl Count {
    fn add(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.add(value);
    }

    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Count {
    fn record(&self, seconds: f64) {
        assert!((0.0..60.0).contains(&seconds), "{seconds}");
        self.add(1);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Count(self.clone(), key.name().to_owned())))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Count(self.clone(), key.name().to_owned())))
    }
}

impl Counts {
    fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    async fn until(&self, name: &str, at_least: u64) {
        while self.get(name) < at_least {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[test]
fn sweeps_are_counted() {
    let counts = Counts::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let store = SqliteStore::in_memory().await.unwrap();
        for n in 0..7 {
            let gone = Retention { ttl: Duration::ZERO, tombstone_ttl: None };
            completed(&store, &id(&n.to_string()), gone).await;
        }
        let sweeper = store.spawn_sweeper(Duration::from_millis(1));
        counts.until("idem_swept_records_total", 7).await;
        assert_eq!(counts.get("idem_sweep_failures_total"), 0);
        store.close().await;
        counts.until("idem_sweep_failures_total", 1).await;
        sweeper.stop().await;
        assert_eq!(counts.get("idem_swept_records_total"), 7);
        assert!(counts.get("idem_sweep_seconds") >= 2);
    };
    with_local_recorder(&counts, || runtime.block_on(test));
}
