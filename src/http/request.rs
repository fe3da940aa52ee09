//! The captured request, as adapters hand it on.

use std::fmt;

use idem_core::http::request::CapturedRequest;

/// What idem needs to know of a request: method, path, query, media type, key and body. `Debug` shows method and path.
#[derive(Clone)]
pub struct Request {
    pub(super) captured: CapturedRequest,
    /// Whether the limit that holds was known when the body was read.
    pub(super) within_limit: bool,
}

impl Request {
    /// A request whose body was read within the limit that holds.
    pub(crate) fn within_limit(captured: CapturedRequest) -> Self {
        Self { captured, within_limit: true }
    }

    /// A request whose body was read before it was known whose limit holds.
    pub(crate) fn unlimited(captured: CapturedRequest) -> Self {
        Self { captured, within_limit: false }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.captured.fmt(f)
    }
}
