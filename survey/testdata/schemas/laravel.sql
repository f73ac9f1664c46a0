-- Laravel's users, spatie/laravel-medialibrary 11 and spatie/laravel-activitylog 4 on MySQL: https://spatie.be/docs
CREATE TABLE users (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(255) NOT NULL, email VARCHAR(255) NOT NULL UNIQUE,
  email_verified_at TIMESTAMP NULL, password VARCHAR(255) NOT NULL, remember_token VARCHAR(100), created_at TIMESTAMP NULL,
  updated_at TIMESTAMP NULL
);
CREATE TABLE media (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, model_type VARCHAR(255) NOT NULL, model_id BIGINT UNSIGNED NOT NULL,
  uuid CHAR(36) UNIQUE, collection_name VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL, file_name VARCHAR(255) NOT NULL,
  mime_type VARCHAR(255), disk VARCHAR(255) NOT NULL, conversions_disk VARCHAR(255), size BIGINT UNSIGNED NOT NULL,
  manipulations JSON NOT NULL, custom_properties JSON NOT NULL, generated_conversions JSON NOT NULL, responsive_images JSON NOT NULL,
  order_column INT UNSIGNED, created_at TIMESTAMP NULL, updated_at TIMESTAMP NULL, KEY (model_type, model_id), KEY (order_column)
);
CREATE TABLE activity_log (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, log_name VARCHAR(255), description TEXT NOT NULL, subject_type VARCHAR(255),
  event VARCHAR(255), subject_id BIGINT UNSIGNED, causer_type VARCHAR(255), causer_id BIGINT UNSIGNED, properties JSON,
  batch_uuid CHAR(36), created_at TIMESTAMP NULL, updated_at TIMESTAMP NULL, KEY (log_name), KEY subject (subject_type, subject_id),
  KEY causer (causer_type, causer_id)
);
INSERT INTO users (name, email, password) VALUES ('Ada', 'ada@example.org', '$2y$…'), ('Alan', 'alan@example.org', '$2y$…'),
  ('Grace', 'grace@example.org', '$2y$…');
INSERT INTO media (model_type, model_id, uuid, collection_name, name, file_name, mime_type, disk, size, manipulations, custom_properties,
  generated_conversions, responsive_images) VALUES
  ('App\\Models\\User', 1, '0b7e0e1a-6f5b-4c0e-9d2f-3f8f0f6f7a01', 'avatars', 'ada', 'ada.jpg', 'image/jpeg', 's3', 40960, '[]',
   '{"alt": "Ada at her desk", "width": 800}', '{"thumb": true}', '[]'),
  ('App\\Models\\User', 2, '0b7e0e1a-6f5b-4c0e-9d2f-3f8f0f6f7a02', 'avatars', 'alan', 'alan.png', 'image/png', 's3', 51200, '[]',
   '{"alt": "Alan runs", "width": 640}', '{"thumb": true}', '[]');
INSERT INTO activity_log (log_name, description, subject_type, event, subject_id, causer_type, causer_id, properties) VALUES
  ('default', 'updated', 'App\\Models\\User', 'updated', 1, 'App\\Models\\User', 1, '{"attributes": {"name": "Ada"}, "old": {"name": "A."}}'),
  ('default', 'created', 'App\\Models\\User', 'created', 2, 'App\\Models\\User', 1, '{"attributes": {"name": "Alan"}}');
