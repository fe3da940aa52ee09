//! The queue: who may use a connection, and who waits for one.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::lines::{Done, Held, Line};
use crate::fault::{Fault, unavailable};
use crate::step::Step;

/// The most steps in one statement.
pub(super) const BATCH: usize = 64;
/// The most bytes in one statement, unless one step alone has more.
const BATCH_BYTES: usize = 4 << 20;
/// How many of those who wait are looked at for a batch.
const REACH: usize = 4 * BATCH;
/// The most who wait; callers beyond are refused.
const MOST: usize = 65_536;

/// The right to use a connection, and the connection, if it is made.
pub(super) struct Turn(pub(super) Option<Held>);

/// Turns at a few connections.
///
/// Nobody waits while a turn is free.
pub(super) struct Queue(Mutex<State>);

struct State {
    free: usize,
    /// The connections of some of the free turns.
    idle: Vec<Held>,
    waiting: VecDeque<Waiting>,
    closed: bool,
}

/// Somebody who waits.
pub(super) enum Waiting {
    /// For a connection.
    Seat(oneshot::Sender<Line>),
    /// For a step to be taken, perhaps together with others.
    Job(Job),
}

/// A step that was left to whoever gives a connection back, or a look at its record.
pub(super) struct Job {
    pub(super) step: Step,
    /// Whether its record is only read.
    pub(super) reads: bool,
    reply: oneshot::Sender<Reply>,
    runtime: Handle,
}

/// What became of it.
pub(super) enum Reply {
    Done(Done),
    Failed(Fault),
    /// Nothing: it waits for another transaction, which the others shall not.
    Blocked,
}

/// Who is next.
pub(super) enum Next {
    Seat(oneshot::Sender<Line>),
    Batch(Vec<Job>),
    /// Nobody: the turn is free.
    Nobody,
}

impl Waiting {
    fn is_wanted(&self) -> bool {
        match self {
            Self::Seat(sender) => !sender.is_closed(),
            Self::Job(job) => job.is_wanted(),
        }
    }
}

impl Job {
    pub(super) fn new(step: Step, reads: bool, reply: oneshot::Sender<Reply>) -> Self {
        Self { step, reads, reply, runtime: Handle::current() }
    }

    /// A step that nobody waits for any more is not taken.
    pub(super) fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    pub(super) fn answer(self, reply: Reply) {
        // A caller that has gone away does not want to know.
        let _ = self.reply.send(reply);
    }

    /// Where its caller is, and where it can be taken.
    pub(super) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }
}

impl Queue {
    pub(super) fn new(turns: usize) -> Self {
        Self(Mutex::new(State {
            free: turns.max(1),
            idle: Vec::new(),
            waiting: VecDeque::new(),
            closed: false,
        }))
    }

    /// Takes a turn, with its connection if there is one; `None` if all are taken.
    pub(super) fn take(&self) -> Option<Turn> {
        let mut state = self.lock();
        state.free = state.free.checked_sub(1)?;
        Some(Turn(state.idle.pop()))
    }

    /// Gets in line. The caller has seen no free turn, and looks again afterwards.
    pub(super) fn push(&self, waiting: Waiting) -> Result<(), Fault> {
        let mut state = self.lock();
        if state.waiting.len() >= MOST {
            state.waiting.retain(Waiting::is_wanted);
        }
        if state.waiting.len() >= MOST {
            return Err(Fault::Refused(unavailable("too many steps wait for a connection")));
        }
        state.waiting.push_back(waiting);
        Ok(())
    }

    /// Ends a turn and tells who is next; the connection is kept only if nobody is.
    pub(super) fn end(&self, held: &mut Option<Held>) -> Next {
        let mut state = self.lock();
        loop {
            match state.waiting.front() {
                Some(Waiting::Job(_)) => {
                    let jobs = batch(&mut state.waiting);
                    if !jobs.is_empty() {
                        return Next::Batch(jobs);
                    }
                }
                Some(Waiting::Seat(_)) => {
                    if let Some(Waiting::Seat(sender)) = state.waiting.pop_front() {
                        return Next::Seat(sender);
                    }
                }
                None => {
                    state.free += 1;
                    // A pool keeps its own.
                    if !state.closed && matches!(held, Some(Held::Own(_))) {
                        state.idle.extend(held.take());
                    }
                    return Next::Nobody;
                }
            }
        }
    }

    /// The next steps for whoever has just taken some; none if it is somebody's turn who waits for a connection.
    pub(super) fn next_batch(&self) -> Vec<Job> {
        let mut state = self.lock();
        match state.waiting.front() {
            Some(Waiting::Job(_)) => batch(&mut state.waiting),
            _ => Vec::new(),
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Takes the idle connections away.
    pub(super) fn forget_idle(&self) -> Vec<Held> {
        std::mem::take(&mut self.lock().idle)
    }

    /// Sends away those who wait, keeps no connection any more, and returns those that it kept.
    pub(super) fn close(&self) -> Vec<Held> {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(waiting);
        idle
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes steps that can go together: all read or all write, each another record, since the second of a record is to find
/// what the first made of it. What it leaves keeps its place.
fn batch(waiting: &mut VecDeque<Waiting>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::with_capacity(waiting.len().min(BATCH));
    let (mut ids, mut bytes, mut left) = (HashSet::with_capacity(jobs.capacity()), 0, Vec::new());
    for _ in 0..REACH {
        let job = match waiting.pop_front() {
            Some(Waiting::Job(job)) => job,
            Some(seat) => {
                left.push(seat);
                continue;
            }
            None => break,
        };
        if !job.is_wanted() {
            continue;
        }
        let len = job.step.len();
        let fits = jobs.first().is_none_or(|first| first.reads == job.reads && bytes + len <= BATCH_BYTES);
        if !fits || !ids.insert(job.step.id().clone()) {
            left.push(Waiting::Job(job));
            continue;
        }
        bytes += len;
        jobs.push(job);
        if jobs.len() == BATCH {
            break;
        }
    }
    for left in left.into_iter().rev() {
        waiting.push_front(left);
    }
    jobs
}
