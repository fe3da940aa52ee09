//! The ledger in MySQL or MariaDB, in the same database as idem's records but through connections of its own.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::MySqlPool;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::types::Json;

use super::{Ledger, LedgerError};
use crate::account::Account;
use crate::charges::Charge;
use crate::payouts::Payout;
use crate::refunds::Refund;
use crate::transfers::Transfer;

/// A ledger in a MySQL or MariaDB database.
#[derive(Debug)]
pub struct MySqlLedger {
    pool: MySqlPool,
}

impl MySqlLedger {
    /// Connects and makes the tables that are missing.
    pub async fn open(url: &str) -> Result<Self, LedgerError> {
        // A database that cannot be reached is to be told while the client still listens.
        let pool = MySqlPoolOptions::new().acquire_timeout(Duration::from_secs(5)).connect(url).await?;
        sqlx::raw_sql(include_str!("mysql.sql")).execute(&pool).await?;
        Ok(Self { pool })
    }
}

// Each statement below commits by itself.
#[async_trait]
impl Ledger for MySqlLedger {
    async fn charge(&self, charge: &Charge) -> Result<(), LedgerError> {
        sqlx::query(
            "INSERT INTO charges (id, account, amount, currency, source, description, metadata, attempt, created)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        let charges = sqlx::query_as("SELECT * FROM charges WHERE account = ? ORDER BY `row`")
            .bind(account)
            .fetch_all(&self.pool)
            .await?;
        Ok(charges)
    }

    async fn find_charge(&self, account: &str, id: &str) -> Result<Option<Charge>, LedgerError> {
        let charge = sqlx::query_as("SELECT * FROM charges WHERE account = ? AND id = ?")
            .bind(account)
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(charge)
    }

    async fn refund(&self, refund: Refund) -> Result<Refund, LedgerError> {
        // MySQL has no `RETURNING`. That is no gap: rows of this table stay as they are.
        sqlx::query(
            "INSERT INTO refunds (id, reference, charge, account, amount, currency, attempt, created)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)
             ON DUPLICATE KEY UPDATE charge = charge",
        )
        .bind(&refund.id)
        .bind(&refund.reference)
        .bind(&refund.charge)
        .bind(&refund.account)
        .bind(refund.amount)
        .bind(&refund.currency)
        .bind(i64::from(refund.attempt))
        .bind(refund.created)
        .execute(&self.pool)
        .await?;
        let refund = sqlx::query_as("SELECT * FROM refunds WHERE charge = ?")
            .bind(&refund.charge)
            .fetch_one(&self.pool)
            .await?;
        Ok(refund)
    }

    async fn find_refund(&self, account: &str, charge: &str) -> Result<Option<Refund>, LedgerError> {
        let refund = sqlx::query_as("SELECT * FROM refunds WHERE account = ? AND charge = ?")
            .bind(account)
            .bind(charge)
            .fetch_optional(&self.pool)
            .await?;
        Ok(refund)
    }

    async fn pay(&self, payout: Payout) -> Result<Payout, LedgerError> {
        sqlx::query(
            "INSERT INTO payouts
                 (id, reference, account, amount, currency, source, description, metadata, attempt, created)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON DUPLICATE KEY UPDATE reference = reference",
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
        .execute(&self.pool)
        .await?;
        let payout = sqlx::query_as("SELECT * FROM payouts WHERE reference = ?")
            .bind(&payout.reference)
            .fetch_one(&self.pool)
            .await?;
        Ok(payout)
    }

    async fn payouts(&self, account: &str) -> Result<Vec<Payout>, LedgerError> {
        let payouts = sqlx::query_as("SELECT * FROM payouts WHERE account = ? ORDER BY `row`")
            .bind(account)
            .fetch_all(&self.pool)
            .await?;
        Ok(payouts)
    }

    async fn find_payout(&self, account: &str, id: &str) -> Result<Option<Payout>, LedgerError> {
        let payout = sqlx::query_as("SELECT * FROM payouts WHERE account = ? AND id = ?")
            .bind(account)
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(payout)
    }

    async fn transfers(&self, account: &str) -> Result<Vec<Transfer>, LedgerError> {
        let transfers = sqlx::query_as("SELECT * FROM transfers WHERE account = ? ORDER BY `row`")
            .bind(account)
            .fetch_all(&self.pool)
            .await?;
        Ok(transfers)
    }

    async fn find_transfer(&self, account: &str, id: &str) -> Result<Option<Transfer>, LedgerError> {
        let transfer = sqlx::query_as("SELECT * FROM transfers WHERE account = ? AND id = ?")
            .bind(account)
            .bind(id)
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
