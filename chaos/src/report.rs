//! The report: a table of what was done, what was broken, and what came of it.

use std::collections::BTreeMap;
use std::fmt;

use crate::checker::Verdict;
use crate::clock::{Micros, SECOND};
use crate::history::{Fate, History};
use crate::options::Options;

/// A table in Markdown.
#[derive(Debug, Clone)]
pub struct Report {
    rows: Vec<(String, String)>,
    /// How often each kind of fault was injected.
    pub faults: BTreeMap<String, usize>,
}

impl Report {
    /// The report of a run that broke things between two times.
    pub fn new(
        options: &Options,
        history: &History,
        verdict: &Verdict,
        (begun, healed): (Micros, Micros),
    ) -> Self {
        let mut faults = BTreeMap::<_, usize>::new();
        let injected = || history.faults.iter().filter(|fault| fault.is_injected());
        for fault in injected() {
            *faults.entry(fault.name()).or_default() += 1;
        }
        let by_kind: Vec<_> = faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let count =
            |class: fn(&Fate) -> bool| history.requests.iter().filter(|request| class(&request.fate)).count();
        let mut keys: Vec<_> =
            history.requests.iter().map(|request| (&request.key, &request.payload)).collect();
        keys.sort();
        keys.dedup();
        let row = |name: &str, value: String| (name.to_owned(), value);
        let rows = vec![
            row("store", options.store.clone()),
            row("seed", options.seed.to_string()),
            row("minutes", format!("{:.1}", (healed - begun) as f64 / SECOND as f64 / 60.0)),
            row("operations (keys and their lives)", keys.len().to_string()),
            row("requests", history.requests.len().to_string()),
            row(
                "first answers",
                count(|fate| matches!(fate, Fate::Answered { status: 200..=299, replayed: false, .. }))
                    .to_string(),
            ),
            row(
                "replays",
                count(|fate| matches!(fate, Fate::Answered { status: 200..=299, replayed: true, .. }))
                    .to_string(),
            ),
            row("409", count(|fate| matches!(fate, Fate::Answered { status: 409, .. })).to_string()),
            row("422", count(|fate| matches!(fate, Fate::Answered { status: 422, .. })).to_string()),
            row("5xx", count(|fate| matches!(fate, Fate::Answered { status: 500.., .. })).to_string()),
            row("no answer", count(|fate| matches!(fate, Fate::Lost(_))).to_string()),
            row("runs", history.runs.len().to_string()),
            row("faults", format!("{}: {}", injected().count(), by_kind.join(", "))),
            row("stalls of the machine", (history.faults.len() - injected().count()).to_string()),
            row("take-overs", verdict.take_overs.to_string()),
            row("effects repeated by them, in lease mode alone", verdict.repeated_effects.to_string()),
            row("answers given while the store was away, and overtaken", verdict.overtaken.to_string()),
            row("runs after a failover forgot another", verdict.forgotten.to_string()),
            row("keys judged", verdict.judged.to_string()),
            row("**violations**", format!("**{}**", verdict.violations.len())),
        ];
        Self { rows, faults }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | |\n|---|---|")?;
        for (name, value) in &self.rows {
            writeln!(f, "| {name} | {value} |")?;
        }
        Ok(())
    }
}
