//! The ledger in Redis, in the same database as idem's records but through a connection of its own.
//!
//! It lasts as long as the server keeps its data: a ledger of real money there wants `appendonly yes` and `appendfsync
//! always`, or a database of another kind.

use async_trait::async_trait;
use redis::{AsyncTypedCommands as _, Script};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::redis_way::Way;
use super::{Ledger, LedgerError};
use crate::account::Account;
use crate::charges::Charge;
use crate::payouts::Payout;
use crate::refunds::Refund;
use crate::transfers::Transfer;

/// A ledger in Redis.
#[derive(Debug)]
pub struct RedisLedger {
    connection: Way,
    add_if_new: Script,
}

/// The keys of one kind of rows of an account. What is between braces decides where a cluster keeps them: together.
struct Keys {
    rows: String,
    order: String,
    names: String,
}

impl Keys {
    fn new(account: &str, kind: &str) -> Self {
        let key = |what| format!("payments:{{{account}}}:{kind}:{what}");
        Self { rows: key("rows"), order: key("order"), names: key("names") }
    }
}

impl RedisLedger {
    /// Connects.
    pub async fn open(url: &str) -> Result<Self, LedgerError> {
        let connection = Way::open(url).await?;
        Ok(Self { connection, add_if_new: Script::new(include_str!("redis.lua")) })
    }

    /// Adds a row unless there is one of this name; returns the one that counts.
    async fn add_if_new<T: Serialize + DeserializeOwned>(
        &self,
        keys: Keys,
        id: &str,
        name: &str,
        row: &T,
    ) -> Result<T, LedgerError> {
        let mut script = self.add_if_new.prepare_invoke();
        script.key(keys.rows).key(keys.order).key(keys.names);
        script.arg(id).arg(name).arg(serde_json::to_string(row)?);
        let counts: String = script.invoke_async(&mut self.connection.clone()).await?;
        Ok(serde_json::from_str(&counts)?)
    }

    /// All rows of a kind. Rows never change and are never removed, so that two commands do.
    async fn rows<T: DeserializeOwned>(&self, keys: Keys) -> Result<Vec<T>, LedgerError> {
        let mut connection = self.connection.clone();
        let ids = connection.lrange(keys.order, 0, -1).await?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<String> =
            redis::cmd("HMGET").arg(keys.rows).arg(ids).query_async(&mut connection).await?;
        Ok(rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<_, _>>()?)
    }

    async fn row<T: DeserializeOwned>(&self, keys: &Keys, id: &str) -> Result<Option<T>, LedgerError> {
        let row = self.connection.clone().hget(&keys.rows, id).await?;
        Ok(row.map(|row| serde_json::from_str(&row)).transpose()?)
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn charge(&self, charge: &Charge) -> Result<(), LedgerError> {
        let keys = Keys::new(&charge.account, "charges");
        let mut transaction = redis::pipe();
        transaction.atomic();
        transaction.hset(keys.rows, &charge.id, serde_json::to_string(charge)?).ignore();
        transaction.rpush(keys.order, &charge.id).ignore();
        let () = transaction.query_async(&mut self.connection.clone()).await?;
        Ok(())
    }

    async fn charges(&self, account: &str) -> Result<Vec<Charge>, LedgerError> {
        self.rows(Keys::new(account, "charges")).await
    }

    async fn find_charge(&self, account: &str, id: &str) -> Result<Option<Charge>, LedgerError> {
        self.row(&Keys::new(account, "charges"), id).await
    }

    async fn refund(&self, refund: Refund) -> Result<Refund, LedgerError> {
        let keys = Keys::new(&refund.account, "refunds");
        self.add_if_new(keys, &refund.id, &refund.charge, &refund).await
    }

    async fn find_refund(&self, account: &str, charge: &str) -> Result<Option<Refund>, LedgerError> {
        let keys = Keys::new(account, "refunds");
        match self.connection.clone().hget(&keys.names, charge).await? {
            Some(id) => self.row(&keys, &id).await,
            None => Ok(None),
        }
    }

    async fn pay(&self, payout: Payout) -> Result<Payout, LedgerError> {
        let keys = Keys::new(&payout.account, "payouts");
        self.add_if_new(keys, &payout.id, &payout.reference, &payout).await
    }

    async fn payouts(&self, account: &str) -> Result<Vec<Payout>, LedgerError> {
        self.rows(Keys::new(account, "payouts")).await
    }

    async fn find_payout(&self, account: &str, id: &str) -> Result<Option<Payout>, LedgerError> {
        self.row(&Keys::new(account, "payouts"), id).await
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

    /// Nothing is to be let go of: the connection ends with its last clone.
    async fn close(&self) {}
}
