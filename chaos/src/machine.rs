//! The machine: starts everything, breaks it under load, heals it, looks at every key, and has it judged.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::book::Book;
use crate::checker::{Verdict, check};
use crate::clients::Clients;
use crate::clock::{Micros, now};
use crate::downstream::Downstream;
use crate::history::{Fault, History, Key, Operation, Run, Target, Terms};
use crate::journal;
use crate::nemesis::{Kind, Schedule, break_services, break_store};
use crate::options::Options;
use crate::processes::Processes;
use crate::progress::Progress;
use crate::recorder::{Recorded, Recorder};
use crate::report::Report;
use crate::service::ServiceOptions;
use crate::victim::Victim;

type Anything = Box<dyn Error + Send + Sync>;

/// How many keys are looked at at once in the end.
const AT_ONCE: usize = 24;

/// What came of a run of the machine.
#[derive(Debug)]
pub struct Outcome {
    /// All that happened.
    pub history: History,
    /// What the checker says of it.
    pub verdict: Verdict,
    /// The same for people.
    pub report: Report,
    /// Where it was written to.
    pub out: PathBuf,
}

/// Runs the machine with this program as its service. `interrupted` ends it in order before its time.
///
/// # Errors
///
/// When something of its own does not work; that is no finding about idem.
pub async fn run(
    options: &Options,
    program: PathBuf,
    interrupted: impl Future<Output = ()>,
) -> Result<Outcome, Anything> {
    let out = options.out.clone().unwrap_or_else(|| {
        let name = options.store.split(':').next().unwrap_or("store");
        PathBuf::from(format!("target/chaos/{name}-{}", options.seed))
    });
    fs::create_dir_all(&out)?;
    let journal = out.join("journal.jsonl");
    // What an earlier run has left there.
    File::create(&journal)?;
    let victim = Victim::start(&options.store).await?;
    let terms = Terms { may_forget: victim.may_forget(), ..Terms::default() };
    let recorder = Arc::new(Recorder::default());
    let downstream = Downstream::start(Arc::clone(&recorder)).await?;
    let is_memory = victim.url() == "memory:";
    let service = ServiceOptions {
        store: victim.url().to_owned(),
        journal: journal.clone(),
        downstream: downstream.address(),
        process: 0,
        parent: std::process::id() as i32,
        lease_ms: terms.lease / 1_000,
        time_out_ms: terms.time_out / 1_000,
        broken: options.broken,
    };
    let transactions =
        ["sqlite", "postgres", "mysql", "mariadb"].iter().any(|sql| victim.url().starts_with(sql));
    let count = if is_memory { 1 } else { options.processes.max(1) };
    let mut processes = Processes::start_all(program, service, count, &out.join("service.log"))?;
    processes.wait_until_all_listen().await;
    let begun = now();

    let book = Arc::new(Book::new(transactions));
    let clients = Clients::new(processes.addresses(), Arc::clone(&book), Arc::clone(&recorder), options.seed);
    let (stop, stopped) = watch::channel(false);
    let mut load = JoinSet::new();
    for client in 0..options.clients {
        load.spawn(clients.clone().run(client as u64, stopped.clone()));
    }
    let progress = tokio::spawn(
        Progress::new(options, Arc::clone(&recorder), journal.clone(), terms.clone()).run(stopped.clone()),
    );
    let kinds: &[Kind] = if is_memory { &[Kind::Pause] } else { &Kind::OF_SERVICES };
    let of_services = Schedule::new(options.seed, 1, kinds);
    let of_store = Schedule::new(options.seed, 2, &victim.kinds());
    let (go_on, told_to_stop) = mpsc::channel();
    let store = thread::Builder::new().name("nemesis".to_owned()).spawn({
        let recorder = Arc::clone(&recorder);
        move || break_store(victim, of_store, &recorder, &told_to_stop)
    })?;
    let end = async {
        tokio::select! {
            () = sleep(Duration::from_secs_f64(options.minutes * 60.0)) => {}
            () = interrupted => {}
        }
        // Faults end first; those who retry are to see it.
        drop(go_on);
        stop.send_replace(true);
    };
    tokio::join!(end, break_services(&mut processes, of_services, &recorder, stopped));
    let victim = tokio::task::spawn_blocking(move || store.join())
        .await?
        .map_err(|_| "the nemesis of the store has panicked")?;
    while load.join_next().await.is_some() {}
    progress.await?;
    let healed = now();

    look_at_every_key(&clients, &book, &terms).await;
    let rows = committed(&processes).await?;
    processes.kill_all().await;
    let history = assemble(recorder.recorded(), &journal, terms, Some((healed, rows)))?;
    drop(victim);
    let verdict = tokio::task::spawn_blocking({
        let history = history.clone();
        move || check(&history)
    })
    .await?;
    let report = Report::new(options, &history, &verdict, (begun, healed));
    history.write(BufWriter::new(File::create(out.join("history.jsonl"))?))?;
    fs::write(out.join("summary.md"), report.to_string())?;
    fs::write(out.join("timeline.svg"), crate::plot::timeline(&history, (begun, healed), &options.store))?;
    Ok(Outcome { history, verdict, report, out })
}

