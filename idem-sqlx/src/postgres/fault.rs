//! Faults: what PostgreSQL's error codes mean to the store.

use idem_core::store::{StoreError, StoreErrorKind};

use crate::tls;

/// What to do where prepared statements meet.
const NOT_PREPARED: &str =
    "behind a transaction-pooling proxy that does not keep prepared statements, use `prepared(false)`";

/// Why a statement was not executed.
#[derive(Debug)]
pub(super) enum Fault {
    /// It met another transaction and was undone: try again.
    Undone(StoreError),
    /// It waited for another transaction longer than it may.
    Blocked(StoreError),
    /// The connection broke off, or is of no use any more: the step may have been taken, another connection may do.
    Broken(StoreError),
    /// There is no connection to be had.
    Unreachable(StoreError),
    /// The statement was refused, the connection is fine.
    Refused(StoreError),
}

impl Fault {
    /// Names the fault of an error that sqlx returned for a statement.
    pub(super) fn of(error: sqlx::Error) -> Self {
        use StoreErrorKind::{CommitRefused, Corrupt, Full, Misconfigured, TimedOut, Unavailable};
        let sqlx::Error::Database(database) = &error else {
            return match error {
                sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::Decode(_)
                | sqlx::Error::ColumnNotFound(_) => Self::Refused(StoreError::with_source(Corrupt, error)),
                _ => Self::unreachable(error),
            };
        };
        let code = database.code().unwrap_or_default().into_owned();
        // Detail and hint may show a row's values; the message does not.
        let told = Told(format!("{} (SQLSTATE {code})", database.message()));
        let with = |kind, told: Told| StoreError::with_source(kind, told);
        let advised = |advice: &str| with(Misconfigured, Told(format!("{advice}: {told}")));
        match code.as_bytes() {
            // A serialization failure, a deadlock.
            b"40001" | b"40P01" => Self::Undone(with(Unavailable, told)),
            // A statement or lock time-out of the role or the database.
            b"57014" => Self::Refused(with(TimedOut, told)),
            b"55P03" => Self::Blocked(with(TimedOut, told)),
            b"08P01" if database.message().contains("startup parameter") => Self::Broken(advised(
                "behind a proxy, leave `options` out of the URL, or add to the proxy's `ignore_startup_parameters`",
            )),
            // Somebody else's prepared statement has the name of ours, so the next might be taken for ours: no second try.
            b"42P05" => Self::Refused(advised(NOT_PREPARED)),
            // A prepared statement that this connection's server does not have, or of which it expects other values.
            b"26000" | b"08P01" => Self::Broken(advised(NOT_PREPARED)),
            // PostgreSQL takes nothing more in a transaction that has met an error.
            b"25P02" => Self::Refused(with(
                CommitRefused,
                Told(format!("a statement failed in this transaction, and the work went on: {told}")),
            )),
            // Its plan is from before an upgrade of the table.
            b"0A000" => Self::Broken(with(Misconfigured, told)),
            // This server has become a standby: another one may take writes.
            b"25006" => Self::Broken(with(Unavailable, told)),
            b"42P01" | b"42703" | b"3F000" => Self::Refused(advised("run `migrate`")),
            b"42501" | b"3D000" => Self::Refused(with(Misconfigured, told)),
            b"53100" | b"54000" => Self::Refused(with(Full, told)),
            b"XX001" | b"XX002" | [b'2', b'2' | b'3', ..] => Self::Refused(with(Corrupt, told)),
            [b'2', b'8', ..] => Self::Broken(with(Misconfigured, told)),
            [b'4', b'2', ..] => Self::Refused(with(Misconfigured, told)),
            _ => Self::Broken(with(Unavailable, told)),
        }
    }

    /// Names the fault of an error that sqlx returned for a connection.
    pub(super) fn of_connecting(error: sqlx::Error) -> Self {
        match Self::of(error) {
            Self::Undone(error) | Self::Blocked(error) | Self::Broken(error) | Self::Refused(error) => {
                Self::Unreachable(error)
            }
            fault @ Self::Unreachable(_) => fault,
        }
    }

    fn unreachable(error: sqlx::Error) -> Self {
        if let Some(reason) = tls::refused(&error) {
            return Self::Broken(misconfigured(reason));
        }
        let kind = match error {
            sqlx::Error::Configuration(_) => StoreErrorKind::Misconfigured,
            sqlx::Error::PoolTimedOut => StoreErrorKind::TimedOut,
            _ => StoreErrorKind::Unavailable,
        };
        Self::Broken(StoreError::with_source(kind, error))
    }

    /// The error for a caller who cannot try again.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Undone(error)
            | Self::Blocked(error)
            | Self::Broken(error)
            | Self::Unreachable(error)
            | Self::Refused(error) => error,
        }
    }

    /// The same for another caller who was in it.
    pub(super) fn again(&self) -> Self {
        let told = |error: &StoreError| match std::error::Error::source(error) {
            Some(source) => StoreError::with_source(error.kind(), Told(source.to_string())),
            None => StoreError::new(error.kind()),
        };
        match self {
            Self::Undone(error) => Self::Undone(told(error)),
            Self::Blocked(error) => Self::Blocked(told(error)),
            Self::Broken(error) => Self::Broken(told(error)),
            Self::Unreachable(error) => Self::Unreachable(told(error)),
            Self::Refused(error) => Self::Refused(told(error)),
        }
    }
}

/// It is not set up; `reason` says what to do.
pub(super) fn misconfigured(reason: impl Into<String>) -> StoreError {
    StoreError::with_source(StoreErrorKind::Misconfigured, Told(reason.into()))
}

/// It cannot be used now.
pub(super) fn unavailable(reason: &'static str) -> StoreError {
    StoreError::with_source(StoreErrorKind::Unavailable, reason)
}

/// What was told, which names tables and columns but no values.
#[derive(Debug)]
struct Told(String);

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Told {}
