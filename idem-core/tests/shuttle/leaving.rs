//! Callers that go away, and engines that are shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::clock::ManualClock;
use idem_core::error::ErrorKind;
use idem_core::outcome::Outcome;
use idem_core::policy::{OnCrash, OnDisconnect};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};

use crate::{call, engine, explore, idle, polled};

#[test]
fn a_caller_that_goes_away_anywhere_leaves_an_answer_or_nothing() {
    explore(|| async {
        let engine = engine(ManualClock::new());
        let effects = Arc::new(AtomicUsize::new(0));
        let first = spawn({
            let (call, effects) = (call(&engine), effects.clone());
            async move {
                let work = call.run(move |_| async move {
                    for _ in 0..3 {
                        yield_now().await;
                    }
                    Ok::<_, String>(effects.fetch_add(1, Ordering::SeqCst))
                });
                // Unless it is ready by then.
                polled(Box::pin(work), thread_rng().gen_range(1..6)).await;
            }
        });
        first.await.unwrap();
        idle(&engine).await;
        let effects_of_first = effects.load(Ordering::SeqCst);
        let retry = call(&engine).run(|_| async { Ok::<_, String>(7) }).await.unwrap();
        match effects_of_first {
            0 => assert_eq!(retry, Outcome::Fresh(Ok(7))),
            1 => assert_eq!(retry, Outcome::Replayed(Ok(0))),
            more => panic!("{more} effects"),
        }
        idle(&engine).await;
    });
}

#[test]
fn a_caller_whose_leaving_cancels_its_work_frees_the_key_or_has_had_its_answer_stored() {
    explore(|| async {
        let engine = engine(ManualClock::new());
        let call = || call(&engine).on_disconnect(OnDisconnect::Cancel).on_crash(OnCrash::Reject);
        let effects = Arc::new(AtomicUsize::new(0));
        let first = {
            let (call, effects) = (call(), effects.clone());
            spawn(async move {
                let work = call.run(move |_| async move {
                    yield_now().await;
                    let effect = effects.fetch_add(1, Ordering::SeqCst);
                    yield_now().await;
                    Ok::<_, String>(effect)
                });
                polled(Box::pin(work), thread_rng().gen_range(1..6)).await;
            })
        };
        first.await.unwrap();
        idle(&engine).await;
        match (call().run(|_| async { Ok::<_, String>(7) }).await, effects.load(Ordering::SeqCst)) {
            (Ok(Outcome::Fresh(Ok(7))), 0) | (Ok(Outcome::Replayed(Ok(0))), 1) => {}
            // It ran, perhaps to its effect.
            (Err(error), _) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown),
            other => panic!("{other:?}"),
        }
        idle(&engine).await;
    });
}

#[test]
fn a_drain_ends_when_all_that_began_before_it_has_and_not_earlier() {
    explore(|| async {
        let engine = engine(ManualClock::new());
        let ended = Arc::new(AtomicUsize::new(0));
        let begun = Arc::new(AtomicUsize::new(0));
        for key in ["one", "two"] {
            let (call, begun, ended) =
                (engine.call("charge").key(key).fingerprint("a"), begun.clone(), ended.clone());
            spawn(async move {
                let work = call.run(move |_| async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    yield_now().await;
                    yield_now().await;
                    ended.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, String>(0)
                });
                // Its end is waited for whether its caller is there or not.
                polled(Box::pin(work), thread_rng().gen_range(1..6)).await;
            });
        }
        while begun.load(Ordering::SeqCst) == 0 {
            if engine.is_idle() {
                // Both may have gone away before their work began.
                yield_now().await;
                if Arc::strong_count(&begun) == 1 {
                    return;
                }
            }
            yield_now().await;
        }
        let before = begun.load(Ordering::SeqCst);
        assert_eq!(engine.drain(Duration::from_secs(60)).await, 0);
        assert!(ended.load(Ordering::SeqCst) >= before, "{before} were under way");
        while Arc::strong_count(&begun) > 1 {
            yield_now().await;
        }
        idle(&engine).await;
    });
}
