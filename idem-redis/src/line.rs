//! Lines: connections that are made anew when they break, and commands that are repeated when that is safe.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use idem_core::stored::waiters::jittered;
use redis::{Cmd, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::fault::{Fault, unavailable};
use crate::place::{Connection, Place};
use crate::replicas::Wait;
use crate::script::{self, Keys, Script};
use crate::server;

/// The first pause before a command is repeated that was refused for the moment, or found no connection twice.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long things may take, and what a server may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A step, everything included.
    pub(crate) step: Duration,
    /// A reply; then its connection is given up.
    pub(crate) response: Duration,
    /// Making a connection.
    pub(crate) connect: Duration,
    /// Whether the server may evict records.
    pub(crate) allow_eviction: bool,
}

/// Connections to one place.
#[derive(Debug)]
pub(crate) struct Lines {
    lines: Box<[Line]>,
}

/// A connection, or the want of one.
pub(crate) struct Line {
    place: Arc<Place>,
    limits: Limits,
    current: Mutex<Current>,
    /// Held by the one who makes a connection.
    making: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Current {
    connection: Option<Connection>,
    /// Whether it is to be replaced although it can still be used: one to a cluster, of which a node is silent.
    doubted: bool,
    /// Counts connections, so that nobody gives up the successor of a broken one.
    nth: u64,
}

/// What is to be asked, again if need be.
pub(crate) enum Ask<'a> {
    Script { script: &'a Script, keys: &'a Keys, values: &'a [script::Value<'a>], wait: Option<Wait> },
    Plain(&'a Cmd),
}

