-- FriendFeed's entities, as published: bags of properties that Python compressed and pickled, and that change in place.
-- This table is in the entities' own database. shards.sql has the indexes.

CREATE TABLE entities (
  added_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  id BINARY(16) NOT NULL,
  updated TIMESTAMP NOT NULL,
  body MEDIUMBLOB,
  UNIQUE KEY (id),
  KEY (updated)
) ENGINE=InnoDB;
