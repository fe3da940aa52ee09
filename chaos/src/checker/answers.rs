//! Answers: what clients were told.

use std::collections::BTreeSet;

use super::explain::{Why, explain};
use super::life::Life;
use super::subject::{Subject, Success, body_of};
use super::{Rule, Verdict, Violation};
use crate::history::{Fate, History, Key, Operation, Request, Run};

const IN_FLIGHT: &str = "idempotency_in_flight";
const LEASE_LOST: &str = "idempotency_lease_lost";
const UNKNOWN: &str = "idempotency_outcome_unknown";
const CONFLICT: &str = "idempotency_conflict";
/// Never to be seen here: nobody changes types or stores what is too large.
const BROKEN: [&str; 3] =
    ["idempotency_undecodable", "idempotency_misuse", "idempotency_response_unavailable"];

/// Successes: by whom, for what, and that they are one.
pub(super) fn check(
    key: &Key,
    subject: &Subject<'_>,
    lives: &[Life<'_>],
    history: &History,
    verdict: &mut Verdict,
) {
    let mut violate =
        |rule, what: String| verdict.violations.push(Violation { rule, key: key.clone(), what });
    let mut overtaken = 0;
    for success in subject.successes() {
        let (by, payload) = body_of(success.body);
        if payload != success.request.payload {
            violate(Rule::OwnAnswer, format!("{} was answered `{}`", success.request.payload, success.body));
        }
        if key.operation == Operation::Derived {
            if !subject.payments.iter().any(|payment| payment.id == by) {
                violate(Rule::EffectAnswered, format!("answered `{}`, which nobody paid", success.body));
            }
            continue;
        }
        match subject.runs.iter().find(|run| run.id == by) {
            None => violate(Rule::OwnAnswer, format!("answered `{}` by a run that never was", success.body)),
            // Commits are read at the end.
            Some(_) if key.operation == Operation::Transaction && history.healed.is_none() => {}
            Some(run) if run.effect.is_none() => {
                violate(Rule::EffectAnswered, format!("answered `{}` without an effect", success.body));
            }
            Some(_) => {}
        }
    }
    // A system that deduplicates answers every run alike.
    if key.operation == Operation::Derived {
        let all: BTreeSet<_> = subject.successes().map(|success| success.body).collect();
        if all.len() > 1 && !lives.iter().any(|life| may_be_forgotten(subject, life, history)) {
            violate(Rule::OneAnswer, format!("{all:?}"));
        }
    }
    for life in lives {
        let told: Vec<_> =
            life.iter().flat_map(|run| subject.successes_of(run).map(move |it| (*run, it))).collect();
        let replays: BTreeSet<_> = told.iter().filter(|(_, it)| it.replayed).map(|(_, it)| it.body).collect();
        if replays.len() > 1 && !may_be_forgotten(subject, life, history) {
            violate(Rule::OneAnswer, format!("replays differ: {replays:?}"));
        }
        if let Some(late) = late_replay(key, &told, history) {
            let what = format!("`{}` was replayed after it had expired", late.body);
            violate(Rule::NotExpired, what);
        }
        let Some(last) = life.last() else { continue };
        let stored = replays.first().copied();
        for (run, success) in told.iter().filter(|(_, it)| !it.replayed) {
            if stored.is_none_or(|stored| stored == success.body) {
                continue;
            }
            // The store was away when it was to be stored, and another has taken over since.
            if key.operation == Operation::Plain && run.id != last.id {
                overtaken += 1;
            } else if !may_be_forgotten(subject, life, history) {
                violate(Rule::OneAnswer, format!("`{}`, and replayed {replays:?}", success.body));
            }
        }
    }
    verdict.overtaken += overtaken;
}

fn may_be_forgotten(subject: &Subject<'_>, life: &Life<'_>, history: &History) -> bool {
    life.windows(2).any(|pair| explain(subject, pair[0], pair[1], history) == Some(Why::Forgotten))
}

/// A replay so long after another of the same answer that it must have expired in between.
fn late_replay<'a>(key: &Key, told: &[(&Run, Success<'a>)], history: &History) -> Option<Success<'a>> {
    let replays = || told.iter().map(|(_, it)| it).filter(|it| it.replayed);
    let is_late = |it: &&Success<'_>| {
        let first = replays().filter(|other| other.body == it.body).map(|other| other.request.ended).min();
        first.is_some_and(|first| it.request.sent > first + key.ttl + history.terms.margin)
    };
    replays().find(is_late).copied()
}

