//! Readers: connections that never write, so that replays wait for nobody.

use std::sync::{Arc, Mutex, PoisonError};

use sqlx::sqlite::SqliteArguments;
use tokio::sync::Semaphore;

use super::fault::Fault;
use super::source::{Done, Link, Role, Source};
use crate::fault::unavailable;

/// A few connections, opened when they are first needed.
///
/// sqlx's own pool is not used: it asks each connection whether it is alive before and after each statement, which
/// costs more than the statement.
#[derive(Debug)]
pub(super) struct Readers {
    source: Arc<Source>,
    idle: Mutex<Vec<Link>>,
    permits: Semaphore,
}

impl Readers {
    pub(super) fn new(source: Arc<Source>, most: usize) -> Self {
        Self { source, idle: Mutex::default(), permits: Semaphore::new(most.max(1)) }
    }

    /// Executes a query in one trip. A connection is held for that long only.
    pub(super) async fn query(&self, text: Arc<str>, arguments: SqliteArguments) -> Result<Done, Fault> {
        let closed = |_| Fault::Refused(unavailable("the store is closed"));
        let _permit = self.permits.acquire().await.map_err(closed)?;
        self.source.check_open().map_err(Fault::Refused)?;
        let found = self.lock().pop().filter(|link| self.source.still_in_place(link));
        let mut link = match found {
            Some(link) => link,
            None => self.source.reconnect(Role::Read).await?,
        };
        let result = link.execute(text, arguments).await;
        if !matches!(result, Err(Fault::Broken(_))) {
            self.lock().push(link);
        }
        result
    }

    /// Waits for the queries in progress and closes the connections.
    pub(super) async fn close(&self) {
        self.permits.close();
        let links = std::mem::take(&mut *self.lock());
        for link in links {
            link.close().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
