//! What operators see: one span a call, and counters by outcome.
//!
//! - span `idempotent` (level info): `operation`, `key_hint`, `outcome`.
//! - counter `idem_calls_total` (feature `metrics`): `operation`, `outcome`.
//! - counter `idem_troubles_total` (feature `metrics`): `operation`, `trouble`; each is an event in the log, too.
//!
//! Outcomes: `fresh`, `replayed`, `unprotected`, or the [code](crate::error::ErrorKind::code) of the error. Troubles:
//! `renewal_failed`, `lease_lost`, `answer_delayed`, `answer_fenced`, `answer_never_stored`, `release_delayed`. Full
//! keys and payloads appear nowhere.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Span};

use crate::error::Error;
use crate::flight::Flight;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::record::RecordId;
use crate::store::StoreError;

/// What can go wrong while nobody waits for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    RenewalFailed,
    LeaseLost,
    AnswerDelayed,
    AnswerFenced,
    AnswerNeverStored,
    ReleaseDelayed,
}

impl Trouble {
    const fn name(self) -> &'static str {
        match self {
            Self::RenewalFailed => "renewal_failed",
            Self::LeaseLost => "lease_lost",
            Self::AnswerDelayed => "answer_delayed",
            Self::AnswerFenced => "answer_fenced",
            Self::AnswerNeverStored => "answer_never_stored",
            Self::ReleaseDelayed => "release_delayed",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::RenewalFailed => "the lease could not be renewed; trying on",
            Self::LeaseLost => "the lease was lost, or may be over; the run is aborted",
            Self::AnswerDelayed => "the answer could not be stored yet; trying on",
            Self::AnswerFenced => "the answer came too late: the record was taken over",
            Self::AnswerNeverStored => "the answer was never stored; a retry may run again",
            Self::ReleaseDelayed => "the claim could not be released yet; trying on",
        }
    }

    /// Logs and counts it.
    pub(crate) fn tell(self, record: &RecordId, cause: Option<&StoreError>) {
        let (trouble, meaning) = (self.name(), self.meaning());
        let cause = cause.map(tracing::field::display);
        if matches!(self, Self::AnswerNeverStored) {
            tracing::error!(%record, trouble, cause, "{meaning}");
        } else {
            tracing::warn!(%record, trouble, cause, "{meaning}");
        }
        #[cfg(feature = "metrics")]
        metrics::counter!(
            "idem_troubles_total",
            "operation" => record.operation().as_str().to_owned(),
            "trouble" => trouble
        )
        .increment(1);
    }
}

/// Watches one call.
pub(crate) struct Watch {
    span: Span,
    #[cfg(feature = "metrics")]
    operation: Operation,
}

impl Watch {
    pub(crate) fn new(operation: &Operation) -> Self {
        let span = tracing::info_span!(
            "idempotent",
            %operation,
            key_hint = tracing::field::Empty,
            outcome = tracing::field::Empty
        );
        Self {
            span,
            #[cfg(feature = "metrics")]
            operation: operation.clone(),
        }
    }

    /// Notes which record it is about.
    pub(crate) fn record(&self, flight: &Flight) {
        self.span.record("key_hint", flight.id().hint().as_str());
    }

    /// Runs the call within the span, and notes its outcome.
    pub(crate) fn over<F>(&self, call: F) -> Watched<'_, F> {
        Watched { watch: self, call: call.instrument(self.span.clone()) }
    }

    fn ended<R>(&self, result: &Result<Outcome<R>, Error>) {
        let outcome = match result {
            Ok(Outcome::Fresh(_)) => "fresh",
            Ok(Outcome::Replayed(_)) => "replayed",
            Ok(Outcome::Unprotected(_)) => "unprotected",
            Err(error) => error.code(),
        };
        self.span.record("outcome", outcome);
        #[cfg(feature = "metrics")]
        metrics::counter!(
            "idem_calls_total",
            "operation" => self.operation.as_str().to_owned(),
            "outcome" => outcome
        )
        .increment(1);
    }
}

pin_project! {
    /// A watched call. No async function, since that would move the call, which is large, once more.
    pub(crate) struct Watched<'a, F> {
        watch: &'a Watch,
        #[pin]
        call: Instrumented<F>,
    }
}

impl<R, F> Future for Watched<'_, F>
where
    F: Future<Output = Result<Outcome<R>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.call.poll(cx));
        this.watch.ended(&result);
        Poll::Ready(result)
    }
}
