//! The writer: one connection, and steps that go together where many wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use idem_core::store::StoreError;
use sqlx::sqlite::SqliteArguments;
use tokio::sync::{Mutex as Desks, OwnedMutexGuard, oneshot};
use tokio::time::sleep;

use super::desk::Desk;
use super::fault::Fault;
use super::source::{Done, Link, Source};
use crate::fault::unavailable;
use crate::step::Step;
use crate::waiters::jittered;

/// The most steps in one transaction.
const BATCH: usize = 64;
/// The most bytes in one transaction, unless one step alone has more.
const BATCH_BYTES: usize = 4 << 20;
/// The most steps that wait; callers beyond are refused.
const QUEUE: usize = 65_536;
/// How many batches one leader runs before it lets others at the desk.
const BATCHES: usize = 16;
/// The first pause between attempts while another process holds the lock. SQLite itself waits a little in each.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// The longest of them.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Takes steps on the one writing connection of this store.
///
/// A step that finds the connection free is taken at once, by its caller. Others queue up, and the first of them to get
/// hold of the connection starts a task which takes all that wait in one transaction, so that they share its fsync. No
/// task outlives the queue, so a store may be used from any runtime.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<VecDeque<Job>>,
    desk: Arc<Desks<Desk>>,
}

#[derive(Debug)]
struct Job {
    step: Step,
    reply: oneshot::Sender<Result<u64, StoreError>>,
}

impl Job {
    /// A step that nobody waits for any more is not taken.
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}

impl Writer {
    pub(super) fn new(source: Arc<Source>, link: Link) -> Self {
        Self { queue: Mutex::default(), desk: Arc::new(Desks::new(Desk::new(source, link))) }
    }

    /// The desk, if nobody is at it or waits for it.
    pub(super) fn idle(&self) -> Option<OwnedMutexGuard<Desk>> {
        if self.lock().is_empty() { Arc::clone(&self.desk).try_lock_owned().ok() } else { None }
    }

    /// The desk, once those who came before have left it: who has it keeps all steps waiting.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<Desk> {
        Arc::clone(&self.desk).lock_owned().await
    }

    /// Takes a step and tells how many rows it changed.
    pub(super) async fn take(self: &Arc<Self>, step: Step) -> Result<u64, StoreError> {
        if let Some(mut desk) = self.idle() {
            return alone(&mut desk, &step, || true).await;
        }
        let (reply, mut answer) = oneshot::channel();
        self.enqueue(Job { step, reply })?;
        loop {
            let desk = std::pin::pin!(Arc::clone(&self.desk).lock_owned());
            match select(&mut answer, desk).await {
                Either::Left((answer, _)) => {
                    return answer
                        .unwrap_or_else(|_| Err(unavailable("the runtime that was writing has ended")));
                }
                // A task of its own: if this caller vanishes, the others' steps go on.
                Either::Right((desk, _)) => drop(tokio::spawn(Arc::clone(self).lead(desk))),
            }
        }
    }

    /// Executes a query at the desk, for databases that have no other connection.
    pub(super) async fn query(&self, text: Arc<str>, arguments: SqliteArguments) -> Result<Done, Fault> {
        self.desk.lock().await.execute(text, arguments).await
    }

    pub(super) async fn close(&self) {
        self.desk.lock().await.close().await;
    }

    fn enqueue(&self, job: Job) -> Result<(), StoreError> {
        let mut queue = self.lock();
        if queue.len() >= QUEUE {
            queue.retain(Job::is_wanted);
        }
        if queue.len() >= QUEUE {
            return Err(unavailable("too many steps are waiting to be written"));
        }
        queue.push_back(job);
        Ok(())
    }

    /// Takes what waits, batch by batch.
    async fn lead(self: Arc<Self>, mut desk: OwnedMutexGuard<Desk>) {
        for _ in 0..BATCHES {
            let jobs = self.next_batch();
            let taken = jobs.len();
            if taken == 0 {
                break;
            }
            together(&mut desk, jobs).await;
            // Those who were just answered are likely to be back at once: let them be in the next transaction.
            for _ in 0..2 {
                if self.lock().len() < taken {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn next_batch(&self) -> Vec<Job> {
        let mut queue = self.lock();
        let mut jobs = Vec::with_capacity(queue.len().min(BATCH));
        let mut bytes = 0;
        while let Some(job) = queue.pop_front() {
            if !job.is_wanted() {
                continue;
            }
            bytes += job.step.len();
            if !jobs.is_empty() && bytes > BATCH_BYTES {
                queue.push_front(job);
                break;
            }
            jobs.push(job);
            if jobs.len() == BATCH {
                break;
            }
        }
        jobs
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes one step, again and again while the database is locked and the step wanted.
async fn alone(desk: &mut Desk, step: &Step, is_wanted: impl Fn() -> bool) -> Result<u64, StoreError> {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match desk.step(step).await {
            Err(Fault::Busy) if is_wanted() => wait(&mut pause).await,
            result => return result.map_err(Fault::into_error),
        }
    }
}

/// Takes steps in one transaction, or one by one if one of them does not go.
async fn together(desk: &mut Desk, mut jobs: Vec<Job>) {
    let mut pause = SHORTEST_PAUSE;
    while jobs.len() > 1 {
        let steps: Vec<&Step> = jobs.iter().map(|job| &job.step).collect();
        match desk.batch(&steps).await {
            Ok(changed) => {
                for (job, rows) in jobs.into_iter().zip(changed) {
                    // A caller that has gone away does not want to know.
                    let _ = job.reply.send(Ok(rows));
                }
                return;
            }
            Err(Fault::Busy) => {
                wait(&mut pause).await;
                jobs.retain(Job::is_wanted);
            }
            Err(_) => break,
        }
    }
    for job in jobs {
        let result = alone(desk, &job.step, || job.is_wanted()).await;
        let _ = job.reply.send(result);
    }
}

/// Waits a while, and longer the next time.
pub(super) async fn wait(pause: &mut Duration) {
    sleep(jittered(*pause)).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}
