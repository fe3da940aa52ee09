//! kill -9 of a process that holds a claim: what a retry gets, and how often the effect happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind};
use idem_core::outcome::Outcome;
use idem_core::store::OnCrash;
use idem_redis::RedisStore;
use idem_testkit::play::{Process, play, runtime, say};
use idem_testkit::{RedisServer, redis_namespace};

const LEASE: Duration = Duration::from_secs(2);

/// Where a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    BeforeTheClaim,
    BeforeTheEffect,
    AfterTheEffect,
    AfterTheAnswer,
}

impl Point {
    const ALL: [Self; 4] =
        [Self::BeforeTheClaim, Self::BeforeTheEffect, Self::AfterTheEffect, Self::AfterTheAnswer];

    /// Whether others have to wait for its lease.
    fn leaves_a_lease(self) -> bool {
        matches!(self, Self::BeforeTheEffect | Self::AfterTheEffect)
    }

    /// Says that it is here and goes no further, if it is this point.
    fn stop_at(self, point: &str) {
        if format!("{self:?}") == point {
            say("here");
            loop {
                std::thread::park();
            }
        }
    }
}

async fn engine(place: &str, on_crash: OnCrash) -> Idempotency {
    let (url, prefix) = place.split_once(' ').unwrap();
    let store = RedisStore::builder().url(url).prefix(prefix).open().await.unwrap();
    Idempotency::builder(store).lease(LEASE).on_crash(on_crash).build().unwrap()
}

/// Calls; the effect of the work is what it says.
async fn call(
    idem: &Idempotency,
    effect: impl FnOnce() + Send + 'static,
) -> Result<Outcome<Result<u32, String>>, Error> {
    let call = idem.call("charge").key("k").fingerprint(&7);
    call.run(|run| async move {
        effect();
        Ok::<u32, String>(run.attempt())
    })
    .await
}

/// Not a test by itself: what the process does that is killed.
#[test]
#[ignore = "started by other tests"]
fn the_other_process() {
    let Some((play, place)) = play() else { return };
    let (point, on_crash) = play.split_once(' ').unwrap();
    let on_crash = if on_crash == "Reject" { OnCrash::Reject } else { OnCrash::Retry };
    runtime().block_on(async {
        let idem = engine(&place, on_crash).await;
        Point::BeforeTheClaim.stop_at(point);
        let within = point.to_owned();
        let called = call(&idem, move || {
            Point::BeforeTheEffect.stop_at(&within);
            say("effect");
            Point::AfterTheEffect.stop_at(&within);
        });
        let _answer = called.await.unwrap();
        Point::AfterTheAnswer.stop_at(point);
    });
}

/// Kills a process there, and retries until the key is not in flight: tells what comes then, how often it was,
/// and how many effects there were in all.
async fn crashed(point: Point, on_crash: OnCrash) -> (Result<(bool, u32), ErrorKind>, u32, u32) {
    let place = format!("{} {}", RedisServer::shared().url(), redis_namespace());
    let mut process = Process::start(&format!("{point:?} {on_crash:?}"), &place);
    let effects = Arc::new(AtomicU32::new(0));
    while process.hear() == "effect" {
        effects.fetch_add(1, Ordering::SeqCst);
    }
    process.kill();
    let killed = Instant::now();
    let idem = engine(&place, on_crash).await;
    let mut refused = 0;
    loop {
        let counted = Arc::clone(&effects);
        let called = call(&idem, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .await;
        let effects = effects.load(Ordering::SeqCst);
        match called {
            Ok(outcome) => {
                let replayed = outcome.is_replayed();
                return (Ok((replayed, outcome.into_inner().unwrap())), refused, effects);
            }
            Err(error) if error.kind() == ErrorKind::InFlight => {
                assert!(killed.elapsed() < 30 * LEASE, "{point:?}");
                refused += 1;
                tokio::time::sleep(LEASE / 50).await;
            }
            Err(error) => return (Err(error.kind()), refused, effects),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_heals_when_the_lease_ends_and_only_one_after_the_effect_repeats_it() {
    for point in Point::ALL {
        let (end, refused, effects) = crashed(point, OnCrash::Retry).await;
        assert_eq!(refused > 0, point.leaves_a_lease(), "{point:?}");
        let expected = match point {
            Point::BeforeTheClaim => (Ok((false, 1)), 1),
            Point::BeforeTheEffect => (Ok((false, 2)), 1),
            Point::AfterTheEffect => (Ok((false, 2)), 2),
            Point::AfterTheAnswer => (Ok((true, 1)), 1),
        };
        assert_eq!((end, effects), expected, "{point:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_reject_a_crash_after_the_claim_is_never_followed_by_another_run() {
    for point in Point::ALL {
        let (end, refused, effects) = crashed(point, OnCrash::Reject).await;
        assert_eq!(refused > 0, point.leaves_a_lease(), "{point:?}");
        let expected = match point {
            Point::BeforeTheClaim => (Ok((false, 1)), 1),
            Point::BeforeTheEffect => (Err(ErrorKind::OutcomeUnknown), 0),
            Point::AfterTheEffect => (Err(ErrorKind::OutcomeUnknown), 1),
            Point::AfterTheAnswer => (Ok((true, 1)), 1),
        };
        assert_eq!((end, effects), expected, "{point:?}");
    }
}
