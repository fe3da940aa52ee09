//! SQL stores against the bare statements that could do the same, through the same driver.
//!
//! Bare is what no store can beat one by one: an INSERT and an UPDATE for a fresh call, one SELECT for a replay, prepared,
//! on as many connections as the store has, with the same durability, and with nobody asking whether they are alive.

mod bare;
mod ours;
mod pgbench;
mod postgres;
mod sqlite;

use tokio::runtime::{Builder, Runtime};

use crate::contest::{Contender, contest};

/// How many answers there are to replay.
const KEPT: u64 = 2_000;
/// How large an answer is, in bytes.
const ANSWER: usize = 1_000;
/// How many call at once.
const CALLERS: [usize; 4] = [1, 16, 64, 256];

/// What takes part: for each contest one bare form, and others that are compared with it.
struct Entry {
    title: String,
    fresh: Vec<Contender>,
    replay: Vec<Contender>,
}

fn run(runtime: &Runtime, entry: &Entry) {
    for callers in CALLERS {
        contest(runtime, &format!("{}: fresh call", entry.title), callers, &entry.fresh);
        contest(runtime, &format!("{}: replay", entry.title), callers, &entry.replay);
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Measures a database by its name; `false` if there is none of this name.
pub(crate) fn measure(database: &str) -> bool {
    match database {
        "postgres" => postgres::measure(),
        "postgres-million" => postgres::measure_million(),
        "sqlite" => sqlite::measure(),
        _ => return false,
    }
    true
}
