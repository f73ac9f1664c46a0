package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// cellDDL is the source table, as the jogchat example has it.
const cellDDL = `CREATE TABLE cell (
  added_at    BIGINT PRIMARY KEY AUTO_INCREMENT,
  row_key     BINARY(16) NOT NULL,
  column_name VARCHAR(64) NOT NULL,
  ref_key     BIGINT NOT NULL,
  body        BLOB,
  created_at  DATETIME DEFAULT CURRENT_TIMESTAMP,
  CONSTRAINT cell_idx UNIQUE (row_key, column_name, ref_key)
) ENGINE=InnoDB`

// table is a target table: the view of the same name keeps it.
type table struct {
	name   string
	ddl    string
	view   string                // the view's lines in the configuration
	key    string                // the column that holds the entity's key
	fields []string              // the other columns
	row    func(u user) []string // their values, as the server shows them
}

// indexTable is the seed's index table of one property. part is how the property stands in the primary key: a TEXT can
// only be there by a prefix.
func indexTable(property, columnType, part string, value func(u user) string) table {
	return table{
		name: "index_users_" + property,
		ddl: fmt.Sprintf("CREATE TABLE index_users_%s (%s %s, row_key BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (%s, row_key)) ENGINE=InnoDB",
			property, property, columnType, part),
		view:   fmt.Sprintf("kind = \"index\"\nfields = [%q]", property),
		key:    "row_key",
		fields: []string{property},
		row:    func(u user) []string { return []string{value(u)} },
	}
}

// oneView is the table of the runs with one view.
func oneView() []table {
	return []table{indexTable("email", "VARCHAR(254) NOT NULL", "email", func(u user) string { return u.email })}
}

// allViews are the seven tables that the users cell feeds in the jogchat example.
func allViews() []table {
	phone := func(u user) string { return strconv.Itoa(u.phone) }
	activate := func(u user) string {
		if u.activate {
			return "1"
		}
		return "0"
	}
	return append(oneView(),
		indexTable("id", "BINARY(16) NOT NULL", "id", func(u user) string { return string(u.key[:]) }),
		indexTable("username", "VARCHAR(20) NOT NULL", "username", func(u user) string { return u.username }),
		indexTable("phone", "INT", "phone", phone),
		indexTable("password", "TEXT NOT NULL", "password(191)", func(u user) string { return u.password }),
		indexTable("activate", "BOOLEAN NOT NULL", "activate", activate),
		table{
			name: "users",
			ddl: "CREATE TABLE users (id BINARY(16) PRIMARY KEY, username VARCHAR(20), email VARCHAR(254), phone INT, password TEXT, " +
				"activate BOOLEAN) ENGINE=InnoDB",
			view:   "kind = \"row\"\nkey = { id = \"$row_key\" }\nfields = [\"username\", \"email\", \"phone\", \"password\", \"activate\"]",
			key:    "id",
			fields: []string{"username", "email", "phone", "password", "activate"},
			row:    func(u user) []string { return []string{u.username, u.email, phone(u), u.password, activate(u)} },
		})
}

// create makes a database with the tables.
func create(ctx context.Context, db *sql.DB, name string, ddl ...string) error {
	for i, q := range append([]string{"CREATE DATABASE " + name + " CHARACTER SET utf8mb4"}, ddl...) {
		if i > 0 {
			q = strings.Replace(q, "CREATE TABLE ", "CREATE TABLE "+name+".", 1)
		}
		if _, err := db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// verify compares every row of the table with what the first n cells of the workload say, and returns how many there
// are.
func (t *table) verify(ctx context.Context, db *sql.DB, database string, w *workload, n int) (rows int64, err error) {
	newest := w.newest(n)
	entities := make(map[[16]byte]int, len(newest))
	for entity, number := range newest {
		if number >= 0 {
			entities[w.key(entity)] = entity
		}
	}
	expected := len(entities)
	held, err := db.QueryContext(ctx, "SELECT "+t.key+", "+strings.Join(t.fields, ", ")+" FROM "+database+"."+t.name)
	if err != nil {
		return 0, err
	}
	defer held.Close()
	var problems []error
	values := make([]sql.NullString, len(t.fields))
	var key sql.RawBytes
	into := []any{&key}
	for i := range values {
		into = append(into, &values[i])
	}
	for held.Next() && len(problems) < 5 {
		if err := held.Scan(into...); err != nil {
			return 0, err
		}
		rows++
		var k [16]byte
		copy(k[:], key)
		entity, ok := entities[k]
		if !ok || len(key) != len(k) {
			problems = append(problems, fmt.Errorf("%s: a row with key %x is too many", t.name, []byte(key)))
			continue
		}
		delete(entities, k) // a second one is too many
		for i, want := range t.row(w.user(w.at(newest[entity]))) {
			if values[i] != (sql.NullString{String: want, Valid: true}) {
				problems = append(problems, fmt.Errorf("%s: %s of key %s is %q, not %q", t.name, t.fields[i],
					hex.EncodeToString(k[:]), values[i].String, want))
			}
		}
	}
	if err := held.Err(); err != nil {
		return 0, err
	}
	if len(problems) == 0 && len(entities) > 0 {
		problems = append(problems, fmt.Errorf("%s: %d of %d rows are missing", t.name, len(entities), expected))
	}
	return rows, errors.Join(problems...)
}
