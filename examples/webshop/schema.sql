-- A shop in plain columns: orders, their customers and companies, and the ordered items. Joins need the indexes on the
-- columns that refer to other tables.

CREATE TABLE companies (
  id   INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(80) NOT NULL,
  rev  INT NOT NULL DEFAULT 0
);

CREATE TABLE customers (
  id         INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  company_id INT UNSIGNED NULL,
  name       VARCHAR(80) NOT NULL,
  city       VARCHAR(40) NULL,
  rev        INT NOT NULL DEFAULT 0,
  KEY company (company_id)
);

CREATE TABLE products (
  id    INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku   VARCHAR(20) NOT NULL,
  title VARCHAR(80) NOT NULL
);

CREATE TABLE orders (
  id          INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT UNSIGNED NULL,
  status      VARCHAR(20) NOT NULL,
  rev         INT NOT NULL DEFAULT 0,
  KEY customer (customer_id)
);

CREATE TABLE order_items (
  order_id   INT UNSIGNED NOT NULL,
  line_no    INT UNSIGNED NOT NULL,
  product_id INT UNSIGNED NOT NULL,
  sku        VARCHAR(20) NOT NULL,
  qty        INT NOT NULL,
  price      DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (order_id, line_no),
  KEY product (product_id)
);

CREATE TABLE staff (
  id         INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  manager_id INT UNSIGNED NULL,
  name       VARCHAR(80) NOT NULL,
  KEY manager (manager_id)
);

-- The views in MySQL.

CREATE TABLE order_overview (
  id       INT UNSIGNED NOT NULL PRIMARY KEY,
  status   VARCHAR(20) NOT NULL,
  customer VARCHAR(80) NULL,
  company  VARCHAR(80) NULL,
  items    INT NOT NULL,
  total    DECIMAL(20,2) NULL
);

CREATE TABLE orders_by_city (
  city     VARCHAR(40) NOT NULL,
  order_id INT UNSIGNED NOT NULL,
  PRIMARY KEY (city, order_id),
  KEY order_id (order_id)
);

CREATE TABLE orders_by_sku (
  sku      VARCHAR(20) NOT NULL,
  order_id INT UNSIGNED NOT NULL,
  PRIMARY KEY (sku, order_id),
  KEY order_id (order_id)
);
