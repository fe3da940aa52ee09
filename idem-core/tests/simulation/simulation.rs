//! One simulation from its seed to its end.

use std::sync::Arc;
use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::policy::InFlight;
use tokio::time::{sleep, timeout};

use crate::broken::Broken;
use crate::client::{Ask, Engines, Way, ask_once, client};
use crate::nemesis::{engine, nemesis, start};
use crate::promise::Promise;
use crate::trace::{Told, Trace};
use crate::world::World;

/// Longer than any call, handler or background write can take, by far.
const LONG: Duration = Duration::from_mins(20);

/// What came of a simulation.
pub(crate) struct Report {
    pub(crate) trace: Trace,
    pub(crate) broken: Option<(Promise, String)>,
}

/// Simulates a world in which everything is decided by the seed.
pub(crate) fn simulate(seed: u64, broken: Option<Broken>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without anything of the system's");
    let world = runtime.block_on(async {
        let world = World::new(seed, broken);
        course(&world).await;
        world
    });
    // What dead processes left hanging goes with it.
    drop(runtime);
    let mut state = world.state();
    Report { trace: std::mem::take(&mut state.trace), broken: state.witness.broken().cloned() }
}

async fn course(world: &Arc<World>) {
    let engines = Engines::default();
    for process in 0..world.plan.processes {
        let engine = engine(world, process);
        engines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(engine);
    }
    let mut tasks: Vec<_> =
        (0..world.plan.clients).map(|_| tokio::spawn(client(world.clone(), engines.clone()))).collect();
    tasks.push(tokio::spawn(nemesis(world.clone(), engines.clone())));
    for task in tasks {
        if timeout(LONG, task).await.map_or(true, |ended| ended.is_err()) {
            return breaks(world, Promise::AllEnds, "a call does not end");
        }
    }
    // What was answered earlier may be given up by now, if the store was away all the time: it is offered for as long as
    // a run may take, and a message that is lost costs a time-out.
    let offered = (world.plan.max_run / 2).saturating_sub(world.plan.store_timeout);
    let answers_from = world.now().saturating_sub(offered);
    world.heal();
    // Time enough for the next attempt to store an answer, if the last one is not heard of again.
    sleep(world.plan.store_timeout + Duration::from_secs(1)).await;
    let dead: Vec<_> = (0..world.processes()).map(|process| world.process(process).dead).collect();
    let now = world.now();
    world.state().witness.are_stored(now, |process| (!dead[process as usize]).then_some(answers_from));
    if !all_ends(world, &engines).await {
        return;
    }
    // Leases of the dead lapse, and what was late has come by now.
    sleep(LONG).await;
    let fresh = start(world, &engines);
    for key in 0..world.plan.keys {
        answered(world, &engines, fresh, key).await;
    }
    if all_ends(world, &engines).await {
        leaves_nothing(world).await;
    }
}

fn breaks(world: &World, promise: Promise, how: &str) {
    world.state().witness.breaks(promise, how);
}

/// Waits until nothing is under way in any process that lives.
async fn all_ends(world: &World, engines: &Engines) -> bool {
    let engines = engines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    for (process, engine) in engines.iter().enumerate() {
        if world.process(process as u32).dead {
            continue;
        }
        let left = engine.drain(LONG).await;
        // The renewer lingers until it would have had to renew.
        sleep(world.plan.lease * 2).await;
        if left > 0 || !engine.is_idle() {
            breaks(world, Promise::AllEnds, &format!("process {process}: {left} under way, or renewal"));
            return false;
        }
    }
    true
}

/// Shows that a key comes to an answer now that nothing goes wrong any more, and keeps to it.
async fn answered(world: &Arc<World>, engines: &Engines, process: u32, key: u32) {
    let payload = match world.state().witness.payload_of(key as usize) {
        0 => key * 10,
        payload => payload,
    };
    let ask = |payload| Ask { process, key, payload, way: Way::Detached, in_flight: InFlight::Reject };
    let mut first = None;
    // A handler may fail by itself a few times.
    for _ in 0..50 {
        match ask_once(world, engines, ask(payload), None).await {
            Told::Fresh(answer) | Told::Replayed(answer) => {
                first = Some(answer);
                break;
            }
            Told::Refused(ErrorKind::OutcomeUnknown) => world.operate(key, Some(u64::from(key) + (1 << 33))),
            // The work was done, and its answer could not be kept.
            Told::Refused(ErrorKind::AnswerUnavailable) => break,
            Told::Refused(ErrorKind::KeyExpired) => sleep(world.plan.tombstone.unwrap_or_default()).await,
            Told::FreshErr | Told::Panicked | Told::Refused(ErrorKind::Aborted | ErrorKind::LeaseLost) => {}
            told => return breaks(world, Promise::NotForEver, &format!("after all is well: {told:?}")),
        }
    }
    let again = ask_once(world, engines, ask(payload), None).await;
    let same = match (first, again) {
        (Some(first), Told::Replayed(again)) => first == again,
        (None, Told::Refused(ErrorKind::AnswerUnavailable)) => true,
        _ => false,
    };
    if !same {
        breaks(world, Promise::TrueReplay, &format!("first {first:?}, then {again:?}"));
    }
    let other = ask_once(world, engines, ask(payload + 1), None).await;
    if other != Told::Refused(ErrorKind::Mismatch) {
        breaks(world, Promise::Bound, &format!("another payload is told {other:?}"));
    }
}

/// When all answers and tombstones are over, nothing is left to sweep but what is swept.
async fn leaves_nothing(world: &World) {
    sleep(world.plan.ttl + world.plan.tombstone.unwrap_or_default() + Duration::from_secs(1)).await;
    world.sweep(1000).await;
    if !world.store.is_empty() {
        breaks(world, Promise::Swept, "records are left after their time");
    }
}
