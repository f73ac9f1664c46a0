-- "Like" buttons in plain columns: who favorited what, and how often. The tables user, object, favorite and favorite_counter
-- are as in the original design, except that its PARTITIONS BY HASH is PARTITION BY HASH here, as the servers require.
-- user_favorite is the list by user, for which the design uses an index.

CREATE TABLE user (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  PRIMARY KEY id (id)
) ENGINE=InnoDB;

CREATE TABLE object (
  id       INT UNSIGNED NOT NULL AUTO_INCREMENT,
  `key`    VARCHAR(255) NOT NULL,
  key_hash INT UNSIGNED NOT NULL,
  PRIMARY KEY id (id),
  INDEX key_hash (key_hash)
) ENGINE=InnoDB;

CREATE TABLE favorite (
  object_id INT UNSIGNED NOT NULL,
  user_id   INT UNSIGNED NOT NULL,
  cnt       INT UNSIGNED NOT NULL DEFAULT 1,
  timestamp TIMESTAMP,
  PRIMARY KEY (object_id, user_id),
  INDEX user_id (user_id)
) ENGINE=InnoDB
PARTITION BY HASH (object_id) PARTITIONS 100;

-- The views.

CREATE TABLE favorite_counter (
  object_id INT UNSIGNED NOT NULL,
  cnt       INT UNSIGNED NOT NULL DEFAULT 1,
  PRIMARY KEY (object_id),
  INDEX ranking (cnt)
) ENGINE=InnoDB;

CREATE TABLE user_favorite (
  user_id   INT UNSIGNED NOT NULL,
  object_id INT UNSIGNED NOT NULL,
  cnt       INT UNSIGNED NOT NULL,
  timestamp TIMESTAMP NULL,
  PRIMARY KEY (user_id, object_id)
) ENGINE=InnoDB;
