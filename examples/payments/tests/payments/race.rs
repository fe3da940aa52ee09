//! Equal requests at the same time.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::home::{Home, fresh_key, on_each_shared_store, on_each_sql_store, on_each_store};
use crate::http::{Answer, Caller, transfer};
use crate::service::Service;

/// Sends one charge from all of them at once.
async fn at_once(callers: Vec<Caller>, key: &str) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(callers.len()));
    let mut tasks = JoinSet::new();
    for caller in callers {
        let (barrier, key) = (barrier.clone(), key.to_owned());
        tasks.spawn(async move {
            barrier.wait().await;
            caller.charge(&key, "tok_slow_20").await
        });
    }
    tasks.join_all().await
}

/// One ran, the others were told to come again or got what it answered.
fn assert_one_ran(answers: &[Answer]) {
    let first: Vec<_> = answers.iter().filter(|answer| answer.status == 201 && !answer.is_replay()).collect();
    assert_eq!(first.len(), 1, "{answers:?}");
    first[0].assert_created(1);
    for answer in answers {
        match answer.status {
            201 => assert_eq!(answer.body, first[0].body),
            _ => assert!(answer.is_refused("idempotency_in_flight"), "{answer:?}"),
        }
    }
}

on_each_store! {
    async fn of_100_equal_requests_at_once_one_runs(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let answers = at_once(vec![alice.clone(); 100], "k").await;
        assert_one_ran(&answers);
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }

    async fn of_100_that_wait_one_runs_and_99_get_its_answer(home) {
        let service = Service::start(&home, &["--wait", "30s"]).await;
        let alice = service.caller("alice");
        let answers = at_once(vec![alice.clone(); 100], "k").await;
        assert_one_ran(&answers);
        assert_eq!(answers.iter().filter(|answer| answer.is_replay()).count(), 99);
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }
}

on_each_shared_store! {
    async fn two_services_on_one_store_run_each_key_once(home) {
        const ROUNDS: usize = 40;
        const EACH: usize = 16;
        let (one, two) = (Service::start(&home, &[]).await, Service::start(&home, &[]).await);
        let (here, there) = (one.caller("alice"), two.caller("alice"));
        for _ in 0..ROUNDS {
            let callers = [&here, &there].into_iter().cycle().take(2 * EACH).cloned().collect();
            assert_one_ran(&at_once(callers, &fresh_key()).await);
        }
        assert_eq!(here.rows("/charges").await.len(), ROUNDS);
        assert_eq!(there.rows("/charges").await, here.rows("/charges").await);
    }

    async fn services_that_start_at_once_on_a_new_store_all_work(home) {
        let start = || Service::start(&home, &[]);
        let (one, two, three, four, five, six) =
            tokio::join!(start(), start(), start(), start(), start(), start());
        let first = one.caller("alice").charge("k", "tok_visa").await;
        first.assert_created(1);
        for other in [two, three, four, five, six] {
            other.caller("alice").charge("k", "tok_visa").await.assert_replays(&first);
        }
    }
}

on_each_sql_store! {
    async fn accounts_may_be_opened_by_many_transfers_at_once(home) {
        const EACH: usize = 40;
        let (one, two) = (Service::start(&home, &[]).await, Service::start(&home, &[]).await);
        let (here, there) = (one.caller("alice"), two.caller("alice"));
        for round in 0..5 {
            let mut tasks = JoinSet::new();
            for (number, caller) in [&here, &there].into_iter().cycle().take(2 * EACH).enumerate() {
                let account = |number: usize| format!("{round}-{}", number % 5);
                // Every fourth is not covered: the accounts that it names are not opened by it.
                let amount = if number % 4 == 3 { 100_000 } else { 1 };
                let body = transfer(&account(number), &account(number + 1 + number % 3), amount);
                let caller = caller.clone();
                tasks.spawn(async move { (amount, caller.post("/transfers", fresh_key().as_str(), &body).await) });
            }
            for (amount, answer) in tasks.join_all().await {
                assert_eq!(answer.status, if amount == 1 { 201 } else { 402 }, "{answer:?}");
            }
        }
    }
}
