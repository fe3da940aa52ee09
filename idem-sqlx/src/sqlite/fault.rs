//! Faults: what SQLite's error codes mean to the store.

use idem_core::store::{StoreError, StoreErrorKind};

use crate::fault::{Told, misconfigured};

/// Why a statement was not executed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another connection holds a lock: try again.
    Busy,
    /// The connection may be of no use any more: open another.
    Broken(StoreError),
    /// The statement was refused, the connection is fine.
    Refused(StoreError),
}

impl Fault {
    /// Names the fault of an error that sqlx returned.
    pub(super) fn of(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = &error else {
            return match error {
                sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::Decode(_)
                | sqlx::Error::ColumnNotFound(_) => {
                    Self::Refused(StoreError::with_source(StoreErrorKind::Corrupt, error))
                }
                sqlx::Error::Configuration(_) => {
                    Self::Broken(StoreError::with_source(StoreErrorKind::Misconfigured, error))
                }
                _ => Self::Broken(StoreError::with_source(StoreErrorKind::Unavailable, error)),
            };
        };
        let extended: u32 = database.code().and_then(|code| code.parse().ok()).unwrap_or(0);
        let with = |kind| StoreError::with_source(kind, Told(database.to_string()));
        match extended & 0xff {
            BUSY | LOCKED => Self::Busy,
            ERROR if is_about_schema(database.message()) => {
                Self::Refused(misconfigured(format!("run `migrate`: {}", database.message())))
            }
            READONLY if extended == READONLY_DBMOVED => Self::Broken(with(StoreErrorKind::Unavailable)),
            READONLY | PERM | AUTH => Self::Broken(with(StoreErrorKind::Misconfigured)),
            FULL | TOOBIG => Self::Refused(with(StoreErrorKind::Full)),
            CORRUPT | NOTADB | FORMAT => Self::Broken(with(StoreErrorKind::Corrupt)),
            CONSTRAINT | MISMATCH => Self::Refused(with(StoreErrorKind::Corrupt)),
            ERROR => Self::Refused(with(StoreErrorKind::Misconfigured)),
            _ => Self::Broken(with(StoreErrorKind::Unavailable)),
        }
    }

    /// The error for a caller who cannot try again.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Busy => {
                StoreError::with_source(StoreErrorKind::TimedOut, "another connection holds a lock")
            }
            Self::Broken(error) | Self::Refused(error) => error,
        }
    }
}

fn is_about_schema(message: &str) -> bool {
    ["no such table", "no such column", "has no column"].iter().any(|part| message.contains(part))
}

// SQLite's primary result codes.
const ERROR: u32 = 1;
const PERM: u32 = 3;
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READONLY: u32 = 8;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const TOOBIG: u32 = 18;
const CONSTRAINT: u32 = 19;
const MISMATCH: u32 = 20;
const AUTH: u32 = 23;
const FORMAT: u32 = 24;
const NOTADB: u32 = 26;
/// The file was moved or deleted under the connection.
const READONLY_DBMOVED: u32 = 8 | (4 << 8);
