//! Transaction mode: claim, the handler's writes and the answer in one commit, with connections that break at any step,
//! commits whose reply is lost, and a database that restarts.

use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use crate::record::{Owner, Payload};

/// Name of [`one_effect_with_its_answer`].
pub const EXACTLY_ONE: &str = "transaction mode has exactly one effect";
/// Name of [`what_is_told_is_committed`].
pub const TOLD: &str = "what is told is committed";
/// Name of [`the_dead_hold_nothing`].
pub const FREE: &str = "a dead transaction holds nothing";
/// Name of [`one_payload`].
pub const ONE_PAYLOAD: &str = "a bound key commits one payload";

/// What is committed of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// Nothing.
    Absent,
    /// The handler failed: bound, and free to run again.
    Failed(Payload),
    /// Answered.
    Answered {
        /// What the key is bound to.
        payload: Payload,
        /// Whose handler it was.
        by: Owner,
    },
}

/// One fault each, in an otherwise honest protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The record is read before the lock is taken, as a single statement's snapshot is.
    ReadBeforeLock,
    /// The handler writes over a connection of its own.
    EffectOutside,
    /// The answer is stored in a transaction of its own, after the handler's.
    AnswerApart,
    /// What a failed handler wrote is not undone.
    NoSavepoint,
    /// A commit whose reply was lost is taken for done.
    CommitAssumed,
    /// A lock belongs to a session that goes back to its pool.
    LockOutlives,
    /// Nobody compares payloads.
    MismatchSkipped,
    /// The database says "committed" before it can survive a restart.
    CommitNotDurable,
}

impl Fault {
    /// Every fault there is.
    pub const ALL: [Self; 8] = [
        Self::ReadBeforeLock,
        Self::EffectOutside,
        Self::AnswerApart,
        Self::NoSavepoint,
        Self::CommitAssumed,
        Self::LockOutlives,
        Self::MismatchSkipped,
        Self::CommitNotDurable,
    ];

    /// Names the promise that it was made to break; it may break others too.
    pub fn breaks(self) -> &'static str {
        match self {
            Self::ReadBeforeLock | Self::EffectOutside | Self::AnswerApart | Self::NoSavepoint => EXACTLY_ONE,
            Self::CommitAssumed | Self::CommitNotDurable => TOLD,
            Self::LockOutlives => FREE,
            Self::MismatchSkipped => ONE_PAYLOAD,
        }
    }
}

/// Where a caller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Has read the record and not locked it; faulty protocols only.
    Read(Row),
    /// Holds the lock, and what it knows of the record if it knows already.
    Locked(Option<Row>),
    /// Has claimed; whether its handler has had its effect.
    Running(bool),
    /// Has sent its commit, and heard nothing.
    InDoubt,
    /// Has committed its effect, and not its answer; faulty protocols only.
    Apart,
}

/// The database, its callers, and what really happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    row: Row,
    lock: Option<Owner>,
    callers: Vec<(Owner, Payload, Step)>,
    /// Commits that may still arrive; their transactions are open.
    strays: Vec<(Owner, Payload)>,
    started: u8,
    losses: u8,
    restarts: u8,
    /// How many effects are committed.
    effects: u8,
    /// Whose answer somebody was told.
    told: Option<Owner>,
    /// Whether a payload was committed over another that bound the key.
    rebound: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A caller begins a transaction, and tries the lock.
    Begin(Payload),
    /// A caller that has read already tries the lock.
    Lock(Owner),
    /// The holder of the lock reads, and claims, replays or is refused.
    Claim(Owner),
    /// The handler has its effect.
    Act(Owner),
    /// The handler fails, and what is left to say of the key is committed.
    Fail(Owner),
    /// The transaction is committed.
    Commit(Owner),
    /// The answer is stored by itself.
    Answer(Owner),
    /// The commit goes astray.
    LoseCommit(Owner),
    /// A commit that went astray arrives.
    Arrive(Owner),
    /// The database finds a connection broken, and rolls back.
    RollBack(Owner),
    /// A caller in doubt looks what became of its commit.
    Look(Owner),
    /// A caller's process dies.
    Crash(Owner),
    /// The database stops and starts.
    Restart,
}

/// The protocol, honest unless a fault is put in.
#[derive(Clone, Debug)]
pub struct Transactions {
    /// How many requests are made.
    pub requests: u8,
    /// The one thing that it does wrong, if any.
    pub fault: Option<Fault>,
}

impl Transactions {
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn commit(&self, world: &mut World, owner: Owner, payload: Payload) {
        world.rebound |= match world.row {
            Row::Failed(bound) | Row::Answered { payload: bound, .. } => bound != payload,
            Row::Absent => false,
        };
        if !self.is(Fault::AnswerApart) {
            world.row = Row::Answered { payload, by: owner };
        }
        world.effects += u8::from(!self.is(Fault::EffectOutside));
        world.lock = None;
    }

