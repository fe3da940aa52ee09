//! Transaction mode: the claim, the work's writes and the answer in one transaction of the database.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::owner::Owner;
use idem_core::policy::Policy;
use idem_core::record::RecordId;
use idem_core::store::{Claim, Claimed, Fenced, StoreError, StoreErrorKind};
use idem_core::transaction::{Begun, Ending, RecordEnd, TransactionalStore, Writes};
use sqlx::Transaction;
use tokio::time::{Instant, timeout};

use crate::database::Found;
use crate::held::{Entered, Ticket};
use crate::pauses::Pauses;
use crate::row::Phase;
use crate::step::Step;
use crate::store::{Claiming, LOCKED, SqlStore, decide};
use crate::transaction::{Connection, Failed, Mark, Transactions, Uncommitted};

/// Far longer than any work in a transaction, or the look for a commit whose reply was lost.
const LONG: Duration = Duration::from_hours(24);

/// What is kept as long as a transaction is open. The ticket is given back last.
#[derive(Debug)]
pub struct Hold<T> {
    _turn: T,
    _ticket: Option<Ticket>,
}

/// Claims in a transaction.
struct Within<'a, B: Transactions> {
    database: &'a B,
    connection: &'a mut Connection<B>,
    mark: Mark,
    limit: Option<Duration>,
}

impl<B: Transactions> Claiming for Within<'_, B>
where
    Connection<B>: Send,
{
    type Error = Failed;

    async fn claim(&mut self, step: Step) -> Result<Found, Failed> {
        self.database.claim_in(self.connection, &step, &self.mark, self.limit).await
    }

    async fn take(&mut self, step: Step) -> Result<u64, Failed> {
        self.database.take_over_in(self.connection, &step, &self.mark).await
    }

    fn unreadable(error: StoreError) -> Failed {
        Failed::Refused(error)
    }
}

impl<B: Transactions> SqlStore<B>
where
    Connection<B>: Send,
{
    /// Opens a transaction and claims in it, once.
    async fn begin_once(&self, id: &RecordId, claim: &Claim) -> Result<BegunOnce<B>, Failed> {
        let (database, claim) = (self.database(), &lasting(claim));
        let (mut transaction, turn) = database.open(self.timeout(), claim.lease).await?;
        let limit = Some(self.timeout());
        let mut within = Within { database, connection: &mut *transaction, mark: Mark::own(), limit };
        match decide(&mut within, id, claim).await? {
            Claimed::Granted { attempt } => Ok(BegunOnce::Granted(attempt, transaction, turn)),
            refused => {
                // Before the answer, so that nobody meets a lock that nobody needs. If it fails, the connection is gone.
                let _ = transaction.rollback().await;
                Ok(BegunOnce::Refused(refused))
            }
        }
    }

    async fn begin_until_decided(&self, id: &RecordId, claim: &Claim) -> Result<BegunOnce<B>, StoreError> {
        let (mut pauses, mut broken, limit) = (Pauses::default(), 0, self.database().broken_at_most());
        loop {
            match self.begin_once(id, claim).await {
                Err(Failed::Undone(_)) => pauses.pause().await,
                Err(Failed::Broken(_)) if broken < limit => broken += 1,
                result => return result.map_err(Failed::into_error),
            }
        }
    }

    async fn end_in_time(
        &self,
        connection: &mut Connection<B>,
        mark: &Mark,
        id: &RecordId,
        owner: Owner,
        ending: &Ending,
    ) -> Result<Fenced, StoreError> {
        let database = self.database();
        let step = match &ending.record {
            RecordEnd::Complete(answer, retention) => Step::complete(id, owner, answer, *retention),
            RecordEnd::Release(how) => Step::release(id, owner, *how),
        };
        self.in_time(async {
            if ending.writes == Writes::Undo {
                database.undo_writes(connection, mark).await.map_err(Failed::into_error)?;
            }
            let changed = database.end_in(connection, &step).await.map_err(Failed::into_error)?;
            Ok(if changed == 1 { Fenced::Held } else { Fenced::Lost })
        })
        .await
    }

    /// Finds out what became of a commit whose reply was lost: its answer is there, or never will be.
    ///
    /// `expires` is when the answer may be gone again.
    async fn look_for(
        &self,
        id: &RecordId,
        owner: Owner,
        expires: Instant,
        lost: StoreError,
    ) -> Result<Fenced, StoreError> {
        let database = self.database();
        let mut pauses = Pauses::default();
        // The transaction may still be on its way to its commit; only when it is over the record says what it did.
        while pauses.spent() < self.timeout() {
            if let Ok(false) = timeout(self.timeout(), database.is_locked(id)).await.unwrap_or(Ok(true))
                && let Ok(row) = self.in_time(database.look_up(id, false)).await
            {
                let mine = row.is_some_and(|row| row.phase == Phase::Completed && row.owner == owner);
                return match mine {
                    true => Ok(Fenced::Held),
                    false if Instant::now() < expires => Err(refused(lost)),
                    false => Err(lost),
                };
            }
            pauses.pause().await;
        }
        Err(lost)
    }
}

