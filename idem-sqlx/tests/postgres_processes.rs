//! Several processes on one database. The others are this test program again, led over their standard input.
#![cfg(feature = "postgres")]

mod common;

use std::sync::Arc;

use common::process::{Process, hear_line, play, runtime, say};
use common::{DAY, answer, claim, granted, id};
use idem_core::store::{Claimed, Fenced, Store as _};
use idem_sqlx::PostgresStore;
use idem_testkit::PostgresServer;
use tokio::sync::Barrier;

const TASKS: usize = 32;

fn rounds() -> usize {
    std::env::var("IDEM_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150)
}

/// Not a test by itself: what the other processes do.
#[test]
#[ignore = "started by other tests"]
fn the_other_process() {
    let Some((play, url)) = play() else { return };
    match play.as_str() {
        "race" => runtime().block_on(race(&url)),
        "open" => open(&url),
        other => panic!("no such play: {other}"),
    }
}

/// Claims the two keys of each round with all tasks at once; says how often each was granted, and every answer that is
/// neither that nor a lost race.
async fn race(url: &str) {
    let store = PostgresStore::open(url).await.unwrap();
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
    store.close().await;
}

/// Opens the table that it is told.
fn open(url: &str) {
    while let Some(table) = hear_line() {
        let opened = runtime().block_on(async {
            let store = PostgresStore::builder().url(url).table(&table).open().await;
            let store = store.map_err(|error| format!("{error:?}"))?;
            Ok::<_, String>(granted(&store, &id(&std::process::id().to_string()), &claim("payload")).await)
        });
        say(&format!("{opened:?}"));
    }
}

#[test]
fn four_processes_racing_for_neighbouring_keys_run_each_once() {
    let database = runtime().block_on(PostgresServer::shared().database());
    let mut processes = [0; 4].map(|_| Process::start("race", database.url()));
    for round in 0..rounds() {
        for process in &mut processes {
            assert_eq!(process.hear(), "ready");
        }
        for process in &mut processes {
            process.tell("go");
        }
        let mut runs = [0, 0];
        for process in &mut processes {
            let said = process.hear();
            let (granted, wrong) = said.split_once(':').unwrap();
            assert_eq!(wrong, "", "round {round}");
            for (sum, granted) in runs.iter_mut().zip(granted.split(' ')) {
                *sum += granted.parse::<u32>().unwrap();
            }
        }
        assert_eq!(runs, [1, 1], "round {round}");
    }
    for process in &mut processes {
        assert_eq!(process.hear(), "ready");
    }
    processes.into_iter().for_each(Process::end);
}

#[test]
fn processes_that_open_a_new_database_at_once_make_its_table_once() {
    let database = runtime().block_on(PostgresServer::shared().database());
    let mut processes = [0; 4].map(|_| Process::start("open", database.url()));
    for round in 0..10 {
        for process in &mut processes {
            process.tell(&format!("keys_{round}"));
        }
        for process in &mut processes {
            assert_eq!(process.hear(), "Ok(1)", "round {round}");
        }
    }
    processes.into_iter().for_each(Process::end);
}
