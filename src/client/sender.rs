//! Sends requests until they are answered.

use std::time::SystemTime;

use bytes::Bytes;
use http::header::HeaderName;
use idem_core::http::problem::REPLAYED;

use super::error::{Error, ErrorKind};
use super::judge::{Judged, judge};
use super::request::KeyedRequest;
use super::response::Response;
use super::retries::{Driven, Retries, Tried};

/// Sends requests until they are answered.
///
/// Clones share their connections. The `reqwest::Client` is yours: TLS, proxies, redirects and pools are set there. Time-outs
/// that are set there hold for each attempt, as [`Retries::attempt_timeout`] does.
#[derive(Debug, Clone)]
pub struct Sender {
    http: reqwest::Client,
    retries: Retries,
    replay_header: HeaderName,
    max_response_bytes: usize,
}

/// Why an attempt is not the last one.
enum Why {
    Answered(Response),
    Broken(reqwest::Error),
}

impl Sender {
    /// The largest response that is read, unless it is said otherwise: 16 MiB.
    pub const MAX_RESPONSE_BYTES: usize = 16 << 20;

    /// Sends by this client, with the default [`Retries`].
    pub fn new(http: reqwest::Client) -> Self {
        Self {
            http,
            retries: Retries::default(),
            replay_header: REPLAYED,
            max_response_bytes: Self::MAX_RESPONSE_BYTES,
        }
    }

    /// Sets how often and how long a request is tried.
    #[must_use]
    pub fn retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// Sets the header by which the server marks replays with `true`. Default: `Idempotent-Replayed`.
    #[must_use]
    pub fn replay_header(self, replay_header: HeaderName) -> Self {
        Self { replay_header, ..self }
    }

    /// Sets how many bytes of body a response may have. Default: 16 MiB.
    #[must_use]
    pub fn max_response_bytes(self, max_response_bytes: usize) -> Self {
        Self { max_response_bytes, ..self }
    }

    /// Sends a request, again and again with the same key, until there is a final answer.
    ///
    /// What is final is in the table of [the module](super); a 402 or a 422 is, so look at the status. The response has been
    /// read to its end. One that has neither a length nor chunks cannot be told from one that was cut off.
    ///
    /// If this future is dropped, the request may have been carried out or not: send the same one again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unanswered`] when time is over, with the [last response](Error::last_response) if there was one;
    /// [`ErrorKind::Unsendable`] when no attempt can succeed, and [`ErrorKind::ResponseTooLarge`]. Where
    /// [`Error::may_have_happened`], only the same key may be used for another try.
    pub async fn send(&self, request: &KeyedRequest) -> Result<Response, Error> {
        match self.retries.drive(|number| self.attempt(request, number), rand::random).await {
            Driven::Final(result) => result,
            Driven::GaveUp { why, attempts } => {
                let error = Error::new(ErrorKind::Unanswered).after(attempts);
                Err(match why {
                    Some(Why::Answered(response)) => error.with_response(response),
                    Some(Why::Broken(source)) => error.with_source(source.without_url()),
                    None => error.with_detail("the last attempt took too long"),
                })
            }
        }
    }

    async fn attempt(&self, request: &KeyedRequest, number: u32) -> Tried<Result<Response, Error>, Why> {
        let mut incoming = match self.http.execute(request.to_request()).await {
            Ok(incoming) => incoming,
            Err(error) if error.is_builder() || error.is_redirect() => {
                // A redirect was an answer of somebody's, so something may have been done.
                let attempts = if error.is_redirect() { number } else { number - 1 };
                let unsendable = Error::new(ErrorKind::Unsendable).after(attempts);
                return Tried::Final(Err(unsendable.with_source(error.without_url())));
            }
            Err(error) => return Tried::Again { why: Why::Broken(error), after: None },
        };
        let mut body = Vec::new();
        loop {
            match incoming.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > self.max_response_bytes => {
                    return Tried::Final(Err(Error::new(ErrorKind::ResponseTooLarge).after(number)));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Tried::Again { why: Why::Broken(error), after: None },
            }
        }
        let mut response = http::Response::new(Bytes::from(body));
        *response.status_mut() = incoming.status();
        *response.version_mut() = incoming.version();
        *response.headers_mut() = std::mem::take(incoming.headers_mut());
        let marker = response.headers().get(&self.replay_header);
        let replayed = marker.is_some_and(|marker| marker.as_bytes().eq_ignore_ascii_case(b"true"));
        let response = Response { http: response, replayed, attempts: number };
        match judge(&response, SystemTime::now) {
            Judged::Final => Tried::Final(Ok(response)),
            Judged::Again(after) => Tried::Again { why: Why::Answered(response), after },
        }
    }
}
