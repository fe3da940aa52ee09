//! Everything that can happen next, for the checker to try.

use stateright::{Model, Property};

use crate::caller::{Caller, Step};
use crate::config::Config;
use crate::mutant::Mutant;
use crate::protocol::Protocol;
use crate::record::{Op, Owner, Record, Reply};
use crate::truth::{Effect, Truth};
use crate::world::World;
use crate::{properties, reach};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A caller, with its first claim a new one, asks the store and hears the reply.
    Ask(Op),
    /// A caller asks the store, and its message goes astray: no reply, perhaps an arrival.
    Lose(Op),
    /// A message that went astray reaches the store after all; nobody hears the reply.
    Arrive(Op),
    /// A handler has its effect.
    Act(Owner),
    /// A caller's process dies.
    Crash(Owner),
    /// The store's clock goes on.
    Tick,
    /// The sweeper comes by.
    Sweep,
    /// An operator gives an answer to what has none.
    Settle,
    /// An operator forgets the record.
    Forget,
}

/// Which properties the checker is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What must always hold; the search goes to the end.
    Promises,
    /// What must be possible; the search ends when each has been seen.
    Reach,
}

/// The protocol with its callers, its clock and its bad luck.
#[derive(Clone, Debug)]
pub struct IdemModel {
    /// The rules of the store.
    pub protocol: Protocol,
    /// What is asked.
    pub ask: Ask,
}

impl IdemModel {
    /// Takes the protocol as it should be.
    pub fn honest(config: Config, ask: Ask) -> Self {
        Self { protocol: Protocol { config, mutant: None }, ask }
    }

    /// Takes a mutant in its own configuration.
    pub fn mutant(mutant: Mutant) -> Self {
        let protocol = Protocol { config: mutant.config(), mutant: Some(mutant) };
        Self { protocol, ask: Ask::Promises }
    }

    /// The options and times.
    pub fn config(&self) -> &Config {
        &self.protocol.config
    }

    /// Lists what callers, a new one included, may ask of the store now.
    pub fn questions(&self, world: &World) -> Vec<Op> {
        let config = self.config();
        let mut ops = Vec::new();
        if world.started < config.requests && world.callers.len() < config.slots {
            for payload in 0..config.payloads {
                Caller::new(world.started, payload, config).asks(&self.protocol, &mut ops);
            }
        }
        for caller in &world.callers {
            caller.asks(&self.protocol, &mut ops);
        }
        ops
    }

    /// Takes a step of the store and writes down what it was.
    fn step(&self, world: &mut World, op: Op) -> Reply {
        let (record, reply) = self.protocol.step(world.record, op);
        let changed = record != world.record;
        world.record = record;
        world.truth.observe(self.config(), op, reply, changed);
        reply
    }

    /// Takes a caller out of the world to do something, perhaps a new one.
    fn take(&self, world: &mut World, op: Op) -> Option<Caller> {
        let caller = match (world.remove(op.owner()), op) {
            (Some(caller), _) => caller,
            (None, Op::Claim { owner, payload }) => {
                world.started += 1;
                Caller::new(owner, payload, self.config())
            }
            (None, _) => return None,
        };
        if caller.lets_others_run(op) {
            world.truth.excuse(caller.owner);
        }
        Some(caller)
    }

    fn ask(&self, world: &mut World, op: Op) -> Option<()> {
        let caller = self.take(world, op)?;
        let reply = self.step(world, op);
        if let Some(mut caller) = caller.hears(op, reply, &self.protocol) {
            if let Reply::Granted { .. } = reply {
                caller.life = world.truth.life;
            }
            world.insert(caller);
        }
        Some(())
    }

    fn lose(&self, world: &mut World, op: Op) -> Option<()> {
        let caller = self.take(world, op)?.waits_in_vain(op, &self.protocol);
        world.losses -= 1;
        world.strays.push(op);
        world.strays.sort_unstable();
        world.insert(caller);
        Some(())
    }

    fn arrive(&self, world: &mut World, op: Op) -> Option<()> {
        let at = world.strays.iter().position(|stray| *stray == op)?;
        world.strays.remove(at);
        self.step(world, op);
        Some(())
    }
}

/// Lets a handler have its effect.
fn act(world: &mut World, owner: Owner) -> Option<()> {
    let mut caller = world.remove(owner)?;
    let Step::Running { attempt, .. } = caller.step else {
        return None;
    };
    caller.step = Step::Running { attempt, acted: true };
    let payload = caller.payload;
    world.truth.acted(caller.life, Effect { attempt, payload, owner });
    world.insert(caller);
    Some(())
}

impl Model for IdemModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let config = self.config();
        vec![World {
            record: Record::Absent,
            callers: Vec::new(),
            strays: Vec::new(),
            started: 0,
            ticks: config.ticks,
            losses: config.strays,
            operator: config.operator,
            truth: Truth::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let questions = self.questions(world);
        if world.losses > 0 {
            let lossy = questions.iter().copied();
            let lossy =
                lossy.filter(|op| !matches!(op, Op::Insert { .. } | Op::Inspect { .. } | Op::LookUp { .. }));
            actions.extend(lossy.map(Action::Lose));
        }
        actions.extend(questions.into_iter().map(Action::Ask));
        for caller in &world.callers {
            if matches!(caller.step, Step::Running { acted: false, .. }) {
                actions.push(Action::Act(caller.owner));
            }
            actions.push(Action::Crash(caller.owner));
        }
        for (at, op) in world.strays.iter().enumerate() {
            if at == 0 || world.strays[at - 1] != *op {
                actions.push(Action::Arrive(*op));
            }
        }
        if world.ticks > 0 {
            actions.push(Action::Tick);
        }
        actions.push(Action::Sweep);
        if world.operator > 0 {
            actions.extend([Action::Settle, Action::Forget]);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Ask(op) => self.ask(&mut world, op)?,
            Action::Lose(op) => self.lose(&mut world, op)?,
            Action::Arrive(op) => self.arrive(&mut world, op)?,
            Action::Act(owner) => act(&mut world, owner)?,
            Action::Crash(owner) => drop(world.remove(owner)),
            Action::Tick => {
                world.ticks -= 1;
                world.record = Protocol::tick(world.record);
                world.truth.tick();
            }
            Action::Sweep => world.record = self.protocol.sweep(world.record),
            Action::Settle => {
                world.record = self.protocol.settle(world.record)?;
                world.operator -= 1;
                world.truth.settled(self.config());
            }
            Action::Forget => {
                world.record = Record::Absent;
                world.operator -= 1;
                world.truth.forgotten();
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        match self.ask {
            Ask::Promises => properties::promises(self.config()),
            Ask::Reach => reach::goals(self.config()),
        }
    }
}
