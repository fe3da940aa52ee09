//! Transactions of MySQL and MariaDB.

use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::mysql::{MySql, MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Transaction};
use tokio::time::timeout;

use super::{MySqlServer, fault, is_bearable, is_decided, is_new};
use crate::database::Found;
use crate::fault::Fault;
use crate::lines::{Done, Order, execute};
use crate::pauses::Pauses;
use crate::record;
use crate::row::Row;
use crate::step::{Step, Value, Verb};
use crate::to_the_end::ToTheEnd;
use crate::transaction::{Failed, Mark, Transactions, Uncommitted};
use crate::unlogged::{Shows, unlogged};

/// Where transactions are begun.
#[derive(Debug)]
pub(super) struct Beginnings {
    pub(super) pool: MySqlPool,
    /// Whether the pool was handed over: then its sessions are left as they are.
    pub(super) is_lent: bool,
}

impl Beginnings {
    /// A pool of the store's own. Its connections are made when the first is.
    pub(super) fn own(options: MySqlConnectOptions, most: usize, limit: Duration) -> Self {
        let pool = MySqlPoolOptions::new()
            .max_connections(u32::try_from(most).unwrap_or(u32::MAX).max(1))
            .acquire_timeout(limit)
            // What is found broken is replaced: nothing is lost, since nothing is committed.
            .test_before_acquire(false)
            .connect_lazy_with(options);
        Self { pool, is_lent: false }
    }
}

impl MySqlServer {
    /// Reads the record as it was when the transaction first read.
    async fn look_up_in(&self, connection: &mut MySqlConnection, claim: &Step) -> Result<Option<Row>, Fault> {
        let values = [claim.values[0].clone(), Value::Int(1)];
        let done = execute::<MySql>(connection, self.order(&self.texts.look_up, &values)?).await?;
        done.rows.first().map(|row| record::read(row, 0)).transpose().map_err(Fault::Refused)
    }

    /// Takes a step and sets the mark, in one trip.
    async fn step_and_mark(
        &self,
        connection: &mut MySqlConnection,
        step: &Step,
        mark: &Mark,
    ) -> Result<Done<MySql>, Fault> {
        let text = self.texts.step(step.verb).with_values(&step.values) + &format!("; SAVEPOINT {mark}");
        simple(connection, text).await
    }

    /// Claims in the place of a record that is gone.
    async fn reclaim_in(
        &self,
        connection: &mut MySqlConnection,
        claim: &Step,
        mark: &Mark,
    ) -> Result<Found, Failed> {
        let step = Step { verb: Verb::Reclaim, values: claim.values.clone() };
        self.take_over_in(connection, &step, mark).await?;
        Ok(Found::Nothing)
    }
}

impl Transactions for MySqlServer {
    type Driver = MySql;
    type Turn = ();

    async fn open(
        &self,
        limit: Duration,
        idle: Duration,
    ) -> Result<(Transaction<'static, MySql>, ()), Failed> {
        self.lines.check_open()?;
        let Beginnings { pool, is_lent } = &self.beginnings;
        let begun = if *is_lent {
            // Its sessions are not ours to change.
            let pool = pool.clone();
            ToTheEnd::new(async move { pool.begin().await }).await
        } else {
            // MariaDB gives up a transaction whose holder has vanished; MySQL does not. Both know whole seconds. After a
            // deadlock, which ends the transaction, what is written is part of another that nobody commits.
            let (wait, idle) = (limit.as_secs().max(1), idle.as_secs().clamp(1, 31_536_000));
            let begin = format!(
                "SET SESSION autocommit = 0, innodb_lock_wait_timeout = {wait} /*M!100500 , idle_transaction_timeout = {idle} */; \
                 START TRANSACTION"
            );
            let pool = pool.clone();
            ToTheEnd::new(async move { pool.begin_with(AssertSqlSafe(begin)).await }).await
        };
        Ok((begun.map_err(fault::of)?, ()))
    }

    async fn claim_in(
        &self,
        connection: &mut MySqlConnection,
        step: &Step,
        mark: &Mark,
        _limit: Option<Duration>,
    ) -> Result<Found, Failed> {
        let mut pauses = Pauses::default();
        loop {
            match self.step_and_mark(connection, step, mark).await {
                Ok(done) => {
                    let Some(row) = done.rows.first() else { return Ok(Found::Nothing) };
                    let row = record::read(row, 0).map_err(Failed::Refused)?;
                    return if is_new(&row, step) {
                        Ok(Found::Nothing)
                    } else if row.gone_at > row.now {
                        Ok(Found::Record(Box::new(row)))
                    } else {
                        self.reclaim_in(connection, step, mark).await
                    };
                }
                // MySQL: there is one.
                Err(Fault::Taken(_)) => {
                    return match self.look_up_in(connection, step).await? {
                        Some(row) => Ok(Found::Record(Box::new(row))),
                        None => self.reclaim_in(connection, step, mark).await,
                    };
                }
                // The statement alone is undone. Steps of other stores lock a record for the time of a commit; whoever
                // locks it longer is a transaction, too.
                Err(Fault::Locked(_)) => {
                    let row = self.look_up_in(connection, step).await?.map(Box::new);
                    let is_decided = row.as_ref().is_some_and(|row| is_decided(row, step));
                    if is_decided || !is_bearable(&pauses) {
                        return Ok(Found::Locked(row));
                    }
                    pauses.pause().await;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    async fn take_over_in(
        &self,
        connection: &mut MySqlConnection,
        step: &Step,
        mark: &Mark,
    ) -> Result<u64, Failed> {
        match self.step_and_mark(connection, step, mark).await {
            Ok(done) if done.changed == 1 => Ok(1),
            // The record has changed, and this transaction may go on to see it as it was: begin again.
            Ok(_) => Err(Failed::Undone(StoreError::new(StoreErrorKind::Unavailable))),
            Err(Fault::Locked(error)) => Err(Failed::Undone(error)),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn end_in(&self, connection: &mut MySqlConnection, step: &Step) -> Result<u64, Failed> {
        let order = self.order(self.texts.step(step.verb), &step.values)?;
        let shows = if self.prepared { Shows::Claim } else { Shows::Answer };
        Ok(unlogged(shows, execute::<MySql>(connection, order)).await?.changed)
    }

    async fn set_mark(&self, connection: &mut MySqlConnection, mark: &Mark) -> Result<(), Failed> {
        simple(connection, format!("SAVEPOINT {mark}")).await?;
        Ok(())
    }

    async fn undo_writes(&self, connection: &mut MySqlConnection, mark: &Mark) -> Result<(), Failed> {
        simple(connection, format!("ROLLBACK TO SAVEPOINT {mark}")).await?;
        Ok(())
    }

    async fn commit(
        &self,
        transaction: Transaction<'static, MySql>,
        limit: Duration,
    ) -> Result<(), Uncommitted> {
        match timeout(limit, transaction.commit()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(match fault::of(error) {
                Fault::Broken(error) | Fault::Unreachable(error) => Uncommitted::Unknown(error),
                fault => Uncommitted::Refused(fault.into_error()),
            }),
            Err(_) => Err(Uncommitted::Unknown(StoreError::with_source(
                StoreErrorKind::TimedOut,
                format!("the database did not confirm the commit within {limit:?}"),
            ))),
        }
    }
}

/// Executes statements that stand in one text, with their values: what a pool that was handed over would log of it is kept
/// out of the log.
async fn simple(connection: &mut MySqlConnection, text: String) -> Result<Done<MySql>, Fault> {
    unlogged(Shows::Claim, execute::<MySql>(connection, Order::Simple(text))).await
}
