//! The world of a simulation: one store and its clock, the processes, what is decided and what is written down.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use idem_core::clock::Clock;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::owner::Owner;
use idem_core::record::RecordId;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::broken::{Broken, Memory};
use crate::dice::Dice;
use crate::plan::Plan;
use crate::trace::{CallId, Claimant, Event, Trace};
use crate::witness::Witness;

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) store: MemoryStore,
    pub(crate) clock: SimClock,
    /// What the store does wrong, if anything.
    pub(crate) broken: Option<Broken>,
    begun: Instant,
    state: Mutex<State>,
    /// Tells of a process that died. Wakes in order, as a `watch` does not.
    died: Notify,
}

pub(crate) struct State {
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) witness: Witness,
    pub(crate) healed: bool,
    processes: Vec<Process>,
    /// Which call an owner belongs to.
    pub(crate) owners: HashMap<Owner, Claimant>,
    pub(crate) memory: Memory,
    next_call: CallId,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Process {
    pub(crate) dead: bool,
    pub(crate) cut_off: bool,
}

impl World {
    pub(crate) fn new(seed: u64, broken: Option<Broken>) -> Arc<Self> {
        let mut dice = Dice::new(seed);
        let plan = Plan::new(&mut dice);
        let clock = SimClock { begun: Instant::now(), ahead: Arc::default() };
        let witness = Witness::new(plan.keys, plan.on_crash, plan.ttl);
        Arc::new(Self {
            store: MemoryStore::builder().shards(1).clock(clock.clone()).build(),
            clock,
            broken,
            begun: Instant::now(),
            state: Mutex::new(State {
                dice,
                trace: Trace::default(),
                witness,
                healed: false,
                processes: vec![Process::default(); plan.processes as usize],
                owners: HashMap::new(),
                memory: Memory::default(),
                next_call: 1,
            }),
            died: Notify::new(),
            plan,
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The time by the store's clock.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Throws the dice.
    pub(crate) fn dice<T>(&self, throw: impl FnOnce(&Plan, &mut Dice) -> T) -> T {
        throw(&self.plan, &mut self.state().dice)
    }

    pub(crate) fn note(&self, event: Event) {
        let at = self.begun.elapsed();
        self.state().trace.note(at, event);
    }

    /// Writes down what happens, and lets the witness judge it at the store's time.
    pub(crate) fn tell(&self, event: Event, judge: impl FnOnce(&mut Witness, Duration)) {
        let (at, now) = (self.begun.elapsed(), self.clock.now());
        let mut state = self.state();
        state.trace.note(at, event);
        judge(&mut state.witness, now);
    }

    pub(crate) fn begins_call(&self, process: u32, key: u32, payload: u32) -> CallId {
        let call = {
            let mut state = self.state();
            state.next_call += 1;
            state.next_call - 1
        };
        self.tell(Event::Calls { call, process, key, payload }, |witness, now| {
            witness.calls(call, process, key, payload, now);
        });
        call
    }

    /// The record of a key: an operation each, and all under one name.
    pub(crate) fn id_of(key: u32) -> Option<RecordId> {
        let name = Key::new("key").ok()?;
        Some(RecordId::new(&Scope::SHARED, &key.to_string().into(), &name))
    }

    pub(crate) fn process(&self, process: u32) -> Process {
        self.state().processes[process as usize]
    }

    pub(crate) fn processes(&self) -> u32 {
        self.state().processes.len() as u32
    }

    pub(crate) fn start_process(&self) -> u32 {
        let processes = &mut self.state().processes;
        processes.push(Process::default());
        processes.len() as u32 - 1
    }

    pub(crate) fn kill(&self, process: u32) {
        self.note(Event::Dies(process));
        self.state().processes[process as usize].dead = true;
        self.died.notify_waiters();
    }

    pub(crate) fn cut_off(&self, process: u32, is: bool) {
        self.note(Event::CutOff(process, is));
        self.state().processes[process as usize].cut_off = is;
    }

    /// Waits for the end of a process.
    pub(crate) async fn dies(&self, process: u32) {
        loop {
            let mut died = pin!(self.died.notified());
            died.as_mut().enable();
            if self.process(process).dead {
                return;
            }
            died.await;
        }
    }

    /// Goes no further in a process that is dead: nobody outside hears of it again.
    pub(crate) async fn lives(&self, process: u32) {
        if self.process(process).dead {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn heal(&self) {
        self.note(Event::Heals);
        let state = &mut *self.state();
        state.healed = true;
        for process in &mut state.processes {
            process.cut_off = false;
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// The store's clock: the runtime's, which stands still until nobody has anything to do, and jumps ahead of it.
#[derive(Debug, Clone)]
pub(crate) struct SimClock {
    begun: Instant,
    ahead: Arc<Mutex<Duration>>,
}

impl SimClock {
    pub(crate) fn jump(&self, by: Duration) {
        *self.ahead.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += by;
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.begun.elapsed() + *self.ahead.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
