//! Test processes that are killed, and the servers that they leave behind, or not.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that tells an ignored test that it is the process to be killed, and what it is to start.
const VARIABLE: &str = "IDEM_TEST_KILLED";

/// What the process to be killed is to start; `None` if nobody wants to kill this one.
pub(crate) fn what_to_start() -> Option<String> {
    env::var(VARIABLE).ok()
}

/// Says which ports servers listen on, and waits for the end.
pub(crate) fn wait_with(ports: &[u16]) {
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    println!("@{}", ports.join(" "));
    std::thread::sleep(Duration::from_hours(1));
}

/// Runs an ignored test of this program in a process of its own, kills that, and waits until its servers are gone.
pub(crate) fn leaves_no_server_behind(test: &str, what: &str) {
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(VARIABLE, what)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let ports = lines.find_map(|line| line.unwrap().split_once('@').map(|(_, ports)| ports.to_owned()));
    let ports: Vec<u16> = ports.unwrap().split(' ').map(|port| port.parse().unwrap()).collect();
    let connects = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
    assert!(ports.iter().all(connects), "{what}");
    process.kill().unwrap();
    process.wait().unwrap();
    let killed = Instant::now();
    while ports.iter().any(connects) {
        assert!(killed.elapsed() < Duration::from_secs(30), "a server is still there: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
