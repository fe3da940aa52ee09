//! The whole engine in simulated worlds: its store answers late, twice or not at all, clocks jump, processes die,
//! callers go away, and everything is decided by one seed.
//!
//! `IDEM_TEST_SEEDS=100000` tries so many worlds; `IDEM_TEST_SEED=123` tells the story of one.
#![cfg(feature = "memory")]

mod broken;
mod client;
mod dice;
mod handler;
mod line;
mod nemesis;
mod op;
mod plan;
mod promise;
mod reach;
mod simulation;
mod trace;
mod witness;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use broken::Broken;
use promise::Promise;
use reach::Reach;
use simulation::simulate;

/// How many worlds are tried unless the environment says otherwise.
const SEEDS: u64 = 10_000;
/// Within how many worlds a broken store has to be found.
const FOUND_WITHIN: u64 = 5_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// What came of many worlds.
struct Tally {
    reach: Reach,
    steps: u64,
    broken: Option<(u64, Promise, String)>,
}

/// Tries the seeds below `seeds` on all processors, and stops at the first promise that is broken.
fn try_worlds(seeds: u64) -> Tally {
    let next = AtomicU64::new(0);
    let tally = Mutex::new(Tally { reach: Reach::default(), steps: 0, broken: None });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut reach, mut steps) = (Reach::default(), 0);
                let broken = loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break None;
                    }
                    let report = simulate(seed, None);
                    reach.see(&report.trace);
                    steps += report.trace.len() as u64;
                    if let Some((promise, how)) = report.broken {
                        next.store(seeds, Ordering::Relaxed);
                        break Some((seed, promise, how));
                    }
                };
                let mut tally = tally.lock().unwrap();
                tally.reach.add(&reach);
                tally.steps += steps;
                tally.broken = tally.broken.take().or(broken);
            });
        }
    });
    tally.into_inner().unwrap()
}

#[test]
fn every_promise_is_kept_in_every_world() {
    if let Some(seed) = number("IDEM_TEST_SEED") {
        let report = simulate(seed, None);
        println!("{}", report.trace);
        assert_eq!(report.broken, None);
        return;
    }
    let seeds = number("IDEM_TEST_SEEDS").unwrap_or(SEEDS);
    let begun = std::time::Instant::now();
    let Tally { reach, steps, broken } = try_worlds(seeds);
    if let Some((seed, promise, how)) = broken {
        panic!(
            "{promise:?} is broken: {how}. `IDEM_TEST_SEED={seed} cargo test -p idem-core --all-features --test \
             simulation every_promise -- --nocapture` tells the story"
        );
    }
    println!("{seeds} worlds, {steps} events, {:.1} s\n{reach}", begun.elapsed().as_secs_f64());
    assert_eq!(reach.missed(), Vec::<&str>::new(), "promises hold for want of an occasion");
}

#[test]
fn the_same_seed_is_the_same_world() {
    let mut hashes: Vec<_> = (0..300).map(|seed| (seed, simulate(seed, None).trace.hash())).collect();
    for (seed, hash) in &hashes {
        assert_eq!(simulate(*seed, None).trace.hash(), *hash, "{seed}");
    }
    hashes.sort_unstable_by_key(|(_, hash)| *hash);
    hashes.dedup_by_key(|(_, hash)| *hash);
    assert_eq!(hashes.len(), 300, "other seeds are other worlds");
}

#[test]
fn every_broken_protocol_is_found() {
    for broken in Broken::ALL {
        let found = (0..FOUND_WITHIN).find_map(|seed| {
            let report = simulate(seed, Some(broken));
            report.broken.filter(|(promise, _)| *promise == broken.breaks()).map(|(_, how)| (seed, how))
        });
        let Some((seed, how)) = found else {
            panic!("{broken:?} gets away with it: {:?} holds in {FOUND_WITHIN} worlds", broken.breaks());
        };
        println!(
            "{:<24} breaks {:<13} in world {seed:>4}: {how}",
            format!("{broken:?}"),
            format!("{:?}", broken.breaks())
        );
    }
}
