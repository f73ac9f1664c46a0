-- FriendFeed's entities, as published: a bag of properties, compressed and pickled by Python, changed in place. This table
-- stands in the entities' own database; see shards.sql for the indexes.

CREATE TABLE entities (
  added_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  id BINARY(16) NOT NULL,
  updated TIMESTAMP NOT NULL,
  body MEDIUMBLOB,
  UNIQUE KEY (id),
  KEY (updated)
) ENGINE=InnoDB;
