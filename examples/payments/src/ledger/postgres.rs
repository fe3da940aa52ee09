//! The ledger in PostgreSQL, in the same database as idem's records but through connections of its own.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use sqlx::types::Json;

use super::{Ledger, LedgerError};
use crate::account::Account;
use crate::charges::Charge;
use crate::payouts::Payout;
use crate::refunds::Refund;
use crate::transfers::Transfer;

/// A ledger in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresLedger {
    pool: PgPool,
}

impl PostgresLedger {
    /// Connects and makes the tables that are missing.
    pub async fn open(url: &str) -> Result<Self, LedgerError> {
        // A database that cannot be reached is to be told while the client still listens.
        let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(5)).connect(url).await?;
        sqlx::raw_sql(include_str!("postgres.sql")).execute(&pool).await?;
        Ok(Self { pool })
    }
}

// Each statement below commits by itself.
#[async_trait]
impl Ledger for PostgresLedger {
    async fn charge(&self, charge: &Charge) -> Result<(), LedgerError> {
        sqlx::query(
            "INSERT INTO charges (id, account, amount, currency, source, description, metadata, attempt, created)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(&charge.id)
        .bind(&charge.account)
        .bind(charge.amount)
        .bind(&charge.currency)
        .bind(&charge.source)
        .bind(&charge.description)
        .bind(Json(&charge.metadata))
        .bind(i64::from(charge.attempt))
        .bind(charge.created)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    async fn charges(&self, account: &str) -> Result<Vec<Charge>, LedgerError> {
        let charges = sqlx::query_as("SELECT * FROM charges WHERE account = $1 ORDER BY row")
            .bind(account)
            .fetch_all(&self.pool)
            .await?;
        Ok(charges)
    }

    async fn find_charge(&self, account: &str, id: &str) -> Result<Option<Charge>, LedgerError> {
        let charge = sqlx::query_as("SELECT * FROM charges WHERE account = $1 AND id = $2")
            .bind(account)
            .bind(known(id))
            .fetch_optional(&self.pool)
            .await?;
        Ok(charge)
    }

    async fn refund(&self, refund: Refund) -> Result<Refund, LedgerError> {
        // The update changes nothing; it makes `RETURNING` return the row that is there.
        let refund = sqlx::query_as(
            "INSERT INTO refunds (id, reference, charge, account, amount, currency, attempt, created)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (charge) DO UPDATE SET charge = refunds.charge
             RETURNING *",
        )
        .bind(&refund.id)
        .bind(&refund.reference)
        .bind(&refund.charge)
        .bind(&refund.account)
        .bind(refund.amount)
        .bind(&refund.currency)
        .bind(i64::from(refund.attempt))
        .bind(refund.created)
        .fetch_one(&self.pool)
        .await?;
        Ok(refund)
    }

    async fn find_refund(&self, account: &str, charge: &str) -> Result<Option<Refund>, LedgerError> {
        let refund = sqlx::query_as("SELECT * FROM refunds WHERE account = $1 AND charge = $2")
            .bind(account)
            .bind(known(charge))
            .fetch_optional(&self.pool)
            .await?;
        Ok(refund)
    }

    async fn pay(&self, payout: Payout) -> Result<Payout, LedgerError> {
        let payout = sqlx::query_as(
            "INSERT INTO payouts
                 (id, reference, account, amount, currency, source, description, metadata, attempt, created)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (reference) DO UPDATE SET reference = payouts.reference
             RETURNING *",
        )
        .bind(&payout.id)
        .bind(&payout.reference)
        .bind(&payout.account)
        .bind(payout.amount)
        .bind(&payout.currency)
        .bind(&payout.source)
        .bind(&payout.description)
        .bind(Json(&payout.metadata))
        .bind(i64::from(payout.attempt))
        .bind(payout.created)
        .fetch_one(&self.pool)
        .await?;
        Ok(payout)
    }

    async fn payouts(&self, account: &str) -> Result<Vec<Payout>, LedgerError> {
        let payouts = sqlx::query_as("SELECT * FROM payouts WHERE account = $1 ORDER BY row")
            .bind(account)
            .fetch_all(&self.pool)
            .await?;
        Ok(payouts)
    }

    async fn find_payout(&self, account: &str, id: &str) -> Result<Option<Payout>, LedgerError> {
        let payout = sqlx::query_as("SELECT * FROM payouts WHERE account = $1 AND id = $2")
            .bind(account)
            .bind(known(id))
            .fetch_optional(&self.pool)
            .await?;
        Ok(payout)
    }

    async fn transfers(&self, account: &str) -> Result<Vec<Transfer>, LedgerError> {
        let transfers = sqlx::query_as("SELECT * FROM transfers WHERE account = $1 ORDER BY row")
            .bind(account)
            .fetch_all(&self.pool)
            .await?;
        Ok(transfers)
    }

    async fn find_transfer(&self, account: &str, id: &str) -> Result<Option<Transfer>, LedgerError> {
        let transfer = sqlx::query_as("SELECT * FROM transfers WHERE account = $1 AND id = $2")
            .bind(account)
            .bind(known(id))
            .fetch_optional(&self.pool)
            .await?;
        Ok(transfer)
    }

    async fn accounts(&self) -> Result<Vec<Account>, LedgerError> {
        let accounts = sqlx::query_as("SELECT account, balance FROM accounts ORDER BY account")
            .fetch_all(&self.pool)
            .await?;
        Ok(accounts)
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// An id that a row may have: PostgreSQL takes no NUL, and nothing equals `NULL`.
fn known(id: &str) -> Option<&str> {
    (!id.contains('\0')).then_some(id)
}
