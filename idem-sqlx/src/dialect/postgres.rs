//! The statements of PostgreSQL.

use super::{MigrationText, Statements};

/// PostgreSQL's clock, to the microsecond, whatever the session's time zone. It is read each time that it stands in a
/// statement, and again for a row that another transaction changed while it was waited for.
macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
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
        until!($span, now!())
    };
    ($span:literal, $now:expr) => {
        concat!(
            "(CASE ",
            $span,
            " WHEN ",
            never!(),
            " THEN ",
            never!(),
            " ELSE ",
            $now,
            " + ",
            $span,
            " END)"
        )
    };
}

/// Tells those who wait in other processes, when the step is committed. Commits with a notification go one after the other
/// in the whole database, so only where somebody waits.
macro_rules! told {
    () => {
        r" RETURNING CASE WHEN awaited THEN pg_notify('idem_records', encode(id, 'hex'))::text END"
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

/// What a record's advisory lock is called: the first 64 bits of its id.
macro_rules! lock {
    () => {
        lock!("$1")
    };
    ($id:literal) => {
        concat!("('x' || encode(substr(", $id, ", 1, 8), 'hex'))::bit(64)::bigint")
    };
}

/// Tries to take the record's lock beside other claims until the statement is committed.
///
/// A transaction that has claimed the record holds the lock alone. Nobody waits for it: its row cannot be seen, and to
/// run into its index entry or its row would mean to wait for its end.
macro_rules! beside_others {
    () => {
        beside_others!("$1")
    };
    ($id:literal) => {
        concat!("pg_try_advisory_xact_lock_shared(", lock!($id), ")")
    };
}

/// Tries to take the record's lock alone until the transaction ends.
macro_rules! alone {
    () => {
        concat!("pg_try_advisory_xact_lock(", lock!(), ")")
    };
}

/// Sets a time-out, in milliseconds and until the transaction ends, unless the session has one.
macro_rules! unless_set {
    ($setting:literal, $value:literal) => {
        concat!(
            "CASE current_setting('",
            $setting,
            "') WHEN '0' THEN set_config('",
            $setting,
            "', ",
            $value,
            ", true) END"
        )
    };
}

/// A claim that inserts tells how long ago it read the clock: it may have waited for another's insertion since. One that
/// does not writes nothing, and reads the record, gone or not, as it was when the statement began. In the last column it
/// tells whether it was free to insert.
macro_rules! claim {
    ($lock:expr) => {
        concat!(
            "WITH lock AS MATERIALIZED (SELECT ",
            $lock,
            r#"), inserted AS (
            INSERT INTO "idem_records" AS r
                (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
                 created_at, lease_until, expires_at, gone_at, answer)
            SELECT $1, $2, $3, 'in_flight', $4, $5, 1, $6, t.now, t.now + $7, "#,
            until!("$8", "t.now"),
            ", ",
            until!("$8", "t.now"),
            ", NULL FROM (SELECT ",
            now!(),
            " AS now FROM lock WHERE free) AS t
            ON CONFLICT (id) DO NOTHING
            RETURNING ",
            now!(),
            " - r.created_at AS waited
        )
        SELECT waited, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true
            FROM inserted
        UNION ALL
        SELECT NULL, ",
            columns!("answer"),
            r#", free FROM lock LEFT JOIN "idem_records" ON id = $1 WHERE NOT EXISTS (SELECT FROM inserted)"#,
        )
    };
}

/// A claim that only inserts: the values of `claim`, and of its row the first column. It tells nothing of a record that is
/// there, or of a lock on it, and costs the server half as much.
pub(crate) const INSERT: &str = concat!(
    r#"INSERT INTO "idem_records" AS r
        (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
         created_at, lease_until, expires_at, gone_at, answer)
    SELECT $1, $2, $3, 'in_flight', $4, $5, 1, $6, t.now, t.now + $7, "#,
    until!("$8", "t.now"),
    ", ",
    until!("$8", "t.now"),
    ", NULL FROM (SELECT ",
    now!(),
    " AS now) AS t WHERE ",
    beside_others!(),
    "
    ON CONFLICT (id) DO NOTHING
    RETURNING ",
    now!(),
    " - r.created_at",
);

/// Many steps, each of another record: claims, and what ends or renews a flight. All or none are taken.
///
/// `longest wait for a lock; of claims: id, operation, key_hint, fingerprint, owner, on_crash, lease, lease + binding; of
/// others: id, owner, what, answer, span, span until it is gone`, where `what` is `complete`, `undo`, `renew`, or the state
/// of a flight that fails.
///
/// A row tells of the step of the record whose id is its last column: when its lease began, or NULL, and then what a
/// single claim tells. One without an id comes last, with the time by then: any of the steps may have waited. A step
/// without a row has changed nothing.
///
/// - Claims are done first and flights ended after them, each by ascending id as they are given. Who waits in the second
///   part waits for a flight of his own, which nobody who waits in the first can hold: processes that do this side by side
///   do not wait for each other in a circle.
/// - The planner knows nothing of a young table. That an id has 32 bytes, as all have, makes it expect few steps, and look
///   up each by itself, which is right for any number of records.
/// - What waits for a lock is cut short for this transaction only, so that nothing of it stays in the session.
pub(crate) const TOGETHER: &str = concat!(
    r#"WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', $1, true) AS set), claims AS MATERIALIZED (
        SELECT c.*, "#,
    beside_others!("c.id"),
    r#" AS free
        FROM unnest($2::bytea[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[], $9::bigint[])
            AS c (id, operation, key_hint, fingerprint, owner, on_crash, lease, life)
        WHERE octet_length(c.id) = 32
    ), inserted AS (
        INSERT INTO "idem_records" AS r
            (id, operation, key_hint, state, fingerprint, owner, attempt, on_crash,
             created_at, lease_until, expires_at, gone_at, answer)
        SELECT t.id, t.operation, t.key_hint, 'in_flight', t.fingerprint, t.owner, 1, t.on_crash, t.now, t.now + t.lease, "#,
    until!("t.life", "t.now"),
    ", ",
    until!("t.life", "t.now"),
    ", NULL FROM (
            SELECT c.*, ",
    now!(),
    " AS now FROM claims AS c WHERE free AND (SELECT set FROM patience) IS NOT NULL
        ) AS t
        ON CONFLICT (id) DO NOTHING
        RETURNING r.id, r.created_at
    ), changed AS (
        UPDATE ",
    r#""idem_records" AS r SET
            state = CASE s.what WHEN 'complete' THEN 'completed' WHEN 'renew' THEN 'in_flight' WHEN 'undo' THEN 'failed'
                ELSE s.what END,
            answer = s.answer,
            lease_until = CASE s.what WHEN 'renew' THEN "#,
    now!(),
    " + s.span ELSE 0 END,
            expires_at = CASE WHEN s.what = 'undo' AND r.attempt = 1 THEN ",
    now!(),
    " WHEN s.what <> 'renew' THEN ",
    until!("s.span"),
    " WHEN r.expires_at = ",
    never!(),
    " THEN r.expires_at ELSE ",
    now!(),
    " + s.span + (r.expires_at - r.lease_until) END,
            gone_at = CASE WHEN s.what = 'undo' AND r.attempt = 1 THEN ",
    now!(),
    " WHEN s.what <> 'renew' THEN ",
    until!("s.gone"),
    " WHEN r.gone_at = ",
    never!(),
    " THEN r.gone_at ELSE ",
    now!(),
    " + s.span + (r.gone_at - r.lease_until) END
        FROM unnest($10::bytea[], $11::bytea[], $12::text[], $13::bytea[], $14::bigint[], $15::bigint[])
            AS s (id, owner, what, answer, span, gone)
        WHERE (SELECT set FROM patience) IS NOT NULL AND octet_length(s.id) = 32
            AND r.id = s.id AND r.owner = s.owner AND r.state = 'in_flight' AND r.gone_at > ",
    now!(),
    "
        RETURNING r.id, CASE s.what WHEN 'renew' THEN r.lease_until - s.span END AS began,
            CASE WHEN r.awaited AND s.what <> 'renew' THEN pg_notify('idem_records', encode(r.id, 'hex'))::text END AS told
    )
    SELECT created_at, NULL::text, NULL::text, NULL::text, NULL::bytea, NULL::bytea, NULL::bigint, NULL::text, NULL::bigint,
        NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bigint, true, id FROM inserted
    UNION ALL
    SELECT began, told, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, id FROM changed
    UNION ALL
    SELECT NULL, r.operation, r.key_hint, r.state, r.fingerprint, r.owner, r.attempt, r.on_crash, r.created_at,
        r.lease_until, r.expires_at, r.gone_at, r.answer, ",
    now!(),
    r#", c.free, c.id
    FROM claims AS c LEFT JOIN "idem_records" AS r ON r.id = c.id WHERE r.id IS NOT NULL OR NOT c.free
    UNION ALL
    SELECT "#,
    now!(),
    ", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL",
);

