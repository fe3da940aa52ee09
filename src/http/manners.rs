//! Manners: how what came of a call is told.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use idem_core::error::{Error, ErrorKind, ReplayError};
use idem_core::http::policy::HttpPolicy;
use idem_core::http::response::decode;
use idem_core::operation::Operation;
use idem_core::outcome::{Outcome, Stored};

use super::refused::Refused;
use super::reply::Reply;

/// How what came of a call is told.
#[derive(Clone)]
pub(super) struct Manners {
    http: Arc<HttpPolicy>,
    /// Whether the key is read from a header.
    from_header: bool,
    /// The key's header as it came, if there is a key in it.
    key_line: Option<HeaderValue>,
    operation: Operation,
}

impl Manners {
    pub(super) fn new(
        http: Arc<HttpPolicy>,
        from_header: bool,
        key_line: Option<&HeaderValue>,
        operation: &Operation,
    ) -> Self {
        Self { http, from_header, key_line: key_line.cloned(), operation: operation.clone() }
    }

    pub(super) fn http(&self) -> &HttpPolicy {
        &self.http
    }

    /// The header that marks a replay.
    pub(super) fn marker(&self) -> &HeaderName {
        self.http.marker()
    }

    /// Says of a response of the handler's what is to be said of it, but is not stored.
    pub(super) fn greet(&self, headers: &mut HeaderMap) {
        self.http.tell_key(headers, self.key_line.as_ref());
    }

    /// Says how long a response is kept that was stored just now.
    pub(super) fn tell_expiry(&self, headers: &mut HeaderMap, ttl: Duration) {
        self.http.tell_expiry(headers, ttl);
    }

    /// Makes a reply of a stored answer.
    pub(super) fn replay<R: Reply>(&self) -> impl FnOnce(&Stored) -> Result<R::Sent, ReplayError> + use<R> {
        let this = self.clone();
        move |stored| {
            let response = decode(stored.answer())?;
            let mut response = this.http.replay(this.operation.as_str(), response, stored.expires_in());
            this.greet(response.headers_mut());
            Ok(R::of_bytes(response))
        }
    }

    pub(super) fn finish<R: Reply>(self, outcome: Result<Outcome<R::Sent>, Error>) -> R::Sent {
        match outcome {
            Ok(outcome) => outcome.into_inner(),
            Err(error) => self.refuse::<R>(error),
        }
    }

    /// Makes a reply of an error.
    pub(super) fn refuse<R: Reply>(self, error: Error) -> R::Sent {
        if is_our_fault(error.kind()) {
            tracing::error!(%error, "the request cannot be answered");
        }
        let error = self.http.explain(error, self.from_header);
        let mut response = Refused::render(&self.http, error);
        self.greet(response.headers_mut());
        R::of_bytes(response)
    }
}

/// What a caller can do nothing about; the problem document does not explain it, so the log must.
fn is_our_fault(kind: ErrorKind) -> bool {
    kind.status() == 500
}
