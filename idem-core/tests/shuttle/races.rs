//! Callers of one key at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::clock::ManualClock;
use idem_core::error::ErrorKind;
use idem_core::outcome::Outcome;
use idem_core::policy::InFlight;
use shuttle::future::{spawn, yield_now};

use crate::{call, counting, engine, explore, idle};

#[test]
fn of_racing_calls_one_runs_and_the_others_get_its_answer_or_are_told() {
    explore(|| async {
        let engine = engine(ManualClock::new());
        let effects = Arc::new(AtomicUsize::new(0));
        let racers: Vec<_> = (0..3).map(|_| counting(call(&engine), &effects)).collect();
        for racer in racers {
            match racer.await.unwrap() {
                Ok(outcome) => assert_eq!(outcome.into_inner(), Ok(0)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::InFlight),
            }
        }
        assert_eq!(effects.load(Ordering::SeqCst), 1);
        assert_eq!(
            call(&engine).run(|_| async { Ok::<_, String>(9) }).await.unwrap(),
            Outcome::Replayed(Ok(0))
        );
    });
}

#[test]
fn waiters_all_get_the_first_answer() {
    explore(|| async {
        let engine = engine(ManualClock::new());
        let callers: Vec<_> = (0..3)
            .map(|i| {
                let call = call(&engine).in_flight(InFlight::Wait(Duration::from_secs(60)));
                spawn(async move {
                    call.run(move |_| async move {
                        yield_now().await;
                        Ok::<_, String>(i)
                    })
                    .await
                })
            })
            .collect();
        let mut answers = Vec::new();
        let mut fresh = 0;
        for caller in callers {
            let outcome = caller.await.unwrap().unwrap();
            fresh += usize::from(!outcome.is_replayed());
            answers.push(outcome.into_inner().unwrap());
        }
        assert_eq!(fresh, 1);
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        idle(&engine).await;
    });
}
