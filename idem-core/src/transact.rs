//! The course of a call in transaction mode: claim, writes and answer commit together, or nothing does.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::Either;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::boarding::{Boarding, spend};
use crate::call::{Begun as Prepared, Call};
use crate::detach::Detach;
use crate::error::{Error, ErrorKind, ReplayError};
use crate::execute::{Patience, replayed};
use crate::flight::Flight;
use crate::outcome::{Outcome, Stored};
use crate::policy::{OnDisconnect, Verdict};
use crate::run::{RUN, Run};
use crate::store::{Claimed, Fenced, Release, StoreError, StoreErrorKind};
use crate::telemetry::Watch;
use crate::tracker::Active;
use crate::transaction::{Begun, Ending, RecordEnd, Slot, TransactionalStore, Tx, Writes};
use crate::value::Keep;
use crate::within::{repeated, until};

impl<S: TransactionalStore> Call<Arc<S>> {
    /// Runs the work once in a transaction: its writes and its `Ok`, stored as JSON, are committed together.
    ///
    /// An `Err`, a panic and a failed commit leave nothing of what was written; after the first two the key stays bound
    /// to its payload. A crash leaves nothing at all. The work goes on if the caller goes away. A transaction that is idle
    /// for longer than the [lease](Call::lease) is ended by the database, so keep the work short; no lease is renewed.
    ///
    /// [`OnCrash`](crate::policy::OnCrash) and [`OnStoreError`](crate::policy::OnStoreError) have no say: a crash undoes
    /// what was done, and without its store there is no transaction.
    ///
    /// # Errors
    ///
    /// When there is no answer, the work's or a stored one: [`ErrorKind`] says why. Nothing was written, and the key is
    /// not claimed; only after [`ErrorKind::StoreUnavailable`] it may be done, and the next call will know.
    pub async fn transact<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
    {
        self.execute_transaction(Keep::ok().judging_writes(work), |stored| Keep::ok().replay(stored.answer()))
            .await
    }

    /// As [`transact`](Self::transact), in the caller's own future: for work that borrows, or is not `Send`.
    ///
    /// If the future is dropped while the work runs, nothing is left of it, and the key is free.
    ///
    /// # Errors
    ///
    /// As [`transact`](Self::transact).
    pub async fn transact_inline<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
    {
        self.execute_transaction_inline(Keep::ok().judging_writes(work), |stored| {
            Keep::ok().replay(stored.answer())
        })
        .await
    }

    /// As [`transact`](Self::transact), and an `Err` is final, too: what was written is undone, and the `Err` replayed.
    ///
    /// # Errors
    ///
    /// As [`transact`](Self::transact).
    pub async fn transact_storing_err<T, E, F, Fut>(self, work: F) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Serialize + DeserializeOwned + Send + 'static,
    {
        self.execute_transaction(Keep::both().judging_writes(work), |stored| {
            Keep::both().replay(stored.answer())
        })
        .await
    }

    /// As [`transact_inline`](Self::transact_inline), and an `Err` is final, too.
    ///
    /// # Errors
    ///
    /// As [`transact`](Self::transact).
    pub async fn transact_inline_storing_err<T, E, F, Fut>(
        self,
        work: F,
    ) -> Result<Outcome<Result<T, E>>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
    {
        self.execute_transaction_inline(Keep::both().judging_writes(work), |stored| {
            Keep::both().replay(stored.answer())
        })
        .await
    }

    /// Transacts work that says itself what becomes of the record and of its writes: for adapters.
    ///
    /// # Errors
    ///
    /// As [`transact`](Self::transact), and what `replay` makes of a stored answer that it cannot use.
    pub async fn execute_transaction<R, F, Fut, D>(self, work: F, replay: D) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut + Send + 'static,
        Fut: Future<Output = (R, Verdict, Writes)> + Send + 'static,
        R: Send + 'static,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
    {
        if self.policy().on_disconnect == OnDisconnect::Cancel {
            return Box::pin(self.execute_transaction_inline(work, replay)).await;
        }
        let store = self.store().clone();
        self.detached_transaction(work, replay, move |flight, work| {
            let carry = flight.engine().config().carry.as_ref();
            Detach::new(flight.clone(), carry, whole(flight.clone(), store.clone(), work))
        })
        .await
    }

