-- An event store as Laravel's Spatie has it: https://github.com/spatie/laravel-event-sourcing; and as Prooph's single stream strategy
-- makes it: https://github.com/prooph/pdo-event-store
CREATE TABLE stored_events (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, aggregate_uuid CHAR(36), aggregate_version BIGINT UNSIGNED,
  event_version TINYINT UNSIGNED NOT NULL DEFAULT 1, event_class VARCHAR(255) NOT NULL, event_properties JSON NOT NULL,
  meta_data JSON NOT NULL, created_at TIMESTAMP NOT NULL, KEY (event_class), KEY (aggregate_uuid),
  UNIQUE KEY stored_events_aggregate_uuid_aggregate_version_unique (aggregate_uuid, aggregate_version)
);
CREATE TABLE event_streams (
  no BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, event_id CHAR(36) CHARACTER SET ascii NOT NULL, event_name VARCHAR(100) NOT NULL,
  payload JSON NOT NULL, metadata JSON NOT NULL, created_at DATETIME(6) NOT NULL, aggregate_version INT UNSIGNED NOT NULL,
  aggregate_id CHAR(36) CHARACTER SET ascii NOT NULL, aggregate_type VARCHAR(150) NOT NULL,
  UNIQUE KEY ix_event_id (event_id), UNIQUE KEY ix_unique_event (aggregate_type, aggregate_id, aggregate_version),
  KEY ix_query_aggregate (aggregate_type, aggregate_id, no)
);
CREATE TABLE shop_events (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, entity_id CHAR(36) NOT NULL, type VARCHAR(64) NOT NULL, payload JSON NOT NULL,
  created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
INSERT INTO stored_events VALUES
  (1, '0193b2a0-0000-7000-8000-000000000001', 1, 1, 'App\\Events\\AccountCreated', '{"name": "ada", "email": "ada@example.org"}', '{}', '2026-01-01 00:00:00'),
  (2, '0193b2a0-0000-7000-8000-000000000001', 2, 1, 'App\\Events\\MoneyAdded', '{"amount": 10}', '{}', '2026-01-01 00:00:01');
INSERT INTO event_streams VALUES
  (1, '0193b2a0-0000-7000-8000-0000000000e1', 'user-registered', '{"email": "ada@example.org", "name": "Ada"}', '{}', NOW(6), 1, '0193b2a0-0000-7000-8000-000000000001', 'user'),
  (2, '0193b2a0-0000-7000-8000-0000000000e2', 'email-changed', '{"email": "ada@example.com"}', '{}', NOW(6), 2, '0193b2a0-0000-7000-8000-000000000001', 'user');
INSERT INTO shop_events (entity_id, type, payload) VALUES
  ('0193b2a0-0000-7000-8000-000000000011', 'order_placed', '{"customer": "ada", "total": 12.50}'),
  ('0193b2a0-0000-7000-8000-000000000011', 'order_paid', '{"method": "card"}'),
  ('0193b2a0-0000-7000-8000-000000000012', 'order_placed', '{"customer": "bob", "total": 3}'),
  ('0193b2a0-0000-7000-8000-000000000012', 'order_placed', '{"customer": "bob", "total": 4}');
