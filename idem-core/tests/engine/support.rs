//! What the tests share: an engine whose time is Tokio's, paused, and a count of effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::call::Call;
use idem_core::clock::Clock;
use idem_core::config::Builder;
use idem_core::engine::Idempotency;
use idem_core::error::Error;
use idem_core::memory::MemoryStore;
use idem_core::outcome::Outcome;

use crate::faulty::Faulty;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Tokio's clock, so that pausing it pauses the store, too.
#[derive(Debug)]
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

pub(crate) type TestStore = Faulty<MemoryStore>;

pub(crate) fn store() -> TestStore {
    Faulty::new(MemoryStore::builder().clock(TokioClock(tokio::time::Instant::now())).build())
}

pub(crate) fn engine() -> (TestStore, Idempotency) {
    engine_with(|builder| builder)
}

pub(crate) fn engine_with(configure: impl FnOnce(Builder) -> Builder) -> (TestStore, Idempotency) {
    let store = store();
    let engine = configure(Idempotency::builder(store.clone())).build().unwrap();
    (store, engine)
}

/// A call whose key and payload are given.
pub(crate) fn call(engine: &Idempotency, key: &str, payload: &str) -> Call {
    engine.call("charge").key(key).fingerprint(payload)
}

/// Counts what really happened.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<AtomicUsize>);

impl Effects {
    pub(crate) fn happen(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Charges: an effect, answered by its number.
pub(crate) async fn charge(call: Call, effects: &Effects) -> Result<Outcome<Result<usize, String>>, Error> {
    let effects = effects.clone();
    call.run(move |_| async move { Ok(effects.happen()) }).await
}

/// Polls once, and tells whether there is more to come.
pub(crate) async fn begins<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}
