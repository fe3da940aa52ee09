//! Leases that lapse, are renewed or end, while others look.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::clock::{ManualClock, advance};
use idem_core::engine::Idempotency;
use idem_core::error::ErrorKind;
use idem_core::outcome::Outcome;
use idem_core::store::Store as _;
use shuttle::future::{spawn, yield_now};

use crate::{call, counting, engine, explore, idle, store};

const LEASE: Duration = Duration::from_secs(30);

#[test]
fn however_leases_lapse_there_is_one_stored_answer_and_everybody_is_told_it() {
    explore(|| async {
        let clock = ManualClock::new();
        let engine = engine(clock.clone());
        let lapsing = spawn(async move {
            for _ in 0..3 {
                clock.advance(Duration::from_secs(31));
                yield_now().await;
            }
        });
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let call = call(&engine);
                spawn(async move {
                    call.run(|run| async move {
                        yield_now().await;
                        Ok::<_, String>(run.attempt())
                    })
                    .await
                })
            })
            .collect();
        let mut told = Vec::new();
        for caller in callers {
            match caller.await.unwrap() {
                Ok(outcome) => told.push(outcome.into_inner().unwrap()),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::InFlight | ErrorKind::LeaseLost), "{error}")
                }
            }
        }
        lapsing.await.unwrap();
        let stored = call(&engine).run(|_| async { Ok::<_, String>(99) }).await.unwrap();
        let stored = stored.into_inner().unwrap();
        assert!(told.iter().all(|answer| *answer == stored), "{told:?} against {stored}");
        idle(&engine).await;
    });
}

#[test]
fn a_renewal_and_a_completion_do_not_get_in_each_others_way() {
    explore(|| async {
        let clock = ManualClock::new();
        let engine = engine(clock.clone());
        let effects = Arc::new(AtomicUsize::new(0));
        let holder = spawn({
            let (call, effects) = (call(&engine), effects.clone());
            async move {
                call.run(move |_| async move {
                    for _ in 0..4 {
                        yield_now().await;
                    }
                    Ok::<_, String>(effects.fetch_add(1, Ordering::SeqCst))
                })
                .await
            }
        });
        // Renewals become due, and the lease, renewed or not, is never over.
        let passing = spawn(async move {
            for _ in 0..2 {
                clock.advance(LEASE * 2 / 5);
                advance(LEASE * 2 / 5);
                yield_now().await;
            }
        });
        let rival = call(&engine).run(|_| async { Ok::<_, String>(9) }).await;
        passing.await.unwrap();
        let holder = holder.await.unwrap();
        match (&rival, &holder) {
            // Whoever was first.
            (Ok(Outcome::Fresh(Ok(9))), Ok(told)) => assert_eq!(*told, Outcome::Replayed(Ok(9))),
            (Ok(Outcome::Fresh(Ok(9))), Err(error)) => assert_eq!(error.kind(), ErrorKind::InFlight),
            (Ok(told), Ok(Outcome::Fresh(Ok(0)))) => assert_eq!(*told, Outcome::Replayed(Ok(0))),
            (Err(error), Ok(Outcome::Fresh(Ok(0)))) => assert_eq!(error.kind(), ErrorKind::InFlight),
            other => panic!("{other:?}"),
        }
        idle(&engine).await;
    });
}

#[test]
fn of_an_answer_that_expires_while_sweepers_and_callers_come_by_one_new_one_is_made() {
    explore(|| async {
        let clock = ManualClock::new();
        let store = store(clock.clone());
        let engine = Idempotency::new(store.clone());
        let short = |engine: &Idempotency| call(engine).ttl(Duration::from_secs(1));
        assert_eq!(
            short(&engine).run(|_| async { Ok::<_, String>(0) }).await.unwrap(),
            Outcome::Fresh(Ok(0))
        );
        let expiring = spawn(async move {
            yield_now().await;
            clock.advance(Duration::from_secs(1));
        });
        let sweepers: Vec<_> = (0..2)
            .map(|_| {
                let store = store.clone();
                spawn(async move { store.sweep(10).await.unwrap() })
            })
            .collect();
        let effects = Arc::new(AtomicUsize::new(1));
        let callers: Vec<_> = (0..2).map(|_| counting(short(&engine), &effects)).collect();
        for caller in callers {
            match caller.await.unwrap() {
                Ok(Outcome::Fresh(told)) => assert_eq!(told, Ok(1)),
                Ok(told) => assert!(told.is_replayed() && told.into_inner() <= Ok(1)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::InFlight),
            }
        }
        expiring.await.unwrap();
        let mut swept = 0;
        for sweeper in sweepers {
            swept += sweeper.await.unwrap();
        }
        assert!(swept <= 1, "{swept} of one record");
        assert!(effects.load(Ordering::SeqCst) <= 2, "one new run at most");
        assert!(store.len() <= 1);
        idle(&engine).await;
    });
}