/// Refusals: whether there is a reason for each.
pub(super) fn check_mismatches(key: &Key, subject: &Subject<'_>, history: &History, verdict: &mut Verdict) {
    for request in &subject.requests {
        let Fate::Answered { status, code, .. } = &request.fate else { continue };
        let mut violate = |rule, what: String| {
            verdict.violations.push(Violation { rule, key: key.clone(), what });
        };
        match (status, code.as_str()) {
            (422, CONFLICT) => {
                if !may_be_bound_to_another(key, subject, request, history) {
                    let what = format!("{} was refused, and no other payload can be bound", request.payload);
                    violate(Rule::TrueMismatch, what);
                }
            }
            (200..=299, _) | (409, IN_FLIGHT) => {}
            // A holder that was away for too long says so.
            (409, LEASE_LOST) if is_troubled(request, history) => {}
            (409, UNKNOWN) if key.operation == Operation::Reject => {}
            (500.., code) if !BROKEN.contains(&code) => {}
            (status, code) => {
                violate(Rule::KnownAnswer, format!("{} was answered {status} {code}", request.payload));
            }
        }
    }
}

/// Whether there was a fault while somebody waited for an answer.
fn is_troubled(request: &Request, history: &History) -> bool {
    let mut faults = history.faults.iter();
    faults.any(|fault| fault.begun <= request.ended && fault.healed >= request.sent)
}

/// Whether the key may be bound to another payload while a request is judged.
fn may_be_bound_to_another(key: &Key, subject: &Subject<'_>, asked: &Request, history: &History) -> bool {
    let by_run = subject.runs.iter().any(|run| {
        let replayed = subject.successes_of(run).filter(|it| it.replayed).map(|it| it.request.ended).min();
        let gone = replayed.map(|at| at + key.ttl + history.terms.margin);
        // A server that takes over may know the claim, and not that it was completed: then it counts from the claim.
        let is_forgotten = history
            .faults
            .iter()
            .any(|fault| fault.forgets && fault.begun <= asked.ended && fault.healed >= run.begun);
        run.payload != asked.payload
            && run.begun <= asked.ended
            && (is_forgotten || gone.is_none_or(|gone| gone >= asked.sent))
    });
    // A claim whose process was killed before it could run leaves no other trace.
    let by_claim = subject.requests.iter().any(|other| {
        let is_open = match &other.fate {
            Fate::Lost(_) => true,
            Fate::Answered { status, .. } => *status >= 500,
        };
        other.payload != asked.payload && other.sent <= asked.ended && (is_open || other.ended >= asked.sent)
    });
    by_run || by_claim
}

/// After healing: it was asked for, and there was a final answer, and in time.
pub(super) fn check_end(key: &Key, subject: &Subject<'_>, history: &History, verdict: &mut Verdict) {
    let Some(healed) = history.healed else { return };
    let mut last = subject.requests.clone();
    last.retain(|request| request.is_last && request.sent >= healed);
    let first = last.first().map(|request| request.sent);
    let answered = last.iter().find(|request| request.fate.is_final()).map(|request| request.ended);
    let what = match (first, answered) {
        (Some(first), Some(answered)) if answered - first <= history.terms.patience => return,
        (Some(first), Some(answered)) => {
            format!("a final answer only {} ms after healing", (answered - first) / 1_000)
        }
        (Some(_), None) => format!("no final answer after healing in {} requests", last.len()),
        (None, _) => "nobody asked for it after healing".to_owned(),
    };
    verdict.violations.push(Violation { rule: Rule::NothingStuck, key: key.clone(), what });
}
