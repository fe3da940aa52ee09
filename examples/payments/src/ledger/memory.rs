//! The ledger in memory, and gone with the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Ledger, LedgerError};
use crate::account::Account;
use crate::charges::Charge;
use crate::payouts::Payout;
use crate::refunds::Refund;
use crate::transfers::Transfer;

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryLedger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    charges: Vec<Charge>,
    refunds: Vec<Refund>,
    payouts: Vec<Payout>,
}

impl MemoryLedger {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Every step is one change: a panic cannot leave half of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn charge(&self, charge: &Charge) -> Result<(), LedgerError> {
        self.book().charges.push(charge.clone());
        Ok(())
    }

    async fn charges(&self, account: &str) -> Result<Vec<Charge>, LedgerError> {
        Ok(self.book().charges.iter().filter(|charge| charge.account == account).cloned().collect())
    }

    async fn find_charge(&self, account: &str, id: &str) -> Result<Option<Charge>, LedgerError> {
        let mine = |charge: &&Charge| charge.account == account && charge.id == id;
        Ok(self.book().charges.iter().find(mine).cloned())
    }

    async fn refund(&self, refund: Refund) -> Result<Refund, LedgerError> {
        let mut book = self.book();
        if let Some(there) = book.refunds.iter().find(|there| there.charge == refund.charge) {
            return Ok(there.clone());
        }
        book.refunds.push(refund.clone());
        Ok(refund)
    }

    async fn find_refund(&self, account: &str, charge: &str) -> Result<Option<Refund>, LedgerError> {
        let mine = |refund: &&Refund| refund.account == account && refund.charge == charge;
        Ok(self.book().refunds.iter().find(mine).cloned())
    }

    async fn pay(&self, payout: Payout) -> Result<Payout, LedgerError> {
        let mut book = self.book();
        if let Some(there) = book.payouts.iter().find(|there| there.reference == payout.reference) {
            return Ok(there.clone());
        }
        book.payouts.push(payout.clone());
        Ok(payout)
    }

    async fn payouts(&self, account: &str) -> Result<Vec<Payout>, LedgerError> {
        Ok(self.book().payouts.iter().filter(|payout| payout.account == account).cloned().collect())
    }

    async fn find_payout(&self, account: &str, id: &str) -> Result<Option<Payout>, LedgerError> {
        let mine = |payout: &&Payout| payout.account == account && payout.id == id;
        Ok(self.book().payouts.iter().find(mine).cloned())
    }

    async fn transfers(&self, _: &str) -> Result<Vec<Transfer>, LedgerError> {
        Ok(Vec::new())
    }

    async fn find_transfer(&self, _: &str, _: &str) -> Result<Option<Transfer>, LedgerError> {
        Ok(None)
    }

    async fn accounts(&self) -> Result<Vec<Account>, LedgerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}
