//! Logs: what a server says, and when it says that it is ready.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a server may take to start, on a machine that does a lot else.
const PATIENCE: Duration = Duration::from_mins(2);

/// Reads what a server writes, so that it never waits for a reader.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    ready: Receiver<()>,
}

impl Log {
    /// Starts to read; a line that contains `sign` means that the server is ready.
    pub(crate) fn read(from: impl Read + Send + 'static, sign: &'static str) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (is_ready, ready) = channel();
        let written = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                let Ok(line) = line else { return };
                if line.contains(sign) {
                    // Nobody asks any more after the first time.
                    let _ = is_ready.send(());
                }
                let mut lines = written.lock().unwrap_or_else(PoisonError::into_inner);
                // The end says why; a server that complains for ever shall not fill the memory.
                if lines.len() > 1_000 {
                    lines.drain(..500);
                }
                lines.push(line);
            }
        });
        Self { lines, ready }
    }

    /// Waits until the server is ready, or has ended: then what it said.
    pub(crate) fn wait_until_ready(&self) -> Result<(), String> {
        self.ready.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Disconnected => self.text(),
            RecvTimeoutError::Timeout => format!("not ready after {PATIENCE:?}: {}", self.text()),
        })
    }

    pub(crate) fn text(&self) -> String {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}
