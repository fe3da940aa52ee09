//! HTTP policies: what an operation may choose of its key, its fingerprint and its answers, with the defaults.

mod house;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Response, StatusCode};

use crate::error::Error;
use crate::key::Key;

use super::key::{Format, IDEMPOTENCY_KEY, KeyRules, Syntax};
use super::problem::REPLAYED;
use super::replay::Replay;
use super::request::{MAX_BODY_BYTES, keep_all_headers, raise_capture_limit};
use super::response::is_replayed;
use super::status::{self, Keep};

/// The header that tells when the stored response expires, if it is asked for.
pub const EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// A predicate over a response: whether it is stored.
pub type StoreIf = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
/// What is told of each replay.
pub type OnReplay = Arc<dyn Fn(&Replay<'_>) + Send + Sync>;
/// Makes an error a response.
pub type RenderErrors = Arc<dyn Fn(&Error) -> Response<Bytes> + Send + Sync>;

/// What an operation may choose of its key, its fingerprint and its answers over HTTP.
///
/// An engine has one, which its operations start from; each of them may change its own. A value that cannot be is told
/// by [`fault`](Self::fault) when the engine is built, or when the call runs.
#[derive(Clone)]
pub struct HttpPolicy {
    pub(crate) key: KeyRules,
    pub(crate) fingerprint_headers: Arc<[HeaderName]>,
    pub(crate) mismatch_status: StatusCode,
    pub(crate) docs_link: Option<HeaderValue>,
    pub(crate) render_errors: Option<RenderErrors>,
    pub(crate) on_replay: Option<OnReplay>,
    pub(crate) store_if: Option<StoreIf>,
    pub(crate) echo_key: bool,
    pub(crate) expiry_header: Option<HeaderName>,
    pub(crate) replay_header: HeaderName,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: Option<usize>,
    fault: Option<&'static str>,
}

impl Default for HttpPolicy {
    fn default() -> Self {
        Self {
            key: KeyRules::default(),
            fingerprint_headers: Arc::default(),
            mismatch_status: StatusCode::UNPROCESSABLE_ENTITY,
            docs_link: None,
            render_errors: None,
            on_replay: None,
            store_if: None,
            echo_key: false,
            expiry_header: None,
            replay_header: REPLAYED,
            max_request_bytes: MAX_BODY_BYTES,
            max_response_bytes: None,
            fault: None,
        }
    }
}

impl HttpPolicy {
    /// Sets the header that the key is read from. Default: `Idempotency-Key`.
    #[must_use]
    pub fn key_header(mut self, name: impl AsRef<str>) -> Self {
        if let Some(name) = self.header_name(name.as_ref(), "the key's header must be a header name") {
            self.key.header = name;
        }
        self
    }

    /// Sets which forms of the key's header are accepted. Default: quoted and bare.
    #[must_use]
    pub fn syntax(mut self, syntax: Syntax) -> Self {
        self.key.syntax = syntax;
        self
    }

    /// Sets what the text of a key has to look like. Default: anything.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.key.format = format;
        self
    }

    /// Sets the longest key, in bytes once unquoted. Default, and the most that is possible: 255.
    #[must_use]
    pub fn max_len(mut self, max_len: usize) -> Self {
        if !matches!(max_len, 1..=Key::MAX_PART_LEN) {
            self.fault =
                Some("max_len must be 1 to 255: no key would be accepted, or longer ones than can be stored");
        }
        self.key.max_len = max_len;
        self
    }

    /// Sets the request headers that count, besides what always does. Default: none.
    ///
    /// A request that comes again with another value of one of them is a mismatch. Name headers that say what is asked
    /// for, such as an API's version, and none that an honest retry may change. One that a request does not send counts
    /// as if it were not named, so that adding one leaves those requests as they were.
    #[must_use]
    pub fn fingerprint_headers<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let mut headers: Vec<_> = names
            .into_iter()
            .filter_map(|name| self.header_name(name.as_ref(), "fingerprint_headers must be header names"))
            .collect();
        headers.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        headers.dedup();
        self.fingerprint_headers = headers.into();
        self
    }

    /// Sets the status for a key that was used for another request: 400 to 499. Default: 422.
    ///
    /// The code stays `idempotency_conflict`. With 409 a client needs it to tell a key that was used twice, which it must
    /// not retry, from a request that is still running.
    #[must_use]
    pub fn mismatch_status(mut self, status: u16) -> Self {
        match StatusCode::from_u16(status) {
            Ok(status) if status.is_client_error() => self.mismatch_status = status,
            _ => self.fault = Some("mismatch_status must be 400 to 499: it is a mistake of the client's"),
        }
        self
    }

    /// Names a page about idempotency keys: problems link to it, as `Link: <..>; rel="describedby"`. Default: none.
    #[must_use]
    pub fn docs_url(mut self, url: impl AsRef<str>) -> Self {
        let url = url.as_ref();
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&byte);
        let link = HeaderValue::try_from(format!("<{url}>; rel=\"describedby\""));
        match link {
            Ok(link) if !url.is_empty() && url.bytes().all(plain) => self.docs_link = Some(link),
            _ => self.fault = Some("docs_url must be a URL, with what is not ASCII escaped"),
        }
        self
    }

    /// Replaces how errors are written. Default: [problem documents](super::problem).
    ///
    /// The closure makes a response of each error; [`problem::render`](super::problem::render) is the default, for those
    /// that it does not want to write. What it leaves out is added: `Retry-After` where a retry helps, and the link to
    /// [`docs_url`](Self::docs_url). A status below 400 would tell that the work is done, and is replaced by the error's
    /// own; if the closure panics, the default is sent. Do not send an error's text (`to_string`) to strangers: it is
    /// meant for a log.
    #[must_use]
    pub fn render_errors(
        mut self,
        render: impl Fn(&Error) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.render_errors = Some(Arc::new(render));
        self
    }

    /// Tells of each stored response that is replayed, before it is sent. Default: nobody.
    ///
    /// The closure sees the operation, and status and headers of the response; it cannot change them. It is called in the
    /// request's own task and must not block. If it panics, the response is sent all the same.
    #[must_use]
    pub fn on_replay(mut self, hook: impl Fn(&Replay<'_>) + Send + Sync + 'static) -> Self {
        self.on_replay = Some(Arc::new(hook));
        self
    }

    /// Decides by a response's status and headers whether it is stored; `false` leaves the key to a retry.
    ///
    /// Replaces the [rules for statuses](super::status). A mark of the handler has precedence. If the predicate panics,
    /// the rules decide.
    #[must_use]
    pub fn store_if(mut self, stored: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.store_if = Some(Arc::new(stored));
        self
    }

    /// Sends the key's header back, as it came, with every answer to a request whose key could be read. Default: no.
    ///
    /// It is not stored, and a handler that sets the header itself has precedence. A key that is no header's has no echo.
    #[must_use]
    pub fn echo_key(mut self, echo: bool) -> Self {
        self.echo_key = echo;
        self
    }

    /// Tells in the header `Idempotency-Expires`, or in the one that [`expiry_header`](Self::expiry_header) names, until
    /// when a stored response is replayed. Default: no.
    ///
    /// Its value is a date as in `Expires`, in whole seconds, rounded down. It is computed from the time that is left by
    /// the store's clock and the time of day by this machine's. It is on what was stored just now and on replays, not on
    /// tombstones and errors.
    #[must_use]
    pub fn echo_expiry(mut self, echo: bool) -> Self {
        let named = self.expiry_header.take();
        self.expiry_header = echo.then(|| named.unwrap_or(EXPIRES));
        self
    }

    /// As [`echo_expiry`](Self::echo_expiry), in another header.
    #[must_use]
    pub fn expiry_header(mut self, name: impl AsRef<str>) -> Self {
        self.expiry_header = self.own_header(
            name.as_ref(),
            "the expiry's header must be a header name",
            "the expiry's header must be none that says something of the response already",
        );
        self
    }

    /// Sets the response header that marks a replay. Default: `Idempotent-Replayed`. One that responses have for themselves,
    /// such as `Content-Length`, is a [fault](Self::fault).
    #[must_use]
    pub fn replay_header(mut self, name: impl AsRef<str>) -> Self {
        if let Some(name) = self.own_header(
            name.as_ref(),
            "the replay header must be a header name",
            "the replay header must be none that says something of the response already",
        ) {
            self.replay_header = name;
        }
        self
    }

    /// Sets the longest body that is read and compared, in bytes; a longer one is refused (413). Default: 1 MiB.
    #[must_use]
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets the longest response that is kept, in bytes; of a longer one only a tombstone is. Default: 1 MiB.
    #[must_use]
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = Some(bytes);
        self
    }

    /// What a key has to be.
    pub fn key_rules(&self) -> &KeyRules {
        &self.key
    }

    /// The request headers that count, in the order of their names.
    pub fn headers_that_count(&self) -> &[HeaderName] {
        &self.fingerprint_headers
    }

    /// The header that marks a replay.
    pub fn marker(&self) -> &HeaderName {
        &self.replay_header
    }

    /// The longest body that is read and compared, in bytes.
    pub fn request_limit(&self) -> usize {
        self.max_request_bytes
    }

    /// The longest response that is kept, in bytes; `None` leaves that to the engine.
    pub fn response_limit(&self) -> Option<usize> {
        self.max_response_bytes
    }

    /// Whether the application has a predicate of its own.
    pub fn asks(&self) -> bool {
        self.store_if.is_some()
    }

    /// What becomes of the record after a response that its handler did not mark: what the application's predicate says,
    /// otherwise the status.
    ///
    /// If the predicate panics, the status decides: the work is done and must not be done again for that.
    pub fn keep(&self, parts: &Parts) -> Keep {
        let Some(stored) = &self.store_if else { return status::keep(parts.status) };
        match catch_unwind(AssertUnwindSafe(|| stored(parts))) {
            Ok(true) => Keep::Answer,
            Ok(false) => Keep::Nothing,
            Err(_) => {
                tracing::error!("`store_if` panicked; the status decides whether the response is stored");
                status::keep(parts.status)
            }
        }
    }

    /// Tells those who capture requests what an engine wants of them, before it is known which engine will be asked.
    pub(crate) fn announce(self: &Arc<Self>) {
        house::announce(self);
        raise_capture_limit(self.max_request_bytes);
        let is_usual = |name: &HeaderName| *name == IDEMPOTENCY_KEY;
        if !is_usual(&self.key.header) || !self.fingerprint_headers.iter().all(is_usual) {
            keep_all_headers();
        }
    }

    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// The name of a header that is added to responses, which must not be one that they have for themselves.
    fn own_header(
        &mut self,
        name: &str,
        fault: &'static str,
        fault_if_taken: &'static str,
    ) -> Option<HeaderName> {
        let name = self.header_name(name, fault)?;
        let taken = !is_replayed(&name)
            || name.as_str().starts_with("content-")
            || [header::LOCATION, header::ETAG, header::VARY, header::CACHE_CONTROL].contains(&name);
        if taken {
            self.fault = Some(fault_if_taken);
            return None;
        }
        Some(name)
    }

    fn header_name(&mut self, name: &str, fault: &'static str) -> Option<HeaderName> {
        let name = HeaderName::try_from(name).ok();
        if name.is_none() {
            self.fault = Some(fault);
        }
        name
    }
}

/// What a key has to be, which headers count, and which closures there are.
impl fmt::Debug for HttpPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPolicy")
            .field("key", &self.key)
            .field("fingerprint_headers", &self.fingerprint_headers)
            .field("mismatch_status", &self.mismatch_status)
            .field("docs_link", &self.docs_link)
            .field("render_errors", &self.render_errors.is_some())
            .field("on_replay", &self.on_replay.is_some())
            .field("store_if", &self.store_if.is_some())
            .field("echo_key", &self.echo_key)
            .field("expiry_header", &self.expiry_header)
            .field("replay_header", &self.replay_header)
            .field("max_request_bytes", &self.max_request_bytes)
            .field("max_response_bytes", &self.max_response_bytes)
            .finish_non_exhaustive()
    }
}
