-- Version 1 of the records of idem. Times are microseconds since 1970 on the database's clock;
-- 9223372036854775807 is never.
--
-- To use another table name, replace idem_records throughout.

CREATE TABLE IF NOT EXISTS idem_migrations (
    records_table TEXT NOT NULL,
    version INTEGER NOT NULL,
    applied_at INTEGER NOT NULL,
    PRIMARY KEY (records_table, version)
);

CREATE TABLE "idem_records" (
    -- SHA-256 of scope, operation and key.
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    -- For people: the operation, and the first characters of the key.
    operation TEXT NOT NULL,
    key_hint TEXT NOT NULL,
    -- 'in_flight', 'failed', 'completed' or 'unknown'. Lapsed and expired are a matter of time.
    state TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    owner BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    -- 'retry' or 'reject', as the claim that holds the record said.
    on_crash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- 0 unless in flight.
    lease_until INTEGER NOT NULL,
    -- When the binding or the answer ends.
    expires_at INTEGER NOT NULL,
    -- When the record is absent for everybody: expires_at, or later if the key is refused meanwhile.
    gone_at INTEGER NOT NULL,
    answer BLOB
);

INSERT INTO idem_migrations (records_table, version, applied_at)
VALUES ('idem_records', 1, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000);
