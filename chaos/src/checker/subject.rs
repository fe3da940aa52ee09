//! Subjects: all that a history has of one key.

use std::fmt::Write as _;

use crate::clock::{MILLI, Micros};
use crate::history::{Fate, History, Key, Operation, Payment, Request, Run, Target};

/// What was asked, done and paid under one key, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Subject<'a> {
    pub(super) requests: Vec<&'a Request>,
    pub(super) runs: Vec<&'a Run>,
    pub(super) payments: Vec<&'a Payment>,
}

/// A success that was delivered, and what its body says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Success<'a> {
    pub(super) request: &'a Request,
    pub(super) body: &'a str,
    pub(super) replayed: bool,
}

impl<'a> Subject<'a> {
    /// All successes, in the order of their requests.
    pub(super) fn successes(&self) -> impl Iterator<Item = Success<'a>> {
        self.requests.iter().filter_map(|request| match &request.fate {
            Fate::Answered { status: 200..=299, replayed, body, .. } => {
                Some(Success { request, body, replayed: *replayed })
            }
            _ => None,
        })
    }

    /// The successes that a run has given, as their bodies say. Those of `derived` name the payment, which is the same for
    /// all runs: a first answer is that of the one run that there was in its process meanwhile, and a replay that of every
    /// run before it.
    pub(super) fn successes_of(&self, run: &Run) -> impl Iterator<Item = Success<'a>> {
        self.successes().filter(move |success| {
            let Success { request, body, replayed } = success;
            match run.key.operation {
                Operation::Derived if *replayed => {
                    run.payload == request.payload && run.begun <= request.ended
                }
                Operation::Derived => self.only_run_during(request).is_some_and(|only| only.id == run.id),
                _ => body_of(body).0 == run.id,
            }
        })
    }

    /// The run that a request was waiting for, if there is no doubt which.
    fn only_run_during(&self, request: &Request) -> Option<&'a Run> {
        let waited = request.sent..=request.ended;
        let mut runs = self.runs.iter().filter(|run| {
            run.process == request.process && run.payload == request.payload && waited.contains(&run.begun)
        });
        runs.next().filter(|_| runs.next().is_none()).copied()
    }
}

/// What a body says: by which run or payment it is, and for which payload.
pub(super) fn body_of(body: &str) -> (&str, &str) {
    body.trim_end().split_once(' ').unwrap_or((body, ""))
}

pub(super) fn story(history: &History, key: &Key) -> String {
    let mut lines: Vec<(Micros, String)> = Vec::new();
    let requests = history.requests.iter().enumerate().filter(|(_, request)| request.key == *key);
    for (number, request) in requests {
        let Request { payload, process, .. } = request;
        let last = if request.is_last { ", after healing" } else { "" };
        lines.push((request.sent, format!("request {number}: {payload} to process {process}{last}")));
        let fate = match &request.fate {
            Fate::Answered { status, code, replayed, body } => {
                let mark = if *replayed { " replayed" } else { "" };
                format!("{status}{mark} {code} {body}")
            }
            Fate::Lost(why) => format!("lost: {why}"),
        };
        lines.push((request.ended, format!("request {number}: {fate}")));
    }
    for run in history.runs.iter().filter(|run| run.key == *key) {
        let Run { id, payload, process, pid, attempt, .. } = run;
        lines.push((run.begun, format!("run {id}: {payload}, attempt {attempt}, process {process} ({pid})")));
        if let Some(at) = run.effect {
            let committed = key.operation == Operation::Transaction;
            lines.push((
                at,
                format!("run {id}: effect{}", if committed { ", which was committed" } else { "" }),
            ));
        }
        if let Some((at, failed)) = run.ended {
            lines.push((at, format!("run {id}: ends{}", if failed { " and has failed" } else { "" })));
        }
    }
    for payment in history.payments.iter().filter(|payment| payment.key == *key) {
        lines.push((payment.at, format!("payment {} under {}", payment.id, payment.derived)));
    }
    let begin = lines.iter().map(|line| line.0).min().unwrap_or_default();
    let end = lines.iter().map(|line| line.0).max().unwrap_or_default();
    for fault in history.faults.iter().filter(|fault| fault.begun <= end && fault.healed >= begin) {
        let of = match fault.target {
            Target::Process(process) => format!(" (process {process})"),
            Target::Store => String::new(),
        };
        lines.push((fault.begun, format!("fault: {}{of} begins", fault.name())));
        lines.push((fault.healed, format!("fault: {}{of} has healed", fault.name())));
    }
    lines.sort();
    let mut text = format!("{} {}, from {begin} us:\n", key.operation.name(), key.name);
    for (at, line) in lines {
        let ms = (at as i64 - begin as i64) as f64 / MILLI as f64;
        let _ = writeln!(text, "{ms:>12.3} ms  {line}");
    }
    text
}
