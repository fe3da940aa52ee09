//! Explanations: why a key was run again.

use super::subject::Subject;
use crate::clock::{MILLI, Micros};
use crate::history::{Fate, Fault, History, Operation, Run, Target};

/// How far the clock of a store may be from ours within a lease: stores count milliseconds, and a clock that is adjusted
/// runs some thousandth faster or slower. All of them are the clock of one machine.
const CLOCKS: Micros = 10 * MILLI;

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The run before it failed, and said so.
    Failed,
    /// A fault kept the run before it from storing its answer.
    Fault,
    /// The store may have forgotten the run before it.
    Forgotten,
}

/// Why a run may follow another in one lifetime; `None` if nothing says so.
pub(super) fn explain(subject: &Subject<'_>, first: &Run, second: &Run, history: &History) -> Option<Why> {
    let mut faults = history.faults.iter().filter(|fault| fault.forgets);
    let is_forgotten = faults.any(|fault| fault.begun <= second.begun && fault.healed >= first.begun);
    let forgotten = is_forgotten.then_some(Why::Forgotten);
    let by_record = explain_by_record(subject, first, second, history);
    // What no record would let run, was let run by none.
    if first.payload == second.payload && first.key.operation != Operation::Reject {
        by_record.or(forgotten)
    } else {
        forgotten.or(by_record)
    }
}

/// The same for a record that nobody has forgotten.
fn explain_by_record(subject: &Subject<'_>, first: &Run, second: &Run, history: &History) -> Option<Why> {
    let terms = &history.terms;
    // Its lease counts from its claim, which may take as long as a step, too.
    let granted = granted(subject, first, history);
    let claimed = granted.max(first.begun.saturating_sub(terms.time_out));
    let overlaps = |fault: &&Fault, until| fault.begun <= until && fault.healed >= claimed;
    let mut faults = history.faults.iter();
    // Who counts attempts has not forgotten; and what was replayed is stored.
    let is_stored = subject.successes_of(first).any(|it| it.replayed && it.request.ended <= second.begun);
    if second.attempt <= first.attempt || is_stored {
        return None;
    }
    if first.ended.is_some_and(|(at, failed)| failed && at <= second.begun + terms.margin) {
        return Some(Why::Failed);
    }
    // A fault ends no lease: one that was not given back is over when it is over. Renewal only lengthens it.
    if second.begun + CLOCKS < granted + terms.lease {
        return None;
    }
    // A fault after an answer was stored explains nothing. It is stored within a step once the run has ended, and before
    // anybody is told, unless a fault has begun by then.
    let stored = first.ended.map_or(second.begun, |(at, _)| at + terms.time_out);
    let told = subject.successes_of(first).map(|it| it.request.ended).min().unwrap_or(second.begun);
    let until = second.begun.min(stored).min(told);
    let concerns = |target| target == Target::Store || target == Target::Process(first.process);
    faults.any(|fault| concerns(fault.target) && overlaps(&fault, until)).then_some(Why::Fault)
}

/// The earliest that the lease of a run may have begun: not before somebody asked for it who may still have been served
/// when it ran. Who was answered before was not; who has hung up is, for no longer than a step may take.
fn granted(subject: &Subject<'_>, run: &Run, history: &History) -> Micros {
    let asked = subject.requests.iter().filter(|request| {
        let served_until = match request.fate {
            Fate::Answered { .. } => request.ended,
            Fate::Lost(_) => request.ended + history.terms.time_out,
        };
        request.process == run.process
            && request.payload == run.payload
            && (request.sent..=served_until).contains(&run.begun)
    });
    asked.map(|request| request.sent).min().unwrap_or(run.begun)
}
