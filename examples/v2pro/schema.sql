-- An event log of entities: each command appends a row with the whole new state and the next version. The application's
-- promises depend on the two unique keys: each version has one row, and no command is executed twice. Rows never change.
-- Old versions are archived.

CREATE TABLE account (
  event_id     BIGINT       NOT NULL AUTO_INCREMENT,
  entity_id    CHAR(20)     NOT NULL,
  version      BIGINT       NOT NULL,
  command_id   VARCHAR(256) NOT NULL,
  command_name VARCHAR(256) NOT NULL,
  request      JSON         NULL,
  response     JSON         NOT NULL,
  state        JSON         NOT NULL,
  committed_at DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (event_id),
  UNIQUE KEY unique_version (entity_id, version),
  UNIQUE KEY unique_command (entity_id, command_id)
);

-- The views in MySQL.

CREATE TABLE account_state (
  entity_id CHAR(20)       NOT NULL PRIMARY KEY,
  version   BIGINT         NOT NULL,
  owner     VARCHAR(100)   NULL,
  email     VARCHAR(254)   NULL,
  currency  CHAR(3)        NULL,
  status    VARCHAR(20)    NULL,
  balance   DECIMAL(40, 4) NULL,
  points    BIGINT         NULL,
  KEY (status, balance)
);

CREATE TABLE index_account_owner (
  owner     VARCHAR(100) NOT NULL,
  entity_id CHAR(20)     NOT NULL UNIQUE,
  PRIMARY KEY (owner, entity_id)
);

CREATE TABLE currency_total (
  currency CHAR(3)        NOT NULL PRIMARY KEY,
  balance  DECIMAL(60, 4) NOT NULL
);
