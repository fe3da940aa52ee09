-- Version 1 of the records of idem. Times are microseconds since 1970 on the database's clock;
-- 9223372036854775807 is never. To read one: to_timestamp(expires_at / 1000000.0).
--
-- To use another table name, replace idem_records throughout.

CREATE TABLE IF NOT EXISTS "idem_migrations" (
    records_table text NOT NULL,
    version integer NOT NULL,
    applied_at bigint NOT NULL,
    PRIMARY KEY (records_table, version)
);

CREATE TABLE "idem_records" (
    -- SHA-256 of scope, operation and key.
    id bytea NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    -- For people: the operation, and the first characters of the key.
    operation text NOT NULL,
    key_hint text NOT NULL,
    -- 'in_flight', 'failed', 'completed' or 'unknown'. Lapsed and expired are a matter of time.
    state text NOT NULL,
    fingerprint bytea NOT NULL,
    owner bytea NOT NULL,
    attempt bigint NOT NULL,
    -- 'retry' or 'reject', as the claim that holds the record said.
    on_crash text NOT NULL,
    created_at bigint NOT NULL,
    -- Whether somebody waits for the end of the flight, and is to be told of it on the channel 'idem_records'.
    awaited boolean NOT NULL DEFAULT false,
    -- 0 unless in flight.
    lease_until bigint NOT NULL,
    -- When the record is absent for everybody: expires_at, or later if the key is refused meanwhile. An update reads the
    -- clock for each of its columns, in their order: standing first, this one is never later than expires_at by accident.
    gone_at bigint NOT NULL,
    -- When the binding or the answer ends.
    expires_at bigint NOT NULL,
    answer bytea
)
-- Room for an answer beside its claim, so that storing it changes no index.
WITH (fillfactor = 70);

-- Trying to compress an answer costs more than it saves.
ALTER TABLE "idem_records" ALTER COLUMN answer SET STORAGE EXTERNAL;

INSERT INTO "idem_migrations" (records_table, version, applied_at)
VALUES ('idem_records', 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
