//! Stalls: what was not served for so long that a lease may end by it, as somebody has seen who is not idem.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::ServiceOptions;
use crate::clock::{MILLI, Micros, now};
use crate::history::{Fault, Target};
use crate::journal::{Entry, Journal};
use crate::ping::Ping;

/// How often the machine is looked at, and how often the store.
const OF_MACHINE: Duration = Duration::from_millis(20);
const OF_STORE: Duration = Duration::from_millis(80);

/// Writes down what one process sees.
#[derive(Debug, Clone)]
pub(super) struct Stalls {
    target: Target,
    long: Micros,
    journal: Arc<Journal>,
}

impl Stalls {
    pub(super) fn new(options: &ServiceOptions, journal: Arc<Journal>) -> Self {
        // The rest of the lease is left to those who try again.
        let long = options.lease_ms * MILLI / 4;
        Self { target: Target::Process(options.process), long, journal }
    }

    /// Watches whether this process is served by the machine, on a thread that does nothing else.
    pub(super) fn watch_machine(self) -> io::Result<()> {
        thread::Builder::new().name("stalls".to_owned()).spawn(move || {
            let mut before = now();
            loop {
                // Time itself is what is watched.
                thread::sleep(OF_MACHINE);
                self.saw(before);
                before = now();
            }
        })?;
        Ok(())
    }

    /// Watches whether the store answers, on a thread of its own: what keeps the service's from going on is not to be
    /// taken for the store.
    pub(super) fn watch_store(self, mut ping: Ping) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("pings".to_owned()).spawn(move || {
            loop {
                let before = now();
                while runtime.block_on(ping.ask()).is_err() {
                    thread::sleep(OF_MACHINE);
                }
                self.saw(before);
                thread::sleep(OF_STORE);
            }
        })?;
        Ok(())
    }

    fn saw(&self, begun: Micros) {
        let healed = now();
        if healed - begun > self.long {
            let (kind, target) = (Fault::STALL.to_owned(), self.target);
            self.journal.add(&Entry::Stall(Fault { kind, target, begun, healed, forgets: false }));
        }
    }
}
