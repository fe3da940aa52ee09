//! The ear: one connection that is told of changes, for all who wait in this process.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::waiters::Waiters;

/// How long a connection may take; those who wait look for themselves otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears what is told on a channel, from the first time that somebody waits.
pub(super) struct Ear {
    options: PgConnectOptions,
    channel: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    task: Option<JoinHandle<()>>,
    failed: Option<Instant>,
}

/// The options have a password.
impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Ear {
    pub(super) fn new(options: PgConnectOptions, channel: &str) -> Self {
        Self { options, channel: channel.to_owned(), state: Mutex::default() }
    }

    /// Whether it hears; tries to if it did not.
    pub(super) async fn hears(&self, waiters: &Arc<Waiters>) -> bool {
        let mut state = self.state.lock().await;
        // The task ends with its connection, or with the runtime that it was started on.
        if state.task.as_ref().is_some_and(|task| !task.is_finished()) {
            return true;
        }
        if state.failed.is_some_and(|at| at.elapsed() < PATIENCE) {
            return false;
        }
        let Ok(Ok(listener)) = timeout(PATIENCE, self.listen()).await else {
            state.failed = Some(Instant::now());
            return false;
        };
        state.task = Some(tokio::spawn(tell(listener, Arc::downgrade(waiters))));
        true
    }

    async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        // A pool of its own, since it keeps the connection.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(PATIENCE)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(&self.channel).await?;
        Ok(listener)
    }

    pub(super) async fn close(&self) {
        if let Some(task) = self.state.lock().await.task.take() {
            task.abort();
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(task) = self.state.get_mut().task.take() {
            task.abort();
        }
    }
}

/// Wakes those who wait for what is told, until the connection ends: then all, since something may be missed.
async fn tell(mut listener: PgListener, waiters: Weak<Waiters>) {
    loop {
        let told = listener.try_recv().await;
        let Some(waiters) = waiters.upgrade() else { return };
        match told {
            Ok(Some(notification)) => {
                if let Some(digest) = digest(notification.payload()) {
                    waiters.wake_digest(&digest);
                }
            }
            Ok(None) | Err(_) => return waiters.wake_all(),
        }
    }
}

/// The digest in hexadecimal digits; others may use the channel, too.
fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if !hex.is_ascii() || hex.len() != 2 * digest.len() {
        return None;
    }
    for (n, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_are_understood() {
        assert_eq!(digest(&"a7".repeat(32)), Some([0xa7; 32]));
        for other in ["", "hello", &"x".repeat(64), &"ä".repeat(32), &"a7".repeat(33)] {
            assert_eq!(digest(other), None, "{other}");
        }
    }
}
