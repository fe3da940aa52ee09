//! Bare statements on a few connections.
//!
//! What no store can beat one by one: an INSERT and an UPDATE for a fresh call, one SELECT for a replay, prepared, on as many
//! connections as the store has, and with nobody asking whether they are alive. The table is one that the store's own
//! migration made, so that both write the same record.

use std::sync::{Arc, Mutex, PoisonError};

use idem::{Migration, TableName};
use sqlx::{Connection, Database};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The statements, with `?` where their values stand.
pub(super) const INSERT: &str =
    "INSERT INTO bare (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash, created_at, lease_until,
        expires_at, gone_at)
    VALUES (?, 'charges.create', 'fresh-', 'in_flight', ?, ?, 1, 'retry', ?, ?, ?, ?)";
pub(super) const UPDATE: &str =
    "UPDATE bare SET state = 'completed', answer = ?, lease_until = 0, expires_at = ?, gone_at = ?
    WHERE id = ? AND owner = ? AND state = 'in_flight'";
pub(super) const SELECT: &str = "SELECT state, fingerprint, owner, expires_at, answer FROM bare WHERE id = ?";

/// The table's name, for its migration.
pub(super) fn table() -> TableName {
    TableName::new("bare").expect("a name")
}

/// What makes the table.
pub(super) fn text(migrations: Vec<Migration>) -> String {
    migrations.into_iter().map(|migration| migration.sql).collect()
}

/// A statement in the words of a database that numbers its values.
pub(super) fn numbered(statement: &str) -> String {
    let mut parts = statement.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.enumerate().fold(first, |text, (n, part)| format!("{text}${}{part}", n + 1))
}

/// Connections that are taken and given back.
pub(super) struct Connections<D: Database> {
    idle: Mutex<Vec<D::Connection>>,
    permits: Semaphore,
}

pub(super) struct Held<'a, D: Database> {
    connection: Option<D::Connection>,
    from: &'a Connections<D>,
    _permit: SemaphorePermit<'a>,
}

impl<D: Database> Connections<D> {
    pub(super) async fn open(options: &<D::Connection as Connection>::Options, count: usize) -> Arc<Self> {
        let mut idle = Vec::new();
        for _ in 0..count {
            idle.push(D::Connection::connect_with(options).await.expect("a connection"));
        }
        Arc::new(Self { idle: Mutex::new(idle), permits: Semaphore::new(count) })
    }

    pub(super) async fn take(&self) -> Held<'_, D> {
        let permit = self.permits.acquire().await.expect("it is not closed");
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        assert!(connection.is_some(), "there are as many as there are permits");
        Held { connection, from: self, _permit: permit }
    }
}

impl<D: Database> Held<'_, D> {
    pub(super) fn connection(&mut self) -> &mut D::Connection {
        self.connection.as_mut().expect("it is held")
    }
}

impl<D: Database> Drop for Held<'_, D> {
    fn drop(&mut self) {
        self.from.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
    }
}

/// Makes `contenders(writers, readers)` for the driver of a database: the pair, and the SELECT.
macro_rules! bare {
    ($database:ty, $text:expr) => {
        async fn fresh(
            writers: &crate::sql::bare::Connections<$database>,
            texts: &[String; 3],
            id: &[u8; 32],
        ) {
            let (answer, at) = (vec![b'x'; crate::sql::ANSWER], 9_000_000_000_000_000_i64);
            // One connection for each statement: the work would be between them.
            let inserted = {
                let mut held = writers.take().await;
                let query = sqlx::query(sqlx::AssertSqlSafe(texts[0].clone()));
                let query =
                    query.bind(&id[..]).bind(&id[..]).bind(&id[..16]).bind(at).bind(at).bind(at).bind(at);
                query.execute(held.connection()).await.expect("an insertion")
            };
            let updated = {
                let mut held = writers.take().await;
                let query = sqlx::query(sqlx::AssertSqlSafe(texts[1].clone()));
                let query = query.bind(&answer).bind(at).bind(at).bind(&id[..]).bind(&id[..16]);
                query.execute(held.connection()).await.expect("an update")
            };
            assert_eq!((inserted.rows_affected(), updated.rows_affected()), (1, 1));
        }

        async fn replay(
            readers: &crate::sql::bare::Connections<$database>,
            texts: &[String; 3],
            id: &[u8; 32],
        ) {
            use sqlx::Row as _;
            let mut held = readers.take().await;
            let query = sqlx::query(sqlx::AssertSqlSafe(texts[2].clone())).bind(&id[..]);
            let row = query.fetch_one(held.connection()).await.expect("a row");
            assert_eq!(row.get::<&str, _>(0), "completed");
            assert_eq!(row.get::<Vec<u8>, _>(4).len(), crate::sql::ANSWER);
        }

        async fn bare(
            writers: std::sync::Arc<crate::sql::bare::Connections<$database>>,
            readers: std::sync::Arc<crate::sql::bare::Connections<$database>>,
        ) -> (crate::contest::Contender, crate::contest::Contender) {
            use std::sync::Arc;

            use crate::contest::id;
            use crate::ours::KEPT;
            use crate::sql::bare::{INSERT, SELECT, UPDATE};
            let texts: Arc<[String; 3]> = Arc::new([INSERT, UPDATE, SELECT].map($text));
            for n in 0..KEPT {
                fresh(&writers, &texts, &id(1, n)).await;
            }
            let again = Arc::clone(&texts);
            (
                crate::contest::Contender::new("bare INSERT + UPDATE", move |n| {
                    let (writers, texts) = (Arc::clone(&writers), Arc::clone(&texts));
                    async move { fresh(&writers, &texts, &id(2, n)).await }
                }),
                crate::contest::Contender::new("bare SELECT", move |n| {
                    let (readers, texts) = (Arc::clone(&readers), Arc::clone(&again));
                    async move { replay(&readers, &texts, &id(1, n % KEPT)).await }
                }),
            )
        }
    };
}
pub(super) use bare;
