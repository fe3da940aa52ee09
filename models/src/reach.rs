//! What must be possible: a promise about something that never happens is worth nothing.

use stateright::Property;

use crate::config::{Config, OnCrash};
use crate::model::IdemModel;
use crate::record::{OPERATOR, Op, Record, Reply, Ticks};
use crate::world::World;

/// Lists what must be reachable under these options.
pub fn goals(config: &Config) -> Vec<Property<IdemModel>> {
    let mut goals = vec![
        Property::sometimes("a replay", replay),
        Property::sometimes("a retry after a failure", retry),
        Property::sometimes("a zombie fenced off", fenced),
        Property::sometimes("an expired key runs as new before it is swept", runs_as_new),
    ];
    let mut when = |holds, name, condition| {
        if holds {
            goals.push(Property::sometimes(name, condition));
        }
    };
    let crowd = config.slots > 1;
    let lossy = config.strays > 0;
    when(crowd, "a rival told in flight", in_flight);
    when(crowd, "a zombie that a counter would let pass", same_attempt);
    when(crowd, "a zombie that answers what the record says", zombie_replays);
    when(config.payloads > 1, "a mismatch in flight", mismatch_in_flight);
    when(config.payloads > 1, "a mismatch after the answer", mismatch_completed);
    when(config.payloads > 1, "a mismatch after a failure", mismatch_failed);
    when(lossy, "a claim repeated", claim_repeated);
    when(lossy, "a completion repeated", completion_repeated);
    when(lossy, "a claim that arrives after it was given up", late_claim);
    when(config.tombstone > 0, "an expired key refused", expired);
    let rejects = config.rejects();
    when(!rejects, "a take-over", take_over);
    when(!rejects && crowd, "two effects, one of a zombie", two_effects);
    when(config.on_crash != OnCrash::RejectForGood, "a late holder completes", late_completion);
    when(rejects, "an unknown outcome", unknown);
    when(rejects && lossy, "an unknown outcome of nothing", unknown_of_nothing);
    when(config.operator > 0, "a zombie after the operator settled", settled_zombie);
    goals
}

/// Says whether something that a caller may ask now finds such a record and gets such a reply.
fn told(model: &IdemModel, world: &World, wanted: impl Fn(Op, Record, Reply) -> bool) -> bool {
    let read = model.protocol.read(world.record);
    let mut questions = model.questions(world).into_iter();
    questions.any(|op| wanted(op, read, model.protocol.step(world.record, op).1))
}

fn replay(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, _, reply| matches!((op, reply), (Op::Claim { .. }, Reply::Completed(_))))
}

fn retry(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, read, reply| {
        matches!(read, Record::Failed { .. }) && matches!(reply, Reply::Granted { .. })
    })
}

fn take_over(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, read, reply| {
        matches!(read, Record::InFlight { lease: 0, owner, .. } if owner != op.owner())
            && matches!(reply, Reply::Granted { attempt: 2.. })
    })
}

fn fenced(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, _, reply| matches!(op, Op::Complete { .. }) && reply == Reply::Lost)
}

fn same_attempt(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, read, reply| match (op, read) {
        (Op::Complete { attempt, .. }, Record::InFlight { attempt: current, .. }) => {
            reply == Reply::Lost && attempt == current
        }
        _ => false,
    })
}

fn zombie_replays(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, _, reply| matches!((op, reply), (Op::LookUp { .. }, Reply::Completed(_))))
}

fn late_completion(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, read, reply| {
        matches!(op, Op::Complete { .. })
            && matches!(read, Record::InFlight { lease: 0, .. })
            && reply == Reply::Held
    })
}

fn runs_as_new(model: &IdemModel, world: &World) -> bool {
    matches!(world.record, Record::Completed { keep: 0, .. })
        && told(model, world, |_, _, reply| reply == Reply::Granted { attempt: 1 })
}

fn in_flight(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, _, reply| reply == Reply::InFlight)
}

fn mismatch_in_flight(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, read, reply| {
        matches!(read, Record::InFlight { lease: 1.., .. }) && reply == Reply::Mismatch
    })
}

fn mismatch_completed(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, read, reply| matches!(read, Record::Completed { .. }) && reply == Reply::Mismatch)
}

fn mismatch_failed(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, read, reply| matches!(read, Record::Failed { .. }) && reply == Reply::Mismatch)
}

fn claim_repeated(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, read, reply| {
        matches!(op, Op::Claim { .. })
            && matches!(read, Record::InFlight { owner, .. } if owner == op.owner())
            && matches!(reply, Reply::Granted { .. })
    })
}

fn completion_repeated(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, read, reply| {
        matches!(op, Op::Complete { .. }) && matches!(read, Record::Completed { .. }) && reply == Reply::Held
    })
}

/// The release came first, its claim later: the key is held for nobody, one lease long.
fn late_claim(model: &IdemModel, world: &World) -> bool {
    held_for_nobody(model, world, |lease| lease > 0)
}

fn held_for_nobody(model: &IdemModel, world: &World, lease_is: fn(Ticks) -> bool) -> bool {
    let Record::InFlight { owner, lease, .. } = model.protocol.read(world.record) else {
        return false;
    };
    // Given up and gone, with no release of its own that may still arrive.
    let given_up = world.truth.is_excused(owner) && world.caller(owner).is_none();
    given_up && world.strays.is_empty() && lease_is(lease)
}

fn expired(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, _, reply| reply == Reply::Expired)
}

fn two_effects(_: &IdemModel, world: &World) -> bool {
    let truth = &world.truth;
    truth.effects.len() > 1 && truth.effects.iter().all(|effect| !truth.is_excused(effect.owner))
}

fn unknown(model: &IdemModel, world: &World) -> bool {
    told(model, world, |_, _, reply| reply == Reply::Abandoned)
}

/// The same, one lease later, at most once: it waits for an operator, and no handler ever ran.
fn unknown_of_nothing(model: &IdemModel, world: &World) -> bool {
    world.truth.effects.is_empty() && held_for_nobody(model, world, |lease| lease == 0)
}

fn settled_zombie(model: &IdemModel, world: &World) -> bool {
    told(model, world, |op, read, reply| {
        matches!(op, Op::Complete { .. })
            && matches!(read, Record::Completed { owner: OPERATOR, .. })
            && reply == Reply::Lost
    })
}
