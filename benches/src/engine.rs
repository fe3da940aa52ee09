//! What a call costs over the bare handler, on the memory store.

use std::hint::black_box;
use std::sync::Arc;

use idem::core::fingerprint::{Digest, of_raw};
use idem::{Idempotency, MemoryStore, Outcome};
use tokio::runtime::Builder;

use crate::rounds::{Candidate, table};

/// Calls of each thread in a round.
const CALLS: usize = 20_000;

#[expect(clippy::unused_async, reason = "handlers are async; this one only has nothing to await")]
async fn handler(key: usize) -> Result<usize, String> {
    black_box(Ok(key))
}

async fn call(
    engine: &Idempotency,
    key: &str,
    digest: Digest,
    value: usize,
) -> Outcome<Result<usize, String>> {
    engine
        .call("charge")
        .key(key)
        .fingerprint_digest(Ok(digest))
        .run(move |_| handler(value))
        .await
        .expect("nothing is in flight")
}

/// Runs `CALLS` operations on each of `threads` threads, each with a runtime of its own.
fn on_threads<F>(threads: usize, operation: impl Fn(usize) -> F + Sync)
where
    F: Future<Output = ()>,
{
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let operation = &operation;
            scope.spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    for i in 0..CALLS {
                        operation(thread * CALLS + i).await;
                    }
                });
            });
        }
    });
}

pub(crate) fn measure(threads: usize) {
    let keys: Arc<[String]> = (0..threads * CALLS).map(|i| format!("3f1c2a9e-{i:08}-4b1d")).collect();
    let digest = of_raw(b"a payload");
    let operations = (threads * CALLS) as u32;
    let engine = || Idempotency::new(MemoryStore::builder().max_records(10_000_000).build());
    let filled = engine();
    on_threads(threads, |i| {
        let (filled, keys) = (&filled, &keys);
        async move { assert!(!call(filled, &keys[i], digest, i).await.is_replayed()) }
    });
    table(
        &format!("call on the memory store, {threads} thread(s); fingerprint apart"),
        vec![
            Candidate::new(
                "bare handler",
                operations,
                || (),
                |()| {
                    on_threads(threads, |i| async move {
                        let _ = black_box(handler(black_box(i)).await);
                    });
                },
            ),
            Candidate::new("fresh call", operations, engine, |engine| {
                on_threads(threads, |i| {
                    let (engine, keys) = (&engine, &keys);
                    async move { assert!(!call(engine, &keys[i], digest, i).await.is_replayed()) }
                });
                // Taking the store down is not part of the calls.
                std::mem::forget(engine);
            }),
            Candidate::new(
                "replay",
                operations,
                || (),
                |()| {
                    on_threads(threads, |i| {
                        let (filled, keys) = (&filled, &keys);
                        async move {
                            let outcome = call(filled, &keys[i], digest, 0).await;
                            assert!(outcome.is_replayed() && outcome.into_inner() == Ok(i));
                        }
                    });
                },
            ),
            Candidate::new(
                "replay of one hot key",
                operations,
                || (),
                |()| {
                    on_threads(threads, |_| {
                        let (filled, keys) = (&filled, &keys);
                        async move { assert!(call(filled, &keys[0], digest, 0).await.is_replayed()) }
                    });
                },
            ),
        ],
    );
}
