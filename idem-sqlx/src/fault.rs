//! Faults: why a statement was not executed, in terms that all database servers share.

use std::fmt;

use idem_core::store::{StoreError, StoreErrorKind};

use crate::transaction::Failed;

/// Why a statement was not executed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It met another transaction and was undone: try again.
    Undone(StoreError),
    /// It waited for another transaction as long as it may, and was undone.
    Locked(StoreError),
    /// It would have inserted what is there.
    Taken(StoreError),
    /// The connection broke off, or is of no use any more: the step may have been taken, another connection may do.
    Broken(StoreError),
    /// There is no connection to be had.
    Unreachable(StoreError),
    /// The statement was refused, the connection is fine.
    Refused(StoreError),
}

impl Fault {
    /// The same fault, of a connection that was to be made.
    pub(crate) fn of_connecting(self) -> Self {
        Self::Unreachable(self.into_error())
    }

    /// The error for a caller who cannot try again.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Undone(error)
            | Self::Locked(error)
            | Self::Taken(error)
            | Self::Broken(error)
            | Self::Unreachable(error)
            | Self::Refused(error) => error,
        }
    }

    /// The same for another caller who was in it.
    pub(crate) fn again(&self) -> Self {
        let told = |error: &StoreError| match std::error::Error::source(error) {
            Some(source) => StoreError::with_source(error.kind(), Told(source.to_string())),
            None => StoreError::new(error.kind()),
        };
        match self {
            Self::Undone(error) => Self::Undone(told(error)),
            Self::Locked(error) => Self::Locked(told(error)),
            Self::Taken(error) => Self::Taken(told(error)),
            Self::Broken(error) => Self::Broken(told(error)),
            Self::Unreachable(error) => Self::Unreachable(told(error)),
            Self::Refused(error) => Self::Refused(told(error)),
        }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Undone(error) => Self::Undone(error),
            Fault::Broken(error) => Self::Broken(error),
            fault => Self::Refused(fault.into_error()),
        }
    }
}

/// It is not set up; `reason` says what to do.
pub(crate) fn misconfigured(reason: impl Into<String>) -> StoreError {
    StoreError::with_source(StoreErrorKind::Misconfigured, Told(reason.into()))
}

/// It cannot be used now.
pub(crate) fn unavailable(reason: &'static str) -> StoreError {
    StoreError::with_source(StoreErrorKind::Unavailable, reason)
}

/// What was told, which names tables and columns but no values.
#[derive(Debug)]
pub(crate) struct Told(pub(crate) String);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Told {}