/// Reads many records: of each that is not gone what `look_up` reads, and its id.
///
/// `ids`
pub(crate) const READ: &str = concat!(
    "SELECT NULL::bigint, ",
    columns!("answer"),
    r#", true, r.id FROM unnest($1::bytea[]) AS s (sought) JOIN "idem_records" AS r ON r.id = s.sought
    WHERE octet_length(s.sought) = 32 AND r.gone_at > "#,
    now!(),
);

pub(crate) const STATEMENTS: Statements = Statements {
    claim: claim!(concat!(beside_others!(), " AS free")),
    claim_alone: claim!(concat!(
        alone!(),
        " AS free, ",
        unless_set!("lock_timeout", "$9::text"),
        ", ",
        unless_set!("idle_in_transaction_session_timeout", "least(greatest($7 / 1000, 1), 2147483647)::text"),
    )),
    claim_joined: claim!(concat!(alone!(), " AS free")),
    is_free: concat!("SELECT ", beside_others!()),
    reclaim: concat!(
        r#"UPDATE "idem_records" SET
            operation = $2, key_hint = $3, state = 'in_flight', fingerprint = $4, owner = $5, attempt = 1, on_crash = $6,
            created_at = "#,
        now!(),
        ", lease_until = ",
        now!(),
        " + $7, expires_at = ",
        until!("$8"),
        ", gone_at = ",
        until!("$8"),
        ", awaited = false, answer = NULL
        WHERE id = $1 AND gone_at <= ",
        now!(),
        " AND ",
        beside_others!(),
        " RETURNING ",
        now!(),
        " - (lease_until - $7) AS waited",
    ),
    take_over: concat!(
        r#"UPDATE "idem_records" SET
            state = 'in_flight', owner = $2, fingerprint = $3, attempt = $4, on_crash = $5,
            lease_until = "#,
        now!(),
        " + $6, expires_at = ",
        until!("$7"),
        ", gone_at = ",
        until!("$7"),
        r"
        WHERE id = $1 AND state = $8 AND owner = $9 AND attempt = $10 AND lease_until = $11 AND gone_at > ",
        now!(),
        " AND ",
        beside_others!(),
        " RETURNING ",
        now!(),
        " - (lease_until - $6) AS waited",
    ),
    complete: concat!(
        r#"UPDATE "idem_records" SET
            state = 'completed', answer = $3, lease_until = 0, expires_at = "#,
        now!(),
        " + $4, gone_at = ",
        now!(),
        r" + $5
        WHERE id = $1 AND owner = $2 AND state = 'in_flight' AND gone_at > ",
        now!(),
        told!(),
    ),
    undo: concat!(
        r#"UPDATE "idem_records" SET state = 'failed', lease_until = 0, expires_at = CASE attempt WHEN 1 THEN "#,
        now!(),
        " ELSE ",
        until!("$3"),
        " END, gone_at = CASE attempt WHEN 1 THEN ",
        now!(),
        " ELSE ",
        until!("$3"),
        r" END
        WHERE id = $1 AND owner = $2 AND state = 'in_flight' AND gone_at > ",
        now!(),
        told!(),
    ),
    fail: concat!(
        r#"UPDATE "idem_records" SET state = $3, lease_until = 0, expires_at = "#,
        until!("$4"),
        ", gone_at = ",
        until!("$4"),
        r"
        WHERE id = $1 AND owner = $2 AND state = 'in_flight' AND gone_at > ",
        now!(),
        told!(),
    ),
    renew: concat!(
        r#"UPDATE "idem_records" SET
            lease_until = "#,
        now!(),
        " + $3, expires_at = CASE expires_at WHEN ",
        never!(),
        " THEN expires_at ELSE ",
        now!(),
        " + $3 + (expires_at - lease_until) END, gone_at = CASE gone_at WHEN ",
        never!(),
        " THEN gone_at ELSE ",
        now!(),
        r" + $3 + (gone_at - lease_until) END
        WHERE id = $1 AND owner = $2 AND state = 'in_flight' AND gone_at > ",
        now!(),
        " RETURNING ",
        now!(),
        " - (lease_until - $3) AS waited",
    ),
    expect: concat!(
        r#"UPDATE "idem_records" SET awaited = true
        WHERE id = $1 AND state = 'in_flight' AND NOT awaited AND gone_at > "#,
        now!(),
    ),
    settle: concat!(
        r#"UPDATE "idem_records" SET
            state = 'completed', owner = uuid_send(gen_random_uuid()), answer = $2, lease_until = 0, expires_at = "#,
        now!(),
        " + $3, gone_at = ",
        now!(),
        r" + $4
        WHERE id = $1 AND (state IN ('unknown', 'failed') OR (state = 'in_flight' AND lease_until <= ",
        now!(),
        ")) AND gone_at > ",
        now!(),
        told!(),
    ),
    erase: concat!(r#"DELETE FROM "idem_records" WHERE id = $1 AND gone_at > "#, now!(), told!()),
    // Not one row after the other, but those of some pages, `$1` to before `$2`; at most `$3`. Rows that another
    // sweeper is at are left to it.
    sweep: concat!(
        r#"DELETE FROM "idem_records" WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM "idem_records" WHERE ctid >= $1::tid AND ctid < $2::tid AND gone_at <= "#,
        now!(),
        r" LIMIT $3 FOR UPDATE SKIP LOCKED
        )) AND gone_at <= ",
        now!(),
    ),
    look_up: concat!(
        "SELECT NULL::bigint, ",
        columns!("CASE WHEN $2 <> 0 THEN answer END"),
        r#", true FROM "idem_records" WHERE id = $1 AND gone_at > "#,
        now!(),
    ),
    // How many pages there are: `sweep` looks at them itself.
    find_gone: r#"SELECT pg_relation_size('"idem_records"'::regclass) / current_setting('block_size')::bigint"#,
    version: r#"SELECT coalesce(max(version), 0)::bigint FROM "idem_migrations" WHERE records_table = $1"#,
};

pub(crate) const MIGRATIONS: &[MigrationText] = &[MigrationText {
    version: 1,
    name: "records",
    sql: include_str!("../../migrations/postgres/0001_records.sql"),
}];
