//! Lines: connections of our own, or those of a pool that was handed over.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use idem_core::store::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPool, PgQueryResult, PgRow};
use sqlx::{AssertSqlSafe, Connection as _, Either, Executor as _, Postgres};
use tokio::sync::oneshot;

use super::fault;
use super::queue::{Job, Next, Queue, Reply, Turn, Waiting};
use crate::fault::{Fault, unavailable};
use crate::step::Step;

/// Connections, each of which executes one statement at a time.
pub(super) struct Lines {
    place: Place,
    queue: Queue,
    /// `None` where each step is taken alone.
    pub(super) together: Option<Together>,
    /// How long a batch may take.
    pub(super) timeout: Duration,
}

/// The statements for many records.
pub(super) struct Together {
    pub(super) take: Arc<str>,
    pub(super) read: Arc<str>,
}

enum Place {
    /// sqlx's pool asks each connection before and after each statement whether it is alive, which makes three trips of
    /// one. Here a connection that is found broken is replaced.
    Own(Box<PgConnectOptions>),
    Pool(PgPool),
}

/// The options have a password, so nothing of them is shown.
impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Own(_) => "own",
            Place::Pool(_) => "pool",
        };
        f.debug_struct("Lines").field("place", &place).finish_non_exhaustive()
    }
}

/// A connection for a while, or the right to one that is made when it is first used. One that is not given back, because
/// its statement failed or nobody waits for it any more, is closed: what it would say next belongs to that statement.
pub(super) struct Line {
    held: Option<Held>,
    /// `None` when its turn has ended.
    lines: Option<Arc<Lines>>,
}

pub(super) enum Held {
    Own(PgConnection),
    Pooled(PoolConnection<Postgres>),
}

/// What a statement did.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) changed: u64,
    pub(super) rows: Vec<PgRow>,
    /// When it was done, of a step that was taken together with others: rows then tell when they began.
    pub(super) ended: Option<i64>,
}

/// A statement with its values.
pub(super) enum Order {
    Prepared(Arc<str>, PgArguments),
    Simple(String),
}

impl Lines {
    /// Connections of our own, `most` at a time.
    pub(super) fn own(options: PgConnectOptions, most: usize, timeout: Duration) -> Self {
        Self::new(Place::Own(Box::new(options)), most, timeout)
    }

    pub(super) fn pool(pool: PgPool, timeout: Duration) -> Self {
        let most = pool.options().get_max_connections() as usize;
        Self::new(Place::Pool(pool), most, timeout)
    }

    fn new(place: Place, most: usize, timeout: Duration) -> Self {
        Self { place, queue: Queue::new(most), together: None, timeout }
    }

    /// Takes a connection, after those who came before.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Line, Fault> {
        let mut line = if let Some(line) = self.turn()? {
            line
        } else {
            let (sender, receiver) = oneshot::channel();
            self.wait_as(Waiting::Seat(sender))?;
            receiver.await.map_err(|_| closed())?
        };
        line.connect().await?;
        Ok(line)
    }

    /// Takes a connection if nobody has to be waited for.
    pub(super) async fn take_now(self: &Arc<Self>) -> Result<Option<Line>, Fault> {
        let Some(mut line) = self.turn()? else { return Ok(None) };
        line.connect().await?;
        Ok(Some(line))
    }

    /// Leaves a step, or the reading of its record, to whoever gives a connection back.
    pub(super) async fn leave(self: &Arc<Self>, step: Step, reads: bool) -> Result<Reply, Fault> {
        let (reply, answer) = oneshot::channel();
        self.wait_as(Waiting::Job(Job::new(step, reads, reply)))?;
        answer.await.map_err(|_| {
            if self.queue.is_closed() {
                closed()
            } else {
                Fault::Broken(unavailable("the runtime that was taking steps has ended"))
            }
        })
    }

    fn turn(self: &Arc<Self>) -> Result<Option<Line>, Fault> {
        self.check_open()?;
        Ok(self.queue.take().map(|Turn(held)| Line { held, lines: Some(Arc::clone(self)) }))
    }

    fn wait_as(self: &Arc<Self>, waiting: Waiting) -> Result<(), Fault> {
        self.queue.push(waiting)?;
        // A turn may have ended since this caller looked. It goes to the first of those who wait.
        if let Some(line) = self.turn()? {
            line.give_back();
        }
        Ok(())
    }

    /// Gives a turn to the next, with the connection if there is one.
    fn pass_on(self: &Arc<Self>, mut held: Option<Held>) {
        loop {
            let next = self.queue.end(&mut held);
            let line = |held: &mut Option<Held>| Line { held: held.take(), lines: Some(Arc::clone(self)) };
            match next {
                // What is left of a pool's connection goes back to it.
                Next::Nobody => return,
                Next::Seat(sender) => match sender.send(line(&mut held)) {
                    Ok(()) => return,
                    // Nobody waits for it any more.
                    Err(mut line) => {
                        line.lines = None;
                        held = line.held.take();
                    }
                },
                Next::Batch(jobs) => {
                    // A task of its own: whoever gave the connection back has other things to do.
                    let runtime = jobs[0].runtime();
                    drop(runtime.spawn(super::combine::lead(line(&mut held), jobs)));
                    return;
                }
            }
        }
    }

    /// Whether the connections are those of a pool that was handed over.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.place, Place::Pool(_))
    }

    /// How many connections may be found broken one after the other, and the next still be a new one.
    pub(super) fn broken_at_most(&self) -> u32 {
        match &self.place {
            // Those that wait for work are closed with the first.
            Place::Own(_) => 3,
            Place::Pool(pool) => pool.size().saturating_add(1),
        }
    }

    /// Closes the connections that wait for work: one of them was found broken, so others are likely to be.
    pub(super) fn forget_idle(&self) {
        drop(self.queue.forget_idle());
    }

    /// Waits for the statements in progress and closes our own connections.
    pub(super) async fn close(&self) {
        for held in self.queue.close() {
            if let Held::Own(connection) = held {
                // An error now has nobody to tell.
                let _ = connection.close().await;
            }
        }
    }

    pub(super) fn next_batch(&self) -> Vec<Job> {
        self.queue.next_batch()
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn check_open(&self) -> Result<(), Fault> {
        if self.queue.is_closed() { Err(closed()) } else { Ok(()) }
    }
}

