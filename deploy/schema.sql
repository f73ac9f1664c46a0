-- The source of docker-compose.yml, made when its database is first started. The user is the image's own,
-- with all rights in `app`; tailing needs the two below besides.
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO replicator;

USE app;

CREATE TABLE profile (
  id   BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  city VARCHAR(100)
);

-- An index by city, kept by the program.
CREATE TABLE profile_by_city (
  city VARCHAR(100) NOT NULL,
  id   BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (city, id)
);
