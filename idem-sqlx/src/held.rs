//! Records that an open transaction of this process holds: known without asking the database.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use idem_core::record::RecordId;

use crate::waiters::Waiters;

/// The records that transactions of this process hold.
///
/// A rival here is told at once, also where there is no connection left to ask on, and no process waits for itself.
#[derive(Debug)]
pub(crate) struct Held {
    digests: Mutex<HashSet<[u8; 32]>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    waiters: Arc<Waiters>,
}

/// A record in an open transaction, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    held: Arc<Held>,
    digest: [u8; 32],
}

impl Held {
    pub(crate) fn new(waiters: Arc<Waiters>) -> Arc<Self> {
        Arc::new(Self { digests: Mutex::default(), count: AtomicUsize::new(0), waiters })
    }

    /// Notes that a transaction is about to hold the record; `None` if another does.
    pub(crate) fn enter(self: &Arc<Self>, id: &RecordId) -> Option<Ticket> {
        let digest = *id.digest();
        let entered = self.lock().insert(digest);
        entered.then(|| {
            self.count.fetch_add(1, Ordering::AcqRel);
            Ticket { held: Arc::clone(self), digest }
        })
    }

    pub(crate) fn contains(&self, id: &RecordId) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().contains(id.digest())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.held.lock().remove(&self.digest);
        self.held.count.fetch_sub(1, Ordering::AcqRel);
        self.held.waiters.wake_digest(&self.digest);
    }
}
