//! The statements of SQLite.

use super::{MigrationText, Statements};

/// SQLite's clock ticks each millisecond. It is read when a statement first needs it, which is after it was given the
/// write lock, and stays the same throughout the statement.
macro_rules! now {
    () => {
        "(CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000)"
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

pub(crate) const STATEMENTS: Statements = Statements {
    claim: concat!(
        r#"INSERT INTO "idem_records" AS r
            (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
             created_at, lease_until, expires_at, gone_at, answer)
        VALUES (?1, ?2, ?3, 'in_flight', ?4, ?5, 1, ?6, "#,
        now!(),
        ", ",
        now!(),
        " + ?7, ",
        until!("?8"),
        ", ",
        until!("?8"),
        r", NULL)
        ON CONFLICT (id) DO UPDATE SET
            operation = excluded.operation, key_hint = excluded.key_hint, state = excluded.state,
            fingerprint = excluded.fingerprint, owner = excluded.owner, attempt = excluded.attempt,
            on_crash = excluded.on_crash, created_at = excluded.created_at, lease_until = excluded.lease_until,
            expires_at = excluded.expires_at, gone_at = excluded.gone_at, answer = NULL
        WHERE r.gone_at <= ",
        now!(),
    ),
    claim_alone: "",
    claim_joined: "",
    is_free: "",
    reclaim: "",
    take_over: concat!(
        r#"UPDATE "idem_records" SET
            state = 'in_flight', owner = ?2, fingerprint = ?3, attempt = ?4, on_crash = ?5,
            lease_until = "#,
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
        r#"UPDATE "idem_records" SET
            state = 'completed', answer = ?3, lease_until = 0, expires_at = "#,
        now!(),
        " + ?4, gone_at = ",
        now!(),
        r" + ?5
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    undo: concat!(
        r#"UPDATE "idem_records" SET state = 'failed', lease_until = 0, expires_at = CASE attempt WHEN 1 THEN "#,
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
        r#"UPDATE "idem_records" SET state = ?3, lease_until = 0, expires_at = "#,
        until!("?4"),
        ", gone_at = ",
        until!("?4"),
        r"
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    renew: concat!(
        r#"UPDATE "idem_records" SET
            lease_until = "#,
        now!(),
        " + ?3, expires_at = CASE expires_at WHEN ",
        never!(),
        " THEN expires_at ELSE ",
        now!(),
        " + ?3 + (expires_at - lease_until) END, gone_at = CASE gone_at WHEN ",
        never!(),
        " THEN gone_at ELSE ",
        now!(),
        r" + ?3 + (gone_at - lease_until) END
        WHERE id = ?1 AND owner = ?2 AND state = 'in_flight' AND gone_at > ",
        now!(),
    ),
    expect: "",
    settle: concat!(
        r#"UPDATE "idem_records" SET
            state = 'completed', owner = randomblob(16), answer = ?2, lease_until = 0, expires_at = "#,
        now!(),
        " + ?3, gone_at = ",
        now!(),
        r" + ?4
        WHERE id = ?1 AND (state IN ('unknown', 'failed') OR (state = 'in_flight' AND lease_until <= ",
        now!(),
        ")) AND gone_at > ",
        now!(),
    ),
    erase: concat!(r#"DELETE FROM "idem_records" WHERE id = ?1 AND gone_at > "#, now!()),
    sweep: concat!(
        r#"DELETE FROM "idem_records" WHERE rowid IN (SELECT value FROM json_each(?1)) AND gone_at <= "#,
        now!(),
    ),
    look_up: concat!(
        "SELECT operation, key_hint, state, fingerprint, owner, attempt, on_crash, created_at, lease_until, expires_at,
            gone_at, CASE WHEN ?2 THEN answer END, ",
        now!(),
        r#" FROM "idem_records" WHERE id = ?1 AND gone_at > "#,
        now!(),
    ),
    // After a row, at most so many: the last of them, and those that are gone.
    find_gone: concat!(
        "SELECT max(rowid), group_concat(rowid) FILTER (WHERE gone_at <= ",
        now!(),
        r#") FROM (SELECT rowid, gone_at FROM "idem_records" WHERE rowid > ?1 ORDER BY rowid LIMIT ?2)"#,
    ),
    version: "SELECT coalesce(max(version), 0) FROM idem_migrations WHERE records_table = ?1",
};

pub(crate) const MIGRATIONS: &[MigrationText] = &[MigrationText {
    version: 1,
    name: "records",
    sql: include_str!("../../migrations/sqlite/0001_records.sql"),
}];
