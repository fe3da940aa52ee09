//! Keeps statements with values in their text out of the log.

use std::future::Future;

use tracing::dispatcher::has_been_set;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

/// What a statement's text shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// What is stored of a claim: digests, and the beginning of the key.
    Claim,
    /// An answer, perhaps.
    Answer,
}

/// Executes statements of which a pool that was handed over would log the text.
///
/// The first subscriber of a process, even one for a moment, ends what `tracing` tells the `log` crate where there is none.
/// An application that has only `log` is to keep its log, unless that would show an answer.
pub(crate) async fn unlogged<F: Future>(shows: Shows, statements: F) -> F::Output {
    if shows == Shows::Answer || has_been_set() {
        statements.with_subscriber(NoSubscriber::default()).await
    } else {
        statements.await
    }
}
