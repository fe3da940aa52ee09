//! Faults: what the errors of a server and of its connection mean to the store.

use std::io;
use std::sync::Arc;

use idem_core::store::{StoreError, StoreErrorKind};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a command was not answered.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server does not have the script.
    NoScript,
    /// The connection is of no use any more: the step may have been taken, another connection may do.
    Broken(StoreError),
    /// There is no connection to be had.
    Unreachable(StoreError),
    /// The server cannot do it just now, and will not have done it.
    Busy(StoreError),
    /// The same, since its keys are not all at one node.
    Split(StoreError),
    /// It is done, but may be undone: too few replicas have it.
    Unsafe(StoreError),
    /// The server refuses it, the connection is fine.
    Refused(StoreError),
}

impl Fault {
    pub(crate) fn of(error: RedisError) -> Self {
        use StoreErrorKind::{Corrupt, Full, Misconfigured, TimedOut, Unavailable};
        let told = |kind: StoreErrorKind, what: &str| {
            // A detail may name the values of a command only where the server does not know the command.
            let detail = error.detail().unwrap_or_default();
            let detail = detail.split(", with args").next().unwrap_or_default();
            let code = error.code().unwrap_or("error");
            StoreError::with_source(kind, format!("{what} ({code} {detail})"))
        };
        match error.kind() {
            ErrorKind::Io if error.is_timeout() => {
                Self::Broken(StoreError::with_source(TimedOut, "the server did not answer in time"))
            }
            ErrorKind::Io if is_of_tls(&error) => Self::Refused(StoreError::with_source(
                Misconfigured,
                format!("no TLS with this server; see its certificate and the URL's host and port: {error}"),
            )),
            ErrorKind::Io if error.is_connection_refusal() => {
                Self::Unreachable(StoreError::with_source(Unavailable, error))
            }
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => {
                Self::Broken(StoreError::with_source(Unavailable, error))
            }
            ErrorKind::AuthenticationFailed => {
                Self::Refused(told(Misconfigured, "the server refuses the user or the password of the URL"))
            }
            ErrorKind::InvalidClientConfig | ErrorKind::Client => {
                Self::Refused(StoreError::with_source(Misconfigured, error))
            }
            ErrorKind::Server(kind) => match kind {
                ServerErrorKind::NoScript => Self::NoScript,
                ServerErrorKind::BusyLoading => {
                    Self::Busy(told(Unavailable, "the server is loading its data"))
                }
                ServerErrorKind::TryAgain => Self::Split(told(Unavailable, "the cluster is changing")),
                ServerErrorKind::ClusterDown | ServerErrorKind::Moved | ServerErrorKind::Ask => {
                    Self::Busy(told(Unavailable, "the cluster is changing"))
                }
                ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly => {
                    Self::Broken(told(Unavailable, "the server is a replica"))
                }
                ServerErrorKind::NoPerm => {
                    Self::Refused(told(Misconfigured, "the user may not do what the store needs"))
                }
                _ if error.detail().is_some_and(|detail| detail.contains("user_script")) => {
                    Self::Refused(told(Corrupt, "a script could not read a record"))
                }
                _ => Self::Refused(told(Misconfigured, "the server refuses the command")),
            },
            _ => match error.code() {
                Some("OOM") => Self::Refused(told(Full, "the server is out of memory")),
                Some("NOREPLICAS") => Self::Busy(told(Unavailable, "too few replicas are connected")),
                Some("BUSY") => Self::Busy(told(Unavailable, "the server is busy with a script")),
                Some("UNBLOCKED") => Self::Broken(told(Unavailable, "the server gave up")),
                Some("MISCONF") => Self::Refused(told(Unavailable, "the server cannot write its data")),
                Some("LAYOUT") => Self::Refused(StoreError::with_source(
                    Corrupt,
                    "a record has a layout that this release does not know",
                )),
                Some("WRONGTYPE") => {
                    Self::Refused(told(Corrupt, "a record's key has something else; use another prefix"))
                }
                Some("WRONGPASS" | "NOAUTH") => {
                    Self::Refused(told(Misconfigured, "the server asks for another user or password"))
                }
                _ => Self::Refused(told(Unavailable, "the server refuses the command")),
            },
        }
    }

    /// The error for a caller who cannot try again.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::NoScript => unavailable("the server forgets its scripts"),
            Self::Broken(error)
            | Self::Unreachable(error)
            | Self::Busy(error)
            | Self::Split(error)
            | Self::Unsafe(error)
            | Self::Refused(error) => error,
        }
    }
}

/// Whether rustls refuses the server. That comes as invalid data; of the nodes of a cluster nothing but the text is left.
fn is_of_tls(error: &RedisError) -> bool {
    io_kind(error) == Some(io::ErrorKind::InvalidData)
        || error.detail().is_some_and(|detail| detail.contains("invalid peer certificate"))
}

/// What kind of error of the operating system it is, if it is one; it comes behind a shared pointer.
pub(crate) fn io_kind(error: &RedisError) -> Option<io::ErrorKind> {
    let shared =
        std::error::Error::source(error)?.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>()?;
    Some(shared.downcast_ref::<io::Error>()?.kind())
}

/// It is not set up; `reason` says what to do.
pub(crate) fn misconfigured(reason: impl Into<String>) -> StoreError {
    StoreError::with_source(StoreErrorKind::Misconfigured, reason.into())
}

/// It cannot be used now.
pub(crate) fn unavailable(reason: &'static str) -> StoreError {
    StoreError::with_source(StoreErrorKind::Unavailable, reason)
}

/// What it replied is not what its script replies.
pub(crate) fn unexpected() -> StoreError {
    StoreError::with_source(StoreErrorKind::Corrupt, "the server's reply is not one of the script's")
}
