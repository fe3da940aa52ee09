//! Errors: why a call was not answered by its work.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::answer::Undecodable;
use crate::key::KeyHint;
use crate::operation::Operation;
use crate::record::{RecordId, State};
use crate::store::{StoreError, StoreErrorKind};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a call was not answered by its work.
///
/// Programs ask [`kind`](Error::kind) or [`is_retryable`](Error::is_retryable); people read the chain of sources. Full
/// keys and payloads never appear.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    status: Option<u16>,
    operation: Option<Operation>,
    hint: Option<KeyHint>,
    state: Option<State>,
    lease_left: Option<Duration>,
    retry_after: Option<Duration>,
    tombstone: Option<Tombstone>,
    detail: Option<Cow<'static, str>>,
    help: Option<Cow<'static, str>>,
    source: Option<Source>,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call needs a key and has none.
    KeyRequired,
    /// The key is not what a key may be.
    KeyInvalid,
    /// The scope is absent or not what a scope may be.
    ScopeInvalid,
    /// The key is bound to another payload.
    Mismatch,
    /// Another call with this key is running.
    InFlight,
    /// The key was used, and its answer has expired.
    KeyExpired,
    /// Whether the work was done is not known; an operator must settle it.
    OutcomeUnknown,
    /// The work is done, but its answer was not kept.
    AnswerUnavailable,
    /// The store cannot say whether the key is free.
    StoreUnavailable,
    /// Too much is running, or the store has no room for new keys.
    Overloaded,
    /// The scope has used as many new keys as it may for now.
    TooManyKeys,
    /// The stored answer cannot be read by this release.
    Undecodable,
    /// The lease was lost while the work ran, and the record holds no answer.
    LeaseLost,
    /// The work ran longer than it may and was aborted.
    Aborted,
    /// The database refused to commit the work's transaction; nothing of it is left.
    CommitRefused,
    /// What was asked for cannot be fingerprinted.
    FingerprintFailed,
    /// The request is larger than what is compared.
    RequestTooLarge,
    /// idem is used in a way that cannot work; the message says how to mend it.
    Misuse,
}

impl ErrorKind {
    /// The machine-readable code of the problem.
    pub const fn code(self) -> &'static str {
        match self {
            Self::KeyRequired => "idempotency_key_required",
            Self::KeyInvalid => "idempotency_key_invalid",
            Self::ScopeInvalid => "idempotency_scope_invalid",
            Self::Mismatch => "idempotency_conflict",
            Self::InFlight => "idempotency_in_flight",
            Self::KeyExpired => "idempotency_key_expired",
            Self::OutcomeUnknown => "idempotency_outcome_unknown",
            Self::AnswerUnavailable => "idempotency_response_unavailable",
            Self::StoreUnavailable => "idempotency_store_unavailable",
            Self::Overloaded => "idempotency_overloaded",
            Self::TooManyKeys => "idempotency_too_many_keys",
            Self::Undecodable => "idempotency_undecodable",
            Self::LeaseLost => "idempotency_lease_lost",
            Self::Aborted => "idempotency_aborted",
            Self::CommitRefused => "idempotency_commit_refused",
            Self::FingerprintFailed => "idempotency_fingerprint_failed",
            Self::RequestTooLarge => "idempotency_request_too_large",
            Self::Misuse => "idempotency_misuse",
        }
    }

    /// A short title for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyRequired => "Idempotency-Key is missing",
            Self::KeyInvalid => "Idempotency-Key is invalid",
            Self::ScopeInvalid => "The scope of the Idempotency-Key is invalid",
            Self::Mismatch => "Idempotency-Key is already used",
            Self::InFlight => "A request is outstanding for this Idempotency-Key",
            Self::KeyExpired => "Idempotency-Key has expired",
            Self::OutcomeUnknown => "The outcome of this Idempotency-Key is unknown",
            Self::AnswerUnavailable => "The response of this Idempotency-Key was not kept",
            Self::StoreUnavailable => "The idempotency store is unavailable",
            Self::Overloaded => "Too many requests are outstanding",
            Self::TooManyKeys => "Too many new Idempotency-Keys",
            Self::Undecodable => "The stored response cannot be read",
            Self::LeaseLost => "The claim on this Idempotency-Key was lost",
            Self::Aborted => "The request ran too long",
            Self::CommitRefused => "The request's transaction could not be committed",
            Self::FingerprintFailed => "The request cannot be fingerprinted",
            Self::RequestTooLarge => "The request is too large",
            Self::Misuse => "Idempotency is misconfigured",
        }
    }

    /// The HTTP status that says it.
    pub const fn status(self) -> u16 {
        match self {
            Self::KeyRequired | Self::KeyInvalid => 400,
            Self::InFlight | Self::KeyExpired | Self::OutcomeUnknown | Self::LeaseLost => 409,
            Self::AnswerUnavailable => 410,
            Self::RequestTooLarge => 413,
            Self::Mismatch => 422,
            Self::TooManyKeys => 429,
            Self::ScopeInvalid
            | Self::Undecodable
            | Self::CommitRefused
            | Self::FingerprintFailed
            | Self::Misuse => 500,
            Self::StoreUnavailable | Self::Overloaded | Self::Aborted => 503,
        }
    }

    /// Whether the same call, with the same key, may succeed later without anybody's help.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::InFlight
                | Self::StoreUnavailable
                | Self::Overloaded
                | Self::TooManyKeys
                | Self::LeaseLost
                | Self::Aborted
                | Self::CommitRefused
        )
    }
}

