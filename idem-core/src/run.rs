//! The context of a run, as its handler sees it.

use std::fmt;
use std::sync::Arc;

use crate::flight::Flight;
use crate::owner::Owner;
use crate::policy::Mark;
use crate::record::RecordId;
use crate::sync::{AtomicU8, Ordering};

tokio::task_local! {
    pub(crate) static RUN: Run;
}

/// The context of the run that the calling task is in; `None` outside of any.
///
/// Also there when the handler goes on without its caller, but not in tasks that the handler spawns itself: clone it
/// into those, or spawn their work [over](Run::over) it.
pub fn current() -> Option<Run> {
    RUN.try_with(Clone::clone).ok()
}

/// Whether the calling task is in a run of this record, or in one that such a run began.
pub(crate) fn is_within(id: &RecordId) -> bool {
    let innermost = current();
    std::iter::successors(innermost.as_ref(), |run| run.0.outer.as_ref())
        .any(|run| run.flight().is_some_and(|flight| flight.id() == id))
}

/// What a handler can know of its run, and say about its outcome.
#[derive(Clone)]
pub struct Run(pub(crate) Arc<Context>);

pub(crate) struct Context {
    subject: Subject,
    attempt: u32,
    /// The run that it was begun in.
    outer: Option<Run>,
    mark: AtomicU8,
}

/// What a run is about.
enum Subject {
    Record(Arc<Flight>),
    /// No record; an identity of its own tells its derived keys from those of other runs.
    Nothing(RecordId),
}

const UNMARKED: u8 = 0;
const FINAL: u8 = 1;
const RETRYABLE: u8 = 2;
const TOMBSTONE: u8 = 3;

impl Run {
    pub(crate) fn new(flight: Arc<Flight>, attempt: u32) -> Self {
        Self::with(Subject::Record(flight), attempt)
    }

    /// A run without a record.
    pub(crate) fn unprotected() -> Self {
        Self::with(Subject::Nothing(RecordId::unprotected(Owner::random())), 1)
    }

    fn with(subject: Subject, attempt: u32) -> Self {
        Self(Arc::new(Context { subject, attempt, outer: current(), mark: AtomicU8::new(UNMARKED) }))
    }

    fn flight(&self) -> Option<&Flight> {
        match &self.0.subject {
            Subject::Record(flight) => Some(flight),
            Subject::Nothing(_) => None,
        }
    }

    /// How many times the work was begun: 1 for the first run, one more for each take-over or retry.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Whether a record protects this run; not so if the policy let it run without a key or a store.
    pub fn is_protected(&self) -> bool {
        self.flight().is_some()
    }

    /// A key for a system that this work calls, for example a payment provider, or for a unique column of your own.
    ///
    /// Stable for this identity over all attempts, different for every label, and in the form of a UUID; see
    /// [`RecordId::derive`]. Without a record it is different for every run.
    pub fn derive(&self, label: &str) -> String {
        match &self.0.subject {
            Subject::Record(flight) => flight.id(),
            Subject::Nothing(id) => id,
        }
        .derive(label)
    }

    /// Makes this the [`current`] run of a future: for work that the handler has another task do.
    pub fn over<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        RUN.scope(self.clone(), work)
    }

    /// Says of the outcome that it is final, retryable, or final but not to be kept; obeyed whatever the status.
    ///
    /// The last mark counts.
    pub fn mark(&self, mark: Mark) {
        let mark = match mark {
            Mark::Final => FINAL,
            Mark::Retryable => RETRYABLE,
            Mark::Tombstone => TOMBSTONE,
        };
        self.0.mark.store(mark, Ordering::Release);
    }

    /// What was said of the outcome.
    pub fn marked(&self) -> Option<Mark> {
        match self.0.mark.load(Ordering::Acquire) {
            FINAL => Some(Mark::Final),
            RETRYABLE => Some(Mark::Retryable),
            TOMBSTONE => Some(Mark::Tombstone),
            _ => None,
        }
    }

    /// The longest answer that is kept, in bytes; `None` without a record.
    pub(crate) fn max_response_bytes(&self) -> Option<usize> {
        self.flight().map(|flight| flight.config().max_response_bytes())
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("record", &self.flight().map(Flight::id))
            .field("attempt", &self.0.attempt)
            .field("mark", &self.marked())
            .finish()
    }
}
