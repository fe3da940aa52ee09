//! The course of a call: claim, run, replay, wait, or tell why not.

use std::sync::Arc;
use std::time::Duration;

use crate::boarding::Boarding;
use crate::call::{Begun, Call};
use crate::detach::Detach;
use crate::error::{Error, ErrorKind, ReplayError};
use crate::flight::{End, Flight};
use crate::lease::Abort;
use crate::outcome::{Outcome, Stored};
use crate::policy::{InFlight, OnDisconnect, OnStoreError, Verdict};
use crate::run::{self, RUN, Run};
use crate::store::Claimed;
use crate::sync::{Instant, sleep};
use crate::telemetry::Watch;

impl<S> Call<S> {
    /// Runs work that says itself what becomes of the record: for adapters.
    ///
    /// The work goes on if the caller goes away, unless [`OnDisconnect::Cancel`] is set.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and what `replay` makes of a stored answer that it cannot use.
    pub async fn execute<R, F, Fut, D>(self, work: F, replay: D) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Run) -> Fut + Send + 'static,
        Fut: Future<Output = (R, Verdict)> + Send + 'static,
        R: Send + 'static,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
    {
        if self.policy().on_disconnect == OnDisconnect::Cancel {
            return Box::pin(self.execute_inline(work, replay)).await;
        }
        self.detached(work, replay, |flight, work| {
            let carry = flight.engine().config().carry.as_ref();
            Detach::new(flight.clone(), carry, whole(flight.clone(), work))
        })
        .await
    }

    /// As [`execute`](Self::execute), for work that cannot leave its thread: it goes on there if the caller goes away.
    ///
    /// That needs a [`LocalSet`](tokio::task::LocalSet), as actix has one for each of its workers; elsewhere the work is
    /// dropped with its caller, which counts as a crash: the key is held until its lease ends.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    pub async fn execute_local<R, F, Fut, D>(self, work: F, replay: D) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Run) -> Fut + 'static,
        Fut: Future<Output = (R, Verdict)> + 'static,
        R: 'static,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
    {
        if self.policy().on_disconnect == OnDisconnect::Cancel {
            return Box::pin(self.execute_inline(work, replay)).await;
        }
        self.detached(work, replay, |flight, work| {
            let carry = flight.engine().config().carry.as_ref();
            Detach::local(flight.clone(), carry, whole(flight.clone(), work))
        })
        .await
    }

    /// The course of work that goes on without its caller.
    async fn detached<R, F, Fut, D, T>(
        self,
        work: F,
        replay: D,
        detach: impl Fn(&Arc<Flight>, F) -> Detach<T, Arc<Flight>>,
    ) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = (R, Verdict)>,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
        T: Future<Output = Step<R, F>>,
    {
        let watch = Watch::new(self.operation());
        watch
            .over(async {
                let mut flight = match self.begin()? {
                    Begun::Flight(flight) => flight,
                    Begun::Unprotected => return Ok(Box::pin(unprotected(work)).await),
                };
                watch.record(&flight);
                let mut patience = Patience::new(&flight);
                let mut work = work;
                loop {
                    match detach(&flight, work).await {
                        Step::Ended(end) => return conclude(&flight, end, replay).await,
                        Step::Refused(claimed, unused) => match patience.refused(&mut flight, claimed).await?
                        {
                            Some(stored) => return replayed(&flight, &stored, replay),
                            None => work = unused,
                        },
                        Step::Unclaimed(error, unused) => {
                            unclaimed(&flight, error)?;
                            return Ok(Box::pin(unprotected(unused)).await);
                        }
                    }
                }
            })
            .await
    }

    /// As [`execute`](Self::execute), in the caller's own future: for work that borrows, or is not `Send`.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    pub async fn execute_inline<R, F, Fut, D>(self, work: F, replay: D) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = (R, Verdict)>,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
    {
        let watch = Watch::new(self.operation());
        watch
            .over(async {
                let mut flight = match self.begin()? {
                    Begun::Flight(flight) => flight,
                    Begun::Unprotected => return Ok(Box::pin(unprotected(work)).await),
                };
                watch.record(&flight);
                let mut patience = Patience::new(&flight);
                loop {
                    let carry = flight.engine().config().carry.as_ref();
                    match Detach::new(flight.clone(), carry, claim_or_undo(flight.clone())).await {
                        Ok(Boarding::Granted(grant)) => {
                            let end = flight.run(grant, work, true).await;
                            return conclude(&flight, end, replay).await;
                        }
                        Ok(Boarding::Refused(claimed)) => {
                            if let Some(stored) = patience.refused(&mut flight, claimed).await? {
                                return replayed(&flight, &stored, replay);
                            }
                        }
                        Err(error) => {
                            unclaimed(&flight, error)?;
                            return Ok(Box::pin(unprotected(work)).await);
                        }
                    }
                }
            })
            .await
    }
}

/// What came of a claim and, if it was granted, of the run.
enum Step<R, F> {
    Ended(End<R>),
    Refused(Claimed, F),
    Unclaimed(Error, F),
}