impl Ask<'_> {
    fn has_two_keys(&self) -> bool {
        matches!(self, Self::Script { keys, .. } if keys.answer.is_some())
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Lines {
    pub(crate) fn new(place: &Arc<Place>, count: usize, limits: Limits) -> Self {
        Self { lines: (0..count.max(1)).map(|_| Line::new(Arc::clone(place), limits)).collect() }
    }

    /// The line of a record: its steps follow each other.
    pub(crate) fn of(&self, digest: &[u8; 32]) -> &Line {
        &self.lines[usize::from(digest[0]) % self.lines.len()]
    }

    /// One of them.
    pub(crate) fn nth(&self, at: usize) -> &Line {
        &self.lines[at % self.lines.len()]
    }

    /// Gives up all connections; whoever asks later is refused.
    pub(crate) fn close(&self) {
        for line in &self.lines {
            line.closed.store(true, Ordering::Release);
            line.lock().connection = None;
        }
    }
}

impl Line {
    fn new(place: Arc<Place>, limits: Limits) -> Self {
        Self {
            place,
            limits,
            current: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Asks, and asks again as long as that may help and there is time until the deadline.
    ///
    /// A command that gets no reply may have been executed: only what may be executed twice is asked. A script that is
    /// refused after that is of unknown fate all the same, and no error says otherwise.
    pub(crate) async fn ask(&self, what: &Ask<'_>, deadline: Instant) -> Result<Value, StoreError> {
        let (mut whole, mut unanswered, mut pause, mut before) = (false, false, Duration::ZERO, None);
        loop {
            let sent = match *what {
                Ask::Plain(command) => self.send(command, &[], None, deadline).await,
                Ask::Script { script, keys, values, wait } => {
                    let command = if whole { script.whole(keys, values) } else { script.on(keys, values) };
                    self.send(&command, &keys.record, wait, deadline).await
                }
            };
            let fault = match sent {
                Ok(reply) => return Ok(reply),
                Err(fault) => fault,
            };
            match fault {
                Fault::NoScript if !whole => {
                    whole = true;
                    continue;
                }
                Fault::Refused(error) if unanswered => return Err(fate_unknown(error)),
                Fault::Refused(error) | Fault::Unsafe(error) => return Err(error),
                // The slot is on its way: the record is at one node still, and its answer at the other.
                Fault::Split(_) if what.has_two_keys() => return Ok(Value::Int(script::ANSWER_IS_MISSING)),
                Fault::Unreachable(error) if !self.place.fails_over() => return Err(error),
                // Whatever was sent before it broke; a new connection is made at once, the first time.
                Fault::Broken(_) if pause.is_zero() => pause = SHORTEST_PAUSE,
                _ => {
                    pause = (pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                    sleep(jittered(pause).min(left(deadline))).await;
                }
            }
            unanswered |= matches!((&fault, what), (Fault::Broken(_), Ask::Script { .. }));
            // The last try may have had no time; the one before it says what was wrong.
            let error = before.unwrap_or_else(|| fault.into_error());
            if Instant::now() >= deadline {
                return Err(error);
            }
            before = Some(error);
        }
    }

    /// Sends a command once.
    async fn send(
        &self,
        command: &Cmd,
        key: &[u8],
        wait: Option<Wait>,
        deadline: Instant,
    ) -> Result<Value, Fault> {
        let (mut connection, nth) = self.get(deadline).await?;
        let limit = self.limits.response.min(left(deadline));
        let mut unanswered =
            Unanswered { line: self, nth, since: Instant::now(), allowed: self.limits.response / 4 };
        let sent = async {
            match wait {
                None => connection.send(command).await.map(|reply| (reply, None)),
                Some(wait) => connection.send_and_wait(command, key, wait).await,
            }
        };
        let Ok(replied) = timeout(limit, sent).await else {
            let message = format!("the server did not answer within {limit:?}");
            return Err(Fault::Broken(StoreError::with_source(StoreErrorKind::TimedOut, message)));
        };
        match (&replied, wait) {
            _ if !self.place.is_watched() => unanswered.allowed = Duration::MAX,
            // The server waited for others, as it was told to.
            (Ok((_, Some(_))), Some(wait)) => unanswered.allowed += wait.at_most,
            _ => {}
        }
        match replied {
            Ok((reply, acknowledged)) => {
                match wait.zip(acknowledged).and_then(|(wait, by)| wait.missing(by)) {
                    Some(error) => Err(Fault::Unsafe(error)),
                    None => Ok(reply),
                }
            }
            Err(error) => {
                let lost = Connection::is_lost(&error);
                let fault = Fault::of(error);
                if lost || matches!(fault, Fault::Broken(_)) && connection.is_of_one_server() {
                    self.give_up(nth);
                }
                Err(fault)
            }
        }
    }

    /// The connection, made if there is none.
    async fn get(&self, deadline: Instant) -> Result<(Connection, u64), Fault> {
        let doubted = match self.current()? {
            (Some(found), false) => return Ok(found),
            // Somebody replaces it; the others have at least the nodes that answer.
            (Some(found), true) if self.making.try_lock().is_err() => return Ok(found),
            (found, _) => found,
        };
        let late = || {
            Fault::Unreachable(StoreError::with_source(
                StoreErrorKind::TimedOut,
                "no connection to the server could be made in time",
            ))
        };
        let _making = timeout(left(deadline), self.making.lock()).await.map_err(|_| late())?;
        if let (Some(found), false) = self.current()? {
            return Ok(found);
        }
        let limit = self.limits.connect.min(left(deadline));
        let made = match timeout(limit, self.make(limit)).await {
            Ok(Ok(made)) => made,
            Ok(Err(fault)) => return doubted.ok_or(fault),
            // It is there but does not speak; it may, before the time is over.
            Err(_) => return doubted.ok_or_else(|| Fault::Busy(late().into_error())),
        };
        let mut current = self.lock();
        current.nth += 1;
        current.doubted = false;
        current.connection = Some(made.clone());
        Ok((made, current.nth))
    }

    /// Makes a connection, and sees whether its server may have records: after a failover it is another.
    async fn make(&self, limit: Duration) -> Result<Connection, Fault> {
        let mut made = self.place.connect(limit).await?;
        // A cluster is asked as a whole, which a node that is away would spoil: only when the store is opened.
        if made.is_of_one_server() && !self.limits.allow_eviction {
            match made.send(&redis::cmd("INFO")).await.map_err(Fault::of) {
                Ok(told) => server::check(&told, false).map_err(Fault::Refused)?,
                Err(Fault::Refused(error)) if server::is_forbidden(&error) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(made)
    }

    /// The connection, and whether it is doubted.
    fn current(&self) -> Result<(Option<(Connection, u64)>, bool), Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Fault::Refused(unavailable("the store is closed")));
        }
        let current = self.lock();
        Ok((current.connection.clone().map(|connection| (connection, current.nth)), current.doubted))
    }

    /// Gives up a connection that is of no use any more.
    fn give_up(&self, nth: u64) {
        let mut current = self.lock();
        if current.nth == nth {
            current.doubted = true;
            if current.connection.as_ref().is_some_and(Connection::is_of_one_server) {
                current.connection = None;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that waits for its reply.
///
/// Whoever asks may give up long before a reply is late, each time again, and a connection that is half open would never be
/// found out: so it is given up when nobody waits any more, unless that was for a moment only. A server behind Sentinels
/// that took so long for a reply may have been replaced meanwhile without knowing it, so they are asked again.
struct Unanswered<'a> {
    line: &'a Line,
    nth: u64,
    since: Instant,
    /// How long it may take.
    allowed: Duration,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.since.elapsed() >= self.allowed {
            self.line.give_up(self.nth);
        }
    }
}

/// What a refusal says of a step of which a try before may have been taken.
fn fate_unknown(refusal: StoreError) -> StoreError {
    if refusal.is_retryable() {
        return refusal;
    }
    let why = std::error::Error::source(&refusal).map_or_else(|| refusal.to_string(), ToString::to_string);
    StoreError::with_source(
        StoreErrorKind::Unavailable,
        format!("a try got no reply and may have been taken, and the next was refused: {why}"),
    )
}

/// How long it is until then.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
