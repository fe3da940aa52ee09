//! The checker: decides over a history whether every key got what its operation declares.
//!
//! It assumes as little as it can. What it cannot know, such as when exactly an answer was stored, it bounds by what was
//! seen: not before the effect, not after the first replay. What is possible within the bounds is right.

mod answers;
mod effects;
mod explain;
mod life;
mod subject;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::BTreeMap;

pub use violation::{Rule, Violation};

use crate::history::{History, Key};
use subject::Subject;

/// What the checker found.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// How many keys were judged to their end: those that ran, and of whose success somebody was told.
    pub judged: usize,
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// How many runs took over from one that a fault had ended.
    pub take_overs: usize,
    /// How many of them repeated an effect, which lease mode allows.
    pub repeated_effects: usize,
    /// How many runs there were because a store forgot what it had acknowledged, which its failovers allow.
    pub forgotten: usize,
    /// How many answers were delivered while the store was away, and then not stored, since another took over.
    pub overtaken: usize,
}

/// What a verdict comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Every promise was kept.
    Kept,
    /// At least one was not.
    Broken,
    /// There was nothing to judge, so that nothing is known: no key has run, or the history has no end.
    JudgedNothing,
}

impl Verdict {
    /// What it comes to.
    pub fn conclusion(&self) -> Conclusion {
        match (self.violations.is_empty(), self.judged) {
            (false, _) => Conclusion::Broken,
            (true, 0) => Conclusion::JudgedNothing,
            (true, _) => Conclusion::Kept,
        }
    }
}

/// Judges a history. While the machine runs (`healed` is `None`), what only its end can tell is left out.
pub fn check(history: &History) -> Verdict {
    let mut subjects: BTreeMap<&Key, Subject<'_>> = BTreeMap::new();
    for request in &history.requests {
        subjects.entry(&request.key).or_default().requests.push(request);
    }
    for run in &history.runs {
        subjects.entry(&run.key).or_default().runs.push(run);
    }
    for payment in &history.payments {
        subjects.entry(&payment.key).or_default().payments.push(payment);
    }
    let mut verdict = Verdict::default();
    for (key, mut subject) in subjects {
        subject.requests.sort_by_key(|request| request.sent);
        subject.runs.sort_by_key(|run| run.begun);
        let has_succeeded = !subject.runs.is_empty() && subject.successes().next().is_some();
        verdict.judged += usize::from(has_succeeded && history.healed.is_some());
        let lives = life::lives(key, &subject, history);
        effects::check(key, &subject, &lives, history, &mut verdict);
        answers::check(key, &subject, &lives, history, &mut verdict);
        answers::check_mismatches(key, &subject, history, &mut verdict);
        answers::check_end(key, &subject, history, &mut verdict);
    }
    verdict
}

/// Everything that happened to a key, line by line in the order of time, for a person to read.
pub fn story(history: &History, key: &Key) -> String {
    subject::story(history, key)
}
