//! A process that is paused past its lease, and comes back.

use std::time::Duration;

use crate::home::{Home, on_each_shared_store};
use crate::http::{Caller, Pending, until};
use crate::service::Service;

const OPTIONS: &[&str] = &["--lease", "1s"];
/// Long enough for a busy machine to see the take-over before the zombie's own handler is due.
const SOURCE: &str = "tok_slow_8000";

/// Asks until a request is neither answered nor refused at once: it has taken over and runs.
async fn take_over(caller: &Caller) -> Pending {
    until("the take-over", || async {
        let mut request = caller.send("/charges", "k", SOURCE);
        match request.answer_within(Duration::from_millis(500)).await {
            None => Some(request),
            Some(answer) => {
                assert!(answer.is_refused("idempotency_in_flight"), "{answer:?}");
                None
            }
        }
    })
    .await
}

/// A service with a request under way, paused, and another on the same file that has taken the request over.
async fn paused_and_successor(home: &Home) -> (Service, Pending, Service, Pending) {
    let (zombie, successor) = (Service::start(home, OPTIONS).await, Service::start(home, OPTIONS).await);
    let late = zombie.caller("alice").begin("/charges", "k", SOURCE).await;
    zombie.pause();
    let taken_over = take_over(&successor.caller("alice")).await;
    (zombie, late, successor, taken_over)
}

on_each_shared_store! {
    async fn a_zombie_that_wakes_while_its_successor_runs_is_told_so_and_changes_nothing(home) {
        let (zombie, late, successor, taken_over) = paused_and_successor(&home).await;
        zombie.resume();
        let late = late.answer().await;
        assert!(late.is_refused("idempotency_in_flight"), "{late:?}");

        let taken_over = taken_over.answer().await;
        taken_over.assert_created(2);
        let alice = successor.caller("alice");
        alice.charge("k", SOURCE).await.assert_replays(&taken_over);
        zombie.caller("alice").charge("k", SOURCE).await.assert_replays(&taken_over);
        // It was aborted before it reached its ledger.
        assert_eq!(alice.rows("/charges").await, [taken_over.json()]);
    }

    async fn a_zombie_that_wakes_after_its_successor_answers_what_the_record_says(home) {
        let (zombie, late, successor, taken_over) = paused_and_successor(&home).await;
        let taken_over = taken_over.answer().await;
        taken_over.assert_created(2);
        zombie.resume();
        late.answer().await.assert_replays(&taken_over);

        let alice = successor.caller("alice");
        alice.charge("k", SOURCE).await.assert_replays(&taken_over);
        zombie.caller("alice").charge("k", SOURCE).await.assert_replays(&taken_over);
        // Its handler and the end of its lease were due at the same moment, so its own row may be there: lease mode says so.
        let rows = alice.rows("/charges").await;
        assert_eq!(rows.iter().filter(|row| row["attempt"] == 2).count(), 1, "{rows:?}");
        assert!(rows.iter().filter(|row| row["attempt"] == 1).count() <= 1, "{rows:?}");
    }
}
