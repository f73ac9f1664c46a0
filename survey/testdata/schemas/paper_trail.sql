-- paper_trail's generator, with --with-mysql: https://github.com/paper-trail-gem/paper_trail; objects in YAML, its default
CREATE TABLE posts (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(255), status INT NOT NULL DEFAULT 0, author_id BIGINT,
  created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL,
  KEY index_posts_on_author_id (author_id)
);
CREATE TABLE versions (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  whodunnit VARCHAR(255), created_at DATETIME(6), item_id BIGINT NOT NULL, item_type VARCHAR(191) NOT NULL,
  event VARCHAR(255) NOT NULL, object LONGTEXT,
  KEY index_versions_on_item_type_and_item_id (item_type, item_id)
);
CREATE TABLE schema_migrations (version VARCHAR(255) NOT NULL PRIMARY KEY);
CREATE TABLE ar_internal_metadata (
  `key` VARCHAR(255) NOT NULL PRIMARY KEY, value VARCHAR(255), created_at DATETIME(6) NOT NULL, updated_at DATETIME(6) NOT NULL
);
INSERT INTO schema_migrations VALUES ('20260101000000');
INSERT INTO ar_internal_metadata VALUES ('environment', 'production', NOW(6), NOW(6));
INSERT INTO posts VALUES (1, 'Hello', 1, 7, NOW(6), NOW(6)), (2, 'Bye', 0, 7, NOW(6), NOW(6));
INSERT INTO versions (whodunnit, created_at, item_id, item_type, event, object) VALUES
  ('7', NOW(6), 1, 'Post', 'create', NULL), ('7', NOW(6), 1, 'Post', 'update', '---\nid: 1\ntitle: Helo\nstatus: 0\n'),
  ('7', NOW(6), 2, 'Post', 'create', NULL);
