//! Runs the checker, and looks for the shortest counterexample.

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::config::Config;
use crate::model::{Action, Ask, IdemModel};
use crate::mutant::Mutant;
use crate::world::World;

/// What came of one search to the end.
#[derive(Debug)]
pub struct Searched {
    /// How many different worlds there are.
    pub states: usize,
    /// The longest of the shortest ways to one.
    pub depth: usize,
    /// The promises looked at.
    pub promises: usize,
    /// The promises broken, each with how.
    pub broken: Vec<(&'static str, Path<World, Action>)>,
}

/// What came of looking for something possible.
#[derive(Debug)]
pub struct Reached {
    /// What was seen.
    pub seen: Vec<&'static str>,
    /// What was looked for in vain.
    pub missed: Vec<&'static str>,
}

/// Searches all worlds of the honest protocol for a broken promise.
pub fn search(config: Config) -> Searched {
    let model = IdemModel::honest(config, Ask::Promises);
    let promises = model.properties().len();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    Searched {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        promises,
        broken: checker.discoveries().into_iter().collect(),
    }
}

/// Searches the worlds of the honest protocol until everything that must be possible was seen.
pub fn reach(config: Config) -> Reached {
    let model = IdemModel::honest(config, Ask::Reach);
    let names: Vec<_> = model.properties().iter().map(|goal| goal.name).collect();
    let checker = model.checker().finish_when(HasDiscoveries::All).spawn_bfs().join();
    let found = checker.discoveries();
    let (seen, missed) = names.into_iter().partition(|name| found.contains_key(name));
    Reached { seen, missed }
}

/// Looks for a way in which the mutant breaks the promise that it was made to break.
pub fn refute(mutant: Mutant) -> Option<Path<World, Action>> {
    shortest(|| IdemModel::mutant(mutant), mutant.breaks())
}

/// Looks for a way to a situation that must be possible.
pub fn show(config: &Config, situation: &'static str) -> Option<Path<World, Action>> {
    shortest(|| IdemModel::honest(config.clone(), Ask::Reach), situation)
}

/// Looks for the shortest way to a discovery.
///
/// The checker keeps the last one of a block, so it is asked again, each time not to look as
/// far as the last one, until it finds none.
fn shortest(model: impl Fn() -> IdemModel, discovery: &'static str) -> Option<Path<World, Action>> {
    let mut best: Option<Path<World, Action>> = None;
    loop {
        let wanted = HasDiscoveries::AnyOf([discovery].into());
        let mut checker = model().checker().finish_when(wanted);
        if let Some(path) = &best {
            checker = checker.target_max_depth(path.clone().into_vec().len());
        }
        match checker.spawn_bfs().join().discovery(discovery) {
            Some(path) => best = Some(path),
            None => return best,
        }
    }
}