    fn begin(&self, world: &mut World, payload: Payload) {
        let owner = world.started;
        world.started += 1;
        if self.is(Fault::ReadBeforeLock) {
            world.callers.push((owner, payload, Step::Read(world.row)));
        } else if world.lock.is_none() {
            world.lock = Some(owner);
            world.callers.push((owner, payload, Step::Locked(None)));
        }
    }

    /// Takes the step of a caller that holds the lock; `None` if it has nothing more to do.
    fn claim(&self, world: &mut World, payload: Payload, known: Option<Row>) -> Option<Step> {
        let refused = match known.unwrap_or(world.row) {
            Row::Absent => false,
            Row::Failed(bound) => bound != payload && !self.is(Fault::MismatchSkipped),
            Row::Answered { payload: bound, by } => {
                if bound == payload {
                    world.told = Some(by);
                }
                true
            }
        };
        if refused {
            world.lock = None;
            return None;
        }
        Some(Step::Running(false))
    }

    /// What the caller does next; `None` if it has nothing more to do.
    fn go_on(&self, world: &mut World, action: Action, caller: (Owner, Payload, Step)) -> Option<Step> {
        let (owner, payload, step) = caller;
        match (action, step) {
            (Action::Lock(_), Step::Read(row)) if world.lock.is_none() => {
                world.lock = Some(owner);
                Some(Step::Locked(Some(row)))
            }
            (Action::Claim(_), Step::Locked(known)) => self.claim(world, payload, known),
            (Action::Act(_), Step::Running(false)) => {
                world.effects += u8::from(self.is(Fault::EffectOutside));
                Some(Step::Running(true))
            }
            (Action::Fail(_), Step::Running(acted)) => {
                world.effects += u8::from(acted && self.is(Fault::NoSavepoint));
                world.row = Row::Failed(payload);
                world.lock = None;
                None
            }
            (Action::Commit(_), Step::Running(true)) => {
                self.commit(world, owner, payload);
                if self.is(Fault::AnswerApart) {
                    return Some(Step::Apart);
                }
                world.told = Some(owner);
                None
            }
            (Action::Answer(_), Step::Apart) => {
                world.row = Row::Answered { payload, by: owner };
                world.told = Some(owner);
                None
            }
            (Action::LoseCommit(_), Step::Running(true)) => {
                world.losses -= 1;
                world.strays.push((owner, payload));
                Some(Step::InDoubt)
            }
            (Action::Look(_), Step::InDoubt) => {
                if self.is(Fault::CommitAssumed) {
                    world.told = Some(owner);
                } else if let Row::Answered { payload: bound, by } = world.row
                    && bound == payload
                {
                    world.told = Some(by);
                }
                None
            }
            (Action::Crash(_), Step::Locked(_) | Step::Running(_)) => {
                if !self.is(Fault::LockOutlives) {
                    world.lock = None;
                }
                None
            }
            // What is committed, and what is on its way, does not need its caller.
            _ => None,
        }
    }
}

