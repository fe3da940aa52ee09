//! Lines: connections of our own to a database server, or those of a pool that was handed over.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Either, Pool};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::fault::{Fault, unavailable};

/// A kind of server, as far as a line to it must know.
pub(crate) trait Server: sqlx::Database {
    /// What is said first on a connection of our own.
    const GREETING: Option<&'static str>;

    /// Sends a statement.
    fn send(connection: &mut Self::Connection, order: Order<Self>) -> Results<'_, Self>;

    /// How many rows a statement changed.
    fn changed(result: &Self::QueryResult) -> u64;

    /// Names the fault of an error.
    fn fault(error: sqlx::Error) -> Fault;
}

/// What comes back for a statement.
pub(crate) type Results<'c, S> =
    BoxStream<'c, sqlx::Result<Either<<S as sqlx::Database>::QueryResult, <S as sqlx::Database>::Row>>>;

type Options<S> = <<S as sqlx::Database>::Connection as Connection>::Options;

/// Connections, each of which executes one statement at a time.
pub(crate) struct Lines<S: Server> {
    place: Place<S>,
    closed: AtomicBool,
}

enum Place<S: Server> {
    /// sqlx's pool asks each connection before and after each statement whether it is alive, which makes three trips of
    /// one. Here a connection that is found broken is replaced.
    Own(Box<Own<S>>),
    Pool(Pool<S>),
}

struct Own<S: Server> {
    options: Options<S>,
    idle: Mutex<Vec<S::Connection>>,
    permits: Semaphore,
}

/// The options have a password, so nothing of them is shown.
impl<S: Server> fmt::Debug for Lines<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Own(_) => "own",
            Place::Pool(_) => "pool",
        };
        f.debug_struct("Lines").field("place", &place).finish_non_exhaustive()
    }
}

/// A connection for a while. One that is not given back, because its statement failed or nobody waits for it any more,
/// is closed: what it would say next belongs to that statement.
pub(crate) struct Line<'a, S: Server> {
    held: Option<Held<S>>,
    lines: &'a Lines<S>,
    _permit: Option<SemaphorePermit<'a>>,
}

enum Held<S: Server> {
    Own(S::Connection),
    Pooled(PoolConnection<S>),
}

/// What a statement did.
#[derive(Debug)]
pub(crate) struct Done<S: Server> {
    pub(crate) changed: u64,
    pub(crate) rows: Vec<S::Row>,
    /// From when it was sent to when all of its answer was there.
    pub(crate) took: Duration,
}

/// A statement with its values.
pub(crate) enum Order<S: Server> {
    Prepared(Arc<str>, S::Arguments),
    Simple(String),
}

impl<S: Server> Lines<S> {
    pub(crate) fn own(options: Options<S>, most: usize) -> Self {
        let own = Own { options, idle: Mutex::default(), permits: Semaphore::new(most.max(1)) };
        Self { place: Place::Own(Box::new(own)), closed: AtomicBool::new(false) }
    }

    pub(crate) fn pool(pool: Pool<S>) -> Self {
        Self { place: Place::Pool(pool), closed: AtomicBool::new(false) }
    }

    /// Takes a connection, or makes one.
    pub(crate) async fn take(&self) -> Result<Line<'_, S>, Fault> {
        self.check_open()?;
        let own = match &self.place {
            Place::Own(own) => own,
            Place::Pool(pool) => {
                let taken = Box::pin(pool.acquire()).await;
                let taken = taken.map_err(|error| S::fault(error).of_connecting())?;
                return Ok(self.line(Held::Pooled(taken), None));
            }
        };
        let permit = own.permits.acquire().await.map_err(|_| closed())?;
        let found = own.lock().pop();
        if let Some(connection) = found {
            return Ok(self.line(Held::Own(connection), Some(permit)));
        }
        // The future of connecting is large, and most steps need none.
        let made = Box::pin(S::Connection::connect_with(&own.options)).await;
        let made = made.map_err(|error| S::fault(error).of_connecting())?;
        let mut line = self.line(Held::Own(made), Some(permit));
        if let Some(greeting) = S::GREETING {
            line.execute(Order::Simple(greeting.to_owned())).await.map_err(Fault::of_connecting)?;
        }
        Ok(line)
    }

    fn line<'a>(&'a self, held: Held<S>, permit: Option<SemaphorePermit<'a>>) -> Line<'a, S> {
        Line { held: Some(held), lines: self, _permit: permit }
    }

    /// How many connections may be found broken one after the other, and the next still be a new one.
    pub(crate) fn broken_at_most(&self) -> u32 {
        match &self.place {
            // Those that wait for work are closed with the first.
            Place::Own(_) => 3,
            Place::Pool(pool) => pool.size().saturating_add(1),
        }
    }

    /// Closes the connections that wait for work: one of them was found broken, so others are likely to be.
    pub(crate) fn forget_idle(&self) {
        if let Place::Own(own) = &self.place {
            own.lock().clear();
        }
    }

    /// Waits for the statements in progress and closes our own connections.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Place::Own(own) = &self.place {
            own.permits.close();
            let connections = std::mem::take(&mut *own.lock());
            for connection in connections {
                // An error now has nobody to tell.
                let _ = connection.close().await;
            }
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }
}

impl<S: Server> Own<S> {
    fn lock(&self) -> MutexGuard<'_, Vec<S::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Server> Line<'_, S> {
    /// Executes a statement in one trip; the first of its kind on a connection takes one more, to prepare it.
    pub(crate) async fn execute(&mut self, order: Order<S>) -> Result<Done<S>, Fault> {
        execute::<S>(self.connection()?, order).await
    }

    /// Gives the connection back, for others to use.
    pub(crate) fn give_back(mut self) {
        match self.held.take() {
            Some(Held::Own(connection)) => {
                if let (Place::Own(own), Ok(())) = (&self.lines.place, self.lines.check_open()) {
                    own.lock().push(connection);
                }
            }
            // Dropped, it goes back.
            Some(Held::Pooled(connection)) => drop(connection),
            None => {}
        }
    }

    fn connection(&mut self) -> Result<&mut S::Connection, Fault> {
        match &mut self.held {
            Some(Held::Own(connection)) => Ok(connection),
            Some(Held::Pooled(connection)) => Ok(connection),
            None => Err(closed()),
        }
    }
}

/// Executes a statement on a connection, and reads all that comes back.
pub(crate) async fn execute<S: Server>(
    connection: &mut S::Connection,
    order: Order<S>,
) -> Result<Done<S>, Fault> {
    let (mut changed, mut rows, sent) = (0, Vec::new(), Instant::now());
    let mut results = S::send(connection, order);
    while let Some(result) = results.try_next().await.map_err(S::fault)? {
        match result {
            Either::Left(statement) => changed += S::changed(&statement),
            Either::Right(row) => rows.push(row),
        }
    }
    Ok(Done { changed, rows, took: sent.elapsed() })
}

impl<S: Server> Drop for Line<'_, S> {
    fn drop(&mut self) {
        if let Some(Held::Pooled(connection)) = self.held.take() {
            // Back in the pool it would be asked whether it is alive, and a hung server does not answer.
            drop(connection.detach());
        }
    }
}

fn closed() -> Fault {
    Fault::Refused(unavailable("the store is closed"))
}
