//! Faults: what the error numbers of MySQL and MariaDB mean to the store.

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::mysql::MySqlDatabaseError;

use crate::fault::{Fault, Told, misconfigured};
use crate::tls;

/// Names the fault of an error that sqlx returned.
pub(super) fn of(error: sqlx::Error) -> Fault {
    use StoreErrorKind::{Corrupt, Misconfigured, TimedOut, Unavailable};
    if let Some(reason) = tls::refused(&error) {
        return Fault::Broken(misconfigured(reason));
    }
    match error {
        sqlx::Error::Database(database) => match database.try_downcast::<MySqlDatabaseError>() {
            Ok(database) => of_server(&database),
            Err(other) => Fault::Broken(StoreError::with_source(Unavailable, sqlx::Error::Database(other))),
        },
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
            Fault::Refused(StoreError::with_source(Corrupt, error))
        }
        sqlx::Error::Configuration(_) => Fault::Broken(StoreError::with_source(Misconfigured, error)),
        sqlx::Error::PoolTimedOut => Fault::Broken(StoreError::with_source(TimedOut, error)),
        _ => Fault::Broken(StoreError::with_source(Unavailable, error)),
    }
}

fn of_server(error: &MySqlDatabaseError) -> Fault {
    use StoreErrorKind::{Corrupt, Full, Misconfigured, TimedOut, Unavailable};
    let (number, state) = (error.number(), error.code().unwrap_or_default());
    let told = told(error);
    let with = |kind, told: String| StoreError::with_source(kind, Told(told));
    let advised = |advice: &str| misconfigured(format!("{advice}: {told}"));
    match number {
        // A deadlock; a record that changed since the statement began (MariaDB); a certification that failed (Galera).
        // And a savepoint that is gone with its transaction, which a deadlock has ended.
        1213 | 1020 | 1305 => Fault::Undone(with(Unavailable, told)),
        1205 | 3572 => Fault::Locked(with(TimedOut, told)),
        1062 => Fault::Taken(with(Unavailable, told)),
        // Somebody ended it, and perhaps its connection.
        1317 => Fault::Broken(with(TimedOut, told)),
        // A limit on statements of the server or the role.
        1969 | 3024 => Fault::Refused(with(TimedOut, told)),
        1153 => Fault::Broken(advised("the server's `max_allowed_packet` is too small for this answer")),
        // A prepared statement that this connection's server does not have; too many of them.
        1243 | 1461 => {
            Fault::Broken(advised("where prepared statements are not kept, use `prepared(false)`"))
        }
        // This server has become a replica, or is about to: another one may take writes.
        1290 | 1792 | 1836 | 3100 => Fault::Broken(with(Unavailable, told)),
        1146 | 1054 => Fault::Refused(advised("run `migrate`")),
        1046 => Fault::Refused(advised("name a database in the URL, or by `database`")),
        1044 | 1045 | 1049 | 1130 | 1142 | 1143 | 1227 | 1698 => Fault::Refused(with(Misconfigured, told)),
        1021 | 1037 | 1041 | 1114 | 1206 => Fault::Refused(with(Full, told)),
        1030 | 1034 | 1194 | 1712 => Fault::Refused(with(Corrupt, told)),
        _ => match state.get(..2) {
            Some("22" | "23") => Fault::Refused(with(Corrupt, told)),
            Some("28") => Fault::Broken(with(Misconfigured, told)),
            Some("42") => Fault::Refused(with(Misconfigured, told)),
            _ => Fault::Broken(with(Unavailable, told)),
        },
    }
}

/// What the server says, without the values that some of its messages show.
fn told(error: &MySqlDatabaseError) -> String {
    let (number, state) = (error.number(), error.code().unwrap_or_default());
    let shows_values = matches!(state.get(..2), Some("22" | "23")) || matches!(number, 1064 | 1366 | 1149);
    let message = if shows_values { "what it says shows values" } else { error.message() };
    format!("{message} (error {number}, SQLSTATE {state})")
}
