//! Responses that have been read to their end.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// What a request was answered, whole.
///
/// Its `Debug` shows the length of the body, neither the body nor headers.
#[derive(Clone)]
pub struct Response {
    pub(super) http: http::Response<Bytes>,
    pub(super) replayed: bool,
    pub(super) attempts: u32,
}

impl Response {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.http.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.http.headers()
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        self.http.body()
    }

    /// Whether the server says that it answered this request before, by `Idempotent-Replayed: true`.
    ///
    /// Then the work was done by an earlier attempt, maybe of an earlier process. It was not done now, and is not to be
    /// counted twice.
    pub fn is_replayed(&self) -> bool {
        self.replayed
    }

    /// How many attempts were made by this [`Sender::send`](super::Sender::send), this one included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The same as a response of the `http` crate.
    pub fn into_http(self) -> http::Response<Bytes> {
        self.http
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status())
            .field("replayed", &self.replayed)
            .field("attempts", &self.attempts)
            .field("body_len", &self.body().len())
            .finish_non_exhaustive()
    }
}
