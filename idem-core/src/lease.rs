//! Lease renewal: one task an engine, nothing at all for handlers that end within a third of their lease.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream};
use pin_project_lite::pin_project;
use tokio::sync::Notify;

use crate::owner::Owner;
use crate::record::RecordId;
use crate::store::{Fenced, Store, StoreError};
use crate::sync::{AtomicBool, AtomicU8, FAR, Instant, Mutex, Ordering, Spawner, sleep};
use crate::telemetry::Trouble;
use crate::within::within;

/// The leases of one engine that may have to be renewed.
pub(crate) struct Leases {
    store: Arc<dyn Store>,
    store_timeout: Duration,
    slots: Mutex<Slots>,
    /// Tells the renewer of a lease that is due before it meant to wake.
    sooner: Arc<Notify>,
    /// Whether there is a renewer; changed under the lock of `slots`, read without it.
    renewer: AtomicBool,
}

#[derive(Default)]
struct Slots {
    /// Numbered by us, so nobody can make them collide, and what happens to them can be told again.
    entries: HashMap<u64, Entry, BuildHasherDefault<DefaultHasher>>,
    next: u64,
    /// When the renewer wakes; `None` if there is none.
    wakes_at: Option<Instant>,
}

struct Entry {
    held: Held,
    /// When the run is aborted.
    until: Instant,
    signal: Arc<Signal>,
    /// When to send the next renewal.
    due: Instant,
    /// Whether one is under way.
    renewing: bool,
}

/// A renewal to be sent: of which lease, and how long it may take.
type Renewal = (u64, Held, Duration);

impl Entry {
    /// When a run has to end, and why. Work that has ended runs nothing that somebody else could be running, too: its
    /// lease is renewed for as long as it is held, whatever our own clock says, so that nobody takes over while there is an
    /// answer to be stored.
    fn limit(&self) -> Option<(Instant, u8)> {
        if self.signal.has_ended() {
            return None;
        }
        let lapses = self.held.since + self.held.lease;
        Some(if self.until <= lapses { (self.until, OVER) } else { (lapses, LOST) })
    }
}

/// What a holder knows of its lease.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) id: RecordId,
    pub(crate) owner: Owner,
    pub(crate) lease: Duration,
    /// Before the claim or the last good renewal was sent: the lease cannot have begun earlier.
    pub(crate) since: Instant,
    /// How long the run may take.
    pub(crate) max_run: Duration,
}

/// Why a run was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abort {
    /// The lease was found lost, or may be over by our own clock.
    Lost,
    /// It ran longer than it may.
    Over,
}

const RUNNING: u8 = 0;
const LOST: u8 = 1;
const OVER: u8 = 2;
/// The work has ended, and its end is being written: that may well end the lease before a renewal comes back.
const ENDED: u8 = 3;

/// Tells the run what became of its lease.
struct Signal {
    state: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn new(state: u8, waker: &Waker) -> Self {
        Self { state: AtomicU8::new(state), waker: Mutex::new(Some(waker.clone())) }
    }

    fn abort(&self) -> Option<Abort> {
        match self.state.load(Ordering::Acquire) {
            RUNNING | ENDED => None,
            OVER => Some(Abort::Over),
            _ => Some(Abort::Lost),
        }
    }

    fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    fn raise(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    fn wake_with(&self, waker: &Waker) {
        let mut slot = self.waker.lock();
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }
}

impl Leases {
    pub(crate) fn new(store: Arc<dyn Store>, store_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            store_timeout,
            slots: Mutex::new(Slots::default()),
            sooner: Arc::default(),
            renewer: AtomicBool::new(false),
        })
    }

    /// Runs `work` under a lease that is renewed while the work is pending.
    ///
    /// The ticket that comes back keeps the lease renewed until it is dropped.
    pub(crate) fn guard<F: Future>(self: &Arc<Self>, held: Held, work: F) -> Guarded<F> {
        Guarded { work: Some(work), leases: self.clone(), held: Some(held), ticket: None }
    }

    /// Keeps a lease renewed until the ticket is dropped; nobody is told if it is lost.
    pub(crate) fn hold(self: &Arc<Self>, held: Held) -> Ticket {
        self.register(held, ENDED, Waker::noop())
    }

    /// Whether a renewer runs; it lingers for a while after the last lease.
    pub(crate) fn is_renewing(&self) -> bool {
        self.renewer.load(Ordering::Acquire)
    }

    fn register(self: &Arc<Self>, held: Held, state: u8, waker: &Waker) -> Ticket {
        let signal = Arc::new(Signal::new(state, waker));
        let due = held.since + held.lease / 3;
        // Not from when it was claimed: that may have taken a while, and the run may take all of its time.
        let until = Instant::now() + held.max_run;
        let first = due.min(until);
        let mut slots = self.slots.lock();
        let key = slots.next;
        slots.next += 1;
        slots.entries.insert(key, Entry { held, until, signal: signal.clone(), due, renewing: false });
        if slots.wakes_at.is_some_and(|at| first < at) {
            self.sooner.notify_one();
        }
        drop(slots);
        self.ensure_renewer();
        Ticket { leases: self.clone(), key, signal }
    }

    /// Starts the renewer unless it runs. It may have died with another runtime than ours.
    fn ensure_renewer(self: &Arc<Self>) {
        if self.renewer.load(Ordering::Acquire) {
            return;
        }
        let mut slots = self.slots.lock();
        if self.renewer.load(Ordering::Acquire) {
            return;
        }
        let Some(spawner) = Spawner::current() else {
            drop(slots);
            tracing::warn!("no Tokio runtime here: leases are not renewed, long runs lose theirs");
            return;
        };
        self.renewer.store(true, Ordering::Release);
        slots.wakes_at = Some(Instant::now());
        drop(slots);
        spawner.spawn(renew(Arc::downgrade(self), Alive(Arc::downgrade(self))));
    }

    /// Raises what is over, and takes out what has to be renewed now.
    ///
    /// `None` if there is nothing left to look after.
    fn turn(&self) -> Option<(Vec<Renewal>, Instant)> {
        let now = Instant::now();
        let mut raised = Vec::new();
        let mut renewals = Vec::new();
        let mut slots = self.slots.lock();
        slots.entries.retain(|key, entry| {
            let limit = entry.limit();
            if let Some((_, verdict)) = limit.filter(|(at, _)| now >= *at) {
                raised.push((entry.signal.clone(), verdict, entry.held.id.clone()));
                return false;
            }
            if now >= entry.due && !entry.renewing {
                entry.renewing = true;
                let left = limit.map_or(entry.held.lease, |(at, _)| at.saturating_duration_since(now));
                let at_most = left.min(entry.held.lease).min(self.store_timeout);
                renewals.push((*key, entry.held.clone(), at_most));
            }
            true
        });
        let next = slots.entries.values().map(|entry| {
            let over = entry.limit().map_or(now + FAR, |(at, _)| at);
            if entry.renewing { over } else { over.min(entry.due) }
        });
        let next = next.min();
        self.renewer.store(next.is_some(), Ordering::Release);
        slots.wakes_at = next;
        drop(slots);
        for (signal, verdict, id) in raised {
            if verdict == LOST {
                Trouble::LeaseLost.tell(&id, None);
            }
            signal.raise(verdict);
        }
        next.map(|next| (renewals, next))
    }

    async fn renew(self: Arc<Self>, (key, held, at_most): Renewal) {
        let sent = Instant::now();
        let step = self.store.renew(&held.id, held.owner, held.lease);
        let result = within(at_most, step).await;
        self.renewed(key, sent, &result);
    }

    fn renewed(&self, key: u64, sent: Instant, result: &Result<Fenced, StoreError>) {
        let mut slots = self.slots.lock();
        // The run may have ended meanwhile.
        let Some(entry) = slots.entries.get_mut(&key) else { return };
        entry.renewing = false;
        match result {
            Ok(Fenced::Held) => {
                entry.held.since = sent;
                entry.due = sent + entry.held.lease / 3;
            }
            Ok(Fenced::Lost) => {
                let entry = slots.entries.remove(&key);
                drop(slots);
                if let Some(entry) = entry.filter(|entry| !entry.signal.has_ended()) {
                    Trouble::LeaseLost.tell(&entry.held.id, None);
                    entry.signal.raise(LOST);
                }
            }
            Err(error) => {
                let pause = (entry.held.lease / 12).min(Duration::from_millis(500));
                entry.due = Instant::now() + pause.max(Duration::from_millis(1));
                let id = entry.held.id.clone();
                drop(slots);
                Trouble::RenewalFailed.tell(&id, Some(error));
            }
        }
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}

