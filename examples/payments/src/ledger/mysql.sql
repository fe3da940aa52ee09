-- Nothing but the row's number is unique, on purpose: a charge that happens twice is to be seen.
CREATE TABLE IF NOT EXISTS charges (
    `row`       BIGINT       AUTO_INCREMENT PRIMARY KEY,
    id          VARCHAR(64)  NOT NULL,
    account     VARCHAR(64)  NOT NULL,
    amount      BIGINT       NOT NULL,
    currency    CHAR(3)      NOT NULL,
    source      MEDIUMTEXT   NOT NULL,
    description MEDIUMTEXT,
    -- Not JSON, which would keep its meaning but not its text.
    metadata    MEDIUMTEXT   NOT NULL,
    attempt     BIGINT       NOT NULL,
    created     BIGINT       NOT NULL,
    INDEX charges_of_account (account, id)
    -- Others take `Alice` for `alice`.
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS refunds (
    `row`     BIGINT       AUTO_INCREMENT PRIMARY KEY,
    id        VARCHAR(64)  NOT NULL,
    reference VARCHAR(255) NOT NULL,
    charge    VARCHAR(64)  NOT NULL UNIQUE,
    account   VARCHAR(64)  NOT NULL,
    amount    BIGINT       NOT NULL,
    currency  CHAR(3)      NOT NULL,
    attempt   BIGINT       NOT NULL,
    created   BIGINT       NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The provider's table: one payout a reference, which is what makes a take-over pay once.
CREATE TABLE IF NOT EXISTS payouts (
    `row`       BIGINT       AUTO_INCREMENT PRIMARY KEY,
    id          VARCHAR(64)  NOT NULL,
    reference   VARCHAR(255) NOT NULL UNIQUE,
    account     VARCHAR(64)  NOT NULL,
    amount      BIGINT       NOT NULL,
    currency    CHAR(3)      NOT NULL,
    source      MEDIUMTEXT   NOT NULL,
    description MEDIUMTEXT,
    metadata    MEDIUMTEXT   NOT NULL,
    attempt     BIGINT       NOT NULL,
    created     BIGINT       NOT NULL,
    INDEX payouts_of_account (account, id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS accounts (
    account VARCHAR(64) PRIMARY KEY,
    balance BIGINT      NOT NULL CHECK (balance >= 0)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Here, too, nothing is unique: that each key is in it once is idem's doing.
CREATE TABLE IF NOT EXISTS transfers (
    `row`   BIGINT      AUTO_INCREMENT PRIMARY KEY,
    id      VARCHAR(64) NOT NULL,
    account VARCHAR(64) NOT NULL,
    payer   VARCHAR(64) NOT NULL,
    payee   VARCHAR(64) NOT NULL,
    amount  BIGINT      NOT NULL,
    attempt BIGINT      NOT NULL,
    created BIGINT      NOT NULL,
    INDEX transfers_of_account (account, id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
