//! What an engine's builder sets for its HTTP operations.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::response::Parts;

use crate::config::Builder;
use crate::error::Error;

use super::key::{Format, Syntax};
use super::policy::HttpPolicy;
use super::replay::Replay;

/// What HTTP operations start from; each of them may change it.
impl<S> Builder<S> {
    /// Changes what HTTP operations start from.
    pub fn http(mut self, change: impl FnOnce(HttpPolicy) -> HttpPolicy) -> Self {
        let policy = Arc::unwrap_or_clone(self.config.http);
        self.config.http = Arc::new(change(policy));
        self
    }

    /// Sets the header that keys are read from; see [`HttpPolicy::key_header`].
    pub fn key_header(self, name: impl AsRef<str>) -> Self {
        self.http(|http| http.key_header(name))
    }

    /// Sets which forms of the key's header are accepted; see [`HttpPolicy::syntax`].
    pub fn syntax(self, syntax: Syntax) -> Self {
        self.http(|http| http.syntax(syntax))
    }

    /// Sets what the text of a key has to look like; see [`HttpPolicy::format`].
    pub fn format(self, format: Format) -> Self {
        self.http(|http| http.format(format))
    }

    /// Sets the longest key, in bytes; see [`HttpPolicy::max_len`].
    pub fn max_len(self, max_len: usize) -> Self {
        self.http(|http| http.max_len(max_len))
    }

    /// Sets the request headers that count; see [`HttpPolicy::fingerprint_headers`].
    pub fn fingerprint_headers<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.http(|http| http.fingerprint_headers(names))
    }

    /// Sets the status for a key that was used for another request; see [`HttpPolicy::mismatch_status`].
    pub fn mismatch_status(self, status: u16) -> Self {
        self.http(|http| http.mismatch_status(status))
    }

    /// Names a page about idempotency keys; see [`HttpPolicy::docs_url`].
    pub fn docs_url(self, url: impl AsRef<str>) -> Self {
        self.http(|http| http.docs_url(url))
    }

    /// Replaces how errors are written; see [`HttpPolicy::render_errors`].
    pub fn render_errors(self, render: impl Fn(&Error) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.http(|http| http.render_errors(render))
    }

    /// Tells of each stored response that is replayed; see [`HttpPolicy::on_replay`].
    pub fn on_replay(self, hook: impl Fn(&Replay<'_>) + Send + Sync + 'static) -> Self {
        self.http(|http| http.on_replay(hook))
    }

    /// Decides which responses are stored; see [`HttpPolicy::store_if`].
    pub fn store_if(self, stored: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.http(|http| http.store_if(stored))
    }

    /// Sends keys back; see [`HttpPolicy::echo_key`].
    pub fn echo_key(self, echo: bool) -> Self {
        self.http(|http| http.echo_key(echo))
    }

    /// Tells until when a stored response is replayed; see [`HttpPolicy::echo_expiry`].
    pub fn echo_expiry(self, echo: bool) -> Self {
        self.http(|http| http.echo_expiry(echo))
    }

    /// Tells it in another header; see [`HttpPolicy::expiry_header`].
    pub fn expiry_header(self, name: impl AsRef<str>) -> Self {
        self.http(|http| http.expiry_header(name))
    }

    /// Sets the response header that marks a replay; see [`HttpPolicy::replay_header`].
    pub fn replay_header(self, name: impl AsRef<str>) -> Self {
        self.http(|http| http.replay_header(name))
    }

    /// Sets the longest body that is read and compared, in bytes; see [`HttpPolicy::max_request_bytes`].
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.http(|http| http.max_request_bytes(bytes))
    }
}
