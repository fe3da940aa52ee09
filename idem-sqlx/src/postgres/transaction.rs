//! Transactions of PostgreSQL.

use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor as _, Transaction};
use tokio::time::timeout;

use super::Postgres;
use super::fault;
use super::found::found;
use super::lines::{Done, run};
use super::text::{Text, bind};
use crate::database::Found;
use crate::fault::Fault;
use crate::step::{Step, Value, Verb};
use crate::to_the_end::ToTheEnd;
use crate::transaction::{Failed, Mark, Transactions, Uncommitted};
use crate::unlogged::{Shows, unlogged};

impl Transactions for Postgres {
    type Driver = sqlx::Postgres;
    type Turn = ();

    async fn open(
        &self,
        _limit: Duration,
        _idle: Duration,
    ) -> Result<(Transaction<'static, sqlx::Postgres>, ()), Failed> {
        self.lines.check_open()?;
        let pool = self.transactions.clone();
        let begin = ToTheEnd::new(async move { pool.begin().await });
        let transaction = begin.await.map_err(fault::of)?;
        Ok((transaction, ()))
    }

    fn broken_at_most(&self) -> u32 {
        self.transactions.size().saturating_add(1)
    }

    async fn claim_in(
        &self,
        connection: &mut PgConnection,
        step: &Step,
        mark: &Mark,
        limit: Option<Duration>,
    ) -> Result<Found, Failed> {
        let mut values = step.values.clone();
        let text = match limit {
            Some(limit) => {
                // As long as a setting can be.
                values.push(Value::Int(i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1).into()));
                &self.texts.claim_alone
            }
            None => &self.texts.claim_joined,
        };
        let rows = self.take_in(connection, text, &values, mark).await?.rows;
        match found(rows.first()).map_err(Failed::Refused)? {
            Found::Record(row) if row.gone_at <= row.now => {
                let step = Step { verb: Verb::Reclaim, values: step.values.clone() };
                let changed = self.take_over_in(connection, &step, mark).await?;
                Ok(if changed == 1 { Found::Nothing } else { Found::Vanished })
            }
            Found::Nothing if self.prepared => {
                self.set_mark(connection, mark).await?;
                Ok(Found::Nothing)
            }
            found => Ok(found),
        }
    }

    async fn take_over_in(
        &self,
        connection: &mut PgConnection,
        step: &Step,
        mark: &Mark,
    ) -> Result<u64, Failed> {
        let taken = self.take_in(connection, self.texts.step(step.verb), &step.values, mark).await?;
        if self.prepared {
            self.set_mark(connection, mark).await?;
        }
        Ok(taken.changed)
    }

    async fn end_in(&self, connection: &mut PgConnection, step: &Step) -> Result<u64, Failed> {
        let text = self.texts.step(step.verb);
        let done = if self.prepared {
            prepared(connection, text, &step.values).await
        } else {
            let text = text.with_values(&step.values);
            execute(connection, text, Shows::Answer).await
        };
        Ok(done?.changed)
    }

    async fn set_mark(&self, connection: &mut PgConnection, mark: &Mark) -> Result<(), Failed> {
        simple(connection, format!("SAVEPOINT {mark}")).await?;
        Ok(())
    }

    async fn undo_writes(&self, connection: &mut PgConnection, mark: &Mark) -> Result<(), Failed> {
        simple(connection, format!("ROLLBACK TO SAVEPOINT {mark}")).await?;
        Ok(())
    }

    async fn commit(
        &self,
        transaction: Transaction<'static, sqlx::Postgres>,
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

impl Postgres {
    /// Takes a step. Prepared, it leaves the mark to be set; planning it each time would cost more than that trip. Not
    /// prepared, both are one message.
    async fn take_in(
        &self,
        connection: &mut PgConnection,
        text: &Text,
        values: &[Value],
        mark: &Mark,
    ) -> Result<Done, Fault> {
        if self.prepared {
            prepared(connection, text, values).await
        } else {
            simple(connection, text.with_values(values) + &and_set(mark)).await
        }
    }
}

async fn prepared(connection: &mut PgConnection, text: &Text, values: &[Value]) -> Result<Done, Fault> {
    let arguments = bind(values).map_err(fault::of)?;
    run(connection.fetch_many(sqlx::query_with(AssertSqlSafe(text.prepared()), arguments))).await
}

/// What sets the mark, after another statement in the same text.
fn and_set(mark: &Mark) -> String {
    format!("; SAVEPOINT {mark}")
}

/// Executes statements that stand in one text, with their values: what a pool that was handed over would log of it is kept
/// out of the log.
async fn simple(connection: &mut PgConnection, text: String) -> Result<Done, Fault> {
    execute(connection, text, Shows::Claim).await
}

async fn execute(connection: &mut PgConnection, text: String, shows: Shows) -> Result<Done, Fault> {
    unlogged(shows, async { run(connection.fetch_many(sqlx::raw_sql(AssertSqlSafe(text)))).await }).await
}
