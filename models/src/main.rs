//! Prints what the checker found: `cargo run -p idem-model [-- MUTANT or SITUATION]`.

use std::collections::BTreeSet;
use std::time::Instant;

use idem_model::config::Config;
use idem_model::model::Action;
use idem_model::mutant::Mutant;
use idem_model::search::{reach, refute, search, show};
use idem_model::transaction;
use idem_model::world::World;
use stateright::Path;

fn main() {
    match std::env::args().nth(1) {
        Some(name) => tell(&name),
        None => tables(),
    }
}

/// Prints one mutant's counterexample, or how some situation comes about.
fn tell(name: &str) {
    if let Some(mutant) = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name) {
        println!("{name} breaks \"{}\" in {}:", mutant.breaks(), mutant.config().name);
        return refute(mutant).map_or_else(|| println!("not at all"), tell_path);
    }
    for config in Config::all() {
        let seen = reach(config.clone()).seen;
        let known = seen.into_iter().find(|situation| *situation == name);
        if let Some(path) = known.and_then(|situation| show(&config, situation)) {
            println!("{name}, in {}:", config.name);
            return tell_path(path);
        }
    }
    eprintln!("no mutant or situation `{name}`; without an argument all are listed");
    std::process::exit(2);
}

fn tell_path(path: Path<World, Action>) {
    for (world, action) in path.into_vec() {
        println!("    {:?}", world.record);
        if let Some(action) = action {
            println!("{action:?}");
        }
    }
}

fn tables() {
    let mut situations = BTreeSet::new();
    println!(
        "{:<20} {:>9} {:>5} {:>8} {:>9} {:>7}",
        "honest protocol", "states", "depth", "promises", "reached", "seconds"
    );
    for config in Config::all() {
        let (name, began) = (config.name, Instant::now());
        let reached = reach(config.clone());
        let found = search(config);
        let goals = reached.seen.len() + reached.missed.len();
        println!(
            "{name:<20} {:>9} {:>5} {:>8} {:>9} {:>7.1}",
            found.states,
            found.depth,
            format!("{}/{}", found.promises - found.broken.len(), found.promises),
            format!("{}/{goals}", reached.seen.len()),
            began.elapsed().as_secs_f64(),
        );
        situations.extend(reached.seen);
        for name in reached.missed {
            println!("    never reached: {name}");
        }
        for (name, path) in found.broken {
            println!("    BROKEN: {name}");
            for action in path.into_actions() {
                println!("        {action:?}");
            }
        }
    }
    println!("\nsituations reached (each can be shown):");
    for situation in situations {
        println!("    {situation}");
    }
    println!("\n{:<24} {:<36} {:>5}  in", "mutant", "breaks", "steps");
    for mutant in Mutant::ALL {
        let steps = refute(mutant).map_or("NONE".to_owned(), |path| path.into_actions().len().to_string());
        let (name, config) = (format!("{mutant:?}"), mutant.config().name);
        println!("{name:<24} {:<36} {steps:>5}  {config}", mutant.breaks());
    }
    transactions();
}

fn transactions() {
    let found = transaction::search(4);
    println!("\ntransactions: {} states, depth {}, wrong: {:?}", found.states, found.depth, found.wrong);
    println!("\n{:<24} {:<44} {:>5}", "fault of a transaction", "breaks", "steps");
    for fault in transaction::Fault::ALL {
        let steps = transaction::refute(fault).map_or("NONE".to_owned(), |path| path.len().to_string());
        println!("{:<24} {:<44} {steps:>5}", format!("{fault:?}"), fault.breaks());
    }
}
