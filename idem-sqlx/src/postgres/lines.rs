//! Lines: connections of our own, or those of a pool that was handed over.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, TryStreamExt as _};
use idem_core::store::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPool, PgQueryResult, PgRow};
use sqlx::{AssertSqlSafe, Connection as _, Either, Executor as _, Postgres};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::fault::{Fault, unavailable};

/// Connections, each of which executes one statement at a time.
pub(super) struct Lines {
    place: Place,
    closed: AtomicBool,
}

enum Place {
    /// sqlx's pool asks each connection before and after each statement whether it is alive, which makes three trips of
    /// one. Here a connection that is found broken is replaced.
    Own(Box<Own>),
    Pool(PgPool),
}

struct Own {
    options: PgConnectOptions,
    idle: Mutex<Vec<PgConnection>>,
    permits: Semaphore,
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

/// A connection for a while. One that is not given back, because its statement failed or nobody waits for it any more,
/// is closed: what it would say next belongs to that statement.
pub(super) struct Line<'a> {
    held: Option<Held>,
    lines: &'a Lines,
    _permit: Option<SemaphorePermit<'a>>,
}

enum Held {
    Own(PgConnection),
    Pooled(PoolConnection<Postgres>),
}

/// What a statement did.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) changed: u64,
    pub(super) rows: Vec<PgRow>,
}

/// A statement with its values.
pub(super) enum Order {
    Prepared(Arc<str>, PgArguments),
    Simple(String),
}

impl Lines {
    pub(super) fn own(options: PgConnectOptions, most: usize) -> Self {
        let own = Own { options, idle: Mutex::default(), permits: Semaphore::new(most.max(1)) };
        Self { place: Place::Own(Box::new(own)), closed: AtomicBool::new(false) }
    }

    pub(super) fn pool(pool: PgPool) -> Self {
        Self { place: Place::Pool(pool), closed: AtomicBool::new(false) }
    }

    /// Takes a connection, or makes one.
    pub(super) async fn take(&self) -> Result<Line<'_>, Fault> {
        self.check_open()?;
        let own = match &self.place {
            Place::Own(own) => own,
            Place::Pool(pool) => {
                let held = Held::Pooled(pool.acquire().await.map_err(Fault::of_connecting)?);
                return Ok(Line { held: Some(held), lines: self, _permit: None });
            }
        };
        let permit = own.permits.acquire().await.map_err(|_| closed())?;
        let found = own.lock().pop();
        let connection = match found {
            Some(connection) => connection,
            None => PgConnection::connect_with(&own.options).await.map_err(Fault::of_connecting)?,
        };
        Ok(Line { held: Some(Held::Own(connection)), lines: self, _permit: Some(permit) })
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
        if let Place::Own(own) = &self.place {
            own.lock().clear();
        }
    }

    /// Waits for the statements in progress and closes our own connections.
    pub(super) async fn close(&self) {
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

    pub(super) fn check_open(&self) -> Result<(), Fault> {
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }
}

impl Own {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PgConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line<'_> {
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
    while let Some(result) = results.try_next().await.map_err(Fault::of)? {
        match result {
            Either::Left(statement) => done.changed += statement.rows_affected(),
            Either::Right(row) => done.rows.push(row),
        }
    }
    Ok(done)
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if let Some(Held::Pooled(connection)) = self.held.take() {
            // Back in the pool it would be asked whether it is alive, and a hung server does not answer.
            drop(connection.detach());
        }
    }
}

fn closed() -> Fault {
    let error: StoreError = unavailable("the store is closed");
    Fault::Refused(error)
}
