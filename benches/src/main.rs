//! Ratios against the raw limit, measured in one run.
//!
//! `cargo run --release -p idem-benches` prints, for the memory store: what a call costs over the bare handler, what a
//! replay costs, on one thread and two; what a fingerprint costs over plain SHA-256 of the same bytes; what an annotated
//! axum handler costs over the bare one; what a layer costs over the bare router. Candidates run in turn, round after round, so that a machine that is busy with
//! other things slows all of them; figures are medians of rounds, with the range of the rounds' ratios. Time is processor
//! time, not the clock's.
//!
//! With the names of databases (`postgres`, `mariadb`, `sqlite`, `postgres-million`) or `redis` it prints, for each, what a
//! store's fresh calls and replays cost against the bare statements or commands: there the clock counts, and processor time
//! stands beside it.

mod contest;
mod engine;
mod fingerprint;
mod http;
mod layer;
mod ours;
mod payload;
mod redis;
mod rounds;
mod sql;

fn main() {
    let databases: Vec<_> = std::env::args().skip(1).collect();
    for database in &databases {
        match &**database {
            "redis" => redis::measure(),
            other => assert!(
                sql::measure(other),
                "there is no `{other}`: postgres, mariadb, sqlite, postgres-million, redis"
            ),
        }
    }
    if !databases.is_empty() {
        return;
    }
    println!("{:<52} {:>10} {:>8}   range of ratios", "what", "ns/op", "ratio");
    fingerprint::measure();
    engine::measure(1);
    engine::measure(2);
    http::measure();
    layer::measure();
}