/// Asks for every key until it gets a final answer.
async fn look_at_every_key(clients: &Clients, book: &Book, terms: &Terms) {
    // Longer than what is right, so that what is late is told from what never comes.
    let give_up = Duration::from_micros(2 * terms.patience);
    let mut all = JoinSet::new();
    for case in book.all() {
        if all.len() >= AT_ONCE {
            all.join_next().await;
        }
        let clients = clients.clone();
        all.spawn(async move { clients.settle(&case, give_up).await });
    }
    while all.join_next().await.is_some() {}
}

/// The rows that transactions have committed: the run of each.
async fn committed(processes: &Processes) -> Result<Vec<(String, i64)>, Anything> {
    let address = processes.addresses().of(0).ok_or("no process is there")?;
    Ok(reqwest::get(format!("http://{address}/rows")).await?.error_for_status()?.json().await?)
}

/// Makes a history of what was recorded, the journal, and in the end of what was committed.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn assemble(
    recorded: Recorded,
    journal: &Path,
    terms: Terms,
    end: Option<(Micros, Vec<(String, i64)>)>,
) -> std::io::Result<History> {
    let (mut runs, stalls) = journal::read(journal)?;
    let Recorded { requests, payments, mut faults } = recorded;
    let stalls: Vec<_> =
        stalls.into_iter().filter_map(|stall| not_injected(stall, &faults, &terms)).collect();
    faults.extend(stalls);
    let healed = end.as_ref().map(|(healed, _)| *healed);
    let committed: HashMap<_, usize> =
        end.into_iter().flat_map(|(_, rows)| rows).fold(HashMap::new(), |mut all, (run, _)| {
            *all.entry(run).or_default() += 1;
            all
        });
    let mut again: Vec<Run> = Vec::new();
    for run in runs.iter_mut().filter(|run| run.key.operation == Operation::Transaction) {
        let rows = committed.get(&run.id).copied().unwrap_or_default();
        if rows > 0 {
            run.effect = Some(run.begun);
        }
        // One run whose row is there twice is a second effect, too.
        again.extend((1..rows).map(|_| run.clone()));
    }
    runs.extend(again);
    Ok(History { terms, requests, runs, payments, faults, healed })
}

/// What is left of a stall after the faults that the machine has injected: they explain it as long as they last.
fn not_injected(mut stall: Fault, injected: &[Fault], terms: &Terms) -> Option<Fault> {
    for fault in injected {
        let concerns = fault.target == stall.target || fault.target == Target::Store;
        if concerns && fault.begun <= stall.healed && fault.healed >= stall.begun {
            stall.begun = fault.healed;
        }
    }
    (stall.begun.saturating_add(terms.margin) < stall.healed).then_some(stall)
}

/// The keys of what is wrong, each once.
pub fn keys_of(verdict: &Verdict) -> Vec<Key> {
    let mut keys: Vec<_> = verdict.violations.iter().map(|violation| violation.key.clone()).collect();
    keys.sort();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn what_a_fault_explains_is_no_stall_and_what_lasts_longer_is() {
        let terms = Terms::default();
        let fault = |kind: &str, target, [begun, healed]: [u64; 2]| Fault {
            kind: kind.to_owned(),
            target,
            begun: begun * SECOND,
            healed: healed * SECOND,
            forgets: false,
        };
        let stall = |times| fault(Fault::STALL, Target::Process(0), times);
        let paused = [fault("pause", Target::Process(0), [10, 20]), fault("hold", Target::Store, [18, 25])];
        assert_eq!(not_injected(stall([11, 25]), &paused, &terms), None);
        assert_eq!(not_injected(stall([11, 28]), &paused, &terms), Some(stall([25, 28])));
        assert_eq!(not_injected(stall([30, 31]), &paused, &terms), Some(stall([30, 31])));
        let of_another = [fault("pause", Target::Process(1), [10, 20])];
        assert_eq!(not_injected(stall([11, 15]), &of_another, &terms), Some(stall([11, 15])));
    }
}
