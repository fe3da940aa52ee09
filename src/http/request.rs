//! The captured request, as adapters hand it on.

use std::fmt;

use bytes::Bytes;
use http_body::Body;
use idem_core::http::request::CapturedRequest;
use idem_core::run::Run;

use super::body::{Buffered, buffer, discard};

/// How far beyond the limit a body is read so that its sender gets to see the 413, in bytes.
const DISCARDED: usize = 1024 * 1024;

/// What a layer that has claimed a request puts into its extensions: whatever is further in passes it through.
///
/// It travels with the request, not with the task, so that it also reaches a handler that another task runs, and does
/// not reach the requests that a handler makes of its own.
#[derive(Debug, Clone)]
pub(crate) struct ClaimedBy(pub(crate) Run);

/// What idem needs to know of a request: method, path, query, media type, key and body. `Debug` shows method and path.
#[derive(Clone)]
pub struct Request {
    pub(super) captured: CapturedRequest,
    /// Whether the limit that holds was known when the body was read.
    pub(super) within_limit: bool,
    /// The run that a layer further out has begun for it.
    pub(super) claimed: Option<Run>,
}

impl Request {
    /// A request whose body was read before it was known whose limit holds, and the layer that has claimed it.
    pub(crate) fn new(captured: CapturedRequest, claimed: Option<ClaimedBy>) -> Self {
        Self { captured, within_limit: false, claimed: claimed.map(|claimed| claimed.0) }
    }

    /// Says that its body was read within the limit that holds.
    pub(crate) fn within_limit(mut self) -> Self {
        self.within_limit = true;
        self
    }
}

/// What is said of a body that broke off, with 400.
pub(crate) const BROKEN: &str = "The body of the request could not be read to its end.";

/// Why the body of a request was not read.
pub(crate) enum Unread<E> {
    /// It is over this limit.
    TooLarge(usize),
    /// It broke off.
    Broken(E),
}

/// Reads the body of a request within a limit: all of it, and what came after it.
///
/// `expects` says whether its sender waits for `100 Continue`, and so has not begun to write.
pub(crate) async fn read<B: Body + Unpin>(
    body: B,
    limit: usize,
    expects: bool,
) -> Result<(Bytes, Option<http::HeaderMap>), Unread<B::Error>> {
    match buffer(body, limit).await {
        Buffered::Whole { bytes, trailers } => Ok((bytes, trailers)),
        Buffered::TooLong(body) => {
            if !expects {
                discard(body, limit.saturating_add(DISCARDED)).await;
            }
            Err(Unread::TooLarge(limit))
        }
        Buffered::Broken(_, error) => Err(Unread::Broken(error)),
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.captured.fmt(f)
    }
}
