-- WordPress 6, wp-admin/includes/schema.php: https://codex.wordpress.org/Database_Description
SET SESSION sql_mode = '';
CREATE TABLE wp_users (
  ID BIGINT(20) UNSIGNED NOT NULL AUTO_INCREMENT, user_login VARCHAR(60) NOT NULL DEFAULT '', user_pass VARCHAR(255) NOT NULL DEFAULT '',
  user_nicename VARCHAR(50) NOT NULL DEFAULT '', user_email VARCHAR(100) NOT NULL DEFAULT '', user_url VARCHAR(100) NOT NULL DEFAULT '',
  user_registered DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', user_activation_key VARCHAR(255) NOT NULL DEFAULT '',
  user_status INT(11) NOT NULL DEFAULT 0, display_name VARCHAR(250) NOT NULL DEFAULT '',
  PRIMARY KEY (ID), KEY user_login_key (user_login), KEY user_nicename (user_nicename), KEY user_email (user_email)
) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_posts (
  ID BIGINT(20) UNSIGNED NOT NULL AUTO_INCREMENT, post_author BIGINT(20) UNSIGNED NOT NULL DEFAULT 0,
  post_date DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', post_date_gmt DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00',
  post_content LONGTEXT NOT NULL, post_title TEXT NOT NULL, post_excerpt TEXT NOT NULL, post_status VARCHAR(20) NOT NULL DEFAULT 'publish',
  comment_status VARCHAR(20) NOT NULL DEFAULT 'open', ping_status VARCHAR(20) NOT NULL DEFAULT 'open',
  post_password VARCHAR(255) NOT NULL DEFAULT '', post_name VARCHAR(200) NOT NULL DEFAULT '', to_ping TEXT NOT NULL, pinged TEXT NOT NULL,
  post_modified DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00', post_modified_gmt DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00',
  post_content_filtered LONGTEXT NOT NULL, post_parent BIGINT(20) UNSIGNED NOT NULL DEFAULT 0, guid VARCHAR(255) NOT NULL DEFAULT '',
  menu_order INT(11) NOT NULL DEFAULT 0, post_type VARCHAR(20) NOT NULL DEFAULT 'post', post_mime_type VARCHAR(100) NOT NULL DEFAULT '',
  comment_count BIGINT(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (ID), KEY post_name (post_name(191)), KEY type_status_date (post_type, post_status, post_date, ID),
  KEY post_parent (post_parent), KEY post_author (post_author)
) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_postmeta (
  meta_id BIGINT(20) UNSIGNED NOT NULL AUTO_INCREMENT, post_id BIGINT(20) UNSIGNED NOT NULL DEFAULT 0, meta_key VARCHAR(255) DEFAULT NULL,
  meta_value LONGTEXT, PRIMARY KEY (meta_id), KEY post_id (post_id), KEY meta_key (meta_key(191))
) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_options (
  option_id BIGINT(20) UNSIGNED NOT NULL AUTO_INCREMENT, option_name VARCHAR(191) NOT NULL DEFAULT '', option_value LONGTEXT NOT NULL,
  autoload VARCHAR(20) NOT NULL DEFAULT 'yes', PRIMARY KEY (option_id), UNIQUE KEY option_name (option_name), KEY autoload (autoload)
) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_term_relationships (
  object_id BIGINT(20) UNSIGNED NOT NULL DEFAULT 0, term_taxonomy_id BIGINT(20) UNSIGNED NOT NULL DEFAULT 0,
  term_order INT(11) NOT NULL DEFAULT 0, PRIMARY KEY (object_id, term_taxonomy_id), KEY term_taxonomy_id (term_taxonomy_id)
) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
INSERT INTO wp_users VALUES (1, 'admin', '$P$B…', 'admin', 'admin@example.org', '', NOW(), '', 0, 'Admin');
INSERT INTO wp_posts (post_author, post_date, post_content, post_title, post_excerpt, post_name, to_ping, pinged, post_content_filtered)
  VALUES (1, NOW(), 'Welcome to WordPress.', 'Hello world!', '', 'hello-world', '', '', ''), (1, 0, '', 'Auto Draft', '', '', '', '', '');
INSERT INTO wp_postmeta (post_id, meta_key, meta_value) VALUES (1, '_edit_last', '1'), (1, '_thumbnail_id', '12'), (1, 'color', 'red'),
  (1, 'color', 'green'), (2, '_edit_lock', '1700000000:1'), (2, NULL, NULL);
INSERT INTO wp_options (option_name, option_value) VALUES ('siteurl', 'http://example.org'), ('active_plugins', 'a:0:{}');
INSERT INTO wp_term_relationships VALUES (1, 1, 0);
