//! Several processes on one database. The others are the test program again, led over their standard input.

use std::sync::Arc;

use idem_core::store::{Claimed, Fenced, Store as _};
use tokio::sync::Barrier;

use super::{Backend, Options, clocks};
use crate::common::process::{Process, hear_line, play, runtime, say};
use crate::common::{DAY, answer, claim, granted, id};

const TASKS: usize = 32;

/// Enough to find what is often wrong; `IDEM_TEST_ROUNDS=1000` looks for what is seldom.
pub(crate) fn rounds() -> usize {
    std::env::var("IDEM_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150)
}

/// What a process does that another has started.
pub(crate) fn the_other_process<B: Backend>() {
    let Some((play, place)) = play() else { return };
    match play.as_str() {
        "race" => runtime().block_on(race::<B>(&place)),
        "steps" => runtime().block_on(clocks::take_steps::<B>(&place)),
        "open" => open::<B>(&place),
        "write" => runtime().block_on(write_for_ever::<B>(&place)),
        other => panic!("no such play: {other}"),
    }
}

/// Claims the two keys of each round with all tasks at once; says how often each was granted, and every answer that is
/// neither that nor a lost race.
async fn race<B: Backend>(place: &str) {
    let store = B::open_at(place, Options::default()).await.unwrap();
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
            match task.await.unwrap() {
                Ok(run) => runs[n % 2] += run,
                Err(error) => wrong += &error,
            }
        }
        say(&format!("{} {}:{wrong}", runs[0], runs[1]));
    }
    B::close(&store).await;
}

/// Lets processes that play `race` race for some rounds, and sees each key run once.
pub(crate) fn race_rounds(processes: &mut [Process], rounds: usize) {
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
            let (granted, wrong) = said.split_once(':').unwrap();
            assert_eq!(wrong, "", "round {round}");
            for (sum, granted) in runs.iter_mut().zip(granted.split(' ')) {
                *sum += granted.parse::<u32>().unwrap();
            }
        }
        assert_eq!(runs, [1, 1], "round {round}");
    }
    for process in processes {
        assert_eq!(process.hear(), "ready");
    }
}

/// Opens each table that it is told.
fn open<B: Backend>(place: &str) {
    while let Some(table) = hear_line() {
        let opened = runtime().block_on(async {
            let store = B::open_at(place, Options::table(&table)).await;
            let store = store.map_err(|error| format!("{error:?}"))?;
            Ok::<_, String>(granted(&store, &id(&std::process::id().to_string()), &claim("payload")).await)
        });
        say(&format!("{opened:?}"));
    }
}

/// Claims and completes with many tasks, and says each key whose completion was acknowledged.
async fn write_for_ever<B: Backend>(place: &str) {
    let run = hear_line().unwrap();
    let store = B::open_at(place, Options::default()).await.unwrap();
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let (store, run) = (store.clone(), run.clone());
            tokio::spawn(async move {
                for n in 0_u64.. {
                    let key = format!("{run}-{task}-{n}");
                    let (id, claim) = (id(&key), claim("payload"));
                    granted(&store, &id, &claim).await;
                    let fenced = store.complete(&id, claim.owner, &answer(&key), DAY).await.unwrap();
                    assert_eq!(fenced, Fenced::Held);
                    say(&key);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

pub(crate) fn four_processes_racing_for_neighbouring_keys_run_each_once<B: Backend>() {
    let home = runtime().block_on(B::new());
    let mut processes = [0; 4].map(|_| Process::start("race", home.place()));
    race_rounds(&mut processes, rounds());
    processes.into_iter().for_each(Process::end);
}

pub(crate) fn processes_that_open_a_new_database_at_once_make_its_table_once<B: Backend>() {
    // The first table of a database is made together with the table of migrations.
    for _ in 0..5 {
        let home = runtime().block_on(B::new());
        let mut processes = [0; 4].map(|_| Process::start("open", home.place()));
        for round in 0..5 {
            for process in &mut processes {
                process.tell(&format!("keys_{round}"));
            }
            for process in &mut processes {
                assert_eq!(process.hear(), "Ok(1)", "round {round}");
            }
        }
        processes.into_iter().for_each(Process::end);
    }
}

pub(crate) fn what_was_acknowledged_survives_a_kill_in_the_middle_of_writes<B: Backend>() {
    let home = runtime().block_on(B::new());
    for kill in 1..=3 {
        let mut process = Process::start("write", home.place());
        process.tell(&format!("run-{kill}"));
        let mut said = Vec::new();
        while said.len() < 400 * kill {
            said.push(process.hear());
        }
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        runtime().block_on(async {
            let store = home.open().await;
            for key in &said {
                match store.claim(&id(key), &claim("payload")).await.unwrap() {
                    Claimed::Completed { answer: found, .. } => assert_eq!(found, answer(key)),
                    other => panic!("{key}: {other:?}"),
                }
            }
            granted(&store, &id(&format!("after {kill}")), &claim("payload")).await;
            B::close(&store).await;
        });
    }
}
