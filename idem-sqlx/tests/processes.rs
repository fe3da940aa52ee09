//! Several processes on one file. The others are this test program again, led over their standard input.
#![cfg(feature = "sqlite")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::process::{Process, hear_line, play, runtime, say};
use common::{DAY, answer, claim, granted, id};
use idem_core::store::{Claimed, Fenced, Store as _};
use idem_sqlx::SqliteStore;
use tempfile::TempDir;
use tokio::sync::Barrier;

const ROUNDS: usize = 200;
const TASKS: usize = 64;

/// Not a test by itself: what the other processes do.
#[test]
#[ignore = "started by other tests"]
fn the_other_process() {
    let Some((play, file)) = play() else { return };
    match play.as_str() {
        "race" => runtime().block_on(race(&file)),
        "open" => open(&file),
        "write" => runtime().block_on(write_for_ever(&file)),
        other => panic!("no such play: {other}"),
    }
}

/// Claims the key of each round with all tasks at once; says how many were granted, and every answer that is neither
/// that nor a lost race.
async fn race(file: &str) {
    let store = SqliteStore::open(file).await.unwrap();
    for round in 0..ROUNDS {
        let gate = Arc::new(Barrier::new(TASKS + 1));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (store, gate) = (store.clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    let (id, claim) = (id(&format!("round-{round}")), claim("payload"));
                    gate.wait().await;
                    match store.claim(&id, &claim).await {
                        Ok(Claimed::Granted { attempt: 1 }) => {
                            let fenced = store.complete(&id, claim.owner, &answer("done"), DAY).await;
                            if matches!(fenced, Ok(Fenced::Held)) {
                                Ok(1)
                            } else {
                                Err(format!("{fenced:?}"))
                            }
                        }
                        Ok(Claimed::InFlight { .. } | Claimed::Completed { .. }) => Ok(0),
                        other => Err(format!("{other:?}")),
                    }
                })
            })
            .collect();
        say("ready");
        assert_eq!(hear_line().as_deref(), Some("go"));
        gate.wait().await;
        let mut runs = 0;
        let mut wrong = String::new();
        for task in tasks {
            match task.await.unwrap() {
                Ok(run) => runs += run,
                Err(error) => wrong += &error,
            }
        }
        say(&format!("{runs}:{wrong}"));
    }
    store.close().await;
}

/// Opens the file each time it is told to.
fn open(file: &str) {
    while let Some(name) = hear_line() {
        let opened = runtime().block_on(async {
            let store =
                SqliteStore::open(Path::new(file).join(name)).await.map_err(|error| format!("{error:?}"))?;
            let attempt = granted(&store, &id(&std::process::id().to_string()), &claim("payload")).await;
            Ok::<_, String>(attempt)
        });
        say(&format!("{opened:?}"));
    }
}

/// Claims and completes with many tasks, and says each key whose completion was acknowledged.
async fn write_for_ever(file: &str) {
    let store = SqliteStore::open(file).await.unwrap();
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0_u64.. {
                    let key = format!("{task}-{n}");
                    let (id, claim) = (id(&key), claim("payload"));
                    granted(&store, &id, &claim).await;
                    assert_eq!(
                        store.complete(&id, claim.owner, &answer(&key), DAY).await.unwrap(),
                        Fenced::Held
                    );
                    say(&key);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn two_processes_racing_for_a_key_run_it_once() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    let mut processes = [Process::start("race", &file), Process::start("race", &file)];
    for round in 0..ROUNDS {
        for process in &mut processes {
            assert_eq!(process.hear(), "ready");
        }
        for process in &mut processes {
            process.tell("go");
        }
        let mut runs = 0;
        for process in &mut processes {
            let said = process.hear();
            let (granted, wrong) = said.split_once(':').unwrap();
            assert_eq!(wrong, "", "round {round}");
            runs += granted.parse::<u32>().unwrap();
        }
        assert_eq!(runs, 1, "round {round}");
    }
    processes.into_iter().for_each(Process::end);
}

#[test]
fn processes_that_open_a_new_file_at_once_make_its_table_once() {
    let dir = TempDir::new().unwrap();
    let mut processes = [0; 4].map(|_| Process::start("open", dir.path()));
    for round in 0..20 {
        for process in &mut processes {
            process.tell(&format!("{round}.db"));
        }
        for process in &mut processes {
            assert_eq!(process.hear(), "Ok(1)", "round {round}");
        }
    }
    processes.into_iter().for_each(Process::end);
}

#[test]
fn what_was_acknowledged_survives_a_kill_in_the_middle_of_writes() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("idem.db");
    for kill in 1..=3 {
        let mut process = Process::start("write", &file);
        let mut said = Vec::new();
        while said.len() < 500 * kill {
            said.push(process.hear());
        }
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        runtime().block_on(async {
            let store = SqliteStore::open(&file).await.unwrap();
            for key in &said {
                match store.claim(&id(key), &claim("payload")).await.unwrap() {
                    Claimed::Completed { answer: found, .. } => assert_eq!(found, answer(key)),
                    other => panic!("{key}: {other:?}"),
                }
            }
            granted(&store, &id(&format!("after {kill}")), &claim("payload")).await;
            store.close().await;
        });
        // A new file for the next, since its keys are the same.
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.path().join(format!("idem.db{end}")));
        }
    }
}
