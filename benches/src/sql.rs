//! SQL stores against the bare statements that could do the same, through the same driver.
//!
//! `IDEM_BENCH_CALLERS=1,64` and `IDEM_BENCH_CONNECTIONS=4` narrow it down.

mod bare;
mod mariadb;
mod pgbench;
mod postgres;
mod sqlite;
mod transaction;

use tokio::runtime::Runtime;

use crate::contest::{Contender, callers, contest};

/// How many call at once, unless something else is asked for.
const CALLERS: &str = "1,16,64,256";
/// How large an answer is, in bytes.
const ANSWER: usize = 1_000;

/// How many connections each side has.
fn connections() -> usize {
    std::env::var("IDEM_BENCH_CONNECTIONS").map_or(8, |named| named.parse().expect("a number of connections"))
}

/// What takes part: for each contest one bare form, and others that are compared with it.
struct Entry {
    title: String,
    fresh: Vec<Contender>,
    replay: Vec<Contender>,
    transactions: Vec<Contender>,
}

fn run(runtime: &Runtime, entry: &Entry) {
    for callers in callers(CALLERS) {
        contest(runtime, &format!("{}: fresh call", entry.title), callers, &entry.fresh);
        contest(runtime, &format!("{}: replay", entry.title), callers, &entry.replay);
        if !entry.transactions.is_empty() {
            contest(runtime, &format!("{}: transaction", entry.title), callers, &entry.transactions);
        }
    }
}

/// Measures a database by its name; `false` if there is none of this name.
pub(crate) fn measure(database: &str) -> bool {
    match database {
        "mariadb" => mariadb::measure(),
        "postgres" => postgres::measure(),
        "postgres-million" => postgres::measure_million(),
        "sqlite" => sqlite::measure(),
        _ => return false,
    }
    true
}
