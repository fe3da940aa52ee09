//! The promises, each a name, a sentence and a function.
//!
//! Some compare the store with [`Truth`](crate::truth::Truth), some try a few steps from the
//! state at hand and throw the outcome away.

use stateright::Property;

use crate::config::Config;
use crate::model::IdemModel;
use crate::protocol::Protocol;
use crate::record::{Answer, Op, Owner, Payload, Record, Release, Reply};
use crate::world::World;

/// Name of [`one_lease_at_a_time`].
pub const ONE_LEASE: &str = "one lease at a time";
/// Name of [`one_answer_a_life`].
pub const ONE_ANSWER: &str = "one answer a life";
/// Name of [`a_stale_owner_changes_nothing`].
pub const STALE_OWNER: &str = "a stale owner changes nothing";
/// Name of [`a_bound_key_runs_one_payload`].
pub const BOUND: &str = "a bound key runs one payload";
/// Name of [`a_mismatch_comes_first`].
pub const MISMATCH_FIRST: &str = "a mismatch comes first";
/// Name of [`nothing_is_in_flight_for_ever`].
pub const NOT_FOR_EVER: &str = "nothing is in flight for ever";
/// Name of [`a_hanging_handler_lets_go`].
pub const CEILING: &str = "a hanging handler lets go";
/// Name of [`reject_runs_once`].
pub const REJECT_ONCE: &str = "reject runs once";
/// Name of [`every_replay_is_the_stored_answer`].
pub const TRUE_REPLAY: &str = "every replay is the stored answer";
/// Name of [`an_answer_lasts_its_whole_ttl`].
pub const WHOLE_TTL: &str = "an answer lasts its whole ttl";
/// Name of [`one_effect_and_one_a_take_over`].
pub const FEW_EFFECTS: &str = "one effect and one a take-over";
/// Name of [`attempts_are_told_apart`].
pub const ATTEMPTS: &str = "attempts are told apart";
/// Name of [`a_lost_reply_can_be_asked_again`].
pub const REPEATABLE: &str = "a lost reply can be asked again";
/// Name of [`a_sweep_is_not_noticed`].
pub const SWEEP_UNSEEN: &str = "a sweep is not noticed";

/// Somebody who has never been heard of.
const STRANGER: Owner = 100;

/// Lists the promises that mean something under these options.
pub fn promises(config: &Config) -> Vec<Property<IdemModel>> {
    let mut promises = vec![
        Property::always(ONE_LEASE, one_lease_at_a_time),
        Property::always(ONE_ANSWER, one_answer_a_life),
        Property::always(STALE_OWNER, a_stale_owner_changes_nothing),
        Property::always(BOUND, a_bound_key_runs_one_payload),
        Property::always(MISMATCH_FIRST, a_mismatch_comes_first),
        Property::always(NOT_FOR_EVER, nothing_is_in_flight_for_ever),
        Property::always(CEILING, a_hanging_handler_lets_go),
        Property::always(TRUE_REPLAY, every_replay_is_the_stored_answer),
        Property::always(WHOLE_TTL, an_answer_lasts_its_whole_ttl),
        Property::always(FEW_EFFECTS, one_effect_and_one_a_take_over),
        Property::always(ATTEMPTS, attempts_are_told_apart),
        Property::always(REPEATABLE, a_lost_reply_can_be_asked_again),
        Property::always(SWEEP_UNSEEN, a_sweep_is_not_noticed),
    ];
    if config.rejects() {
        promises.push(Property::always(REJECT_ONCE, reject_runs_once));
    }
    promises
}

/// Of all who were granted the key, at most one has a lease that is not over.
pub fn one_lease_at_a_time(_: &IdemModel, world: &World) -> bool {
    world.truth.leases.len() <= 1
}

/// A stored answer is the first that this life of the record was given, by its holder.
pub fn one_answer_a_life(model: &IdemModel, world: &World) -> bool {
    match model.protocol.read(world.record) {
        Record::Completed { answer, .. } => world.truth.answer.is_some_and(|(first, _)| first == answer),
        _ => true,
    }
}

/// Whoever does not hold the key can neither complete, renew nor release, and is told so.
pub fn a_stale_owner_changes_nothing(_: &IdemModel, world: &World) -> bool {
    !world.truth.stale_step
}

/// While a key is bound, handlers run under it for the payload that bound it, and no other.
pub fn a_bound_key_runs_one_payload(_: &IdemModel, world: &World) -> bool {
    let truth = &world.truth;
    truth.effects.iter().all(|effect| effect.payload == truth.payload)
}

/// A claim with another payload is a mismatch, whatever the bound record is in the middle of.
pub fn a_mismatch_comes_first(model: &IdemModel, world: &World) -> bool {
    if world.truth.binding.is_none() {
        return true;
    }
    others(model, world.truth.payload).all(|payload| claim(model, world.record, payload).1 == Reply::Mismatch)
}