    /// As [`execute_transaction`](Self::execute_transaction), for work that cannot leave its thread: it goes on there if
    /// the caller goes away.
    ///
    /// That needs a [`LocalSet`](tokio::task::LocalSet); elsewhere the work is dropped with its caller: nothing is left
    /// of what was written, and the key is free.
    ///
    /// # Errors
    ///
    /// As [`execute_transaction`](Self::execute_transaction).
    pub async fn execute_transaction_local<R, F, Fut, D>(
        self,
        work: F,
        replay: D,
    ) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut + 'static,
        Fut: Future<Output = (R, Verdict, Writes)> + 'static,
        R: 'static,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
    {
        if self.policy().on_disconnect == OnDisconnect::Cancel {
            return Box::pin(self.execute_transaction_inline(work, replay)).await;
        }
        let store = self.store().clone();
        self.detached_transaction(work, replay, move |flight, work| {
            let carry = flight.engine().config().carry.as_ref();
            Detach::local(flight.clone(), carry, whole(flight.clone(), store.clone(), work))
        })
        .await
    }

    /// The course of work that goes on without its caller.
    async fn detached_transaction<R, F, Fut, D, T>(
        self,
        work: F,
        replay: D,
        detach: impl Fn(&Arc<Flight>, F) -> Detach<T, Arc<Flight>>,
    ) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
        Fut: Future<Output = (R, Verdict, Writes)>,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
        T: Future<Output = Step<R, F>>,
    {
        let watch = Watch::new(self.operation());
        let store = self.store().clone();
        watch
            .over(async {
                let mut flight = match self.begin()? {
                    Prepared::Flight(flight) => flight,
                    Prepared::Unprotected => return unprotected(&*store, work).await,
                };
                watch.record(&flight);
                let mut patience = Patience::new(&flight);
                let mut work = work;
                loop {
                    match detach(&flight, work).await {
                        Step::Ended(end) => return end.map(Outcome::Fresh),
                        Step::Unclaimed(error) => return Err(error),
                        Step::Refused(claimed, unused) => match patience.refused(&mut flight, claimed).await?
                        {
                            Some(stored) => return replayed(&flight, &stored, replay),
                            None => work = unused,
                        },
                    }
                }
            })
            .await
    }

    /// As [`execute_transaction`](Self::execute_transaction), in the caller's own future.
    ///
    /// # Errors
    ///
    /// As [`execute_transaction`](Self::execute_transaction).
    pub async fn execute_transaction_inline<R, F, Fut, D>(
        self,
        work: F,
        replay: D,
    ) -> Result<Outcome<R>, Error>
    where
        F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
        Fut: Future<Output = (R, Verdict, Writes)>,
        D: FnOnce(&Stored) -> Result<R, ReplayError>,
    {
        let watch = Watch::new(self.operation());
        let store = self.store().clone();
        watch
            .over(async {
                let mut flight = match self.begin()? {
                    Prepared::Flight(flight) => flight,
                    Prepared::Unprotected => return unprotected(&*store, work).await,
                };
                watch.record(&flight);
                let mut patience = Patience::new(&flight);
                loop {
                    // Dropped meanwhile, it leaves no claim: what is not committed never was.
                    match board(&flight, &*store).await? {
                        Aboard::Granted(grant) => {
                            return run(&flight, &store, *grant, work, true).await.map(Outcome::Fresh);
                        }
                        Aboard::Refused(claimed) => {
                            if let Some(stored) = patience.refused(&mut flight, claimed).await? {
                                return replayed(&flight, &stored, replay);
                            }
                        }
                    }
                }
            })
            .await
    }
}

/// What came of a claim and, if it was granted, of the run.
enum Step<R, F> {
    Ended(Result<R, Error>),
    Refused(Claimed, F),
    Unclaimed(Error),
}

