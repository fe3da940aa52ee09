//! The ledger: what really happened. Knows nothing of idempotency keys.

mod memory;
mod mysql;
mod postgres;
mod redis;
mod redis_way;
mod sqlite;

use std::error::Error;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::account::Account;
use crate::charges::Charge;
use crate::payouts::Payout;
use crate::refunds::Refund;
use crate::transfers::Transfer;

pub use memory::MemoryLedger;
pub use mysql::MySqlLedger;
pub use postgres::PostgresLedger;
pub use redis::RedisLedger;
pub use sqlite::SqliteLedger;

/// Keeps charges, refunds, payouts and accounts. Every method is one atomic step.
#[async_trait]
pub trait Ledger: Debug + Send + Sync {
    /// Adds a charge. Nothing here is unique, on purpose: a charge that happens twice is to be seen.
    async fn charge(&self, charge: &Charge) -> Result<(), LedgerError>;

    /// The charges of an account, the oldest first.
    async fn charges(&self, account: &str) -> Result<Vec<Charge>, LedgerError>;

    /// One charge of an account.
    async fn find_charge(&self, account: &str, id: &str) -> Result<Option<Charge>, LedgerError>;

    /// Refunds a charge, unless it was before; returns the refund that counts.
    async fn refund(&self, refund: Refund) -> Result<Refund, LedgerError>;

    /// The refund of one charge of an account.
    async fn find_refund(&self, account: &str, charge: &str) -> Result<Option<Refund>, LedgerError>;

    /// Pays, unless there is a payout of this reference; returns the payout that counts.
    async fn pay(&self, payout: Payout) -> Result<Payout, LedgerError>;

    /// The payouts of an account, the oldest first.
    async fn payouts(&self, account: &str) -> Result<Vec<Payout>, LedgerError>;

    /// One payout of an account.
    async fn find_payout(&self, account: &str, id: &str) -> Result<Option<Payout>, LedgerError>;

    /// The transfers that an account asked for, the oldest first. They are made in `transfers/`.
    async fn transfers(&self, account: &str) -> Result<Vec<Transfer>, LedgerError>;

    /// One transfer that an account asked for.
    async fn find_transfer(&self, account: &str, id: &str) -> Result<Option<Transfer>, LedgerError>;

    /// The accounts that took part in a transfer.
    async fn accounts(&self) -> Result<Vec<Account>, LedgerError>;

    /// Lets go of what is open, after the steps in progress.
    async fn close(&self);
}

/// The ledger could not say.
pub type LedgerError = Box<dyn Error + Send + Sync>;
