//! The history: everything that was asked, answered, done and broken, with its times.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::clock::{Micros, SECOND};

/// What a service offers: one operation for each guarantee that is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Lease mode: once, but for take-overs that a fault explains.
    Plain,
    /// Lease mode, and a system behind it that takes a derived key: once.
    Derived,
    /// Lease mode with `on_crash = reject`: at most once.
    Reject,
    /// Transaction mode: once.
    Transaction,
}

impl Operation {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Derived, Self::Reject, Self::Transaction];

    /// Its path, and its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Derived => "derived",
            Self::Reject => "reject",
            Self::Transaction => "transaction",
        }
    }
}

/// What the machine was told, as far as it decides what is right.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Terms {
    /// The lease of all operations.
    pub lease: Micros,
    /// How long a step of the store may take.
    pub time_out: Micros,
    /// How far two readings of what happened at one time may be apart.
    pub margin: Micros,
    /// How long after healing a key may go without a final answer.
    pub patience: Micros,
    /// Whether the store may forget what it has acknowledged when another server takes over.
    pub may_forget: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            lease: SECOND,
            time_out: 2 * SECOND,
            margin: SECOND / 10,
            patience: 8 * SECOND,
            may_forget: false,
        }
    }
}

/// A key of an operation. Payloads of one key are told apart by their names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Under which operation.
    pub operation: Operation,
    /// The idempotency key.
    pub name: String,
    /// How long its answers are kept.
    pub ttl: Micros,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It was answered.
    Answered {
        /// The status.
        status: u16,
        /// The code of a problem, if it was one.
        code: String,
        /// Whether it was marked as a replay.
        replayed: bool,
        /// The body, byte for byte: those of our service are text.
        body: String,
    },
    /// Nobody heard an answer: a time-out, a connection that broke, a client that went away.
    Lost(String),
}

/// The codes of 409 that come to an end by themselves.
const TRANSIENT: [&str; 2] = ["idempotency_in_flight", "idempotency_lease_lost"];

impl Fate {
    /// Whether a client that has this answer is done.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Answered { status, code, .. } => *status < 500 && !TRANSIENT.contains(&code.as_str()),
            Self::Lost(_) => false,
        }
    }
}

/// One request of one client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Under which key.
    pub key: Key,
    /// Which payload.
    pub payload: String,
    /// To which process.
    pub process: usize,
    /// When it was sent.
    pub sent: Micros,
    /// When its fate was known.
    pub ended: Micros,
    /// What became of it.
    pub fate: Fate,
    /// Whether it was sent after everything had healed, to see what became of the key.
    pub is_last: bool,
}

/// One run of a handler's body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Its name, which is in its answer.
    pub id: String,
    /// Under which key.
    pub key: Key,
    /// With which payload.
    pub payload: String,
    /// In which process.
    pub process: usize,
    /// Which incarnation of that process.
    pub pid: u32,
    /// Which attempt idem says that it is.
    pub attempt: u32,
    /// When it began.
    pub begun: Micros,
    /// When its effect happened, if it did. In transaction mode: if it was committed.
    pub effect: Option<Micros>,
    /// When it ended, if it did, and whether it failed.
    pub ended: Option<(Micros, bool)>,
}

/// One effect in the system behind `derived`, which deduplicates.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payment {
    /// The derived key.
    pub derived: String,
    /// For which key.
    pub key: Key,
    /// For which payload.
    pub payload: String,
    /// Its name, which is in the answer.
    pub id: String,
    /// When it happened.
    pub at: Micros,
}

/// What a fault is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Target {
    /// One process of the service.
    Process(usize),
    /// The store, or the way to it.
    Store,
}

/// Something that went wrong, on purpose unless it is a stall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What it is called, such as `kill`.
    pub kind: String,
    /// What it was done to.
    pub target: Target,
    /// When it began.
    pub begun: Micros,
    /// When it had healed.
    pub healed: Micros,
    /// Whether a store may forget by it what it has acknowledged.
    pub forgets: bool,
}

impl Fault {
    /// What the machine did not do on purpose: a process or a step that was not served for a long time.
    pub const STALL: &str = "stall";

    /// Whether a person would call it a fault that was injected.
    pub fn is_injected(&self) -> bool {
        self.kind != Self::STALL
    }

    /// How reports call it: the target comes first.
    pub fn name(&self) -> String {
        match self.target {
            Target::Process(_) => format!("service {}", self.kind),
            Target::Store => format!("store {}", self.kind),
        }
    }
}

/// All that happened.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct History {
    /// What is right.
    pub terms: Terms,
    /// What clients asked for.
    pub requests: Vec<Request>,
    /// What the service did.
    pub runs: Vec<Run>,
    /// What happened behind it.
    pub payments: Vec<Payment>,
    /// What was broken.
    pub faults: Vec<Fault>,
    /// When everything had healed; `None` while the machine runs.
    pub healed: Option<Micros>,
}

impl History {
    /// Writes it as one JSON document a line.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        fn lines<T: Serialize>(to: &mut impl Write, what: &str, all: &[T]) -> io::Result<()> {
            for one in all {
                writeln!(to, "{{\"{what}\":{}}}", serde_json::to_string(one)?)?;
            }
            Ok(())
        }
        writeln!(to, "{{\"terms\":{}}}", serde_json::to_string(&self.terms)?)?;
        if let Some(healed) = self.healed {
            writeln!(to, "{{\"healed\":{healed}}}")?;
        }
        lines(&mut to, "fault", &self.faults)?;
        lines(&mut to, "request", &self.requests)?;
        lines(&mut to, "run", &self.runs)?;
        lines(&mut to, "payment", &self.payments)
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is no history.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Line {
            Terms(Terms),
            Healed(Micros),
            Fault(Fault),
            Request(Request),
            Run(Run),
            Payment(Payment),
        }
        let mut history = Self::default();
        for line in from.lines() {
            match serde_json::from_str(&line?)? {
                Line::Terms(terms) => history.terms = terms,
                Line::Healed(healed) => history.healed = Some(healed),
                Line::Fault(fault) => history.faults.push(fault),
                Line::Request(request) => history.requests.push(request),
                Line::Run(run) => history.runs.push(run),
                Line::Payment(payment) => history.payments.push(payment),
            }
        }
        Ok(history)
    }
}
