//! A running service: a child process.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::home::Home;
use crate::http::Caller;

/// Long enough for a busy machine; nothing is expected to take so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running service; killed when it is dropped.
pub struct Service {
    child: Child,
    log: PathBuf,
    /// `127.0.0.1:PORT`
    pub address: String,
}

impl Service {
    /// Starts a service and waits until it listens.
    pub async fn start(home: &Home, options: &[&str]) -> Self {
        let log = home.log();
        let mut child = Command::new(env!("CARGO_BIN_EXE_payments"))
            .args(["--listen", "127.0.0.1:0", "--store", &home.store])
            .args(options)
            .envs(home.authority.as_ref().map(|authority| ("SSL_CERT_FILE", authority)))
            .env("RUST_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap_or_default();
        let Some(address) = first.strip_prefix("listening on http://") else {
            panic!("said `{first}` and logged {}", std::fs::read_to_string(&log).unwrap());
        };
        Self { address: address.to_owned(), child, log }
    }

    /// Somebody with an account and perhaps a token: `alice` or `alice.1`.
    pub fn caller(&self, bearer: &str) -> Caller {
        Caller::new(&self.address, bearer)
    }

    /// Ends it in the middle of whatever it does.
    pub async fn kill_9(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap()
    }

    /// Stops it, as a paused virtual machine is stopped: all its clocks go on without it.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().expect("it has not been waited for")).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let end = log.lines().count().saturating_sub(30);
            let last: Vec<_> = log.lines().skip(end).collect();
            eprintln!("--- last lines of the service at {} ---\n{}", self.address, last.join("\n"));
        }
    }
}
