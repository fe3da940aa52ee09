//! kill -9 while a transfer runs: what is in the ledger then, and what a retry gets.

use crate::home::{Home, on_each_sql_store};
use crate::http::{transfer, until};
use crate::service::Service;
use crate::transfers::balances;
use crate::trigger::Step;

/// Where the process is when it is killed.
#[derive(Debug, Clone, Copy)]
enum Point {
    In(Step),
    /// The client has hung up, so nobody has the answer.
    AfterTheCommit,
}

/// Kills a service at this point of a transfer.
async fn crash(home: &Home, point: Point, key: &str) {
    let mut service = Service::start(home, &[]).await;
    let alice = service.caller("alice");
    match point {
        Point::In(step) => {
            home.slow_down(step).await;
            let running = alice.send_body("/transfers", key, transfer("alice", "bob", 10));
            home.somebody_dawdles().await;
            service.kill_9().await;
            running.cut_off().await;
            // A server ends the step for a client that is not there any more.
            home.speed_up(step).await;
        }
        Point::AfterTheCommit => {
            let before = alice.rows("/transfers").await.len();
            home.slow_down(Step::Answer).await;
            let running = alice.send_body("/transfers", key, transfer("alice", "bob", 10));
            home.somebody_dawdles().await;
            running.hang_up().await;
            until("the commit", || async { (alice.rows("/transfers").await.len() > before).then_some(()) })
                .await;
            service.kill_9().await;
            home.speed_up(Step::Answer).await;
        }
    }
}

on_each_sql_store! {
    async fn a_crash_leaves_all_of_a_transfer_or_nothing(home) {
        let points = [
            ("before-the-claim", Point::In(Step::Claim), false),
            ("in-the-body", Point::In(Step::Write), false),
            ("before-the-commit", Point::In(Step::Answer), false),
            ("after-the-commit", Point::AfterTheCommit, true),
        ];
        // Makes the tables that the triggers are for.
        drop(Service::start(&home, &[]).await);
        println!("| killed | rows then | the retry gets | rows in the end |");
        for (count, (key, point, is_done)) in points.into_iter().enumerate() {
            crash(&home, point, key).await;
            let service = Service::start(&home, &[]).await;
            let alice = service.caller("alice");
            let left = alice.rows("/transfers").await.len() - count;
            let (answer, _) = alice.retry("/transfers", key, &transfer("alice", "bob", 10)).await;
            let rows = alice.rows("/transfers").await;
            println!(
                "| {key} | {left} | {} {}, attempt {} | {} |",
                if answer.is_replay() { "replay of" } else { "run:" },
                answer.status, answer.json()["attempt"], rows.len() - count,
            );
            assert_eq!(left, usize::from(is_done), "{key}");
            assert_eq!((answer.status, answer.is_replay()), (201, is_done), "{key}: {answer:?}");
            // An attempt that crashed was never there.
            assert_eq!(answer.json()["attempt"], 1, "{key}");
            assert_eq!(rows.len(), count + 1, "{key}");
            assert_eq!(rows[count], answer.json(), "{key}");
            let moved = 10 * i64::try_from(count + 1).unwrap();
            assert_eq!(balances(&alice).await["alice"], 1000 - moved, "{key}");
            assert_eq!(balances(&alice).await["bob"], 1000 + moved, "{key}");
        }
    }
}
