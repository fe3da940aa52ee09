//! Effects: how often each happened, and why again.

use super::explain::{Why, explain};
use super::life::Life;
use super::subject::Subject;
use super::{Rule, Verdict, Violation};
use crate::history::{History, Key, Operation};

pub(super) fn check(
    key: &Key,
    subject: &Subject<'_>,
    lives: &[Life<'_>],
    history: &History,
    verdict: &mut Verdict,
) {
    if key.operation == Operation::Derived && subject.payments.len() > 1 {
        let what = format!("{} payments under derived keys", subject.payments.len());
        verdict.violations.push(Violation { rule: Rule::EffectOnce, key: key.clone(), what });
    }
    for life in lives {
        for pair in life.windows(2) {
            let [first, second] = pair else { continue };
            let why = explain(subject, first, second, history);
            let mut violate = |rule, what: &str| {
                let what = format!("run {} after run {}: {what}", second.id, first.id);
                verdict.violations.push(Violation { rule, key: key.clone(), what });
            };
            match why {
                Some(Why::Forgotten) => {
                    verdict.forgotten += 1;
                    continue;
                }
                _ if first.payload != second.payload => violate(Rule::OnePayload, "another payload"),
                _ if key.operation == Operation::Transaction => {
                    violate(Rule::EffectOnce, "both are committed");
                }
                _ if key.operation == Operation::Reject => violate(Rule::NeverAgain, "`on_crash = reject`"),
                None => violate(Rule::RunExplained, "no fault explains it"),
                Some(Why::Fault) => verdict.take_overs += 1,
                Some(Why::Failed) => {}
            }
            if first.effect.is_some() && second.effect.is_some() {
                verdict.repeated_effects += usize::from(key.operation == Operation::Plain);
                if why == Some(Why::Failed) {
                    violate_effect(key, &second.id, verdict);
                }
            }
        }
    }
}

/// Handlers here fail before their effect, so that nobody can repeat it.
fn violate_effect(key: &Key, run: &str, verdict: &mut Verdict) {
    let what = format!("run {run} repeats an effect after one that failed without any");
    verdict.violations.push(Violation { rule: Rule::EffectOnce, key: key.clone(), what });
}
