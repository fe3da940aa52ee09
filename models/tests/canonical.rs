//! Worlds that the checker takes for one are as good as one: nothing is overlooked by it.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use idem_model::config::Config;
use idem_model::model::{Ask, IdemModel};
use idem_model::mutant::Mutant;
use idem_model::protocol::Protocol;
use idem_model::world::World;
use stateright::Model;

/// Visits every world once, as `key` tells them apart, and lists what could be seen there:
/// the record but for names, what the callers are about, and which promises are kept.
fn seen<K: Eq + Hash>(model: &IdemModel, key: impl Fn(&World) -> K) -> (usize, BTreeSet<String>) {
    let promises = model.properties();
    let mut sights = BTreeSet::new();
    let mut met = HashSet::new();
    let mut waiting = model.init_states();
    while let Some(world) = waiting.pop() {
        if !met.insert(key(&world)) {
            continue;
        }
        let kept: Vec<_> = promises.iter().map(|p| (p.condition)(model, &world)).collect();
        let record = world.canonical().record;
        let mut steps: Vec<_> = world.callers.iter().map(|caller| caller.step).collect();
        steps.sort_unstable();
        let left = (world.started, world.ticks, world.losses);
        sights.insert(format!("{record:?} {steps:?} {left:?} {kept:?}"));
        waiting.extend(model.next_states(&world));
    }
    (met.len(), sights)
}

fn nothing_is_overlooked(mutant: Option<Mutant>) {
    let config = Config { requests: 2, ticks: 2, ..Config::two_payloads() };
    let model = IdemModel { protocol: Protocol { config, mutant }, ask: Ask::Promises };
    // By everything there is to a world, down to its names.
    let (all, by_all) = seen(&model, |world| format!("{world:?}"));
    let (fewer, by_fewer) = seen(&model, World::canonical);
    println!("{mutant:?}: {all} worlds, {fewer} worth telling apart, {} sights", by_all.len());
    assert!(fewer < all);
    assert_eq!(by_all, by_fewer);
}

#[test]
fn of_the_honest_protocol_nothing_is_overlooked() {
    nothing_is_overlooked(None);
}

#[test]
fn of_a_protocol_that_fences_by_attempt_nothing_is_overlooked() {
    nothing_is_overlooked(Some(Mutant::CounterForOwner));
}

#[test]
fn of_a_protocol_without_mismatch_nothing_is_overlooked() {
    nothing_is_overlooked(Some(Mutant::TakeOverSkipsMismatch));
}