impl Line {
    /// Makes the connection, if it is not made.
    pub(super) async fn connect(&mut self) -> Result<(), Fault> {
        let (None, Some(lines)) = (&self.held, &self.lines) else { return Ok(()) };
        let held = match &lines.place {
            Place::Own(options) => PgConnection::connect_with(options).await.map(Held::Own),
            Place::Pool(pool) => pool.acquire().await.map(Held::Pooled),
        };
        self.held = Some(held.map_err(|error| fault::of(error).of_connecting())?);
        Ok(())
    }

    /// Executes a statement in one trip; the first of its kind on a connection takes one more, to prepare it.
    pub(super) async fn execute(&mut self, order: Order) -> Result<Done, Fault> {
        let connection = self.connection()?;
        run(match order {
            Order::Prepared(text, arguments) => {
                connection.fetch_many(sqlx::query_with(AssertSqlSafe(text), arguments))
            }
            Order::Simple(text) => connection.fetch_many(sqlx::raw_sql(AssertSqlSafe(text))),
        })
        .await
    }

    /// Gives the connection back, for others to use.
    pub(super) fn give_back(mut self) {
        let held = match self.held.take() {
            // Dropped, it goes back to its pool, whose other users may be waiting for it.
            Some(Held::Pooled(connection)) => {
                drop(connection);
                None
            }
            own => own,
        };
        if let Some(lines) = self.lines.take() {
            lines.pass_on(held);
        }
    }

    /// Whether others than this store use the connection.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.held, Some(Held::Pooled(_)))
    }

    pub(super) fn lines(&self) -> Option<Arc<Lines>> {
        self.lines.clone()
    }

    fn connection(&mut self) -> Result<&mut PgConnection, Fault> {
        match &mut self.held {
            Some(Held::Own(connection)) => Ok(connection),
            Some(Held::Pooled(connection)) => Ok(connection),
            None => Err(closed()),
        }
    }
}

/// Reads what statements did, to the end.
pub(super) async fn run(
    mut results: impl Stream<Item = Result<Either<PgQueryResult, PgRow>, sqlx::Error>> + Unpin,
) -> Result<Done, Fault> {
    let mut done = Done::default();
    while let Some(result) = results.try_next().await.map_err(fault::of)? {
        match result {
            Either::Left(statement) => done.changed += statement.rows_affected(),
            Either::Right(row) => done.rows.push(row),
        }
    }
    Ok(done)
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(Held::Pooled(connection)) = self.held.take() {
            // Back in the pool it would be asked whether it is alive, and a hung server does not answer.
            drop(connection.detach());
        }
        if let Some(lines) = self.lines.take() {
            lines.pass_on(None);
        }
    }
}

fn closed() -> Fault {
    let error: StoreError = unavailable("the store is closed");
    Fault::Refused(error)
}
