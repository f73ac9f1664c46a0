-- django-oscar 4's tables in MySQL, with those of Django that it needs: https://docs.oscarcommerce.com; a few rows of a shop
CREATE TABLE address_country (
  iso_3166_1_a2 VARCHAR(2) NOT NULL, iso_3166_1_a3 VARCHAR(3) NOT NULL, iso_3166_1_numeric VARCHAR(3) NOT NULL,
  printable_name VARCHAR(128) NOT NULL, name VARCHAR(128) NOT NULL, display_order SMALLINT UNSIGNED NOT NULL,
  is_shipping_country TINYINT(1) NOT NULL, PRIMARY KEY (iso_3166_1_a2), KEY (display_order),
  KEY (is_shipping_country), KEY (printable_name)
);
CREATE TABLE auth_group (
  id INT NOT NULL AUTO_INCREMENT, name VARCHAR(150) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (name)
);
CREATE TABLE auth_user (
  id INT NOT NULL AUTO_INCREMENT, password VARCHAR(128) NOT NULL, last_login DATETIME(6),
  is_superuser TINYINT(1) NOT NULL, username VARCHAR(150) NOT NULL, first_name VARCHAR(150) NOT NULL,
  last_name VARCHAR(150) NOT NULL, email VARCHAR(254) NOT NULL, is_staff TINYINT(1) NOT NULL,
  is_active TINYINT(1) NOT NULL, date_joined DATETIME(6) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (username)
);
CREATE TABLE address_useraddress (
  id BIGINT NOT NULL AUTO_INCREMENT, title VARCHAR(64) NOT NULL, first_name VARCHAR(255) NOT NULL,
  last_name VARCHAR(255) NOT NULL, line1 VARCHAR(255) NOT NULL, line2 VARCHAR(255) NOT NULL,
  line3 VARCHAR(255) NOT NULL, line4 VARCHAR(255) NOT NULL, state VARCHAR(255) NOT NULL,
  postcode VARCHAR(64) NOT NULL, search_text LONGTEXT NOT NULL, phone_number VARCHAR(128) NOT NULL,
  notes LONGTEXT NOT NULL, is_default_for_shipping TINYINT(1) NOT NULL, is_default_for_billing TINYINT(1) NOT NULL,
  num_orders_as_shipping_address INT UNSIGNED NOT NULL, hash VARCHAR(255) NOT NULL,
  date_created DATETIME(6) NOT NULL, country_id VARCHAR(2) NOT NULL, user_id INT NOT NULL,
  num_orders_as_billing_address INT UNSIGNED NOT NULL, code VARCHAR(255), PRIMARY KEY (id),
  UNIQUE KEY (user_id, hash), UNIQUE KEY (code), KEY (hash),
  FOREIGN KEY (country_id) REFERENCES address_country (iso_3166_1_a2),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE analytics_userrecord (
  id BIGINT NOT NULL AUTO_INCREMENT, num_product_views INT UNSIGNED NOT NULL,
  num_basket_additions INT UNSIGNED NOT NULL, num_orders INT UNSIGNED NOT NULL,
  num_order_lines INT UNSIGNED NOT NULL, num_order_items INT UNSIGNED NOT NULL, total_spent DECIMAL(12,2) NOT NULL,
  date_last_order DATETIME(6), user_id INT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (user_id), KEY (num_orders),
  KEY (num_order_lines), KEY (num_order_items), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE analytics_usersearch (
  id BIGINT NOT NULL AUTO_INCREMENT, query VARCHAR(255) NOT NULL, date_created DATETIME(6) NOT NULL,
  user_id INT NOT NULL, PRIMARY KEY (id), KEY (query), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE auth_user_groups (
  id BIGINT NOT NULL AUTO_INCREMENT, user_id INT NOT NULL, group_id INT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (user_id, group_id), FOREIGN KEY (group_id) REFERENCES auth_group (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE basket_basket (
  id BIGINT NOT NULL AUTO_INCREMENT, status VARCHAR(128) NOT NULL, date_created DATETIME(6) NOT NULL,
  date_merged DATETIME(6), date_submitted DATETIME(6), owner_id INT, PRIMARY KEY (id),
  FOREIGN KEY (owner_id) REFERENCES auth_user (id)
);
CREATE TABLE catalogue_attributeoptiongroup (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(255), PRIMARY KEY (id),
  UNIQUE KEY (code)
);
CREATE TABLE catalogue_attributeoption (
  id BIGINT NOT NULL AUTO_INCREMENT, `option` VARCHAR(255) NOT NULL, group_id BIGINT NOT NULL, code VARCHAR(255),
  PRIMARY KEY (id), UNIQUE KEY (group_id, `option`), UNIQUE KEY (code),
  FOREIGN KEY (group_id) REFERENCES catalogue_attributeoptiongroup (id)
);
CREATE TABLE catalogue_category (
  id BIGINT NOT NULL AUTO_INCREMENT, path VARCHAR(255) NOT NULL, depth INT UNSIGNED NOT NULL,
  numchild INT UNSIGNED NOT NULL, name VARCHAR(255) NOT NULL, description LONGTEXT NOT NULL, image VARCHAR(255),
  slug VARCHAR(255) NOT NULL, ancestors_are_public TINYINT(1) NOT NULL, is_public TINYINT(1) NOT NULL,
  meta_description LONGTEXT, meta_title VARCHAR(255), code VARCHAR(255), exclude_from_menu TINYINT(1) NOT NULL,
  long_description LONGTEXT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (path), UNIQUE KEY (code), KEY (name),
  KEY (slug), KEY (ancestors_are_public), KEY (is_public), KEY (exclude_from_menu)
);
CREATE TABLE catalogue_option (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(128) NOT NULL,
  type VARCHAR(255) NOT NULL, required TINYINT(1) NOT NULL, help_text VARCHAR(255), option_group_id BIGINT,
  `order` INT, PRIMARY KEY (id), UNIQUE KEY (code), KEY (name), KEY (`order`),
  FOREIGN KEY (option_group_id) REFERENCES catalogue_attributeoptiongroup (id)
);
CREATE TABLE catalogue_productclass (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, slug VARCHAR(128) NOT NULL,
  requires_shipping TINYINT(1) NOT NULL, track_stock TINYINT(1) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (slug)
);
CREATE TABLE catalogue_product (
  id BIGINT NOT NULL AUTO_INCREMENT, structure VARCHAR(10) NOT NULL, upc VARCHAR(64), title VARCHAR(255) NOT NULL,
  slug VARCHAR(255) NOT NULL, description LONGTEXT NOT NULL, rating DOUBLE, date_created DATETIME(6) NOT NULL,
  date_updated DATETIME(6) NOT NULL, is_discountable TINYINT(1) NOT NULL, parent_id BIGINT, product_class_id BIGINT,
  is_public TINYINT(1) NOT NULL, meta_description LONGTEXT, meta_title VARCHAR(255), priority SMALLINT NOT NULL,
  code VARCHAR(255), PRIMARY KEY (id), UNIQUE KEY (upc), UNIQUE KEY (code), KEY (slug), KEY (date_updated),
  KEY (date_created), KEY (is_public), KEY (priority), FOREIGN KEY (parent_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (product_class_id) REFERENCES catalogue_productclass (id)
);
CREATE TABLE analytics_productrecord (
  id BIGINT NOT NULL AUTO_INCREMENT, num_views INT UNSIGNED NOT NULL, num_basket_additions INT UNSIGNED NOT NULL,
  num_purchases INT UNSIGNED NOT NULL, score DOUBLE NOT NULL, product_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (product_id), KEY (num_purchases), FOREIGN KEY (product_id) REFERENCES catalogue_product (id)
);
CREATE TABLE analytics_userproductview (
  id BIGINT NOT NULL AUTO_INCREMENT, date_created DATETIME(6) NOT NULL, product_id BIGINT NOT NULL,
  user_id INT NOT NULL, PRIMARY KEY (id), FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE catalogue_product_product_options (
  id BIGINT NOT NULL AUTO_INCREMENT, product_id BIGINT NOT NULL, option_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (product_id, option_id), FOREIGN KEY (option_id) REFERENCES catalogue_option (id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id)
);
CREATE TABLE catalogue_productattribute (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(128) NOT NULL,
  type VARCHAR(20) NOT NULL, required TINYINT(1) NOT NULL, option_group_id BIGINT, product_class_id BIGINT,
  PRIMARY KEY (id), UNIQUE KEY (code, product_class_id), KEY (code),
  FOREIGN KEY (option_group_id) REFERENCES catalogue_attributeoptiongroup (id),
  FOREIGN KEY (product_class_id) REFERENCES catalogue_productclass (id)
);
CREATE TABLE catalogue_productcategory (
  id BIGINT NOT NULL AUTO_INCREMENT, category_id BIGINT NOT NULL, product_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (product_id, category_id), FOREIGN KEY (category_id) REFERENCES catalogue_category (id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id)
);
CREATE TABLE catalogue_productclass_options (
  id BIGINT NOT NULL AUTO_INCREMENT, productclass_id BIGINT NOT NULL, option_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (productclass_id, option_id), FOREIGN KEY (option_id) REFERENCES catalogue_option (id),
  FOREIGN KEY (productclass_id) REFERENCES catalogue_productclass (id)
);
CREATE TABLE catalogue_productimage (
  id BIGINT NOT NULL AUTO_INCREMENT, original VARCHAR(255) NOT NULL, caption VARCHAR(200) NOT NULL,
  display_order INT UNSIGNED NOT NULL, date_created DATETIME(6) NOT NULL, product_id BIGINT NOT NULL,
  code VARCHAR(255), PRIMARY KEY (id), UNIQUE KEY (code), KEY (display_order),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id)
);
CREATE TABLE catalogue_productrecommendation (
  id BIGINT NOT NULL AUTO_INCREMENT, ranking SMALLINT UNSIGNED NOT NULL, primary_id BIGINT NOT NULL,
  recommendation_id BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (primary_id, recommendation_id), KEY (ranking),
  FOREIGN KEY (primary_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (recommendation_id) REFERENCES catalogue_product (id)
);
CREATE TABLE communication_communicationeventtype (
  id BIGINT NOT NULL AUTO_INCREMENT, code VARCHAR(128) NOT NULL, name VARCHAR(255) NOT NULL,
  category VARCHAR(255) NOT NULL, email_subject_template VARCHAR(255), email_body_template LONGTEXT,
  email_body_html_template LONGTEXT, sms_template VARCHAR(170), date_created DATETIME(6) NOT NULL,
  date_updated DATETIME(6) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (code), KEY (name)
);
CREATE TABLE communication_email (
  id BIGINT NOT NULL AUTO_INCREMENT, subject LONGTEXT NOT NULL, body_text LONGTEXT NOT NULL,
  body_html LONGTEXT NOT NULL, date_sent DATETIME(6) NOT NULL, user_id INT, email VARCHAR(254), PRIMARY KEY (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE communication_notification (
  id BIGINT NOT NULL AUTO_INCREMENT, subject VARCHAR(255) NOT NULL, body LONGTEXT NOT NULL,
  location VARCHAR(32) NOT NULL, date_sent DATETIME(6) NOT NULL, date_read DATETIME(6), recipient_id INT NOT NULL,
  sender_id INT, PRIMARY KEY (id), KEY (date_sent), FOREIGN KEY (recipient_id) REFERENCES auth_user (id),
  FOREIGN KEY (sender_id) REFERENCES auth_user (id)
);
CREATE TABLE customer_productalert (
  id BIGINT NOT NULL AUTO_INCREMENT, email VARCHAR(254) NOT NULL, `key` VARCHAR(128) NOT NULL,
  status VARCHAR(20) NOT NULL, date_created DATETIME(6) NOT NULL, date_confirmed DATETIME(6),
  date_cancelled DATETIME(6), date_closed DATETIME(6), product_id BIGINT NOT NULL, user_id INT, PRIMARY KEY (id),
  KEY (email), KEY (`key`), KEY (date_created), FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE django_content_type (
  id INT NOT NULL AUTO_INCREMENT, app_label VARCHAR(100) NOT NULL, model VARCHAR(100) NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (app_label, model)
);
CREATE TABLE auth_permission (
  id INT NOT NULL AUTO_INCREMENT, name VARCHAR(255) NOT NULL, content_type_id INT NOT NULL,
  codename VARCHAR(100) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (content_type_id, codename),
  FOREIGN KEY (content_type_id) REFERENCES django_content_type (id)
);
CREATE TABLE auth_group_permissions (
  id BIGINT NOT NULL AUTO_INCREMENT, group_id INT NOT NULL, permission_id INT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (group_id, permission_id), FOREIGN KEY (group_id) REFERENCES auth_group (id),
  FOREIGN KEY (permission_id) REFERENCES auth_permission (id)
);
CREATE TABLE auth_user_user_permissions (
  id BIGINT NOT NULL AUTO_INCREMENT, user_id INT NOT NULL, permission_id INT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (user_id, permission_id), FOREIGN KEY (permission_id) REFERENCES auth_permission (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE catalogue_productattributevalue (
  id BIGINT NOT NULL AUTO_INCREMENT, value_text LONGTEXT, value_integer INT, value_boolean TINYINT(1),
  value_float DOUBLE, value_richtext LONGTEXT, value_date DATE, value_file VARCHAR(255), value_image VARCHAR(255),
  entity_object_id INT UNSIGNED, attribute_id BIGINT NOT NULL, entity_content_type_id INT,
  product_id BIGINT NOT NULL, value_option_id BIGINT, value_datetime DATETIME(6), PRIMARY KEY (id),
  UNIQUE KEY (attribute_id, product_id), KEY (value_boolean), KEY (value_date), KEY (value_datetime),
  KEY (value_float), KEY (value_integer), FOREIGN KEY (attribute_id) REFERENCES catalogue_productattribute (id),
  FOREIGN KEY (entity_content_type_id) REFERENCES django_content_type (id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (value_option_id) REFERENCES catalogue_attributeoption (id)
);
CREATE TABLE catalogue_productattributevalue_value_multi_option (
  id BIGINT NOT NULL AUTO_INCREMENT, productattributevalue_id BIGINT NOT NULL, attributeoption_id BIGINT NOT NULL,
  PRIMARY KEY (id), UNIQUE KEY (productattributevalue_id, attributeoption_id),
  FOREIGN KEY (attributeoption_id) REFERENCES catalogue_attributeoption (id),
  FOREIGN KEY (productattributevalue_id) REFERENCES catalogue_productattributevalue (id)
);
CREATE TABLE django_admin_log (
  id INT NOT NULL AUTO_INCREMENT, action_time DATETIME(6) NOT NULL, object_id LONGTEXT,
  object_repr VARCHAR(200) NOT NULL, action_flag SMALLINT UNSIGNED NOT NULL, change_message LONGTEXT NOT NULL,
  content_type_id INT, user_id INT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY (content_type_id) REFERENCES django_content_type (id), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE django_flatpage (
  id INT NOT NULL AUTO_INCREMENT, url VARCHAR(100) NOT NULL, title VARCHAR(200) NOT NULL, content LONGTEXT NOT NULL,
  enable_comments TINYINT(1) NOT NULL, template_name VARCHAR(70) NOT NULL,
  registration_required TINYINT(1) NOT NULL, PRIMARY KEY (id), KEY (url)
);
CREATE TABLE django_migrations (
  id BIGINT NOT NULL AUTO_INCREMENT, app VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL,
  applied DATETIME(6) NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE django_session (
  session_key VARCHAR(40) NOT NULL, session_data LONGTEXT NOT NULL, expire_date DATETIME(6) NOT NULL,
  PRIMARY KEY (session_key), KEY (expire_date)
);
CREATE TABLE django_site (
  id INT NOT NULL AUTO_INCREMENT, domain VARCHAR(100) NOT NULL, name VARCHAR(50) NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (domain)
);
CREATE TABLE django_flatpage_sites (
  id BIGINT NOT NULL AUTO_INCREMENT, flatpage_id INT NOT NULL, site_id INT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (flatpage_id, site_id), FOREIGN KEY (flatpage_id) REFERENCES django_flatpage (id),
  FOREIGN KEY (site_id) REFERENCES django_site (id)
);
CREATE TABLE offer_range (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, slug VARCHAR(128) NOT NULL,
  description LONGTEXT NOT NULL, is_public TINYINT(1) NOT NULL, includes_all_products TINYINT(1) NOT NULL,
  proxy_class VARCHAR(255), date_created DATETIME(6) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (name),
  UNIQUE KEY (slug), UNIQUE KEY (proxy_class)
);
CREATE TABLE offer_benefit (
  id BIGINT NOT NULL AUTO_INCREMENT, type VARCHAR(128) NOT NULL, value DECIMAL(12,2),
  max_affected_items INT UNSIGNED, proxy_class VARCHAR(255), range_id BIGINT, PRIMARY KEY (id),
  FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_condition (
  id BIGINT NOT NULL AUTO_INCREMENT, type VARCHAR(128) NOT NULL, value DECIMAL(12,2), proxy_class VARCHAR(255),
  range_id BIGINT, PRIMARY KEY (id), FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_conditionaloffer (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, slug VARCHAR(128) NOT NULL,
  description LONGTEXT NOT NULL, offer_type VARCHAR(128) NOT NULL, status VARCHAR(64) NOT NULL,
  priority INT NOT NULL, start_datetime DATETIME(6), end_datetime DATETIME(6), max_global_applications INT UNSIGNED,
  max_user_applications INT UNSIGNED, max_basket_applications INT UNSIGNED, max_discount DECIMAL(12,2),
  total_discount DECIMAL(12,2) NOT NULL, num_applications INT UNSIGNED NOT NULL, num_orders INT UNSIGNED NOT NULL,
  redirect_url VARCHAR(200) NOT NULL, date_created DATETIME(6) NOT NULL, benefit_id BIGINT NOT NULL,
  condition_id BIGINT NOT NULL, exclusive TINYINT(1) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (name),
  UNIQUE KEY (slug), KEY (priority), FOREIGN KEY (benefit_id) REFERENCES offer_benefit (id),
  FOREIGN KEY (condition_id) REFERENCES offer_condition (id)
);
CREATE TABLE offer_conditionaloffer_combinations (
  id BIGINT NOT NULL AUTO_INCREMENT, from_conditionaloffer_id BIGINT NOT NULL,
  to_conditionaloffer_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (from_conditionaloffer_id, to_conditionaloffer_id),
  FOREIGN KEY (from_conditionaloffer_id) REFERENCES offer_conditionaloffer (id),
  FOREIGN KEY (to_conditionaloffer_id) REFERENCES offer_conditionaloffer (id)
);
CREATE TABLE offer_range_classes (
  id BIGINT NOT NULL AUTO_INCREMENT, range_id BIGINT NOT NULL, productclass_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (range_id, productclass_id), FOREIGN KEY (productclass_id) REFERENCES catalogue_productclass (id),
  FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_range_excluded_categories (
  id BIGINT NOT NULL AUTO_INCREMENT, range_id BIGINT NOT NULL, category_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (range_id, category_id), FOREIGN KEY (category_id) REFERENCES catalogue_category (id),
  FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_range_excluded_products (
  id BIGINT NOT NULL AUTO_INCREMENT, range_id BIGINT NOT NULL, product_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (range_id, product_id), FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_range_included_categories (
  id BIGINT NOT NULL AUTO_INCREMENT, range_id BIGINT NOT NULL, category_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (range_id, category_id), FOREIGN KEY (category_id) REFERENCES catalogue_category (id),
  FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_rangeproduct (
  id BIGINT NOT NULL AUTO_INCREMENT, display_order INT NOT NULL, product_id BIGINT NOT NULL,
  range_id BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (range_id, product_id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id), FOREIGN KEY (range_id) REFERENCES offer_range (id)
);
CREATE TABLE offer_rangeproductfileupload (
  id BIGINT NOT NULL AUTO_INCREMENT, filepath VARCHAR(255) NOT NULL, size INT UNSIGNED NOT NULL,
  date_uploaded DATETIME(6) NOT NULL, status VARCHAR(32) NOT NULL, error_message VARCHAR(255) NOT NULL,
  date_processed DATETIME(6), num_new_skus INT UNSIGNED, num_unknown_skus INT UNSIGNED,
  num_duplicate_skus INT UNSIGNED, range_id BIGINT NOT NULL, uploaded_by_id INT NOT NULL,
  upload_type VARCHAR(8) NOT NULL, PRIMARY KEY (id), KEY (date_uploaded),
  FOREIGN KEY (range_id) REFERENCES offer_range (id), FOREIGN KEY (uploaded_by_id) REFERENCES auth_user (id)
);
CREATE TABLE order_billingaddress (
  id BIGINT NOT NULL AUTO_INCREMENT, title VARCHAR(64) NOT NULL, first_name VARCHAR(255) NOT NULL,
  last_name VARCHAR(255) NOT NULL, line1 VARCHAR(255) NOT NULL, line2 VARCHAR(255) NOT NULL,
  line3 VARCHAR(255) NOT NULL, line4 VARCHAR(255) NOT NULL, state VARCHAR(255) NOT NULL,
  postcode VARCHAR(64) NOT NULL, search_text LONGTEXT NOT NULL, country_id VARCHAR(2) NOT NULL, code VARCHAR(255),
  PRIMARY KEY (id), UNIQUE KEY (code), FOREIGN KEY (country_id) REFERENCES address_country (iso_3166_1_a2)
);
CREATE TABLE order_paymenteventtype (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(128) NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (name), UNIQUE KEY (code)
);
CREATE TABLE order_shippingaddress (
  id BIGINT NOT NULL AUTO_INCREMENT, title VARCHAR(64) NOT NULL, first_name VARCHAR(255) NOT NULL,
  last_name VARCHAR(255) NOT NULL, line1 VARCHAR(255) NOT NULL, line2 VARCHAR(255) NOT NULL,
  line3 VARCHAR(255) NOT NULL, line4 VARCHAR(255) NOT NULL, state VARCHAR(255) NOT NULL,
  postcode VARCHAR(64) NOT NULL, search_text LONGTEXT NOT NULL, phone_number VARCHAR(128) NOT NULL,
  notes LONGTEXT NOT NULL, country_id VARCHAR(2) NOT NULL, code VARCHAR(255), PRIMARY KEY (id), UNIQUE KEY (code),
  FOREIGN KEY (country_id) REFERENCES address_country (iso_3166_1_a2)
);
CREATE TABLE order_order (
  id BIGINT NOT NULL AUTO_INCREMENT, number VARCHAR(128) NOT NULL, currency VARCHAR(12) NOT NULL,
  total_incl_tax DECIMAL(12,2) NOT NULL, total_excl_tax DECIMAL(12,2) NOT NULL,
  shipping_incl_tax DECIMAL(12,2) NOT NULL, shipping_excl_tax DECIMAL(12,2) NOT NULL,
  shipping_method VARCHAR(128) NOT NULL, shipping_code VARCHAR(128) NOT NULL, status VARCHAR(100) NOT NULL,
  guest_email VARCHAR(254) NOT NULL, date_placed DATETIME(6) NOT NULL, basket_id BIGINT, billing_address_id BIGINT,
  shipping_address_id BIGINT, site_id INT, user_id INT, shipping_tax_code VARCHAR(64),
  analytics_tracked TINYINT(1) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (number), KEY (date_placed),
  FOREIGN KEY (basket_id) REFERENCES basket_basket (id),
  FOREIGN KEY (billing_address_id) REFERENCES order_billingaddress (id),
  FOREIGN KEY (shipping_address_id) REFERENCES order_shippingaddress (id),
  FOREIGN KEY (site_id) REFERENCES django_site (id), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE order_communicationevent (
  id BIGINT NOT NULL AUTO_INCREMENT, date_created DATETIME(6) NOT NULL, event_type_id BIGINT NOT NULL,
  order_id BIGINT NOT NULL, PRIMARY KEY (id), KEY (date_created),
  FOREIGN KEY (event_type_id) REFERENCES communication_communicationeventtype (id),
  FOREIGN KEY (order_id) REFERENCES order_order (id)
);
CREATE TABLE order_orderdiscount (
  id BIGINT NOT NULL AUTO_INCREMENT, category VARCHAR(64) NOT NULL, offer_id INT UNSIGNED,
  offer_name VARCHAR(128) NOT NULL, voucher_id INT UNSIGNED, voucher_code VARCHAR(128) NOT NULL,
  frequency INT UNSIGNED, amount DECIMAL(12,2) NOT NULL, message LONGTEXT NOT NULL, order_id BIGINT NOT NULL,
  PRIMARY KEY (id), KEY (offer_name), KEY (voucher_code), FOREIGN KEY (order_id) REFERENCES order_order (id)
);
CREATE TABLE order_ordernote (
  id BIGINT NOT NULL AUTO_INCREMENT, note_type VARCHAR(128) NOT NULL, message LONGTEXT NOT NULL,
  date_created DATETIME(6) NOT NULL, date_updated DATETIME(6) NOT NULL, order_id BIGINT NOT NULL, user_id INT,
  PRIMARY KEY (id), FOREIGN KEY (order_id) REFERENCES order_order (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE order_orderstatuschange (
  id BIGINT NOT NULL AUTO_INCREMENT, old_status VARCHAR(100) NOT NULL, new_status VARCHAR(100) NOT NULL,
  date_created DATETIME(6) NOT NULL, order_id BIGINT NOT NULL, PRIMARY KEY (id), KEY (date_created),
  FOREIGN KEY (order_id) REFERENCES order_order (id)
);
CREATE TABLE order_shippingeventtype (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(255) NOT NULL, code VARCHAR(128) NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (name), UNIQUE KEY (code)
);
CREATE TABLE order_shippingevent (
  id BIGINT NOT NULL AUTO_INCREMENT, notes LONGTEXT NOT NULL, date_created DATETIME(6) NOT NULL,
  event_type_id BIGINT NOT NULL, order_id BIGINT NOT NULL, PRIMARY KEY (id), KEY (date_created),
  FOREIGN KEY (event_type_id) REFERENCES order_shippingeventtype (id),
  FOREIGN KEY (order_id) REFERENCES order_order (id)
);
CREATE TABLE order_paymentevent (
  id BIGINT NOT NULL AUTO_INCREMENT, amount DECIMAL(12,2) NOT NULL, reference VARCHAR(128) NOT NULL,
  date_created DATETIME(6) NOT NULL, event_type_id BIGINT NOT NULL, order_id BIGINT NOT NULL,
  shipping_event_id BIGINT, PRIMARY KEY (id), KEY (date_created),
  FOREIGN KEY (event_type_id) REFERENCES order_paymenteventtype (id),
  FOREIGN KEY (order_id) REFERENCES order_order (id),
  FOREIGN KEY (shipping_event_id) REFERENCES order_shippingevent (id)
);
CREATE TABLE order_surcharge (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(128) NOT NULL,
  incl_tax DECIMAL(12,2) NOT NULL, excl_tax DECIMAL(12,2) NOT NULL, order_id BIGINT NOT NULL, tax_code VARCHAR(64),
  PRIMARY KEY (id), FOREIGN KEY (order_id) REFERENCES order_order (id)
);
CREATE TABLE partner_partner (
  id BIGINT NOT NULL AUTO_INCREMENT, code VARCHAR(128) NOT NULL, name VARCHAR(128) NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (code), KEY (name)
);
CREATE TABLE partner_partner_users (
  id BIGINT NOT NULL AUTO_INCREMENT, partner_id BIGINT NOT NULL, user_id INT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (partner_id, user_id), FOREIGN KEY (partner_id) REFERENCES partner_partner (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE partner_partneraddress (
  id BIGINT NOT NULL AUTO_INCREMENT, title VARCHAR(64) NOT NULL, first_name VARCHAR(255) NOT NULL,
  last_name VARCHAR(255) NOT NULL, line1 VARCHAR(255) NOT NULL, line2 VARCHAR(255) NOT NULL,
  line3 VARCHAR(255) NOT NULL, line4 VARCHAR(255) NOT NULL, state VARCHAR(255) NOT NULL,
  postcode VARCHAR(64) NOT NULL, search_text LONGTEXT NOT NULL, country_id VARCHAR(2) NOT NULL,
  partner_id BIGINT NOT NULL, code VARCHAR(255), PRIMARY KEY (id), UNIQUE KEY (code),
  FOREIGN KEY (country_id) REFERENCES address_country (iso_3166_1_a2),
  FOREIGN KEY (partner_id) REFERENCES partner_partner (id)
);
CREATE TABLE partner_stockrecord (
  id BIGINT NOT NULL AUTO_INCREMENT, partner_sku VARCHAR(128) NOT NULL, price_currency VARCHAR(12) NOT NULL,
  price DECIMAL(12,2), num_in_stock INT UNSIGNED, num_allocated INT, low_stock_threshold INT UNSIGNED,
  date_created DATETIME(6) NOT NULL, date_updated DATETIME(6) NOT NULL, partner_id BIGINT NOT NULL,
  product_id BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (partner_id, partner_sku), KEY (date_updated),
  FOREIGN KEY (partner_id) REFERENCES partner_partner (id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id)
);
CREATE TABLE basket_line (
  id BIGINT NOT NULL AUTO_INCREMENT, line_reference VARCHAR(128) NOT NULL, quantity INT UNSIGNED NOT NULL,
  price_currency VARCHAR(12) NOT NULL, price_excl_tax DECIMAL(12,2), price_incl_tax DECIMAL(12,2),
  date_created DATETIME(6) NOT NULL, basket_id BIGINT NOT NULL, product_id BIGINT NOT NULL,
  stockrecord_id BIGINT NOT NULL, date_updated DATETIME(6) NOT NULL, tax_code VARCHAR(64), PRIMARY KEY (id),
  UNIQUE KEY (basket_id, line_reference), KEY (line_reference), KEY (date_created), KEY (date_updated),
  FOREIGN KEY (basket_id) REFERENCES basket_basket (id), FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (stockrecord_id) REFERENCES partner_stockrecord (id)
);
CREATE TABLE basket_lineattribute (
  id BIGINT NOT NULL AUTO_INCREMENT, value JSON NOT NULL, line_id BIGINT NOT NULL, option_id BIGINT NOT NULL,
  PRIMARY KEY (id), FOREIGN KEY (line_id) REFERENCES basket_line (id),
  FOREIGN KEY (option_id) REFERENCES catalogue_option (id)
);
CREATE TABLE order_line (
  id BIGINT NOT NULL AUTO_INCREMENT, partner_name VARCHAR(128) NOT NULL, partner_sku VARCHAR(128) NOT NULL,
  partner_line_reference VARCHAR(128) NOT NULL, partner_line_notes LONGTEXT NOT NULL, title VARCHAR(255) NOT NULL,
  upc VARCHAR(128), quantity INT UNSIGNED NOT NULL, line_price_incl_tax DECIMAL(12,2) NOT NULL,
  line_price_excl_tax DECIMAL(12,2) NOT NULL, line_price_before_discounts_incl_tax DECIMAL(12,2) NOT NULL,
  line_price_before_discounts_excl_tax DECIMAL(12,2) NOT NULL, unit_price_incl_tax DECIMAL(12,2),
  unit_price_excl_tax DECIMAL(12,2), status VARCHAR(255) NOT NULL, order_id BIGINT NOT NULL, partner_id BIGINT,
  product_id BIGINT, stockrecord_id BIGINT, tax_code VARCHAR(64), allocation_cancelled TINYINT(1) NOT NULL,
  num_allocated INT UNSIGNED NOT NULL, PRIMARY KEY (id), FOREIGN KEY (order_id) REFERENCES order_order (id),
  FOREIGN KEY (partner_id) REFERENCES partner_partner (id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (stockrecord_id) REFERENCES partner_stockrecord (id)
);
CREATE TABLE order_lineattribute (
  id BIGINT NOT NULL AUTO_INCREMENT, type VARCHAR(128) NOT NULL, value JSON NOT NULL, line_id BIGINT NOT NULL,
  option_id BIGINT, PRIMARY KEY (id), FOREIGN KEY (line_id) REFERENCES order_line (id),
  FOREIGN KEY (option_id) REFERENCES catalogue_option (id)
);
CREATE TABLE order_lineprice (
  id BIGINT NOT NULL AUTO_INCREMENT, quantity INT UNSIGNED NOT NULL, price_incl_tax DECIMAL(12,2) NOT NULL,
  price_excl_tax DECIMAL(12,2) NOT NULL, shipping_incl_tax DECIMAL(12,2) NOT NULL,
  shipping_excl_tax DECIMAL(12,2) NOT NULL, line_id BIGINT NOT NULL, order_id BIGINT NOT NULL, tax_code VARCHAR(64),
  PRIMARY KEY (id), FOREIGN KEY (line_id) REFERENCES order_line (id),
  FOREIGN KEY (order_id) REFERENCES order_order (id)
);
CREATE TABLE order_orderlinediscount (
  id BIGINT NOT NULL AUTO_INCREMENT, is_incl_tax TINYINT(1) NOT NULL, amount DECIMAL(12,2) NOT NULL,
  line_id BIGINT NOT NULL, order_discount_id BIGINT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY (line_id) REFERENCES order_line (id),
  FOREIGN KEY (order_discount_id) REFERENCES order_orderdiscount (id)
);
CREATE TABLE order_paymenteventquantity (
  id BIGINT NOT NULL AUTO_INCREMENT, quantity INT UNSIGNED NOT NULL, event_id BIGINT NOT NULL,
  line_id BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (event_id, line_id),
  FOREIGN KEY (event_id) REFERENCES order_paymentevent (id), FOREIGN KEY (line_id) REFERENCES order_line (id)
);
CREATE TABLE order_shippingeventquantity (
  id BIGINT NOT NULL AUTO_INCREMENT, quantity INT UNSIGNED NOT NULL, event_id BIGINT NOT NULL,
  line_id BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (event_id, line_id),
  FOREIGN KEY (event_id) REFERENCES order_shippingevent (id), FOREIGN KEY (line_id) REFERENCES order_line (id)
);
CREATE TABLE partner_stockalert (
  id BIGINT NOT NULL AUTO_INCREMENT, threshold INT UNSIGNED NOT NULL, status VARCHAR(128) NOT NULL,
  date_created DATETIME(6) NOT NULL, date_closed DATETIME(6), stockrecord_id BIGINT NOT NULL, PRIMARY KEY (id),
  KEY (date_created), FOREIGN KEY (stockrecord_id) REFERENCES partner_stockrecord (id)
);
CREATE TABLE payment_bankcard (
  id BIGINT NOT NULL AUTO_INCREMENT, card_type VARCHAR(128) NOT NULL, name VARCHAR(255) NOT NULL,
  number VARCHAR(32) NOT NULL, expiry_date DATE NOT NULL, partner_reference VARCHAR(255) NOT NULL,
  user_id INT NOT NULL, PRIMARY KEY (id), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE payment_sourcetype (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(128) NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (code), KEY (name)
);
CREATE TABLE payment_source (
  id BIGINT NOT NULL AUTO_INCREMENT, currency VARCHAR(12) NOT NULL, amount_allocated DECIMAL(12,2) NOT NULL,
  amount_debited DECIMAL(12,2) NOT NULL, amount_refunded DECIMAL(12,2) NOT NULL, reference VARCHAR(255) NOT NULL,
  label VARCHAR(128) NOT NULL, order_id BIGINT NOT NULL, source_type_id BIGINT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY (order_id) REFERENCES order_order (id),
  FOREIGN KEY (source_type_id) REFERENCES payment_sourcetype (id)
);
CREATE TABLE payment_transaction (
  id BIGINT NOT NULL AUTO_INCREMENT, txn_type VARCHAR(128) NOT NULL, amount DECIMAL(12,2) NOT NULL,
  reference VARCHAR(128) NOT NULL, status VARCHAR(128) NOT NULL, date_created DATETIME(6) NOT NULL,
  source_id BIGINT NOT NULL, PRIMARY KEY (id), KEY (date_created),
  FOREIGN KEY (source_id) REFERENCES payment_source (id)
);
CREATE TABLE reviews_productreview (
  id BIGINT NOT NULL AUTO_INCREMENT, score SMALLINT NOT NULL, title VARCHAR(255) NOT NULL, body LONGTEXT NOT NULL,
  name VARCHAR(255) NOT NULL, email VARCHAR(254) NOT NULL, homepage VARCHAR(200) NOT NULL, status SMALLINT NOT NULL,
  total_votes INT NOT NULL, delta_votes INT NOT NULL, date_created DATETIME(6) NOT NULL, product_id BIGINT,
  user_id INT, code VARCHAR(255), PRIMARY KEY (id), UNIQUE KEY (product_id, user_id), UNIQUE KEY (code),
  KEY (delta_votes), FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE reviews_vote (
  id BIGINT NOT NULL AUTO_INCREMENT, delta SMALLINT NOT NULL, date_created DATETIME(6) NOT NULL,
  review_id BIGINT NOT NULL, user_id INT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (user_id, review_id),
  FOREIGN KEY (review_id) REFERENCES reviews_productreview (id), FOREIGN KEY (user_id) REFERENCES auth_user (id)
);
CREATE TABLE shipping_orderanditemcharges (
  id BIGINT NOT NULL AUTO_INCREMENT, code VARCHAR(128) NOT NULL, name VARCHAR(128) NOT NULL,
  description LONGTEXT NOT NULL, price_per_order DECIMAL(12,2) NOT NULL, price_per_item DECIMAL(12,2) NOT NULL,
  free_shipping_threshold DECIMAL(12,2), PRIMARY KEY (id), UNIQUE KEY (code), UNIQUE KEY (name)
);
CREATE TABLE shipping_orderanditemcharges_countries (
  id BIGINT NOT NULL AUTO_INCREMENT, orderanditemcharges_id BIGINT NOT NULL, country_id VARCHAR(2) NOT NULL,
  PRIMARY KEY (id), UNIQUE KEY (orderanditemcharges_id, country_id),
  FOREIGN KEY (country_id) REFERENCES address_country (iso_3166_1_a2),
  FOREIGN KEY (orderanditemcharges_id) REFERENCES shipping_orderanditemcharges (id)
);
CREATE TABLE shipping_weightbased (
  id BIGINT NOT NULL AUTO_INCREMENT, code VARCHAR(128) NOT NULL, name VARCHAR(128) NOT NULL,
  description LONGTEXT NOT NULL, default_weight DECIMAL(12,3) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (code),
  UNIQUE KEY (name)
);
CREATE TABLE shipping_weightband (
  id BIGINT NOT NULL AUTO_INCREMENT, upper_limit DECIMAL(12,3) NOT NULL, charge DECIMAL(12,2) NOT NULL,
  method_id BIGINT NOT NULL, PRIMARY KEY (id), KEY (upper_limit),
  FOREIGN KEY (method_id) REFERENCES shipping_weightbased (id)
);
CREATE TABLE shipping_weightbased_countries (
  id BIGINT NOT NULL AUTO_INCREMENT, weightbased_id BIGINT NOT NULL, country_id VARCHAR(2) NOT NULL,
  PRIMARY KEY (id), UNIQUE KEY (weightbased_id, country_id),
  FOREIGN KEY (country_id) REFERENCES address_country (iso_3166_1_a2),
  FOREIGN KEY (weightbased_id) REFERENCES shipping_weightbased (id)
);
CREATE TABLE voucher_voucherset (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(100) NOT NULL, count INT UNSIGNED NOT NULL,
  code_length INT NOT NULL, description LONGTEXT NOT NULL, date_created DATETIME(6) NOT NULL,
  start_datetime DATETIME(6) NOT NULL, end_datetime DATETIME(6) NOT NULL, PRIMARY KEY (id), UNIQUE KEY (name),
  KEY (date_created)
);
CREATE TABLE voucher_voucher (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(128) NOT NULL, code VARCHAR(128) NOT NULL,
  `usage` VARCHAR(128) NOT NULL, start_datetime DATETIME(6) NOT NULL, end_datetime DATETIME(6) NOT NULL,
  num_basket_additions INT UNSIGNED NOT NULL, num_orders INT UNSIGNED NOT NULL,
  total_discount DECIMAL(12,2) NOT NULL, date_created DATETIME(6) NOT NULL, voucher_set_id BIGINT, PRIMARY KEY (id),
  UNIQUE KEY (code), UNIQUE KEY (name), KEY (end_datetime), KEY (start_datetime), KEY (date_created),
  FOREIGN KEY (voucher_set_id) REFERENCES voucher_voucherset (id)
);
CREATE TABLE basket_basket_vouchers (
  id BIGINT NOT NULL AUTO_INCREMENT, basket_id BIGINT NOT NULL, voucher_id BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (basket_id, voucher_id), FOREIGN KEY (basket_id) REFERENCES basket_basket (id),
  FOREIGN KEY (voucher_id) REFERENCES voucher_voucher (id)
);
CREATE TABLE voucher_voucher_offers (
  id BIGINT NOT NULL AUTO_INCREMENT, voucher_id BIGINT NOT NULL, conditionaloffer_id BIGINT NOT NULL,
  PRIMARY KEY (id), UNIQUE KEY (voucher_id, conditionaloffer_id),
  FOREIGN KEY (conditionaloffer_id) REFERENCES offer_conditionaloffer (id),
  FOREIGN KEY (voucher_id) REFERENCES voucher_voucher (id)
);
CREATE TABLE voucher_voucherapplication (
  id BIGINT NOT NULL AUTO_INCREMENT, date_created DATETIME(6) NOT NULL, order_id BIGINT NOT NULL, user_id INT,
  voucher_id BIGINT NOT NULL, PRIMARY KEY (id), KEY (date_created),
  FOREIGN KEY (order_id) REFERENCES order_order (id), FOREIGN KEY (user_id) REFERENCES auth_user (id),
  FOREIGN KEY (voucher_id) REFERENCES voucher_voucher (id)
);
CREATE TABLE wishlists_wishlist (
  id BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(255) NOT NULL, `key` VARCHAR(6) NOT NULL,
  visibility VARCHAR(20) NOT NULL, date_created DATETIME(6) NOT NULL, owner_id INT NOT NULL, PRIMARY KEY (id),
  UNIQUE KEY (`key`), KEY (date_created), FOREIGN KEY (owner_id) REFERENCES auth_user (id)
);
CREATE TABLE wishlists_line (
  id BIGINT NOT NULL AUTO_INCREMENT, quantity INT UNSIGNED NOT NULL, title VARCHAR(255) NOT NULL, product_id BIGINT,
  wishlist_id BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE KEY (wishlist_id, product_id),
  FOREIGN KEY (product_id) REFERENCES catalogue_product (id),
  FOREIGN KEY (wishlist_id) REFERENCES wishlists_wishlist (id)
);
CREATE TABLE wishlists_wishlistsharedemail (
  id BIGINT NOT NULL AUTO_INCREMENT, email VARCHAR(254) NOT NULL, wishlist_id BIGINT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY (wishlist_id) REFERENCES wishlists_wishlist (id)
);
-- What is left out of these rows is empty.
SET sql_mode = '';
INSERT INTO address_country (iso_3166_1_a2, iso_3166_1_a3, iso_3166_1_numeric, printable_name, name) VALUES
  ('AT', 'AUT', '040', 'Austria', 'AUSTRIA'), ('DE', 'DEU', '276', 'Germany', 'GERMANY'), ('FR', 'FRA', '250', 'France', 'FRANCE'),
  ('GB', 'GBR', '826', 'United Kingdom', 'UNITED KINGDOM'), ('IT', 'ITA', '380', 'Italy', 'ITALY');
INSERT INTO auth_user (id, password, username, first_name, last_name, email, is_active, date_joined) VALUES
  (1, 'pbkdf2_sha256$…', 'ada', 'Ada', 'Lovelace', 'ada@example.org', 1, NOW(6)),
  (2, 'pbkdf2_sha256$…', 'alan', 'Alan', 'Turing', 'alan@example.org', 1, NOW(6)),
  (3, 'pbkdf2_sha256$…', 'grace', 'Grace', 'Hopper', 'grace@example.org', 1, NOW(6));
INSERT INTO catalogue_productclass (id, name, slug, requires_shipping, track_stock) VALUES (1, 'Books', 'books', 1, 1);
INSERT INTO catalogue_product (id, structure, upc, title, slug, date_created, date_updated, product_class_id, is_public) VALUES
  (1, 'standalone', '9780306406157', 'On Engines', 'on-engines', NOW(6), NOW(6), 1, 1),
  (2, 'standalone', '9780131103627', 'On Numbers', 'on-numbers', NOW(6), NOW(6), 1, 1),
  (3, 'standalone', '9780262033848', 'On Compilers', 'on-compilers', NOW(6), NOW(6), 1, 1);
INSERT INTO partner_partner (id, code, name) VALUES (1, 'printer', 'The Printer');
INSERT INTO partner_stockrecord (id, partner_sku, price_currency, price, num_in_stock, date_created, date_updated, partner_id, product_id)
  VALUES (1, 'E1', 'EUR', 20, 7, NOW(6), NOW(6), 1, 1), (2, 'N1', 'EUR', 30, 5, NOW(6), NOW(6), 1, 2), (3, 'C1', 'EUR', 40, 3, NOW(6), NOW(6), 1, 3);
INSERT INTO basket_basket (id, status, date_created, owner_id) VALUES (1, 'Submitted', NOW(6), 1), (2, 'Submitted', NOW(6), 2), (3, 'Open', NOW(6), 1);
INSERT INTO order_order (id, number, currency, total_incl_tax, total_excl_tax, status, date_placed, basket_id, user_id) VALUES
  (1, '100001', 'EUR', 50, 45, 'Complete', NOW(6), 1, 1), (3, '100003', 'EUR', 9, 8, 'Complete', NOW(6), NULL, NULL), (2, '100002', 'EUR', 40, 36, 'Pending', NOW(6), 2, 2);
INSERT INTO order_line (id, partner_sku, title, upc, quantity, line_price_incl_tax, line_price_excl_tax, status, order_id, partner_id,
  product_id, stockrecord_id) VALUES (1, 'E1', 'On Engines', '9780306406157', 1, 20, 18, 'Complete', 1, 1, 1, 1),
  (2, 'N1', 'On Numbers', '9780131103627', 1, 30, 27, 'Complete', 1, 1, 2, 2), (3, 'C1', 'On Compilers', '9780262033848', 1, 40, 36, 'Pending', 2, 1, 3, 3);
