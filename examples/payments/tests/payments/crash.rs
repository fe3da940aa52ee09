//! kill -9 in the middle of a request, and a new process on the same file.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::home::{Home, on_each_shared_store};
use crate::http::{Answer, charge, until};
use crate::service::Service;

const LEASE: Duration = Duration::from_secs(3);
const OPTIONS: &[&str] = &["--lease", "3s"];
const AT_MOST_ONCE: &[&str] = &["--lease", "3s", "--on-crash", "reject"];

fn attempts(rows: &[Value]) -> Vec<u64> {
    rows.iter().map(|row| row["attempt"].as_u64().unwrap()).collect()
}

/// Kills a service when a request has made its row, before it is answered; returns the service that comes after it.
async fn crash_after_the_row(home: &Home, options: &[&str], path: &'static str, source: &str) -> Service {
    let mut service = Service::start(home, options).await;
    let alice = service.caller("alice");
    let running = alice.begin(path, "k", source).await;
    until("the row", || async { (alice.rows(path).await.len() == 1).then_some(()) }).await;
    service.kill_9().await;
    running.cut_off().await;
    Service::start(home, options).await
}

on_each_shared_store! {
    async fn a_crash_before_the_effect_heals_with_one_take_over_when_the_lease_ends(home) {
        let mut service = Service::start(&home, OPTIONS).await;
        let running = service.caller("alice").begin("/charges", "k", "tok_slow_1000").await;
        service.kill_9().await;
        let killed = Instant::now();
        running.cut_off().await;

        let service = Service::start(&home, OPTIONS).await;
        let alice = service.caller("alice");
        assert!(alice.rows("/charges").await.is_empty());
        let (taken_over, refused) = alice.retry("/charges", "k", &charge("tok_slow_1000")).await;
        let healed = killed.elapsed();
        taken_over.assert_created(2);
        assert!(refused > 0, "until the lease ends it is 409");
        // The lease was not renewed: the request was younger than a third of it.
        assert!(healed > LEASE - Duration::from_secs(1), "the lease was cut short: {healed:?}");
        assert!(healed < LEASE + Duration::from_secs(10), "it took {healed:?}");
        alice.charge("k", "tok_slow_1000").await.assert_replays(&taken_over);
        assert_eq!(alice.rows("/charges").await, [taken_over.json()]);
        println!("healed {healed:?} after the crash, after {refused} times 409");
    }

    async fn of_many_that_retry_after_a_crash_one_takes_over(home) {
        let mut service = Service::start(&home, OPTIONS).await;
        let running = service.caller("alice").begin("/charges", "k", "tok_slow_1000").await;
        service.kill_9().await;
        running.cut_off().await;

        let service = Service::start(&home, OPTIONS).await;
        let alice = service.caller("alice");
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let alice = alice.clone();
            tasks.spawn(async move { alice.retry("/charges", "k", &charge("tok_slow_1000")).await.0 });
        }
        let answers: Vec<Answer> = tasks.join_all().await;
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
        let rows = alice.rows("/charges").await;
        assert_eq!(attempts(&rows), [2]);
        assert!(answers.iter().all(|answer| answer.status == 201 && answer.json() == rows[0]));
    }

    async fn a_crash_between_effect_and_answer_may_charge_again_as_attempt_2(home) {
        let source = "tok_slowafter_1000";
        let service = crash_after_the_row(&home, OPTIONS, "/charges", source).await;
        let alice = service.caller("alice");
        let (taken_over, _) = alice.retry("/charges", "k", &charge(source)).await;
        taken_over.assert_created(2);
        alice.charge("k", source).await.assert_replays(&taken_over);
        // That is what lease mode promises for a ledger that takes anything: both are there, and one answer.
        assert_eq!(attempts(&alice.rows("/charges").await), [1, 2]);
    }

    async fn a_payout_under_a_derived_key_is_paid_once_whatever_crashes(home) {
        let source = "tok_slowafter_1000";
        let service = crash_after_the_row(&home, OPTIONS, "/payouts", source).await;
        let alice = service.caller("alice");
        let paid = alice.rows("/payouts").await;
        let (taken_over, _) = alice.retry("/payouts", "k", &charge(source)).await;
        assert_eq!(taken_over.status, 201, "{taken_over:?}");
        assert!(!taken_over.is_replay(), "it is the second attempt's answer");
        // The second attempt found what the first had paid.
        assert_eq!(taken_over.json(), paid[0]);
        assert_eq!(alice.rows("/payouts").await, paid);
        assert_eq!(attempts(&paid), [1]);
    }

    async fn with_on_crash_reject_a_crash_never_charges_again(home) {
        let source = "tok_slowafter_1000";
        let service = crash_after_the_row(&home, AT_MOST_ONCE, "/charges", source).await;
        let alice = service.caller("alice");
        let (unknown, refused) = alice.retry("/charges", "k", &charge(source)).await;
        assert!(unknown.is_refused("idempotency_outcome_unknown"), "{unknown:?}");
        assert!(refused > 0, "until the lease ends it is in flight");
        for _ in 0..3 {
            assert!(alice.charge("k", source).await.is_refused("idempotency_outcome_unknown"));
        }
        assert_eq!(alice.charge("k", "tok_visa").await.status, 422, "still bound to its payload");
        assert_eq!(attempts(&alice.rows("/charges").await), [1]);
        // Nor after a failure that was told.
        assert_eq!(alice.charge("failed", "tok_processingError").await.status, 500);
        assert!(alice.charge("failed", "tok_processingError").await.is_refused("idempotency_outcome_unknown"));
    }

    async fn what_was_answered_before_a_crash_is_replayed_after_it(home) {
        let mut service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let charged = alice.charge("charged", "tok_visa").await;
        let declined = alice.charge("declined", "tok_chargeDeclined").await;
        assert_eq!(alice.charge("failed", "tok_flaky").await.status, 500);
        charged.assert_created(1);
        service.kill_9().await;

        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        alice.charge("charged", "tok_visa").await.assert_replays(&charged);
        alice.charge("declined", "tok_chargeDeclined").await.assert_replays(&declined);
        assert_eq!(alice.charge("failed", "tok_visa").await.status, 422, "a binding survives, too");
        alice.charge("failed", "tok_flaky").await.assert_created(2);
        assert_eq!(attempts(&alice.rows("/charges").await), [1, 2]);
    }
}
