-- Nothing but the row's number is unique, on purpose: a charge that happens twice is to be seen.
CREATE TABLE IF NOT EXISTS charges (
    row         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    account     TEXT    NOT NULL,
    amount      INTEGER NOT NULL,
    currency    TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    description TEXT,
    metadata    TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    created     INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS charges_of_account ON charges (account, id);

CREATE TABLE IF NOT EXISTS refunds (
    row       INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL,
    reference TEXT    NOT NULL,
    charge    TEXT    NOT NULL UNIQUE,
    account   TEXT    NOT NULL,
    amount    INTEGER NOT NULL,
    currency  TEXT    NOT NULL,
    attempt   INTEGER NOT NULL,
    created   INTEGER NOT NULL
);

-- The provider's table: one payout a reference, which is what makes a take-over pay once.
CREATE TABLE IF NOT EXISTS payouts (
    row         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    reference   TEXT    NOT NULL UNIQUE,
    account     TEXT    NOT NULL,
    amount      INTEGER NOT NULL,
    currency    TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    description TEXT,
    metadata    TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    created     INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS payouts_of_account ON payouts (account, id);

CREATE TABLE IF NOT EXISTS accounts (
    account TEXT    PRIMARY KEY,
    balance INTEGER NOT NULL CHECK (balance >= 0)
);

-- Here, too, nothing is unique: that each key is in it once is idem's doing.
CREATE TABLE IF NOT EXISTS transfers (
    row     INTEGER PRIMARY KEY,
    id      TEXT    NOT NULL,
    account TEXT    NOT NULL,
    payer   TEXT    NOT NULL,
    payee   TEXT    NOT NULL,
    amount  INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    created INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS transfers_of_account ON transfers (account, id);