/// A claim that lasts for as long as the work in its transaction may take: nobody sees it, so nobody renews it.
fn lasting(claim: &Claim) -> Claim {
    Claim { binding: claim.binding.max(LONG), ..claim.clone() }
}

/// What is told of a transaction that is not committed, and never will be.
fn refused(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::CommitRefused => error,
        _ => StoreError::with_source(StoreErrorKind::CommitRefused, error),
    }
}

enum BegunOnce<B: Transactions> {
    Granted(u32, Transaction<'static, B::Driver>, B::Turn),
    Refused(Claimed),
}

#[async_trait]
impl<B: Transactions> TransactionalStore for SqlStore<B>
where
    Connection<B>: Send,
{
    type Transaction = Transaction<'static, B::Driver>;
    type Hold = Hold<B::Turn>;
    type Connection = Connection<B>;

    async fn begin(
        &self,
        id: &RecordId,
        claim: &Claim,
    ) -> Result<Begun<Self::Transaction, Self::Hold>, StoreError> {
        let mut ticket = loop {
            if self.held().is_open(id) {
                return Ok(Begun::Refused(LOCKED));
            }
            // Before the ticket, so that those who replay one answer need not wait for each other.
            if let Some(refused) = self.replayed_before(id, claim).await? {
                return Ok(Begun::Refused(refused));
            }
            match self.held().enter(id) {
                Entered::First(ticket) => break ticket,
                Entered::Open => return Ok(Begun::Refused(LOCKED)),
                Entered::Later(decided) => {
                    self.in_time(async {
                        decided.await;
                        Ok(())
                    })
                    .await?;
                }
            }
        };
        Ok(match self.in_time(self.begin_until_decided(id, claim)).await? {
            BegunOnce::Granted(attempt, transaction, turn) => {
                ticket.granted();
                let hold = Hold { _turn: turn, _ticket: Some(ticket) };
                Begun::Granted { attempt, transaction, hold }
            }
            BegunOnce::Refused(refused) => {
                ticket.refused(&refused);
                self.note_replay(&refused);
                Begun::Refused(refused)
            }
        })
    }

    async fn commit(
        &self,
        mut transaction: Self::Transaction,
        hold: Self::Hold,
        id: &RecordId,
        owner: Owner,
        ending: &Ending,
    ) -> Result<Fenced, StoreError> {
        match self.end_in_time(&mut transaction, &Mark::own(), id, owner, ending).await {
            Ok(Fenced::Held) => {}
            // Dropped, it is rolled back. Whatever the reason, it has not been told to commit.
            not_held => {
                drop(transaction);
                return not_held.map_err(refused);
            }
        }
        let sent = Instant::now();
        let result = match self.database().commit(transaction, self.timeout()).await {
            Ok(()) => Ok(Fenced::Held),
            Err(Uncommitted::Refused(error)) => Err(refused(error)),
            Err(Uncommitted::Unknown(error)) => match &ending.record {
                RecordEnd::Complete(_, retention) => {
                    let expires = sent + retention.ttl.min(LONG);
                    self.look_for(id, owner, expires, error).await
                }
                RecordEnd::Release(_) => Err(error),
            },
        };
        drop(hold);
        result
    }

    async fn begin_unclaimed(&self) -> Result<(Self::Transaction, Self::Hold), StoreError> {
        let idle = Policy::default().lease;
        let open = async { self.database().open(self.timeout(), idle).await.map_err(Failed::into_error) };
        let (transaction, turn) = self.in_time(open).await?;
        Ok((transaction, Hold { _turn: turn, _ticket: None }))
    }

    async fn commit_unclaimed(
        &self,
        mut transaction: Self::Transaction,
        hold: Self::Hold,
    ) -> Result<(), StoreError> {
        // After an error that the work passed over, a commit may do nothing and not say so.
        let mark = Mark::own();
        let set =
            async { self.database().set_mark(&mut transaction, &mark).await.map_err(Failed::into_error) };
        self.in_time(set).await.map_err(refused)?;
        let committed = self.database().commit(transaction, self.timeout()).await;
        drop(hold);
        committed.map_err(|uncommitted| match uncommitted {
            Uncommitted::Refused(error) => refused(error),
            Uncommitted::Unknown(error) => error,
        })
    }

    async fn claim_in(
        &self,
        connection: &mut Self::Connection,
        id: &RecordId,
        claim: &Claim,
    ) -> Result<Claimed, StoreError> {
        if self.held().is_open(id) {
            return Ok(LOCKED);
        }
        let claim = &lasting(claim);
        let mut within =
            Within { database: self.database(), connection, mark: Mark::of(claim.owner), limit: None };
        self.in_time(async { decide(&mut within, id, claim).await.map_err(Failed::into_error) }).await
    }

    async fn end_in(
        &self,
        connection: &mut Self::Connection,
        id: &RecordId,
        owner: Owner,
        ending: &Ending,
    ) -> Result<Fenced, StoreError> {
        self.end_in_time(connection, &Mark::of(owner), id, owner, ending).await
    }
}