/// Looks after the leases until there are none; ends then, and is started anew when there are.
async fn renew(leases: Weak<Leases>, alive: Alive) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let Some(strong) = leases.upgrade() else { return };
        let Some((renewals, next)) = strong.turn() else {
            // `turn` has said under the lock that there is no renewer any more.
            alive.disarm();
            return;
        };
        for renewal in renewals {
            under_way.push(strong.clone().renew(renewal));
        }
        let pause = next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let mut timer = Box::pin(sleep(pause));
        let sooner = strong.sooner.clone();
        // An engine that is dropped must not be kept by a renewer that sleeps.
        drop(strong);
        let mut sooner = Box::pin(sooner.notified());
        std::future::poll_fn(|cx| {
            if let Poll::Ready(Some(())) = Pin::new(&mut under_way).poll_next(cx) {
                return Poll::Ready(());
            }
            if timer.as_mut().poll(cx).is_ready() || sooner.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Notices that the renewer's runtime was shut down, and wakes the runs of others so that they start a new one.
struct Alive(Weak<Leases>);

impl Alive {
    fn disarm(mut self) {
        self.0 = Weak::new();
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if let Some(leases) = self.0.upgrade() {
            let mut slots = leases.slots.lock();
            leases.renewer.store(false, Ordering::Release);
            slots.wakes_at = None;
            let signals: Vec<_> = slots
                .entries
                .values_mut()
                .map(|entry| {
                    entry.renewing = false;
                    entry.signal.clone()
                })
                .collect();
            drop(slots);
            for signal in signals {
                signal.wake();
            }
        }
    }
}

/// A lease that is looked after until this is dropped.
pub(crate) struct Ticket {
    leases: Arc<Leases>,
    key: u64,
    signal: Arc<Signal>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leases.slots.lock().entries.remove(&self.key);
    }
}

pin_project! {
    /// Work under a lease; see [`Leases::guard`].
    pub(crate) struct Guarded<F> {
        #[pin]
        work: Option<F>,
        leases: Arc<Leases>,
        held: Option<Held>,
        ticket: Option<Ticket>,
    }
}

/// Drops work that was aborted. A panic of its destructors must not keep its end from being written.
fn discard<F>(mut work: Pin<&mut Option<F>>) {
    if catch_unwind(AssertUnwindSafe(|| work.set(None))).is_err() {
        tracing::error!("a destructor panicked in a run that was aborted");
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<(F::Output, Option<Ticket>), Abort>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(abort) = this.ticket.as_ref().and_then(|ticket| ticket.signal.abort()) {
            discard(this.work.as_mut());
            return Poll::Ready(Err(abort));
        }
        let work = this.work.as_mut().as_pin_mut().expect("`Guarded` polled after it was ready");
        if let Poll::Ready(output) = work.poll(cx) {
            if let Some(ticket) = &this.ticket {
                ticket.signal.state.store(ENDED, Ordering::Release);
            }
            return Poll::Ready(Ok((output, this.ticket.take())));
        }
        match (&this.ticket, this.held.take()) {
            (None, Some(held)) => *this.ticket = Some(this.leases.register(held, RUNNING, cx.waker())),
            (Some(ticket), _) => {
                ticket.signal.wake_with(cx.waker());
                this.leases.ensure_renewer();
            }
            (None, None) => {}
        }
        // It may have been raised between the look above and the waker's being kept.
        if let Some(abort) = this.ticket.as_ref().and_then(|ticket| ticket.signal.abort()) {
            discard(this.work.as_mut());
            return Poll::Ready(Err(abort));
        }
        Poll::Pending
    }
}
