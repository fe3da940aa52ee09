//! Processes: a server and what it forked, which get their signals together.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// An installed program; those of servers are where not every user's path leads.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/libexec".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Sends a signal to processes; those that are gone do not mind.
pub(crate) fn signal(name: &str, pids: &[u32]) {
    let mut kill = Command::new("sh");
    kill.args(["-c", r#"signal=$1; shift; for pid; do kill -s "$signal" "$pid" 2>/dev/null; done; true"#]);
    kill.args(["sh", name]).args(pids.iter().map(u32::to_string));
    assert!(kill.status().expect("a shell").success());
}

/// A process and its children, which do not fork.
pub(crate) fn family(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("a process file system");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children = pids.filter(|pid| status(*pid, "PPid:").is_some_and(|of| of == parent.to_string()));
    let mut family = vec![parent];
    family.extend(children);
    family
}

/// Waits until processes are gone, or have only to be buried by their parent.
pub(crate) fn wait_until_gone(pids: &[u32]) {
    let started = Instant::now();
    while pids.iter().any(|pid| status(*pid, "State:").is_some_and(|state| !state.starts_with('Z'))) {
        assert!(started.elapsed() < Duration::from_secs(30), "killed processes do not end: {pids:?}");
        // Processes that are not our children tell nobody of their end.
        thread::sleep(Duration::from_millis(1));
    }
}

fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)).map(|value| value.trim().to_owned())
}