/// A claim in an open transaction. Its parts are dropped in this order.
struct Grant<T, H> {
    transaction: T,
    hold: H,
    attempt: u32,
    active: Active,
}

enum Aboard<T, H> {
    Granted(Box<Grant<T, H>>),
    Refused(Claimed),
}

/// Claims, runs and commits; goes on if the caller goes away, but does not begin the work then.
async fn whole<S, R, F, Fut>(flight: Arc<Flight>, store: Arc<S>, work: F) -> Step<R, F>
where
    S: TransactionalStore,
    F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
    Fut: Future<Output = (R, Verdict, Writes)>,
{
    match board(&flight, &*store).await {
        // Nobody is there to hear it.
        Ok(Aboard::Granted(_)) if flight.is_abandoned() => {
            Step::Unclaimed(Error::new(ErrorKind::Aborted).at(flight.id()))
        }
        Ok(Aboard::Granted(grant)) => Step::Ended(run(&flight, &store, *grant, work, false).await),
        Ok(Aboard::Refused(claimed)) => Step::Refused(claimed, work),
        Err(error) => Step::Unclaimed(error),
    }
}

/// Begins a transaction and claims the record in it, or tells why it cannot be had.
async fn board<S: TransactionalStore>(
    flight: &Flight,
    store: &S,
) -> Result<Aboard<S::Transaction, S::Hold>, Error> {
    let limit = flight.config().max_in_flight;
    if !flight.has_room() {
        return match flight.look().await? {
            Boarding::Refused(claimed) => Ok(Aboard::Refused(claimed)),
            Boarding::Granted(_) => Err(Error::new(ErrorKind::Overloaded).at(flight.id())),
        };
    }
    let token = flight.admit().await?;
    let mut active = flight.enter();
    match ask(flight, store).await.map_err(|error| Error::from_store(error).at(flight.id()))? {
        Begun::Refused(claimed) => Ok(Aboard::Refused(claimed)),
        Begun::Granted { attempt, transaction, hold } => {
            spend(token, attempt);
            if active.take_room(limit) {
                return Ok(Aboard::Granted(Box::new(Grant { transaction, hold, attempt, active })));
            }
            // Others that were asking, too, were faster.
            drop((transaction, hold));
            Err(Error::new(ErrorKind::Overloaded).at(flight.id()))
        }
    }
}

/// Begins, and begins again where the connection broke: what is not committed never was.
///
/// Not where the store took too long: the transaction that was given up may still wait for a lock, and would be met.
async fn ask<S: TransactionalStore>(
    flight: &Flight,
    store: &S,
) -> Result<Begun<S::Transaction, S::Hold>, StoreError> {
    repeated(flight.store_timeout(), &[StoreErrorKind::Unavailable], || {
        store.begin(flight.id(), flight.asked())
    })
    .await
}

/// Runs the work in the transaction, and commits what its verdict says.
///
/// A panic goes on to the caller when that is done. With `inline` only the commit is safe from a caller that goes away;
/// otherwise all of this already is.
async fn run<S, R, F, Fut>(
    flight: &Arc<Flight>,
    store: &Arc<S>,
    grant: Grant<S::Transaction, S::Hold>,
    work: F,
    inline: bool,
) -> Result<R, Error>
where
    S: TransactionalStore,
    F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
    Fut: Future<Output = (R, Verdict, Writes)>,
{
    let Grant { transaction, hold, attempt, active } = grant;
    let run = Run::new(flight.clone(), attempt);
    let (slot, tx) = Slot::lend(transaction);
    let body = RUN.scope(run.clone(), async move { work(tx, run).await });
    let body = AssertUnwindSafe(body).catch_unwind();
    let ended = until(flight.policy().max_run, async { Ok(body.await) }).await;
    let (end, verdict, writes) = match ended {
        Ok(Ok((result, verdict, writes))) => (Ok(result), verdict, writes),
        Ok(Err(panic)) => (Err(Some(panic)), Verdict::Fail, Writes::Undo),
        Err(_) => (Err(None), Verdict::Fail, Writes::Undo),
    };
    let has_answer = matches!(verdict, Verdict::Complete(_));
    let conclude = conclude(flight.clone(), store.clone(), slot, hold, verdict, writes, active);
    let committed = if inline {
        let carry = flight.engine().config().carry.as_ref();
        Either::Left(Detach::new(flight.clone(), carry, conclude))
    } else {
        Either::Right(conclude)
    }
    .await;
    match (end, committed) {
        (Err(Some(panic)), _) => resume_unwind(panic),
        (Err(None), _) => Err(Error::new(ErrorKind::Aborted).at(flight.id())),
        // What it wrote is undone, whatever became of the record.
        (Ok(result), _) if !has_answer => Ok(result),
        (Ok(result), Ok(())) => Ok(result),
        (Ok(_), Err(error)) => Err(error),
    }
}

