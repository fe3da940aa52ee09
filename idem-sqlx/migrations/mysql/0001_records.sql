-- Version 1 of the records of idem. Times are microseconds since 1970 in UTC on the database's clock,
-- and 9223372036854775807 is never. To read one: FROM_UNIXTIME(expires_at / 1000000).
--
-- To use another table name, replace idem_records throughout. A definition is committed by itself, so each statement
-- does nothing where it was executed before.

CREATE TABLE IF NOT EXISTS `idem_migrations` (
    records_table varchar(64) NOT NULL,
    version int unsigned NOT NULL,
    applied_at bigint NOT NULL,
    PRIMARY KEY (records_table, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `idem_records` (
    -- SHA-256 of scope, operation and key.
    id binary(32) NOT NULL PRIMARY KEY,
    -- For people: the operation, and the first characters of the key.
    operation varchar(255) NOT NULL,
    key_hint varchar(255) NOT NULL,
    -- 'in_flight', 'failed', 'completed' or 'unknown'. Lapsed and expired are a matter of time.
    state varchar(16) NOT NULL,
    fingerprint varbinary(255) NOT NULL,
    owner binary(16) NOT NULL,
    attempt bigint NOT NULL,
    -- 'retry' or 'reject', as the claim that holds the record said.
    on_crash varchar(16) NOT NULL,
    created_at bigint NOT NULL,
    -- 0 unless in flight.
    lease_until bigint NOT NULL,
    -- When the binding or the answer ends.
    expires_at bigint NOT NULL,
    -- When the record is absent for everybody: expires_at, or later if the key is refused meanwhile.
    gone_at bigint NOT NULL,
    answer longblob
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO `idem_migrations` (records_table, version, applied_at)
VALUES ('idem_records', 1, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
ON DUPLICATE KEY UPDATE version = version;