/// What is known of an answer that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tombstone {
    /// The HTTP status that was answered.
    pub status: Option<u16>,
    /// The `Location` that was answered, as bytes.
    pub location: Option<Vec<u8>>,
}

/// Why a stored answer could not be replayed.
#[derive(Debug, Clone)]
pub enum ReplayError {
    /// It cannot be read.
    Undecodable(Undecodable),
    /// It was not kept.
    Tombstone(Tombstone),
}

impl From<Undecodable> for ReplayError {
    fn from(error: Undecodable) -> Self {
        Self::Undecodable(error)
    }
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind) -> Self {
        let retry_after = kind.is_retryable().then_some(Duration::from_secs(1));
        Self(Box::new(Repr {
            kind,
            status: None,
            operation: None,
            hint: None,
            state: None,
            lease_left: None,
            retry_after,
            tombstone: None,
            detail: None,
            help: None,
            source: None,
        }))
    }

    /// Says more, for people.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Says what a caller can do; replaces what a problem document would say.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Says it by another HTTP status than the kind's.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Names the record.
    #[must_use]
    pub(crate) fn at(mut self, id: &RecordId) -> Self {
        self.0.operation = Some(id.operation().clone());
        self.0.hint = Some(*id.hint());
        self
    }

    pub(crate) fn at_operation(mut self, operation: &Operation) -> Self {
        self.0.operation = Some(operation.clone());
        self
    }

    pub(crate) fn in_state(mut self, state: State, lease_left: Option<Duration>) -> Self {
        self.0.state = Some(state);
        self.0.lease_left = lease_left;
        self
    }

    /// Says when to try again.
    pub(crate) fn retry_in(mut self, left: Duration) -> Self {
        self.0.retry_after = Some(left);
        self
    }

    pub(crate) fn from_store(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Full => ErrorKind::Overloaded,
            StoreErrorKind::Corrupt => ErrorKind::Undecodable,
            StoreErrorKind::CommitRefused => ErrorKind::CommitRefused,
            _ => ErrorKind::StoreUnavailable,
        };
        Self::new(kind).with_source(error)
    }

    pub(crate) fn from_replay(error: ReplayError) -> Self {
        match error {
            ReplayError::Undecodable(error) => Self::new(ErrorKind::Undecodable).with_source(error),
            ReplayError::Tombstone(tombstone) => {
                let mut error = Self::new(ErrorKind::AnswerUnavailable);
                error.0.tombstone = Some(tombstone);
                error
            }
        }
    }

    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The machine-readable code; see [`ErrorKind::code`].
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// A short title for people; see [`ErrorKind::title`].
    pub fn title(&self) -> &'static str {
        self.0.kind.title()
    }

    /// The HTTP status that says it: the kind's, unless the operation has [another](Self::with_status).
    pub fn status(&self) -> u16 {
        self.0.status.unwrap_or_else(|| self.0.kind.status())
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }

    /// When to try again; `None` if that will not help.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The operation that was called.
    pub fn operation(&self) -> Option<&str> {
        self.0.operation.as_ref().map(Operation::as_str)
    }

    /// The first characters of the key.
    pub fn key_hint(&self) -> Option<&str> {
        self.0.hint.as_ref().map(KeyHint::as_str)
    }

    /// Where the record stood.
    pub fn state(&self) -> Option<State> {
        self.0.state
    }

    /// How long the holder's lease still lasted.
    pub fn lease_left(&self) -> Option<Duration> {
        self.0.lease_left
    }

    /// What is known of the answer, if it was not kept.
    pub fn tombstone(&self) -> Option<&Tombstone> {
        self.0.tombstone.as_ref()
    }

    /// What a caller can do, where that is not the usual.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// What is wrong and what to do, as far as a caller may know it.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { kind, operation, hint, state, lease_left, detail, .. } = &*self.0;
        if let Some(operation) = operation {
            write!(f, "`{operation}")?;
            if let Some(hint) = hint {
                write!(f, "/{hint}…")?;
            }
            f.write_str("`: ")?;
        }
        f.write_str(match kind {
            ErrorKind::KeyRequired => "the idempotency key is missing",
            ErrorKind::KeyInvalid => "the idempotency key is invalid",
            ErrorKind::ScopeInvalid => "the scope is invalid",
            ErrorKind::Mismatch => "the idempotency key is already used for another payload",
            ErrorKind::InFlight => "another call with this idempotency key is running",
            ErrorKind::KeyExpired => "the answer under this idempotency key has expired",
            ErrorKind::OutcomeUnknown => "whether the work was done is not known",
            ErrorKind::AnswerUnavailable => "the work is done, but its answer was not kept",
            ErrorKind::StoreUnavailable => "the store cannot say whether the key is free",
            ErrorKind::Overloaded => "there is no room for a new idempotency key",
            ErrorKind::TooManyKeys => "the scope has used as many new idempotency keys as it may for now",
            ErrorKind::Undecodable => "the stored answer cannot be read",
            ErrorKind::LeaseLost => "the lease was lost while the work ran",
            ErrorKind::Aborted => "the work ran too long and was aborted",
            ErrorKind::CommitRefused => "the database refused to commit the work's transaction",
            ErrorKind::FingerprintFailed => "the request cannot be fingerprinted",
            ErrorKind::RequestTooLarge => "the request is too large to be compared",
            ErrorKind::Misuse => "idem is misused",
        })?;
        if let Some(detail) = detail {
            write!(f, ": {detail}")?;
        }
        match (state, lease_left) {
            (Some(state), Some(left)) => write!(f, " ({state}, lease ends in {left:.1?})"),
            (Some(state), None) => write!(f, " ({state})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &format_args!("{self}"))
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Key, Scope};

    #[test]
    fn an_error_names_the_record_by_its_hint_and_nothing_more() {
        let key = Key::new("order-1234567890-secret").unwrap();
        let id = RecordId::new(&Scope::SHARED, &"charge".into(), &key);
        let error = Error::new(ErrorKind::InFlight)
            .at(&id)
            .in_state(State::InFlight, Some(Duration::from_millis(12_300)));
        assert_eq!(
            error.to_string(),
            "`charge/order-12…`: another call with this idempotency key is running \
             (in_flight, lease ends in 12.3s)"
        );
        assert!(!format!("{error:?}").contains("secret"));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_mismatch_is_not_retryable_and_says_when_to_retry_to_nobody() {
        let error = Error::new(ErrorKind::Mismatch);
        assert!(!error.is_retryable());
        assert_eq!(error.retry_after(), None);
        assert_eq!(error.status(), 422);
    }
}