impl Model for Transactions {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            row: Row::Absent,
            lock: None,
            callers: Vec::new(),
            strays: Vec::new(),
            started: 0,
            losses: 2,
            restarts: 1,
            effects: 0,
            told: None,
            rebound: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.started < self.requests {
            actions.extend([Action::Begin(0), Action::Begin(1)]);
        }
        for (owner, _, step) in &world.callers {
            match step {
                Step::Read(_) if world.lock.is_none() => actions.push(Action::Lock(*owner)),
                Step::Locked(_) => actions.push(Action::Claim(*owner)),
                Step::Running(false) => actions.extend([Action::Act(*owner), Action::Fail(*owner)]),
                Step::Running(true) => {
                    actions.extend([Action::Fail(*owner), Action::Commit(*owner)]);
                    if world.losses > 0 {
                        actions.push(Action::LoseCommit(*owner));
                    }
                }
                // Who looks takes the lock for it: an open transaction cannot be taken for one that is gone.
                Step::InDoubt if world.lock != Some(*owner) || self.is(Fault::CommitAssumed) => {
                    actions.push(Action::Look(*owner));
                }
                Step::Read(_) | Step::InDoubt => {}
                Step::Apart => actions.push(Action::Answer(*owner)),
            }
            actions.push(Action::Crash(*owner));
        }
        for (owner, _) in &world.strays {
            actions.extend([Action::Arrive(*owner), Action::RollBack(*owner)]);
        }
        if world.restarts > 0 {
            actions.push(Action::Restart);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Begin(payload) => self.begin(&mut world, payload),
            Action::Arrive(owner) | Action::RollBack(owner) => {
                let at = world.strays.iter().position(|(other, _)| *other == owner)?;
                let (_, payload) = world.strays.remove(at);
                if action == Action::Arrive(owner) {
                    self.commit(&mut world, owner, payload);
                } else {
                    world.lock = None;
                }
            }
            Action::Restart => {
                world.restarts -= 1;
                world.lock = None;
                world.strays.clear();
                world.callers.retain(|(.., step)| matches!(step, Step::InDoubt | Step::Apart));
                if self.is(Fault::CommitNotDurable) {
                    (world.row, world.effects) = (Row::Absent, 0);
                }
            }
            Action::Lock(owner)
            | Action::Claim(owner)
            | Action::Act(owner)
            | Action::Fail(owner)
            | Action::Commit(owner)
            | Action::Answer(owner)
            | Action::LoseCommit(owner)
            | Action::Look(owner)
            | Action::Crash(owner) => {
                let at = world.callers.iter().position(|(other, ..)| *other == owner)?;
                let caller = world.callers.remove(at);
                if let Some(step) = self.go_on(&mut world, action, caller) {
                    world.callers.insert(at, (caller.0, caller.1, step));
                }
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXACTLY_ONE, one_effect_with_its_answer),
            Property::always(TOLD, what_is_told_is_committed),
            Property::always(FREE, the_dead_hold_nothing),
            Property::always(ONE_PAYLOAD, one_payload),
            Property::sometimes("a commit that arrives after its caller is gone", late_commit),
            Property::sometimes("a second run after a failure", second_run),
            Property::sometimes("a replay of what was in doubt", replayed_in_doubt),
        ]
    }
}

/// There is one effect as soon as there is an answer, and none before.
pub fn one_effect_with_its_answer(_: &Transactions, world: &World) -> bool {
    world.effects == u8::from(matches!(world.row, Row::Answered { .. }))
}

/// Whoever is told an answer is told the committed one, and no restart takes it back.
pub fn what_is_told_is_committed(_: &Transactions, world: &World) -> bool {
    world.told.is_none_or(|told| matches!(world.row, Row::Answered { by, .. } if by == told))
}

/// A key is locked by a transaction that is open, or not at all.
pub fn the_dead_hold_nothing(_: &Transactions, world: &World) -> bool {
    world.lock.is_none_or(|holder| {
        let strays = world.strays.iter().map(|(owner, _)| *owner);
        world.callers.iter().map(|(owner, ..)| *owner).chain(strays).any(|owner| owner == holder)
    })
}

/// While a key is bound, nothing is committed under it for another payload.
pub fn one_payload(_: &Transactions, world: &World) -> bool {
    !world.rebound
}

fn late_commit(_: &Transactions, world: &World) -> bool {
    matches!(world.row, Row::Answered { by, .. } if world.told.is_none()
        && world.callers.iter().all(|(owner, ..)| *owner != by))
}

fn second_run(_: &Transactions, world: &World) -> bool {
    matches!(world.row, Row::Failed(_)) && world.callers.iter().any(|(.., step)| *step == Step::Running(true))
}

fn replayed_in_doubt(_: &Transactions, world: &World) -> bool {
    let in_doubt =
        |owner| world.callers.iter().any(|(other, _, step)| *other == owner && *step == Step::InDoubt);
    world.told.is_some_and(in_doubt)
}

/// What came of a search to the end.
#[derive(Debug)]
pub struct Searched {
    /// How many different worlds there are.
    pub states: usize,
    /// The longest of the shortest ways to one.
    pub depth: usize,
    /// The promises broken, each with how, and what must be possible and was not seen.
    pub wrong: Vec<(&'static str, Vec<Action>)>,
}

/// Searches all worlds of the honest protocol.
pub fn search(requests: u8) -> Searched {
    let model = Transactions { requests, fault: None };
    let properties = model.properties();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let wrong = properties.iter().filter_map(|property| {
        let path = found.get(property.name).cloned().map(Path::into_actions);
        match property.expectation {
            stateright::Expectation::Sometimes => path.is_none().then(|| (property.name, Vec::new())),
            _ => path.map(|path| (property.name, path)),
        }
    });
    let wrong = wrong.collect();
    Searched { states: checker.unique_state_count(), depth: checker.max_depth(), wrong }
}

/// Looks for a way in which a fault breaks the promise that it was made to break.
pub fn refute(fault: Fault) -> Option<Vec<Action>> {
    let model = Transactions { requests: 3, fault: Some(fault) };
    let wanted = HasDiscoveries::AnyOf([fault.breaks()].into());
    let checker = model.checker().finish_when(wanted).spawn_bfs().join();
    checker.discovery(fault.breaks()).map(Path::into_actions)
}
