package main

// The tables and configurations that most tests use.

const (
	cellTable = `CREATE TABLE cell (added_at BIGINT AUTO_INCREMENT PRIMARY KEY, row_key BINARY(16) NOT NULL,
		column_name VARCHAR(64) NOT NULL, ref_key BIGINT NOT NULL, body LONGBLOB,
		UNIQUE KEY cell_idx (row_key, column_name, ref_key))`
	usersTable = `CREATE TABLE users (id BINARY(16) PRIMARY KEY, username VARCHAR(10), email VARCHAR(100), phone INT)`
	emailTable = `CREATE TABLE index_users_email (email VARCHAR(100) NOT NULL, row_key BINARY(16) NOT NULL,
		PRIMARY KEY (email, row_key), KEY (row_key))`
	phoneTable = `CREATE TABLE index_users_phone (phone INT NOT NULL, row_key BINARY(16) NOT NULL,
		PRIMARY KEY (phone, row_key), KEY (row_key))`
)

const source = `
[source]
dsn = "${DSN}"
`

const program = `
[checkpoint]
path = "state"
interval = "100ms"

[http]
listen = "${LISTEN}"

[tables.cell]
key = "row_key"
column = "column_name"
version = "ref_key"
offset = "added_at"
body = "body"
codec = "json"
`

const mainSink = `
[sinks.main]
type = "mysql"
dsn = "${DSN}"
`

const redisSink = `
[sinks.cache]
type = "redis"
url = "${REDIS}"
`

const elasticSink = `
[sinks.search]
type = "elastic"
addresses = ["${ELASTIC}"]
`

const emailView = `
[views.index_users_email]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["email"]
`

const usersView = `
[views.users]
from = "cell.users"
sink = "main"
kind = "row"
key = { id = "$row_key" }
fields = ["username", "email", "phone"]
`

const phoneView = `
[views.index_users_phone]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["phone"]
`

const cellViews = source + program + mainSink + emailView + usersView + phoneView
