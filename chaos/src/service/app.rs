//! The application: what its handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem::Idempotency;
use serde::{Deserialize, Serialize};

use super::opened::Opened;
use super::{Broken, ServiceOptions};
use crate::clock::{Micros, now};
use crate::history::{Key, Run};
use crate::journal::{Entry, Journal};

/// What a client asks for. All of it follows from key and payload, so that a retry is equal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// Under which key; the header says it, too.
    pub key: Key,
    /// Which payload.
    pub payload: String,
    /// How long the work takes before its effect, in milliseconds.
    pub before_ms: u64,
    /// How long after it.
    pub after_ms: u64,
    /// How many attempts fail before their effect.
    pub fails: u32,
}

impl Ask {
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_micros(self.key.ttl)
    }
}

/// What the system behind the service is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pay {
    /// The derived key.
    pub derived: String,
    /// For which key.
    pub key: Key,
    /// For which payload.
    pub payload: String,
}

#[derive(Debug, Clone)]
pub(super) struct App {
    pub(super) idem: Idempotency,
    pub(super) opened: Opened,
    pub(super) broken: Broken,
    journal: Arc<Journal>,
    downstream: String,
    client: reqwest::Client,
    process: usize,
    runs: Arc<AtomicU64>,
}

/// A run that failed before its effect.
#[derive(Debug)]
pub(super) struct Failed;

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl<E: std::error::Error> From<E> for Failed {
    fn from(_: E) -> Self {
        Self
    }
}

/// A success: its body names the run, or the payment, and the payload.
pub(super) type Done = (StatusCode, String);

pub(super) fn done(by: &str, ask: &Ask) -> Done {
    (StatusCode::CREATED, format!("{by} {}", ask.payload))
}

impl App {
    pub(super) fn new(options: &ServiceOptions, opened: Opened, journal: Arc<Journal>) -> Self {
        Self {
            idem: opened.idem.clone(),
            opened,
            broken: options.broken,
            journal,
            downstream: format!("http://{}/pay", options.downstream),
            client: reqwest::Client::new(),
            process: options.process,
            runs: Arc::default(),
        }
    }

    /// Begins a run, and works until its effect is due.
    pub(super) async fn begin(&self, ask: &Ask) -> Result<UnderWay<'_>, Failed> {
        let attempt = idem::current().map_or(1, |run| run.attempt());
        let begun = now();
        let id = format!("{}-{begun}-{}", std::process::id(), self.runs.fetch_add(1, Ordering::Relaxed));
        self.journal.add(&Entry::Begun(Run {
            id: id.clone(),
            key: ask.key.clone(),
            payload: ask.payload.clone(),
            process: self.process,
            pid: std::process::id(),
            attempt,
            begun,
            effect: None,
            ended: None,
        }));
        let mut run = UnderWay { id, begun, journal: &self.journal, failed: true };
        if self.broken == Broken::ShortLease {
            std::thread::sleep(Duration::from_millis(300));
        }
        tokio::time::sleep(Duration::from_millis(ask.before_ms)).await;
        if attempt <= ask.fails {
            return Err(Failed);
        }
        run.failed = false;
        Ok(run)
    }

    /// Has the system behind the service do it, and gives the name of what it did.
    pub(super) async fn pay(&self, ask: &Ask, derived: String) -> Result<String, Failed> {
        let pay = Pay { derived, key: ask.key.clone(), payload: ask.payload.clone() };
        let paid = self.client.post(&self.downstream).json(&pay).send().await?.error_for_status()?;
        Ok(paid.text().await?)
    }
}

/// A run; that it has ended is written down when it is dropped, in whatever way.
#[derive(Debug)]
pub(super) struct UnderWay<'a> {
    pub(super) id: String,
    pub(super) begun: Micros,
    journal: &'a Journal,
    /// Whether it is to be run again.
    pub(super) failed: bool,
}

impl UnderWay<'_> {
    pub(super) fn effect(&self) {
        self.journal.effect(&self.id);
    }

    pub(super) async fn rest(&self, ask: &Ask) {
        tokio::time::sleep(Duration::from_millis(ask.after_ms)).await;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.journal.ended(&self.id, self.failed);
    }
}

/// What `Json` extracts in every handler.
pub(super) type Asked = Json<Ask>;
