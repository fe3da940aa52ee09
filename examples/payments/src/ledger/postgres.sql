-- One transaction, in which processes that start at once take turns: `IF NOT EXISTS` alone is not safe from that.
SELECT pg_advisory_xact_lock(hashtext('payments'));
-- Without it the log would say of each table that it is there.
SET LOCAL client_min_messages = warning;

-- Nothing but the row's number is unique, on purpose: a charge that happens twice is to be seen.
CREATE TABLE IF NOT EXISTS charges (
    row         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT   NOT NULL,
    account     TEXT   NOT NULL,
    amount      BIGINT NOT NULL,
    currency    TEXT   NOT NULL,
    source      TEXT   NOT NULL,
    description TEXT,
    metadata    JSON   NOT NULL,
    attempt     BIGINT NOT NULL,
    created     BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS charges_of_account ON charges (account, id);

CREATE TABLE IF NOT EXISTS refunds (
    row       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        TEXT   NOT NULL,
    reference TEXT   NOT NULL,
    charge    TEXT   NOT NULL UNIQUE,
    account   TEXT   NOT NULL,
    amount    BIGINT NOT NULL,
    currency  TEXT   NOT NULL,
    attempt   BIGINT NOT NULL,
    created   BIGINT NOT NULL
);

-- The provider's table: one payout a reference, which is what makes a take-over pay once.
CREATE TABLE IF NOT EXISTS payouts (
    row         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT   NOT NULL,
    reference   TEXT   NOT NULL UNIQUE,
    account     TEXT   NOT NULL,
    amount      BIGINT NOT NULL,
    currency    TEXT   NOT NULL,
    source      TEXT   NOT NULL,
    description TEXT,
    metadata    JSON   NOT NULL,
    attempt     BIGINT NOT NULL,
    created     BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS payouts_of_account ON payouts (account, id);

CREATE TABLE IF NOT EXISTS accounts (
    account TEXT   PRIMARY KEY,
    balance BIGINT NOT NULL CHECK (balance >= 0)
);

-- Here, too, nothing is unique: that each key is in it once is idem's doing.
CREATE TABLE IF NOT EXISTS transfers (
    row     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      TEXT   NOT NULL,
    account TEXT   NOT NULL,
    payer   TEXT   NOT NULL,
    payee   TEXT   NOT NULL,
    amount  BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS transfers_of_account ON transfers (account, id);
