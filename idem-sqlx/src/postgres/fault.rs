//! Faults: what PostgreSQL's error codes mean to the store.

use idem_core::store::{StoreError, StoreErrorKind};

use crate::fault::{Fault, Told, misconfigured};
use crate::tls;

/// What to do where prepared statements meet.
const NOT_PREPARED: &str =
    "behind a transaction-pooling proxy that does not keep prepared statements, use `prepared(false)`";

/// Names the fault of an error that sqlx returned.
pub(super) fn of(error: sqlx::Error) -> Fault {
    use StoreErrorKind::{CommitRefused, Corrupt, Full, Misconfigured, TimedOut, Unavailable};
    let sqlx::Error::Database(database) = &error else {
        return match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                Fault::Refused(StoreError::with_source(Corrupt, error))
            }
            _ => unreachable(error),
        };
    };
    let code = database.code().unwrap_or_default().into_owned();
    // Detail and hint may show a row's values; the message does not.
    let told = Told(format!("{} (SQLSTATE {code})", database.message()));
    let with = |kind, told: Told| StoreError::with_source(kind, told);
    let advised = |advice: &str| with(Misconfigured, Told(format!("{advice}: {told}")));
    match code.as_bytes() {
        // A serialization failure, a deadlock.
        b"40001" | b"40P01" => Fault::Undone(with(Unavailable, told)),
        // A statement or lock time-out of the role or the database.
        b"57014" => Fault::Refused(with(TimedOut, told)),
        b"55P03" => Fault::Locked(with(TimedOut, told)),
        b"08P01" if database.message().contains("startup parameter") => Fault::Broken(advised(
            "behind a proxy, leave `options` out of the URL, or add to the proxy's `ignore_startup_parameters`",
        )),
        // Somebody else's prepared statement has the name of ours, so the next might be taken for ours: no second try.
        b"42P05" => Fault::Refused(advised(NOT_PREPARED)),
        // A prepared statement that this connection's server does not have, or of which it expects other values.
        b"26000" | b"08P01" => Fault::Broken(advised(NOT_PREPARED)),
        // PostgreSQL takes nothing more in a transaction that has met an error.
        b"25P02" => Fault::Refused(with(
            CommitRefused,
            Told(format!("a statement failed in this transaction, and the work went on: {told}")),
        )),
        // Its plan is from before an upgrade of the table.
        b"0A000" => Fault::Broken(with(Misconfigured, told)),
        // This server has become a standby: another one may take writes.
        b"25006" => Fault::Broken(with(Unavailable, told)),
        b"42P01" | b"42703" | b"3F000" => Fault::Refused(advised("run `migrate`")),
        b"42501" | b"3D000" => Fault::Refused(with(Misconfigured, told)),
        b"53100" | b"54000" => Fault::Refused(with(Full, told)),
        b"XX001" | b"XX002" | [b'2', b'2' | b'3', ..] => Fault::Refused(with(Corrupt, told)),
        [b'2', b'8', ..] => Fault::Broken(with(Misconfigured, told)),
        [b'4', b'2', ..] => Fault::Refused(with(Misconfigured, told)),
        _ => Fault::Broken(with(Unavailable, told)),
    }
}

fn unreachable(error: sqlx::Error) -> Fault {
    if let Some(reason) = tls::refused(&error) {
        return Fault::Broken(misconfigured(reason));
    }
    let kind = match error {
        sqlx::Error::Configuration(_) => StoreErrorKind::Misconfigured,
        sqlx::Error::PoolTimedOut => StoreErrorKind::TimedOut,
        _ => StoreErrorKind::Unavailable,
    };
    Fault::Broken(StoreError::with_source(kind, error))
}
