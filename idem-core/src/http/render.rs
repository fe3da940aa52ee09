//! Answers of ours: what an error and a replay look like, as a policy has it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, LINK, RETRY_AFTER};
use http::{Response, StatusCode};

use crate::error::{Error, ErrorKind};

use super::policy::HttpPolicy;
use super::problem::{self, key_help, whole_seconds};
use super::replay::Replay;

impl HttpPolicy {
    /// Says of an error what the operation has to say of it: the status of a mismatch, and what its key has to be.
    ///
    /// `from_header` tells whether the operation reads its key from a header.
    pub fn explain(&self, error: Error, from_header: bool) -> Error {
        let error = match error.kind() {
            ErrorKind::Mismatch => error.with_status(self.mismatch_status.as_u16()),
            _ => error,
        };
        match key_help(&error, from_header.then_some(&self.key)) {
            Some(help) => error.with_help(help),
            None => error,
        }
    }

    /// Renders an error as a response.
    pub fn render(&self, error: &Error) -> Response<Bytes> {
        let replaced = self.render_errors.as_ref().and_then(|render| {
            let rendered = catch_unwind(AssertUnwindSafe(|| render(error)));
            if rendered.is_err() {
                tracing::error!("`render_errors` panicked; a problem document is sent instead");
            }
            rendered.ok()
        });
        let mut response = replaced.unwrap_or_else(|| problem::render(error));
        if response.status().as_u16() < 400 {
            tracing::error!(status = %response.status(), "`render_errors` made a success of an error");
            *response.status_mut() =
                StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let headers = response.headers_mut();
        if let Some(after) = error.retry_after() {
            headers.entry(RETRY_AFTER).or_insert_with(|| HeaderValue::from(whole_seconds(after)));
        }
        if let Some(link) = &self.docs_link {
            headers.append(LINK, link.clone());
        }
        response
    }

    /// Makes a replay of a stored response: marks it, says when it expires, and tells whoever wants to know.
    pub fn replay(&self, operation: &str, stored: Response<Bytes>, expires_in: Duration) -> Response<Bytes> {
        let (mut parts, body) = stored.into_parts();
        parts.headers.insert(&self.replay_header, HeaderValue::from_static("true"));
        self.tell_expiry(&mut parts.headers, expires_in);
        if let Some(hook) = &self.on_replay
            && catch_unwind(AssertUnwindSafe(|| hook(&Replay::new(operation, &parts)))).is_err()
        {
            tracing::error!(operation, "`on_replay` panicked; the stored response is sent all the same");
        }
        Response::from_parts(parts, body)
    }

    /// Says until when a response is replayed, if that is to be said.
    pub fn tell_expiry(&self, headers: &mut HeaderMap, expires_in: Duration) {
        let Some(name) = &self.expiry_header else { return };
        // Beyond the year 9999 there is no such date.
        let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        let expires = SystemTime::now().checked_add(expires_in).map_or(latest, |expires| expires.min(latest));
        if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(expires)) {
            headers.insert(name, date);
        }
    }

    /// Sends the key's header back, if that is to be done; what a handler said of it stays.
    pub fn tell_key(&self, headers: &mut HeaderMap, line: Option<&HeaderValue>) {
        if let Some(line) = line.filter(|_| self.echo_key) {
            headers.entry(&self.key.header).or_insert_with(|| line.clone());
        }
    }
}

#[cfg(test)]
mod tests;
