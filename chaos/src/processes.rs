//! The processes of the service: this program again, under other arguments.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::service::{Broken, ServiceOptions};

/// How long a process may take to end in good order.
const GRACE: Duration = Duration::from_secs(8);

/// Where processes listen; `None` where one is not there.
#[derive(Debug, Clone)]
pub struct Addresses {
    all: Arc<Mutex<Vec<Option<SocketAddr>>>>,
    changed: watch::Sender<()>,
}

impl Addresses {
    /// How many processes there are, those that are not there included.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Where one listens, or did last.
    pub fn of(&self, process: usize) -> Option<SocketAddr> {
        self.lock()[process]
    }

    fn set(&self, process: usize, address: Option<SocketAddr>) {
        self.lock()[process] = address;
        self.changed.send_replace(());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<SocketAddr>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them. A process ends with the thread that has started it, so that none is left behind in whatever way this one
/// ends: let it be one that lasts.
#[derive(Debug)]
pub struct Processes {
    program: PathBuf,
    options: ServiceOptions,
    children: Vec<Option<Child>>,
    addresses: Addresses,
    log: File,
}

impl Processes {
    /// Starts them. What they complain of goes to a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn start_all(
        program: PathBuf,
        options: ServiceOptions,
        count: usize,
        log: &std::path::Path,
    ) -> io::Result<Self> {
        let addresses =
            Addresses { all: Arc::new(Mutex::new(vec![None; count])), changed: watch::Sender::new(()) };
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut all = Self { program, options, children: Vec::new(), addresses, log };
        all.children.resize_with(count, || None);
        for process in 0..count {
            all.start(process);
        }
        Ok(all)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.children.len()
    }

    /// Where they are.
    pub fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    /// Waits until all can be reached.
    pub async fn wait_until_all_listen(&self) {
        let mut changed = self.addresses.changed.subscribe();
        while self.addresses.lock().iter().any(Option::is_none) {
            // Its sender is ours.
            let _ = changed.changed().await;
        }
    }

    /// Starts one that is not there.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    pub fn start(&mut self, process: usize) {
        let options = &self.options;
        let mut command = Command::new(&self.program);
        command.arg("serve").args(["--store", &options.store]).arg("--journal").arg(&options.journal);
        command.args(["--downstream", &options.downstream.to_string()]);
        command.args(["--process", &process.to_string(), "--parent", &options.parent.to_string()]);
        command.args(["--lease-ms", &options.lease_ms.to_string()]);
        command.args(["--time-out-ms", &options.time_out_ms.to_string()]);
        command.args([
            "--broken",
            match options.broken {
                Broken::Not => "not",
                Broken::WithoutIdem => "without-idem",
                Broken::ShortLease => "short-lease",
                Broken::Late => "late",
            },
        ]);
        let log = self.log.try_clone().expect("a file");
        // Of its own group: an interrupt at the terminal is for us, and we end in order.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().expect("a process of the service");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let addresses = self.addresses.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = line.strip_prefix("listening on ") {
                    addresses.set(process, address.parse().ok());
                }
            }
        });
        self.children[process] = Some(child);
    }

    /// Stops one where it is.
    pub fn pause(&self, process: usize) {
        self.signal(process, Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self, process: usize) {
        self.signal(process, Signal::CONT);
    }

    /// Kills one.
    pub async fn kill(&mut self, process: usize) {
        if let Some(mut child) = self.children[process].take() {
            // One that has ended is as dead.
            let _ = child.kill().await;
        }
        self.addresses.set(process, None);
    }

    /// Ends one in good order.
    pub async fn end(&mut self, process: usize) {
        self.signal(process, Signal::TERM);
        if let Some(child) = &mut self.children[process]
            && timeout(GRACE, child.wait()).await.is_err()
        {
            // Clients keep their connections, and the store may be away.
            let _ = child.kill().await;
        }
        self.children[process] = None;
        self.addresses.set(process, None);
    }

    /// Kills all.
    pub async fn kill_all(&mut self) {
        for process in 0..self.count() {
            self.kill(process).await;
        }
    }

    fn signal(&self, process: usize, signal: Signal) {
        let pid = self.children[process].as_ref().and_then(Child::id);
        if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid as i32)) {
            // One that has ended does not mind.
            let _ = kill_process(pid, signal);
        }
    }
}
