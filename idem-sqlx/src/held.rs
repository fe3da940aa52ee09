//! Records that an open transaction of this process holds: known without asking the database.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use idem_core::record::RecordId;
use idem_core::store::Claimed;
use tokio::sync::watch;

use crate::waiters::Waiters;

/// The records that transactions of this process hold, or are about to claim.
///
/// A rival here is told at once, also where there is no connection left to ask on, and no process waits for itself. One
/// that comes while the claim is not decided waits for that: it may be refused, and then nothing is in flight.
#[derive(Debug)]
pub(crate) struct Held {
    records: Mutex<HashMap<[u8; 32], Progress>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    waiters: Arc<Waiters>,
}

/// How far the transaction of a record has come.
#[derive(Debug)]
enum Progress {
    /// It asks for it. The channel closes when that is decided.
    Claiming(watch::Receiver<()>),
    /// It was granted it.
    Open,
}

/// A record in a transaction, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    held: Arc<Held>,
    digest: [u8; 32],
    /// Dropped when the claim is decided.
    undecided: Option<watch::Sender<()>>,
    /// Whether those who wait for the record are to look again when this is dropped.
    has_news: bool,
}

/// What an attempt to claim a record met in this process.
pub(crate) enum Entered<F> {
    /// Nobody.
    First(Ticket),
    /// An open transaction that holds it.
    Open,
    /// Another that claims it; this is ready when it knows.
    Later(F),
}

impl Held {
    pub(crate) fn new(waiters: Arc<Waiters>) -> Arc<Self> {
        Arc::new(Self { records: Mutex::default(), count: AtomicUsize::new(0), waiters })
    }

    /// Notes that a transaction is about to claim the record, unless another is or has.
    pub(crate) fn enter(self: &Arc<Self>, id: &RecordId) -> Entered<impl Future<Output = ()> + use<>> {
        let digest = *id.digest();
        let mut records = self.lock();
        match records.get(&digest) {
            Some(Progress::Open) => return Entered::Open,
            Some(Progress::Claiming(decided)) => return Entered::Later(closed(decided.clone())),
            None => {}
        }
        let (undecided, decided) = watch::channel(());
        records.insert(digest, Progress::Claiming(decided));
        self.count.fetch_add(1, Ordering::AcqRel);
        Entered::First(Ticket { held: Arc::clone(self), digest, undecided: Some(undecided), has_news: false })
    }

    /// Whether an open transaction holds the record.
    pub(crate) fn is_open(&self, id: &RecordId) -> bool {
        self.any() && matches!(self.lock().get(id.digest()), Some(Progress::Open))
    }

    /// As [`is_open`](Self::is_open), once it is decided.
    pub(crate) async fn will_be_open(&self, id: &RecordId) -> bool {
        while self.any() {
            let decided = match self.lock().get(id.digest()) {
                None => return false,
                Some(Progress::Open) => return true,
                Some(Progress::Claiming(decided)) => decided.clone(),
            };
            closed(decided).await;
        }
        false
    }

    /// Whether a transaction holds the record, or is about to.
    pub(crate) fn contains(&self, id: &RecordId) -> bool {
        self.any() && self.lock().contains_key(id.digest())
    }

    fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Progress>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn closed(mut decided: watch::Receiver<()>) {
    // Nothing is ever sent.
    while decided.changed().await.is_ok() {}
}

impl Ticket {
    /// Notes that the claim was granted.
    pub(crate) fn granted(&mut self) {
        self.held.lock().insert(self.digest, Progress::Open);
        self.undecided = None;
        self.has_news = true;
    }

    /// Notes why the claim was refused.
    ///
    /// What is in flight elsewhere is no news to those who wait for it: woken, they would ask, be refused and wake the
    /// others, as fast as the database can answer.
    pub(crate) fn refused(&mut self, why: &Claimed) {
        self.has_news = !matches!(why, Claimed::InFlight { .. });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.held.lock().remove(&self.digest);
        self.held.count.fetch_sub(1, Ordering::AcqRel);
        if self.has_news {
            self.held.waiters.wake_digest(&self.digest);
        }
    }
}