/// Claims, runs and completes; goes on if the caller goes away, but does not begin the work then.
async fn whole<R, F, Fut>(flight: Arc<Flight>, work: F) -> Step<R, F>
where
    F: FnOnce(Run) -> Fut,
    Fut: Future<Output = (R, Verdict)>,
{
    match claim_or_undo(flight.clone()).await {
        Ok(Boarding::Granted(grant)) => Step::Ended(flight.run(grant, work, false).await),
        Ok(Boarding::Refused(claimed)) => Step::Refused(claimed, work),
        Err(error) => Step::Unclaimed(error, work),
    }
}

/// Claims; gives the claim back if the caller has gone away meanwhile.
async fn claim_or_undo(flight: Arc<Flight>) -> Result<Boarding, Error> {
    match flight.claim().await? {
        Boarding::Granted(grant) if flight.is_abandoned() => {
            flight.undo(grant).await;
            // Nobody is there to hear it.
            Err(Error::new(ErrorKind::Aborted).at(flight.id()))
        }
        boarding => Ok(boarding),
    }
}

/// Runs the work without a record.
async fn unprotected<R, F, Fut>(work: F) -> Outcome<R>
where
    F: FnOnce(Run) -> Fut,
    Fut: Future<Output = (R, Verdict)>,
{
    let run = Run::unprotected();
    let (result, _) = RUN.scope(run.clone(), async move { work(run).await }).await;
    Outcome::Unprotected(result)
}

/// Lets the call go on without a record if its policy says so.
fn unclaimed(flight: &Flight, error: Error) -> Result<(), Error> {
    let unsafe_run = flight.policy().on_store_error == OnStoreError::Run;
    if unsafe_run && error.kind() == ErrorKind::StoreUnavailable {
        tracing::warn!(record = %flight.id(), %error, "running without protection, as on_store_error = run says");
        return Ok(());
    }
    Err(error)
}

pub(crate) fn replayed<R>(
    flight: &Flight,
    stored: &Stored,
    replay: impl FnOnce(&Stored) -> Result<R, ReplayError>,
) -> Result<Outcome<R>, Error> {
    match replay(stored) {
        Ok(result) => Ok(Outcome::Replayed(result)),
        Err(error) => Err(Error::from_replay(error).at(flight.id())),
    }
}

/// What the caller gets when the run has ended.
async fn conclude<R>(
    flight: &Flight,
    end: End<R>,
    replay: impl FnOnce(&Stored) -> Result<R, ReplayError>,
) -> Result<Outcome<R>, Error> {
    match end {
        End::Fresh(result) => Ok(Outcome::Fresh(result)),
        // Rare, and boxed so that the usual call stays small.
        end => Box::pin(conclude_otherwise(flight, end, replay)).await,
    }
}

/// What the caller gets when the run has ended without its answer being the record's.
async fn conclude_otherwise<R>(
    flight: &Flight,
    end: End<R>,
    replay: impl FnOnce(&Stored) -> Result<R, ReplayError>,
) -> Result<Outcome<R>, Error> {
    match end {
        End::Fresh(result) => Ok(Outcome::Fresh(result)),
        End::Aborted(Abort::Over) => Err(Error::new(ErrorKind::Aborted).at(flight.id())),
        // Whoever lost the record answers what the record says.
        End::Aborted(Abort::Lost) => replayed(flight, &flight.verdict_of_record().await?, replay),
        End::Fenced { failed } => match (flight.verdict_of_record().await, failed) {
            (Ok(stored), _) => replayed(flight, &stored, replay),
            (Err(_), Some(result)) => Ok(Outcome::Fresh(result)),
            (Err(error), None) => Err(error),
        },
    }
}

/// How long a caller waits for another to finish.
pub(crate) struct Patience {
    deadline: Option<Instant>,
    /// When it last began to wait.
    waited: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(flight: &Flight) -> Self {
        const FAR: Duration = Duration::from_hours(24 * 365);
        Self {
            deadline: match flight.policy().in_flight {
                InFlight::Reject => None,
                // A run that waits for itself would wait in vain.
                InFlight::Wait(_) if run::is_within(flight.id()) => None,
                InFlight::Wait(at_most) => Some(Instant::now() + at_most.min(FAR)),
            },
            waited: None,
        }
    }

    /// What to do about a refused claim: replay the answer, or (`None`) claim again, with what is then the flight.
    pub(crate) async fn refused(
        &mut self,
        flight: &mut Arc<Flight>,
        claimed: Claimed,
    ) -> Result<Option<Stored>, Error> {
        match (claimed, self.deadline) {
            (Claimed::Completed { answer, expires_in }, _) => flight.opened(answer, expires_in).map(Some),
            (Claimed::InFlight { lease_left }, Some(deadline)) if Instant::now() < deadline => {
                // A store may return from a wait at once, and again: its holder must get to run.
                if self.waited.is_some_and(|since| since.elapsed() < Duration::from_millis(1)) {
                    sleep(Duration::from_millis(5)).await;
                }
                self.waited = Some(Instant::now());
                // When the lease ends the record may be had, and nobody announces that.
                let lapse = lease_left.saturating_add(Duration::from_millis(1));
                let left = deadline.saturating_duration_since(Instant::now());
                Box::pin(flight.changed(left.min(lapse))).await;
                *flight = flight.again();
                Ok(None)
            }
            (refused, _) => Err(flight.refusal(&refused)),
        }
    }
}
