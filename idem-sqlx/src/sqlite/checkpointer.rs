//! The checkpointer: moves the log into the database from a connection of its own, so that no commit waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::source::{Link, Role, Source};

/// About how many bytes of log are worth a checkpoint.
const WORTH: u64 = 4 << 20;
/// About how many bytes a step logs beyond its own: a few pages.
const PAGES: u64 = 12 << 10;

/// Counts what is written, and starts a checkpoint now and then.
#[derive(Debug)]
pub(super) struct Checkpointer {
    source: Arc<Source>,
    link: Arc<Mutex<Option<Link>>>,
    logged: AtomicU64,
}

impl Checkpointer {
    pub(super) fn new(source: Arc<Source>) -> Self {
        Self { source, link: Arc::default(), logged: AtomicU64::new(0) }
    }

    /// Takes note of a step.
    pub(super) fn wrote(&self, bytes: usize) {
        let bytes = bytes as u64 + PAGES;
        if self.source.in_memory() || self.logged.fetch_add(bytes, Ordering::Relaxed) + bytes < WORTH {
            return;
        }
        self.logged.store(0, Ordering::Relaxed);
        let (Ok(runtime), Ok(mut link)) = (Handle::try_current(), Arc::clone(&self.link).try_lock_owned())
        else {
            return;
        };
        let source = Arc::clone(&self.source);
        runtime.spawn(async move {
            // Whatever goes wrong here, the writer's own checkpoints make up for it.
            if !link.as_ref().is_some_and(|link| source.still_in_place(link)) {
                *link = source.reconnect(Role::Read).await.ok();
            }
            if let Some(open) = link.as_mut()
                && open.command("PRAGMA wal_checkpoint(PASSIVE)").await.is_err()
            {
                *link = None;
            }
        });
    }

    pub(super) async fn close(&self) {
        if let Some(link) = self.link.lock().await.take() {
            link.close().await;
        }
    }
}
