//! Replicas: steps that count only once so many of them have them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use redis::{Cmd, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::fault::unavailable;
use crate::line::{Ask, Limits, Line, Lines};
use crate::place::Place;

/// How many steps may wait for replicas at once.
const CONNECTIONS: usize = 16;

/// Connections for steps that wait for replicas, each for one step at a time.
///
/// The server reads nothing more of a connection on which somebody waits, so on one that is shared everybody would; and it
/// tells how far a connection's own writes have come, so the question has to follow them on the same.
#[derive(Debug)]
pub(crate) struct Replicas {
    lines: Lines,
    free: Mutex<Vec<usize>>,
    permits: Semaphore,
    pub(crate) wait: Wait,
}

/// For how many replicas to wait, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) replicas: u32,
    pub(crate) at_most: Duration,
}

impl Wait {
    /// The question, which is answered with how many replicas have it.
    pub(crate) fn command(self) -> Cmd {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(u64::try_from(self.at_most.as_millis()).unwrap_or(u64::MAX).max(1));
        wait
    }

    /// Whether a script that replied so has written.
    pub(crate) fn concerns(reply: &Value) -> bool {
        matches!(reply, Value::Int(written) if *written > 0)
    }

    /// Why a step does not count of which so many replicas have heard.
    pub(crate) fn missing(self, acknowledged: i64) -> Option<StoreError> {
        (acknowledged < i64::from(self.replicas)).then(|| {
            let message = format!(
                "{acknowledged} of the {} replicas that are waited for have it; whether it lasts is not known",
                self.replicas
            );
            StoreError::with_source(StoreErrorKind::Unavailable, message)
        })
    }
}

/// A connection that is somebody's for a while.
struct Taken<'a> {
    replicas: &'a Replicas,
    at: usize,
}

impl Replicas {
    pub(crate) fn new(place: &Arc<Place>, replicas: u32, limits: Limits) -> Self {
        Self {
            lines: Lines::new(place, CONNECTIONS, limits),
            free: Mutex::new((0..CONNECTIONS).rev().collect()),
            permits: Semaphore::new(CONNECTIONS),
            // The reply has to be there before the connection is given up.
            wait: Wait { replicas, at_most: limits.response / 2 },
        }
    }

    pub(crate) async fn ask(&self, what: &Ask<'_>, deadline: Instant) -> Result<Value, StoreError> {
        let permit = timeout_at(deadline, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(unavailable("too many steps wait for replicas"));
        };
        let taken = Taken { replicas: self, at: self.lock().pop().unwrap_or_default() };
        taken.line().ask(what, deadline).await
    }

    pub(crate) fn close(&self) {
        self.lines.close();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    fn line(&self) -> &Line {
        self.replicas.lines.nth(self.at)
    }
}

/// It is given back before its permit is.
impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.replicas.lock().push(self.at);
    }
}
