//! Lifetimes: from a key's first run until its answer has expired; used again, it lives anew.

use super::subject::Subject;
use crate::history::{History, Key, Operation, Run};

/// The runs of one lifetime, in the order of time. In transaction mode those that were committed: no others ever were.
pub(super) type Life<'a> = Vec<&'a Run>;

pub(super) fn lives<'a>(key: &Key, subject: &Subject<'a>, history: &History) -> Vec<Life<'a>> {
    let mut lives: Vec<Life<'a>> = Vec::new();
    for run in &subject.runs {
        if key.operation == Operation::Transaction && run.effect.is_none() {
            continue;
        }
        match lives.last_mut() {
            Some(life) if !may_be_new(key, subject, life, run, history) => life.push(run),
            _ => lives.push(vec![run]),
        }
    }
    lives
}

/// Whether the record of a life may have expired before a run. An answer that was told is not stored before its effect; of
/// other runs only the claim is known to have been there, and nothing that it leaves behind is gone sooner than the `ttl`
/// after it. The attempt says nothing of it: the first of a new life may have been killed before it could run.
fn may_be_new(key: &Key, subject: &Subject<'_>, life: &Life<'_>, run: &Run, history: &History) -> bool {
    let counts_from = |run: &&Run| match run.effect {
        Some(effect) if subject.successes_of(run).next().is_some() => effect,
        _ => run.begun,
    };
    let latest = life.iter().map(counts_from).max().unwrap_or_default();
    run.begun + history.terms.margin >= latest + key.ttl
}
