//! Several processes on one database. The others are the test program again, led over their standard input.

use super::{Backend, Options, clocks};
use crate::common::killed::{killed_when_it_has_written, write_for_ever};
use crate::common::process::{Process, hear_line, play, runtime, say};
use crate::common::race::{race, race_rounds, rounds};
use crate::common::{claim, granted, id};

/// What a process does that another has started.
pub(crate) fn the_other_process<B: Backend>() {
    let Some((play, place)) = play() else { return };
    match play.as_str() {
        "race" => runtime().block_on(async {
            let store = B::open_at(&place, Options::default()).await.unwrap();
            race(&store).await;
            B::close(&store).await;
        }),
        "steps" => runtime().block_on(clocks::take_steps::<B>(&place)),
        "open" => open::<B>(&place),
        "write" => runtime().block_on(async {
            write_for_ever(&B::open_at(&place, Options::default()).await.unwrap()).await;
        }),
        other => panic!("no such play: {other}"),
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
        let written = killed_when_it_has_written(400 * kill, &home.place(), &format!("run-{kill}"));
        runtime().block_on(async {
            let store = home.open().await;
            assert_eq!(written.answers_missing_in(&store).await, [""; 0]);
            granted(&store, &id(&format!("after {kill}")), &claim("payload")).await;
            B::close(&store).await;
        });
    }
}