/// One lease after the last sign of life a claim is not told in flight any more, and from
/// there, by a run or by an operator, the key comes to an answer that is replayed.
pub fn nothing_is_in_flight_for_ever(model: &IdemModel, world: &World) -> bool {
    let mut record = world.record;
    for _ in 0..model.config().lease {
        record = Protocol::tick(record);
    }
    (0..model.config().payloads).all(|payload| match claim(model, record, payload) {
        (_, Reply::InFlight) => false,
        (held, Reply::Granted { attempt }) => {
            let op = Op::Complete { owner: STRANGER, attempt, payload };
            let (done, reply) = model.protocol.step(held, op);
            let answer = Answer { by: STRANGER, to: payload };
            reply == Reply::Held && claim(model, done, payload).1 == Reply::Completed(answer)
        }
        (unknown, Reply::Abandoned) => model
            .protocol
            .settle(unknown)
            .is_some_and(|done| matches!(claim(model, done, payload).1, Reply::Completed(_))),
        _ => true,
    })
}

/// No holder has a live lease for longer than its first, its renewals and its strays give it.
pub fn a_hanging_handler_lets_go(model: &IdemModel, world: &World) -> bool {
    let config = model.config();
    world.truth.held <= config.lease * (1 + config.renewals + config.strays)
}

/// Under `on_crash = reject` no handler runs after another, unless that one failed with leave
/// to run again, or an operator forgot the record.
pub fn reject_runs_once(_: &IdemModel, world: &World) -> bool {
    let truth = &world.truth;
    truth.effects.iter().filter(|effect| !truth.is_excused(effect.owner)).count() <= 1
}

/// Whoever is given an answer is given the stored one, and it is the answer to his payload.
pub fn every_replay_is_the_stored_answer(_: &IdemModel, world: &World) -> bool {
    !world.truth.false_replay
}

/// From its completion, `[t, t + ttl)`, an answer is what a claim gets; then the tombstone
/// refuses for its time; then neither is heard of again.
pub fn an_answer_lasts_its_whole_ttl(model: &IdemModel, world: &World) -> bool {
    (0..model.config().payloads).all(|payload| {
        let told = claim(model, world.record, payload).1;
        match world.truth.due(model.config(), payload) {
            Some(due) => told == due,
            None => !matches!(told, Reply::Completed(_) | Reply::Expired),
        }
    })
}

/// Of all handlers that ran in one life, only one belongs to a holder that neither outlived
/// its lease nor failed: one effect, and one more for each take-over or retry.
pub fn one_effect_and_one_a_take_over(_: &IdemModel, world: &World) -> bool {
    let truth = &world.truth;
    let unexplained = truth
        .effects
        .iter()
        .filter(|effect| !truth.has_lapsed(effect.owner) && !truth.is_excused(effect.owner));
    unexplained.count() <= 1
}

/// No two handlers of one life were told the same attempt.
pub fn attempts_are_told_apart(_: &IdemModel, world: &World) -> bool {
    let effects = &world.truth.effects;
    effects
        .iter()
        .enumerate()
        .all(|(at, effect)| effects[..at].iter().all(|earlier| earlier.attempt != effect.attempt))
}

/// A holder that repeats its claim, and whoever repeats a completion that went through, is
/// told the same again.
pub fn a_lost_reply_can_be_asked_again(_: &IdemModel, world: &World) -> bool {
    !world.truth.refused_repeat
}

/// Whether the sweeper came by makes no difference to what anybody is told or brings about.
pub fn a_sweep_is_not_noticed(model: &IdemModel, world: &World) -> bool {
    let protocol = &model.protocol;
    let swept = protocol.sweep(world.record);
    if swept == world.record {
        return true;
    }
    let same = |op| {
        let (left, told) = protocol.step(world.record, op);
        let (left_swept, told_swept) = protocol.step(swept, op);
        told == told_swept && protocol.read(left) == protocol.read(left_swept)
    };
    let payloads = 0..model.config().payloads;
    let strangers = payloads.clone().map(|payload| Op::Claim { owner: STRANGER, payload });
    let known = (0..world.started).flat_map(|owner| {
        let attempt = 1;
        let releases = [Release::Forget, Release::KeepBinding, Release::Unknown].map(|how| Op::Release {
            owner,
            attempt,
            how,
        });
        let tries = payloads.clone().flat_map(move |payload| {
            [Op::Claim { owner, payload }, Op::Complete { owner, attempt, payload }]
        });
        tries.chain(releases).chain([Op::Renew { owner, attempt }])
    });
    strangers.chain(known).all(same)
}

fn claim(model: &IdemModel, record: Record, payload: Payload) -> (Record, Reply) {
    model.protocol.step(record, Op::Claim { owner: STRANGER, payload })
}

fn others(model: &IdemModel, payload: Payload) -> impl Iterator<Item = Payload> {
    (0..model.config().payloads).filter(move |other| *other != payload)
}
