//! A machine that breaks services and stores under load. `cargo run -p chaos -- --help` says what it can be told.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use chaos::checker::{Conclusion, Verdict, check, story};
use chaos::history::History;
use chaos::machine::{self, keys_of};
use chaos::options::Options;
use chaos::service::{self, ServiceOptions};
use clap::{Parser, Subcommand};

/// How many keys of violations are told of in full.
const STORIES: usize = 5;

#[derive(Debug, Parser)]
#[command(about, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Judges the `history.jsonl` of an earlier run again.
    Judge {
        /// Where it is.
        history: PathBuf,
    },
    /// Is a process of the service: the machine starts it.
    #[command(hide = true)]
    Serve(ServiceOptions),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    // On this thread: processes of the service end with the thread that has started them.
    match arguments.part {
        Some(Part::Serve(options)) => match runtime.block_on(service::serve(options)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&*error),
        },
        Some(Part::Judge { history }) => {
            match File::open(history).and_then(|file| History::read(BufReader::new(file))) {
                Ok(history) => tell(&history, &check(&history)),
                Err(error) => failed(&error),
            }
        }
        None => runtime.block_on(machine(&arguments.options)),
    }
}

async fn machine(options: &Options) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(&error),
    };
    let interrupted = async {
        // Without the signal it runs to its end.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let outcome = match machine::run(options, program, interrupted).await {
        Ok(outcome) => outcome,
        Err(error) => return failed(&*error),
    };
    println!("{}", outcome.report);
    println!("history, journal and timeline: {}", outcome.out.display());
    tell(&outcome.history, &outcome.verdict)
}

/// Tells what is wrong, with all that happened to some of its keys.
fn tell(history: &History, verdict: &Verdict) -> ExitCode {
    let Verdict { judged, violations, take_overs, repeated_effects, forgotten, overtaken } = verdict;
    println!(
        "{} violations in {judged} keys; {take_overs} take-overs, {repeated_effects} repeated effects, \
         {forgotten} forgotten, {overtaken} overtaken",
        violations.len(),
    );
    for violation in violations {
        println!("{violation}");
    }
    for key in keys_of(verdict).iter().take(STORIES) {
        println!("\n{}", story(history, key));
    }
    match verdict.conclusion() {
        Conclusion::Kept => ExitCode::SUCCESS,
        Conclusion::Broken => ExitCode::FAILURE,
        Conclusion::JudgedNothing => failed(&io::Error::other(
            "judged nothing: no key has run and succeeded, or the history ends before everything had healed",
        )),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}
