//! Why a request has no answer.

use std::error::Error as StdError;
use std::fmt;

use super::response::Response;

type Source = Box<dyn StdError + Send + Sync>;

/// Why a request has no answer.
///
/// Neither the key nor the URL nor anything of request and response appears in it.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    attempts: u32,
    detail: Option<&'static str>,
    response: Option<Response>,
    source: Option<Source>,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is none. Nothing was sent.
    KeyInvalid,
    /// The request has a key header already. Nothing was sent.
    HasKey,
    /// The body is a stream, which cannot be sent twice. Nothing was sent.
    Stream,
    /// The request cannot be sent, or was redirected too often; another attempt would end the same.
    Unsendable,
    /// There was no final answer in time. The request may have been carried out.
    Unanswered,
    /// The request was answered, but its answer is larger than may be read.
    ResponseTooLarge,
}

impl Error {
    pub(super) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Repr { kind, attempts: 0, detail: None, response: None, source: None }))
    }

    pub(super) fn with_detail(mut self, detail: &'static str) -> Self {
        self.0.detail = Some(detail);
        self
    }

    pub(super) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(super) fn with_response(mut self, response: Response) -> Self {
        self.0.response = Some(response);
        self
    }

    pub(super) fn after(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// How many attempts were made; 0 if nothing was sent.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether the request may have been carried out although there is no answer.
    ///
    /// Then send it again later, with the same key, until it is answered; never with another one.
    pub fn may_have_happened(&self) -> bool {
        self.0.attempts > 0
    }

    /// What the last attempt was answered, if it was: a status that says "try again".
    pub fn last_response(&self) -> Option<&Response> {
        self.0.response.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = self.0.attempts;
        match self.0.kind {
            ErrorKind::KeyInvalid => f.write_str("this cannot be an idempotency key")?,
            ErrorKind::HasKey => f.write_str(
                "the request has a header with an idempotency key already; leave that out and give its value to \
                 `KeyedRequest::with_key`",
            )?,
            ErrorKind::Stream => f.write_str(
                "the body of the request is a stream, which cannot be sent again when an attempt fails; read it into \
                 bytes first",
            )?,
            ErrorKind::Unsendable => f.write_str("the request cannot be sent")?,
            ErrorKind::Unanswered => {
                let plural = if attempts == 1 { "" } else { "s" };
                write!(f, "there was no final answer in time, after {attempts} attempt{plural}")?;
                if let Some(response) = &self.0.response {
                    write!(f, " (the last one was answered {})", response.status().as_u16())?;
                }
                f.write_str("; the request may have been carried out: send it again later, with the same key")?;
            }
            ErrorKind::ResponseTooLarge => f.write_str(
                "the request was answered, but the answer is larger than `Sender::max_response_bytes` allows",
            )?,
        }
        match self.0.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("attempts", &self.0.attempts)
            .field("detail", &self.0.detail)
            .field("response", &self.0.response)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
