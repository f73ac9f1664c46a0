-- Sakila: https://dev.mysql.com/doc/sakila/en/sakila-structure.html (a part of its tables, the odd ones among them)
CREATE TABLE address (
  address_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, address VARCHAR(50) NOT NULL, address2 VARCHAR(50), district VARCHAR(20) NOT NULL,
  city_id SMALLINT UNSIGNED NOT NULL, postal_code VARCHAR(10), phone VARCHAR(20) NOT NULL, location GEOMETRY NOT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (address_id), KEY idx_fk_city_id (city_id), SPATIAL KEY idx_location (location)
);
CREATE TABLE staff (
  staff_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, first_name VARCHAR(45) NOT NULL, last_name VARCHAR(45) NOT NULL,
  address_id SMALLINT UNSIGNED NOT NULL, picture BLOB, email VARCHAR(50), store_id TINYINT UNSIGNED NOT NULL,
  active BOOLEAN NOT NULL DEFAULT TRUE, username VARCHAR(16) NOT NULL, password VARCHAR(40) BINARY,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (staff_id)
);
CREATE TABLE film (
  film_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, title VARCHAR(128) NOT NULL, description TEXT, release_year YEAR,
  language_id TINYINT UNSIGNED NOT NULL, original_language_id TINYINT UNSIGNED, rental_duration TINYINT UNSIGNED NOT NULL DEFAULT 3,
  rental_rate DECIMAL(4,2) NOT NULL DEFAULT 4.99, length SMALLINT UNSIGNED, replacement_cost DECIMAL(5,2) NOT NULL DEFAULT 19.99,
  rating ENUM('G','PG','PG-13','R','NC-17') DEFAULT 'G',
  special_features SET('Trailers','Commentaries','Deleted Scenes','Behind the Scenes'),
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (film_id), KEY idx_title (title), KEY idx_fk_language_id (language_id)
);
CREATE TABLE film_actor (
  actor_id SMALLINT UNSIGNED NOT NULL, film_id SMALLINT UNSIGNED NOT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (actor_id, film_id), KEY idx_fk_film_id (film_id)
);
CREATE TABLE rental (
  rental_id INT NOT NULL AUTO_INCREMENT, rental_date DATETIME NOT NULL, inventory_id MEDIUMINT UNSIGNED NOT NULL,
  customer_id SMALLINT UNSIGNED NOT NULL, return_date DATETIME, staff_id TINYINT UNSIGNED NOT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (rental_id), UNIQUE KEY (rental_date, inventory_id, customer_id), KEY idx_fk_customer_id (customer_id)
);
CREATE VIEW staff_list AS SELECT staff_id, first_name FROM staff;
INSERT INTO address VALUES (1, '47 MySakila Drive', NULL, 'Alberta', 300, '', '', ST_GeomFromText('POINT(1 2)'), NOW());
INSERT INTO staff VALUES (1, 'Mike', 'Hillyer', 1, X'89504E470D0A5A0A', 'Mike.Hillyer@sakilastaff.com', 1, 1, 'Mike', '8cb2237d', NOW());
INSERT INTO film VALUES (1, 'ACADEMY DINOSAUR', 'An Epic Drama', 2006, 1, NULL, 6, 0.99, 86, 20.99, 'PG', 'Deleted Scenes,Behind the Scenes', NOW()),
  (2, 'ACE GOLDFINGER', 'A Astounding Epistle', 2006, 1, NULL, 3, 4.99, 48, 12.99, 'G', 'Trailers', NOW());
INSERT INTO film_actor VALUES (1, 1, NOW()), (2, 1, NOW()), (1, 2, NOW());
INSERT INTO rental VALUES (1, '2005-05-24 22:53:30', 367, 130, '2005-05-26 22:04:30', 1, NOW()), (2, '2005-05-24 22:54:33', 1525, 459, NULL, 1, NOW());
