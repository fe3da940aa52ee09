//! Bare statements on a few connections.

use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{Connection, Database};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Connections that are taken and given back, and are never asked whether they are alive.
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

/// A record's id: any 32 bytes that differ.
pub(super) fn id(kind: u8, n: u64) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest([&[kind][..], &n.to_be_bytes()].concat()).into()
}
