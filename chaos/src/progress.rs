//! Progress: a line a second on the terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::checker::check;
use crate::history::{Fate, Terms};
use crate::machine::assemble;
use crate::options::Options;
use crate::recorder::Recorder;

/// How often the history until now is judged, in lines.
const JUDGED_EVERY: u64 = 10;

/// What is said while the machine runs.
#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    seconds: u64,
    recorder: Arc<Recorder>,
    journal: PathBuf,
    terms: Terms,
}

impl Progress {
    /// Progress of a run.
    pub fn new(options: &Options, recorder: Arc<Recorder>, journal: PathBuf, terms: Terms) -> Self {
        let seconds = (options.minutes * 60.0) as u64;
        Self { quiet: options.quiet, seconds, recorder, journal, terms }
    }

    /// Says a line a second until it is told to stop.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut violations = 0;
        for second in 0.. {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
            if second % JUDGED_EVERY == JUDGED_EVERY - 1 {
                violations = self.violations().await;
            }
            if !self.quiet {
                self.say(second, violations);
            }
        }
        if !self.quiet {
            eprintln!("\nhealing, and looking at every key");
        }
    }

    /// How much is wrong until now, as far as can be told.
    async fn violations(&self) -> usize {
        // Before the journal is read, so that what was answered is in it.
        let recorded = self.recorder.recorded();
        let (journal, terms) = (self.journal.clone(), self.terms.clone());
        let judged = tokio::task::spawn_blocking(move || {
            assemble(recorded, &journal, terms, None).map(|history| check(&history).violations.len())
        });
        // A line that is being written cannot be read: the next time it can.
        judged.await.ok().and_then(Result::ok).unwrap_or_default()
    }

    fn say(&self, second: u64, violations: usize) {
        let line = self.recorder.look(|recorded| {
            let count = |class: fn(&Fate) -> bool| {
                recorded.requests.iter().filter(|request| class(&request.fate)).count()
            };
            let succeeded = count(|fate| matches!(fate, Fate::Answered { status: 200..=299, .. }));
            let refused = count(|fate| matches!(fate, Fate::Answered { status: 400..=499, .. }));
            let failed = count(|fate| matches!(fate, Fate::Answered { status: 500.., .. }));
            let lost = count(|fate| matches!(fate, Fate::Lost(_)));
            let mut kinds = BTreeMap::<_, usize>::new();
            for fault in &recorded.faults {
                *kinds.entry(fault.name()).or_default() += 1;
            }
            let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            let open: Vec<_> = recorded
                .faults
                .iter()
                .filter(|fault| fault.healed == u64::MAX)
                .map(crate::history::Fault::name)
                .collect();
            format!(
                "{second:>4}/{} s  ok {succeeded}, 4xx {refused}, 5xx {failed}, lost {lost} | {} | now: {} | \
                 violations {violations}",
                self.seconds,
                kinds.join(", "),
                if open.is_empty() { "-".to_owned() } else { open.join(", ") },
            )
        });
        let mut err = stderr().lock();
        let (begin, end) = if err.is_terminal() { ("\r\x1b[2K", "") } else { ("", "\n") };
        // Nobody reads it: then nobody misses it.
        let _ = write!(err, "{begin}{line}{end}");
        let _ = err.flush();
    }
}
