//! Explanations: why a key was run again.

use super::subject::Subject;
use crate::clock::Micros;
use crate::history::{Fault, History, Operation, Run, Target};

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
    // Its lease counts from before its claim was sent, and claims may take long, too.
    let claimed = claimed(subject, first, history);
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
    // A fault after an answer was stored explains nothing. It is stored within a step once the run has ended, and before
    // anybody is told, unless a fault has begun by then.
    let stored = first.ended.map_or(second.begun, |(at, _)| at + terms.time_out);
    let told = subject.successes_of(first).map(|it| it.request.ended).min().unwrap_or(second.begun);
    let until = second.begun.min(stored).min(told);
    let concerns = |target| target == Target::Store || target == Target::Process(first.process);
    faults.any(|fault| concerns(fault.target) && overlaps(&fault, until)).then_some(Why::Fault)
}

/// The earliest that a run may have been claimed: when it was asked for, and no longer ago than a step may take.
fn claimed(subject: &Subject<'_>, run: &Run, history: &History) -> Micros {
    let earliest = run.begun.saturating_sub(history.terms.time_out);
    let asked = subject.requests.iter().filter(|request| {
        request.process == run.process
            && request.payload == run.payload
            && (earliest..=run.begun).contains(&request.sent)
    });
    asked.map(|request| request.sent).min().unwrap_or(run.begun)
}
