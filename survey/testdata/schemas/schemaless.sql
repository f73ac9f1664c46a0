-- Uber's Schemaless: https://www.uber.com/blog/schemaless-part-one-mysql-datastore/
CREATE TABLE trips (
  added_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, row_key BINARY(16) NOT NULL, column_name VARCHAR(64) NOT NULL,
  ref_key BIGINT NOT NULL, body MEDIUMBLOB NOT NULL, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  UNIQUE KEY (row_key, column_name, ref_key)
);
INSERT INTO trips (row_key, column_name, ref_key, body) VALUES
  (UNHEX('6F1A3B5C0000000000000000000000A1'), 'BASE', 1, '{"driver_uuid": "c3d1c0a0-2b1a-4b64-8e62-0a3d1d0f1b01", "rider": "ada", "fare": 12.5}'),
  (UNHEX('6F1A3B5C0000000000000000000000A1'), 'BASE', 2, '{"driver_uuid": "c3d1c0a0-2b1a-4b64-8e62-0a3d1d0f1b01", "rider": "ada", "fare": 13.5}'),
  (UNHEX('6F1A3B5C0000000000000000000000A1'), 'STATUS', 1, '{"is_completed": true}'),
  (UNHEX('6F1A3B5C0000000000000000000000A2'), 'BASE', 1, '{"driver_uuid": "c3d1c0a0-2b1a-4b64-8e62-0a3d1d0f1b02", "rider": "bob", "fare": 7}');
