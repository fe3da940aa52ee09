//! Races: what processes play that claim the same keys at the same time.

use std::sync::Arc;

use idem_core::store::{Claimed, Fenced, Store};
use tokio::sync::Barrier;

use super::claims::{DAY, answer, claim, id};
use crate::play::{Process, hear_line, say};

const TASKS: usize = 32;

/// Enough to find what is often wrong; `IDEM_TEST_ROUNDS=1000` looks for what is seldom.
pub fn rounds() -> usize {
    std::env::var("IDEM_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150)
}

/// Claims the two keys of each round with all tasks at once; says how often each was granted, and every answer that is
/// neither that nor a lost race.
///
/// # Panics
///
/// When a task does.
pub async fn race<S: Store + Clone>(store: &S) {
    for round in 0.. {
        let gate = Arc::new(Barrier::new(TASKS + 1));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (store, gate) = (store.clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    let (id, claim) = (id(&format!("round-{round}-{}", task % 2)), claim("payload"));
                    gate.wait().await;
                    match store.claim(&id, &claim).await {
                        Ok(Claimed::Granted { attempt: 1 }) => {
                            match store.complete(&id, claim.owner, &answer("done"), DAY).await {
                                Ok(Fenced::Held) => Ok(1),
                                other => Err(format!("{other:?}")),
                            }
                        }
                        Ok(Claimed::InFlight { .. } | Claimed::Completed { .. }) => Ok(0),
                        other => Err(format!("{other:?}")),
                    }
                })
            })
            .collect();
        say("ready");
        if hear_line().is_none() {
            break;
        }
        gate.wait().await;
        let (mut runs, mut wrong) = ([0, 0], String::new());
        for (n, task) in tasks.into_iter().enumerate() {
            match task.await.expect("an end") {
                Ok(run) => runs[n % 2] += run,
                Err(error) => wrong += &error,
            }
        }
        say(&format!("{} {}:{wrong}", runs[0], runs[1]));
    }
}

/// Lets processes that play `race` race for some rounds, and sees each key run once.
///
/// # Panics
///
/// When one is run twice, or not at all, or somebody got an answer that is none of those in a race.
pub fn race_rounds(processes: &mut [Process], rounds: usize) {
    for round in 0..rounds {
        for process in &mut *processes {
            assert_eq!(process.hear(), "ready");
        }
        for process in &mut *processes {
            process.tell("go");
        }
        let mut runs = [0, 0];
        for process in &mut *processes {
            let said = process.hear();
            let (granted, wrong) = said.split_once(':').expect("two parts");
            assert_eq!(wrong, "", "round {round}");
            for (sum, granted) in runs.iter_mut().zip(granted.split(' ')) {
                *sum += granted.parse::<u32>().expect("a number");
            }
        }
        assert_eq!(runs, [1, 1], "round {round}");
    }
    for process in processes {
        assert_eq!(process.hear(), "ready");
    }
}
