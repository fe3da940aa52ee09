//! Claiming in a transaction that the caller already has, by hand.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::boarding::spend;
use crate::call::{Begun, Call};
use crate::error::{Error, ErrorKind};
use crate::flight::Flight;
use crate::policy::Verdict;
use crate::run::Run;
use crate::store::{Claimed, Fenced, Release, StoreError};
use crate::tracker::Active;
use crate::transaction::{Ending, RecordEnd, TransactionalStore, Writes};
use crate::within::within;

impl<S: TransactionalStore> Call<Arc<S>> {
    /// Claims the key in a transaction that the caller has, and will commit.
    ///
    /// After [`Joined::Granted`] do the work in the same transaction, [`complete`](Part::complete) the part with the value
    /// to replay, and commit. Whatever is not committed never was: to give up, roll back. It does not wait for a rival,
    /// whatever [`in_flight`](Call::in_flight) says, since the transaction would be open meanwhile.
    ///
    /// On SQLite begin it as the writer that it will be: `pool.begin_with("BEGIN IMMEDIATE")`. The guide's chapter on
    /// guarantees has an example.
    ///
    /// # Errors
    ///
    /// When the work must not be done and there is no answer to replay: [`ErrorKind`] says why. Nothing is claimed then, and
    /// the transaction can go on; only after [`ErrorKind::StoreUnavailable`] it can but be rolled back.
    pub async fn claim_in<T: DeserializeOwned>(
        self,
        connection: &mut S::Connection,
    ) -> Result<Joined<S, T>, Error> {
        let store = self.store().clone();
        let Begun::Flight(flight) = self.begin()? else {
            return Err(Error::new(ErrorKind::KeyRequired));
        };
        let token = flight.take_token();
        let active = flight.enter();
        let claimed = in_time(&flight, store.claim_in(connection, flight.id(), flight.asked())).await?;
        match claimed {
            Claimed::Granted { attempt } => {
                let granted = Part {
                    run: Run::new(flight.clone(), attempt),
                    store,
                    flight: flight.clone(),
                    _active: active,
                };
                match token {
                    // Only the claim tells whether the key is new: a look beforehand would need a second connection.
                    Err(left) if attempt == 1 => {
                        granted.undo(connection).await?;
                        return Err(flight.too_many_keys(left));
                    }
                    token => spend(token.unwrap_or_default(), attempt),
                }
                Ok(Joined::Granted(granted))
            }
            Claimed::Completed { answer, expires_in } => {
                let stored = flight.opened(answer, expires_in)?;
                let value = crate::value::replay_value(stored.answer());
                value.map(Joined::Replayed).map_err(|error| Error::from_replay(error).at(flight.id()))
            }
            refused => Err(flight.refusal(&refused)),
        }
    }
}

/// What a claim in the caller's transaction came to.
#[derive(Debug)]
#[must_use]
pub enum Joined<S, T> {
    /// The key is claimed: do the work in this transaction.
    Granted(Part<S>),
    /// The work is done; this is what it came to.
    Replayed(T),
}

/// A claim that is part of the caller's transaction.
#[must_use = "commit the transaction without completing its part, and the key is held for its lease"]
pub struct Part<S> {
    store: Arc<S>,
    flight: Arc<Flight>,
    run: Run,
    _active: Active,
}

impl<S: TransactionalStore> Part<S> {
    /// The context of the run: its attempt, and derived keys.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Stores the value to replay; it takes effect with the caller's commit.
    ///
    /// # Errors
    ///
    /// When the store cannot say, or the claim is not in this transaction: roll it back.
    pub async fn complete<T>(self, connection: &mut S::Connection, value: &T) -> Result<(), Error>
    where
        T: Serialize,
    {
        let Verdict::Complete(answer) = crate::value::kept(&self.run, value) else {
            return Err(Error::new(ErrorKind::Misuse).at(self.flight.id()));
        };
        let answer = self.flight.seal(answer);
        let record = RecordEnd::Complete(answer, self.flight.policy().retention());
        self.end(connection, Ending { record, writes: Writes::Keep }).await
    }

    /// Undoes what was written since the claim; the key stays bound to its payload once the caller commits.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub async fn fail(self, connection: &mut S::Connection) -> Result<(), Error> {
        let record = RecordEnd::Release(Release::KeepBinding(self.flight.policy().ttl));
        self.end(connection, Ending { record, writes: Writes::Undo }).await
    }

    /// Takes the claim back: nothing was written under it.
    async fn undo(self, connection: &mut S::Connection) -> Result<(), Error> {
        let record = RecordEnd::Release(self.flight.undoing());
        self.end(connection, Ending { record, writes: Writes::Keep }).await
    }

    async fn end(self, connection: &mut S::Connection, ending: Ending) -> Result<(), Error> {
        let Self { store, flight, .. } = &self;
        let ended = store.end_in(connection, flight.id(), flight.asked().owner, &ending);
        match in_time(flight, ended).await? {
            Fenced::Held => Ok(()),
            Fenced::Lost => Err(Error::new(ErrorKind::LeaseLost).at(flight.id())),
        }
    }
}

async fn in_time<T>(flight: &Flight, step: impl Future<Output = Result<T, StoreError>>) -> Result<T, Error> {
    within(flight.store_timeout(), step).await.map_err(|error| Error::from_store(error).at(flight.id()))
}

impl<S> fmt::Debug for Part<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("run", &self.run).finish_non_exhaustive()
    }
}
