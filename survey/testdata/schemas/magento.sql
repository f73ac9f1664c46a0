-- Magento 2's catalog, by its db_schema.xml: https://github.com/magento/magento2/blob/2.4-develop/app/code/Magento/Catalog/etc/db_schema.xml
CREATE TABLE catalog_product_entity (
  entity_id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, attribute_set_id SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  type_id VARCHAR(32) NOT NULL DEFAULT 'simple', sku VARCHAR(64) NOT NULL, has_options SMALLINT NOT NULL DEFAULT 0,
  required_options SMALLINT UNSIGNED NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, KEY (sku)
);
CREATE TABLE catalog_product_entity_varchar (
  value_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, attribute_id SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  store_id SMALLINT UNSIGNED NOT NULL DEFAULT 0, entity_id INT UNSIGNED NOT NULL DEFAULT 0, value VARCHAR(255),
  UNIQUE KEY CATALOG_PRODUCT_ENTITY_VARCHAR_ENTITY_ID_ATTRIBUTE_ID_STORE_ID (entity_id, attribute_id, store_id), KEY (attribute_id), KEY (store_id)
);
CREATE TABLE catalog_product_entity_decimal (
  value_id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, attribute_id SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  store_id SMALLINT UNSIGNED NOT NULL DEFAULT 0, entity_id INT UNSIGNED NOT NULL DEFAULT 0, value DECIMAL(20,6),
  UNIQUE KEY CATALOG_PRODUCT_ENTITY_DECIMAL_ENTITY_ID_ATTRIBUTE_ID_STORE_ID (entity_id, attribute_id, store_id), KEY (store_id), KEY (attribute_id)
);
INSERT INTO catalog_product_entity (entity_id, sku) VALUES (1, '24-MB01'), (2, '24-MB04');
INSERT INTO catalog_product_entity_varchar (attribute_id, store_id, entity_id, value) VALUES
  (73, 0, 1, 'Joust Duffle Bag'), (121, 0, 1, 'joust-duffle-bag'), (73, 0, 2, 'Strive Shoulder Pack'), (73, 1, 2, 'Umhängetasche'), (121, 0, 2, NULL);
INSERT INTO catalog_product_entity_decimal (attribute_id, store_id, entity_id, value) VALUES (77, 0, 1, 34.000000), (77, 0, 2, 32.000000), (78, 0, 2, 29.95);
