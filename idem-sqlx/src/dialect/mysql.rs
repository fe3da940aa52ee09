//! The statements of MySQL and MariaDB.
//!
//! What stands in `/*M! .. */` is for MariaDB alone; to MySQL it is a comment.

use super::{MigrationText, Statements};

/// The server's clock, to the microsecond, whatever the session's time zone. It is read when the statement starts and
/// stays the same throughout it.
///
/// `SYSDATE` would be read again after a wait, but follows the session's time zone, is another function under
/// `--sysdate-is-now`, and cannot be replicated by statement. Statements that grant a lease do not wait instead.
macro_rules! now {
    () => {
        "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
    };
}

macro_rules! never {
    () => {
        "9223372036854775807"
    };
}

/// The moment that a span from now ends.
macro_rules! until {
    ($span:literal) => {
        concat!(
            "(CASE ",
            $span,
            " WHEN ",
            never!(),
            " THEN ",
            never!(),
            " ELSE ",
            now!(),
            " + ",
            $span,
            " END)"
        )
    };
}

/// Fails at once where a row or its place is locked, on MariaDB. On MySQL it is the session that says how long it waits.
macro_rules! at_once {
    () => {
        "/*M!100500 SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ "
    };
}

/// Waits at most a second for a row: those who wait stand in a line, and whoever looks stands at its end.
macro_rules! soon {
    () => {
        "/*M!100500 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ "
    };
}

/// The columns of `look_up`, the answer if it is wanted.
macro_rules! columns {
    ($answer:literal) => {
        concat!(
            "operation, key_hint, state, fingerprint, owner, attempt, on_crash, created_at, lease_until, expires_at,
            gone_at, ",
            $answer,
            ", ",
            now!()
        )
    };
}

/// Assignments are executed one after the other, and see what those before them assigned.
pub(crate) const STATEMENTS: Statements = Statements {
    // MariaDB returns the record, inserted or found: inserted, it was created now and by this owner. To assign a column
    // to itself writes nothing, but with `binlog_format = MIXED` the statement would be written to the binary log all the
    // same, were it not one that has to be logged by its rows: `UUID_SHORT()` makes it so. MySQL fails where there is one.
    claim: concat!(
        at_once!(),
        r"INSERT INTO `idem_records`
            (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
             created_at, lease_until, expires_at, gone_at, answer)
        VALUES (?1, ?2, ?3, 'in_flight', ?4, ?5, 1, ?6, ",
        now!(),
        ", ",
        now!(),
        " + ?7, ",
        until!("?8"),
        ", ",
        until!("?8"),
        r", NULL)
        /*M!100500 ON DUPLICATE KEY UPDATE id = id RETURNING ",
        columns!("answer"),
        ", UUID_SHORT() */",
    ),
    claim_alone: "",
    claim_joined: "",
    // Fails where a transaction has the record. Where there is none, what lies between its neighbours is locked for the time
    // of this statement.
    is_free: concat!(at_once!(), "SELECT 1 FROM `idem_records` WHERE id = ?1 LOCK IN SHARE MODE"),
    reclaim: concat!(
        at_once!(),
        r"UPDATE `idem_records` SET
            operation = ?2, key_hint = ?3, state = 'in_flight', fingerprint = ?4, owner = ?5, attempt = 1, on_crash = ?6,
            created_at = ",
        now!(),
        ", lease_until = ",
        now!(),
        " + ?7, expires_at = ",
        until!("?8"),
        ", gone_at = ",
        until!("?8"),
        ", answer = NULL
        WHERE id = ?1 AND gone_at <= ",
        now!(),
    ),
    take_over: concat!(
        at_once!(),
        r"UPDATE `idem_records` SET
            state = 'in_flight', owner = ?2, fingerprint = ?3, attempt = ?4, on_crash = ?5,
            lease_until = ",
        now!(),
        " + ?6, expires_at = ",
        until!("?7"),
        ", gone_at = ",
        until!("?7"),
        r"
        WHERE id = ?1 AND state = ?8 AND owner = ?9 AND attempt = ?10 AND lease_until = ?11 AND gone_at > ",
        now!(),
    ),
    complete: concat!(
        soon!(),
        r"UPDATE `idem_records` SET
            state = 'completed', answer = ?3, lease_until = 0, expires_at = ",
        now!(),
        " + ?4, gone_at = ",
        now!(),
        r" + ?5
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    undo: concat!(
        soon!(),
        "UPDATE `idem_records` SET state = 'failed', lease_until = 0, expires_at = CASE attempt WHEN 1 THEN ",
        now!(),
        " ELSE ",
        until!("?3"),
        " END, gone_at = CASE attempt WHEN 1 THEN ",
        now!(),
        " ELSE ",
        until!("?3"),
        r" END
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    fail: concat!(
        soon!(),
        "UPDATE `idem_records` SET state = ?3, lease_until = 0, expires_at = ",
        until!("?4"),
        ", gone_at = ",
        until!("?4"),
        r"
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    renew: concat!(
        soon!(),
        r"UPDATE `idem_records` SET
            expires_at = CASE expires_at WHEN ",
        never!(),
        " THEN expires_at ELSE ",
        now!(),
        " + ?3 + (expires_at - lease_until) END, gone_at = CASE gone_at WHEN ",
        never!(),
        " THEN gone_at ELSE ",
        now!(),
        " + ?3 + (gone_at - lease_until) END, lease_until = ",
        now!(),
        r" + ?3
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    expect: "",
    // The new owner is nobody's, and the same on every server that replays the statement.
    settle: concat!(
        soon!(),
        r"UPDATE `idem_records` SET
            state = 'completed', owner = LEFT(UNHEX(SHA2(owner, 256)), 16), answer = ?2, lease_until = 0, expires_at = ",
        now!(),
        " + ?3, gone_at = ",
        now!(),
        r" + ?4
        WHERE id = ?1 AND (state IN ('unknown', 'failed') OR (state = 'in_flight' AND lease_until <= ",
        now!(),
        ")) AND gone_at > ",
        now!(),
    ),
    erase: concat!(soon!(), "DELETE FROM `idem_records` WHERE id = ?1 AND gone_at > ", now!()),
    // By their ids, `?1`: a range would lock what lies between them, and new keys with it.
    sweep: concat!(
        at_once!(),
        "DELETE r FROM `idem_records` AS r FORCE INDEX (PRIMARY) WHERE r.id IN (?1) AND r.gone_at <= ",
        now!(),
    ),
    look_up: concat!(
        "SELECT ",
        columns!("CASE WHEN ?2 <> 0 THEN answer END"),
        " FROM `idem_records` WHERE id = ?1 AND gone_at > ",
        now!(),
    ),
    // After an id, at most so many: those that are gone and the last, and how many it looked at.
    find_gone: concat!(
        "SELECT id, gone, looked FROM (
            SELECT id, gone_at <= ",
        now!(),
        r" AS gone, LEAD(1) OVER (ORDER BY id) AS more, COUNT(*) OVER () AS looked FROM (
                SELECT id, gone_at FROM `idem_records` WHERE id > ?1 ORDER BY id LIMIT ?2
            ) AS page
        ) AS seen WHERE gone OR more IS NULL ORDER BY id",
    ),
    version: "SELECT CAST(COALESCE(MAX(version), 0) AS SIGNED) FROM `idem_migrations` WHERE records_table = ?1",
};

pub(crate) const MIGRATIONS: &[MigrationText] = &[MigrationText {
    version: 1,
    name: "records",
    sql: include_str!("../../migrations/mysql/0001_records.sql"),
}];
