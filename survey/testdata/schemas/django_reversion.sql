-- django-reversion 5's migrations on MySQL: https://django-reversion.readthedocs.io; and a model beside it
CREATE TABLE django_content_type (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, app_label VARCHAR(100) NOT NULL, model VARCHAR(100) NOT NULL,
  UNIQUE KEY django_content_type_app_label_model (app_label, model)
);
CREATE TABLE django_migrations (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, app VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL, applied DATETIME(6) NOT NULL
);
CREATE TABLE auth_user (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, password VARCHAR(128) NOT NULL, last_login DATETIME(6), is_superuser TINYINT(1) NOT NULL,
  username VARCHAR(150) NOT NULL UNIQUE, first_name VARCHAR(150) NOT NULL, last_name VARCHAR(150) NOT NULL, email VARCHAR(254) NOT NULL,
  is_staff TINYINT(1) NOT NULL, is_active TINYINT(1) NOT NULL, date_joined DATETIME(6) NOT NULL
);
CREATE TABLE reversion_revision (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, date_created DATETIME(6) NOT NULL, comment LONGTEXT NOT NULL, user_id INT,
  KEY reversion_revision_date_created (date_created), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE reversion_version (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, object_id VARCHAR(191) NOT NULL, format VARCHAR(255) NOT NULL,
  serialized_data LONGTEXT NOT NULL, object_repr LONGTEXT NOT NULL, content_type_id INT NOT NULL, revision_id INT NOT NULL,
  db VARCHAR(191) NOT NULL,
  UNIQUE KEY reversion_version_db_content_type_id_object_id_revision (db, content_type_id, object_id, revision_id),
  KEY reversion_version_db_content_type (db, content_type_id),
  FOREIGN KEY (content_type_id) REFERENCES django_content_type (id), FOREIGN KEY (revision_id) REFERENCES reversion_revision (id)
);
INSERT INTO django_content_type VALUES (7, 'shop', 'product');
INSERT INTO django_migrations (app, name, applied) VALUES ('reversion', '0001_initial', NOW(6));
INSERT INTO auth_user VALUES (1, 'pbkdf2_sha256$…', NULL, 1, 'ada', 'Ada', 'Lovelace', 'ada@example.org', 1, 1, NOW(6));
INSERT INTO reversion_revision VALUES (1, NOW(6), 'Initial version.', 1), (2, NOW(6), 'Changed price.', 1);
INSERT INTO reversion_version VALUES
  (1, '1', 'json', '[{"model": "shop.product", "pk": 1, "fields": {"name": "Ball", "price": "9.95"}}]', 'Ball', 7, 1, 'default'),
  (2, '1', 'json', '[{"model": "shop.product", "pk": 1, "fields": {"name": "Ball", "price": "8.95"}}]', 'Ball', 7, 2, 'default');
