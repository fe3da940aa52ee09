//! The protocol as it should be: searched to the end in every configuration.

use idem_model::config::Config;
use idem_model::search::{reach, search};

/// Searches all worlds, and shows that what the promises are about does happen there.
fn keeps_every_promise(config: Config) {
    let name = config.name;
    let reached = reach(config.clone());
    assert!(reached.missed.is_empty(), "{name}: never reached: {:?}", reached.missed);

    let found = search(config);
    println!(
        "{name}: {} states, depth {}, {} promises, {} situations",
        found.states,
        found.depth,
        found.promises,
        reached.seen.len()
    );
    let broken = found.broken.into_iter().map(|(promise, path)| (promise, path.into_actions()));
    let broken: Vec<_> = broken.collect();
    assert!(broken.is_empty(), "{name}: broken: {broken:#?}");
}

#[test]
fn with_two_messages_lost_or_late_every_promise_is_kept() {
    keeps_every_promise(Config::one_payload());
}

#[test]
fn with_two_payloads_every_promise_is_kept() {
    keeps_every_promise(Config::two_payloads());
}

#[test]
fn with_longer_leases_and_retention_every_promise_is_kept() {
    keeps_every_promise(Config::two_payloads_long());
}

#[test]
fn with_three_callers_at_once_every_promise_is_kept() {
    keeps_every_promise(Config::three_callers());
}

#[test]
fn with_a_handler_that_hangs_every_promise_is_kept() {
    keeps_every_promise(Config::patient());
}

#[test]
fn with_expired_keys_refused_every_promise_is_kept() {
    keeps_every_promise(Config::tombstone());
}

#[test]
fn at_most_once_every_promise_is_kept() {
    keeps_every_promise(Config::reject());
}

#[test]
fn at_most_once_with_lapsed_holders_shut_out_every_promise_is_kept() {
    keeps_every_promise(Config::reject_for_good());
}
