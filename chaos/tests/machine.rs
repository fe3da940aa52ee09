//! The whole machine for some seconds: nothing is wrong with idem, and something is found where idem is left out.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use chaos::checker::{Conclusion, Rule, story};
use chaos::machine::{self, Outcome, keys_of};
use chaos::options::Options;
use chaos::service::Broken;

async fn run(store: &str, minutes: f64, broken: Broken) -> Outcome {
    let out = tempfile::tempdir().expect("a folder");
    let options = Options {
        store: store.to_owned(),
        minutes,
        seed: 1,
        processes: 3,
        clients: 8,
        out: Some(out.path().to_owned()),
        broken,
        quiet: true,
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_chaos"));
    machine::run(&options, program, std::future::pending()).await.expect("a machine that works")
}

/// Breaks a store for as long as each kind of fault takes to come once, and finds nothing wrong.
async fn nothing_is_wrong(store: &str, minutes: f64, of_store: &[&str]) {
    let outcome = run(store, minutes, Broken::Not).await;
    let stories: Vec<_> = keys_of(&outcome.verdict).iter().map(|key| story(&outcome.history, key)).collect();
    assert_eq!(outcome.verdict.violations, [], "{}", stories.join("\n"));
    assert_eq!(outcome.verdict.conclusion(), Conclusion::Kept);
    for kind in ["service kill", "service pause", "service restart"].iter().chain(of_store) {
        assert!(outcome.report.faults.contains_key(*kind), "no {kind} in {:?}", outcome.report.faults);
    }
    assert!(outcome.history.requests.len() > 100, "{}", outcome.report);
}

/// Of the way to a server, and of the server.
const OF_SERVERS: [&str; 6] =
    ["store kill", "store pause", "store cut", "store hold", "store slow", "store lose"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_wrong_on_any_store() {
    // At the same time, since most of it is waiting.
    tokio::join!(
        nothing_is_wrong("sqlite", 0.25, &["store lock"]),
        nothing_is_wrong("postgres", 0.5, &OF_SERVERS),
        nothing_is_wrong("mysql", 0.5, &OF_SERVERS),
        nothing_is_wrong("redis", 0.5, &OF_SERVERS),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_idem_is_found() {
    let outcome = run("sqlite", 0.1, Broken::WithoutIdem).await;
    let found: Vec<_> = outcome.verdict.violations.iter().map(|violation| violation.rule).collect();
    for rule in [Rule::RunExplained, Rule::EffectOnce, Rule::NeverAgain, Rule::OnePayload] {
        assert!(found.contains(&rule), "no {rule:?} in {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_are_too_short_are_found() {
    let outcome = run("redis", 0.15, Broken::ShortLease).await;
    let found: Vec<_> = outcome.verdict.violations.iter().map(|violation| violation.rule).collect();
    assert!(found.contains(&Rule::RunExplained), "{found:?}\n{}", outcome.report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idem_that_waits_is_not_excused_by_its_own_waiting() {
    let outcome = run("redis", 0.2, Broken::Late).await;
    let found: Vec<_> = outcome.verdict.violations.iter().map(|violation| violation.rule).collect();
    assert!(found.contains(&Rule::RunExplained), "{found:?}\n{}", outcome.report);
}

#[test]
fn a_history_of_nothing_is_an_error() {
    let history = tempfile::NamedTempFile::new().expect("a file");
    let mut judge = Command::new(env!("CARGO_BIN_EXE_chaos"));
    let judged = judge.arg("judge").arg(history.path()).output().expect("a program");
    assert_eq!(judged.status.code(), Some(2), "{judged:?}");
    assert!(String::from_utf8_lossy(&judged.stderr).contains("judged nothing"), "{judged:?}");
}

#[test]
fn a_store_that_is_not_there_is_an_error() {
    // Nobody listens on the port of a listener that is gone.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    for (store, says) in [
        (format!("redis://127.0.0.1:{port}"), "cannot be reached"),
        (format!("postgres://nobody@127.0.0.1:{port}/nothing"), "cannot be reached"),
        (format!("mysql://nobody@127.0.0.1:{port}/nothing"), "cannot be reached"),
        ("sqlite:/no/such/folder/store.db".to_owned(), "cannot be used"),
        ("http://127.0.0.1/".to_owned(), "a URL here begins with"),
        ("nothing".to_owned(), "there is no store `nothing`"),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        let mut machine = Command::new(env!("CARGO_BIN_EXE_chaos"));
        let ended =
            machine.args(["--store", &store]).arg("--out").arg(out.path()).output().expect("a program");
        assert_eq!(ended.status.code(), Some(2), "{store}: {ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains(says), "{store}: {ended:?}");
    }
}
