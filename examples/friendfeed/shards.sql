-- The index tables. Each of the three index databases has the same tables. The first two tables are as published.

CREATE TABLE index_user_id (
  user_id BINARY(16) NOT NULL,
  entity_id BINARY(16) NOT NULL UNIQUE,
  PRIMARY KEY (user_id, entity_id)
) ENGINE=InnoDB;

CREATE TABLE index_link (
  link VARCHAR(735) NOT NULL,
  entity_id BINARY(16) NOT NULL UNIQUE,
  PRIMARY KEY (link, entity_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8;

-- An index of several properties: a user's entities by time.
CREATE TABLE index_user_published (
  user_id BINARY(16) NOT NULL,
  published BIGINT NOT NULL,
  entity_id BINARY(16) NOT NULL UNIQUE,
  PRIMARY KEY (user_id, published, entity_id)
) ENGINE=InnoDB;

-- An index with several entries per entity: one for each tag.
CREATE TABLE index_tag (
  tag VARCHAR(100) NOT NULL,
  entity_id BINARY(16) NOT NULL,
  PRIMARY KEY (tag, entity_id),
  KEY (entity_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