/// Commits what becomes of the record and of the writes; after an error nothing is committed, or nobody can tell.
async fn conclude<S: TransactionalStore>(
    flight: Arc<Flight>,
    store: Arc<S>,
    slot: Slot<S::Transaction>,
    hold: S::Hold,
    verdict: Verdict,
    writes: Writes,
    _active: Active,
) -> Result<(), Error> {
    let id = flight.id();
    let Some(transaction) = slot.take() else {
        return Err(Error::new(ErrorKind::Misuse).at(id).with_detail(
            "the work ended and its transaction is still in use; let nothing that outlives the work have it",
        ));
    };
    let binding = flight.policy().ttl;
    let (record, writes) = match verdict {
        Verdict::Complete(answer) => {
            (RecordEnd::Complete(flight.seal(answer), flight.policy().retention()), writes)
        }
        // A crash undoes what was done, so there is nothing whose outcome could be unknown.
        Verdict::Fail | Verdict::Retryable => {
            (RecordEnd::Release(Release::KeepBinding(binding)), Writes::Undo)
        }
        Verdict::Undo => (RecordEnd::Release(Release::Undo(binding)), Writes::Undo),
    };
    let ending = Ending { record, writes };
    let committed = store.commit(transaction, hold, id, flight.asked().owner, &ending).await;
    match committed {
        Ok(Fenced::Held) => Ok(()),
        Ok(Fenced::Lost) => Err(Error::new(ErrorKind::LeaseLost).at(id)),
        Err(error) => {
            if let RecordEnd::Release(_) = ending.record {
                tracing::warn!(record = %id, %error, "a failed run has left nothing, its binding neither");
            }
            let is_unknown = error.kind() != StoreErrorKind::CommitRefused;
            let error = Error::from_store(error).at(id);
            Err(if is_unknown {
                error.with_help(
                    "Whether the request was carried out is not known yet. Retry with the same key to learn it.",
                )
            } else {
                error
            })
        }
    }
}

/// Runs the work in a transaction without a record.
async fn unprotected<S, R, F, Fut>(store: &S, work: F) -> Result<Outcome<R>, Error>
where
    S: TransactionalStore,
    F: FnOnce(Tx<S::Transaction>, Run) -> Fut,
    Fut: Future<Output = (R, Verdict, Writes)>,
{
    let (transaction, hold) = store.begin_unclaimed().await.map_err(Error::from_store)?;
    let (slot, tx) = Slot::lend(transaction);
    let run = Run::unprotected();
    let (result, _, writes) = RUN.scope(run.clone(), async move { work(tx, run).await }).await;
    match (slot.take(), writes) {
        (Some(transaction), Writes::Keep) => {
            store.commit_unclaimed(transaction, hold).await.map_err(Error::from_store)?;
        }
        (Some(transaction), Writes::Undo) => drop(transaction),
        (None, _) => {
            return Err(Error::new(ErrorKind::Misuse)
                .with_detail("the work ended and its transaction is still in use"));
        }
    }
    Ok(Outcome::Unprotected(result))
}
