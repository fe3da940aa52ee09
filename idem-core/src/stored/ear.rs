//! The ear: one connection that is told of changes, for all who wait in this process.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::waiters::Waiters;

/// How long a connection may take; those who wait look for themselves otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears which records have changed, from the first time that somebody waits.
#[derive(Debug, Default)]
pub struct Ear(Mutex<Hearing>);

#[derive(Debug, Default)]
struct Hearing {
    task: Option<JoinHandle<()>>,
    failed: Option<Instant>,
}

impl Ear {
    /// Whether it hears; tries to if it did not, by `listen`.
    ///
    /// What is told comes as a stream of digests in hexadecimal digits, which ends with its connection: then all who wait
    /// are woken, since something may be missed. A connection that cannot be had within two seconds is not tried again for
    /// two seconds.
    pub async fn hears<S, T>(&self, waiters: &Arc<Waiters>, listen: impl Future<Output = Option<S>>) -> bool
    where
        S: Stream<Item = T> + Send + 'static,
        T: AsRef<[u8]> + Send + 'static,
    {
        let mut hearing = self.0.lock().await;
        // The task ends with its connection, or with the runtime that it was started on.
        if hearing.task.as_ref().is_some_and(|task| !task.is_finished()) {
            return true;
        }
        if hearing.failed.is_some_and(|at| at.elapsed() < PATIENCE) {
            return false;
        }
        let Ok(Some(told)) = timeout(PATIENCE, listen).await else {
            hearing.failed = Some(Instant::now());
            return false;
        };
        hearing.task = Some(tokio::spawn(tell(told, Arc::downgrade(waiters))));
        true
    }

    /// Ends its connection.
    pub async fn close(&self) {
        if let Some(task) = self.0.lock().await.task.take() {
            task.abort();
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut().task.take() {
            task.abort();
        }
    }
}

async fn tell<T: AsRef<[u8]>>(told: impl Stream<Item = T>, waiters: Weak<Waiters>) {
    let mut told = std::pin::pin!(told);
    loop {
        let next = told.next().await;
        let Some(waiters) = waiters.upgrade() else { return };
        match next {
            Some(message) => {
                if let Some(digest) = digest(message.as_ref()) {
                    waiters.wake_digest(&digest);
                }
            }
            None => return waiters.wake_all(),
        }
    }
}

/// The digest in hexadecimal digits; others may use the channel, too.
fn digest(hex: &[u8]) -> Option<[u8; 32]> {
    let hex: &[u8; 64] = hex.try_into().ok()?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let nibble = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (nibble(0)? << 4 | nibble(1)?) as u8;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_are_understood() {
        assert_eq!(digest("a7".repeat(32).as_bytes()), Some([0xa7; 32]));
        for other in ["", "hello", &"x".repeat(64), &"ä".repeat(32), &"a7".repeat(33), &"+7".repeat(32)] {
            assert_eq!(digest(other.as_bytes()), None, "{other}");
        }
    }
}
