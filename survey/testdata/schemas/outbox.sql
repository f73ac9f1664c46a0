-- Debezium's outbox event router: https://debezium.io/documentation/reference/transformations/outbox-event-router.html
CREATE TABLE outbox (
  id CHAR(36) NOT NULL PRIMARY KEY,
  aggregatetype VARCHAR(255) NOT NULL,
  aggregateid VARCHAR(255) NOT NULL,
  type VARCHAR(255) NOT NULL,
  payload JSON
);
INSERT INTO outbox VALUES
  ('406c07f3-26f0-4eea-a50c-109940064b8f', 'Order', '1', 'OrderCreated', '{"id": 1, "total": 99.95, "customer": "ada"}'),
  ('7b1c2d3e-0000-4000-8000-000000000001', 'Order', '1', 'OrderPaid', '{"id": 1, "total": 99.95, "customer": "ada"}'),
  ('7b1c2d3e-0000-4000-8000-000000000002', 'Order', '2', 'OrderCreated', '{"id": 2, "total": 5, "customer": "bob"}');
