//! The ledger in SQLite, in the same file as idem's records but through connections of its own.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::types::Json;

use super::{Ledger, LedgerError};
use crate::account::Account;
use crate::charges::Charge;
use crate::payouts::Payout;
use crate::refunds::Refund;
use crate::transfers::Transfer;

/// A ledger in an SQLite file, which several processes may share.
#[derive(Debug)]
pub struct SqliteLedger {
    /// One connection: SQLite has one writer at a time, and a queue is fairer than its busy handler.
    writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteLedger {
    /// Opens the file and makes the tables that are missing.
    pub async fn open(path: &Path) -> Result<Self, LedgerError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // Money: on disk before anybody is told.
            .synchronous(SqliteSynchronous::Full)
            // Waits for the writers of other processes, and for idem's.
            .busy_timeout(Duration::from_secs(30));
        let writer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        sqlx::raw_sql(include_str!("sqlite.sql")).execute(&writer).await?;
        let readers = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        Ok(Self { writer, readers })
    }
}

// Each statement below commits by itself. A transaction that reads first and writes then could be refused as busy.
#[async_trait]
impl Ledger for SqliteLedger {
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
        .bind(charge.attempt)
        .bind(charge.created)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    async fn charges(&self, account: &str) -> Result<Vec<Charge>, LedgerError> {
        let charges = sqlx::query_as("SELECT * FROM charges WHERE account = ? ORDER BY row")
            .bind(account)
            .fetch_all(&self.readers)
            .await?;
        Ok(charges)
    }

    async fn find_charge(&self, account: &str, id: &str) -> Result<Option<Charge>, LedgerError> {
        let charge = sqlx::query_as("SELECT * FROM charges WHERE account = ? AND id = ?")
            .bind(account)
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        Ok(charge)
    }

    async fn refund(&self, refund: Refund) -> Result<Refund, LedgerError> {
        // The update changes nothing; it makes `RETURNING` return the row that is there.
        let refund = sqlx::query_as(
            "INSERT INTO refunds (id, reference, charge, account, amount, currency, attempt, created)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (charge) DO UPDATE SET charge = charge
             RETURNING *",
        )
        .bind(&refund.id)
        .bind(&refund.reference)
        .bind(&refund.charge)
        .bind(&refund.account)
        .bind(refund.amount)
        .bind(&refund.currency)
        .bind(refund.attempt)
        .bind(refund.created)
        .fetch_one(&self.writer)
        .await?;
        Ok(refund)
    }

    async fn find_refund(&self, account: &str, charge: &str) -> Result<Option<Refund>, LedgerError> {
        let refund = sqlx::query_as("SELECT * FROM refunds WHERE account = ? AND charge = ?")
            .bind(account)
            .bind(charge)
            .fetch_optional(&self.readers)
            .await?;
        Ok(refund)
    }

    async fn pay(&self, payout: Payout) -> Result<Payout, LedgerError> {
        let payout = sqlx::query_as(
            "INSERT INTO payouts
                 (id, reference, account, amount, currency, source, description, metadata, attempt, created)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (reference) DO UPDATE SET reference = reference
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
        .bind(payout.attempt)
        .bind(payout.created)
        .fetch_one(&self.writer)
        .await?;
        Ok(payout)
    }

    async fn payouts(&self, account: &str) -> Result<Vec<Payout>, LedgerError> {
        let payouts = sqlx::query_as("SELECT * FROM payouts WHERE account = ? ORDER BY row")
            .bind(account)
            .fetch_all(&self.readers)
            .await?;
        Ok(payouts)
    }

    async fn find_payout(&self, account: &str, id: &str) -> Result<Option<Payout>, LedgerError> {
        let payout = sqlx::query_as("SELECT * FROM payouts WHERE account = ? AND id = ?")
            .bind(account)
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        Ok(payout)
    }

    async fn transfers(&self, account: &str) -> Result<Vec<Transfer>, LedgerError> {
        let transfers = sqlx::query_as("SELECT * FROM transfers WHERE account = ? ORDER BY row")
            .bind(account)
            .fetch_all(&self.readers)
            .await?;
        Ok(transfers)
    }

    async fn find_transfer(&self, account: &str, id: &str) -> Result<Option<Transfer>, LedgerError> {
        let transfer = sqlx::query_as("SELECT * FROM transfers WHERE account = ? AND id = ?")
            .bind(account)
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        Ok(transfer)
    }

    async fn accounts(&self) -> Result<Vec<Account>, LedgerError> {
        let accounts = sqlx::query_as("SELECT account, balance FROM accounts ORDER BY account")
            .fetch_all(&self.readers)
            .await?;
        Ok(accounts)
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}
