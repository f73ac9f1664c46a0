package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"replicator/internal/servers"
)

// cellDDL creates the source table of the jogchat example.
const cellDDL = `CREATE TABLE cell (
  added_at    BIGINT PRIMARY KEY AUTO_INCREMENT,
  row_key     BINARY(16) NOT NULL,
  column_name VARCHAR(64) NOT NULL,
  ref_key     BIGINT NOT NULL,
  body        BLOB,
  created_at  DATETIME DEFAULT CURRENT_TIMESTAMP,
  CONSTRAINT cell_idx UNIQUE (row_key, column_name, ref_key)
) ENGINE=InnoDB`

// table is the name of an index table of emails, and of its view.
type table string

// usersEmail is the table in runs with one view. It has the same name as in the jogchat example.
const usersEmail table = "index_users_email"

func (t table) ddl() string {
	return fmt.Sprintf("CREATE TABLE %s (email VARCHAR(254) NOT NULL, row_key BINARY(16) NOT NULL UNIQUE, "+
		"PRIMARY KEY (email, row_key)) ENGINE=InnoDB", t)
}

// view returns the view's configuration. from is the setting `from`, such as "cell.users".
func (t table) view(from, sink string) string {
	return fmt.Sprintf("\n[views.%s]\nfrom = %q\nsink = %q\nkind = \"index\"\nfields = [\"email\"]\n", t, from, sink)
}

func tableSink(s *servers.Server, database string) string {
	return fmt.Sprintf("[sinks.main]\ntype = \"mysql\"\ndsn = %q\n", s.DSN(database))
}

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

// verify compares every row of the table with the workload's first n rows, and returns how many rows there are.
func (t table) verify(ctx context.Context, db *sql.DB, database string, w *workload, n int) (rows int64, err error) {
	newest := w.newest(n)
	entities := make(map[[16]byte]int, len(newest))
	for entity, number := range newest {
		if number >= 0 {
			entities[w.key(entity)] = entity
		}
	}
	expected := len(entities)
	held, err := db.QueryContext(ctx, fmt.Sprintf("SELECT row_key, email FROM %s.%s", database, t))
	if err != nil {
		return 0, err
	}
	defer held.Close()
	var problems []error
	var key, email sql.RawBytes
	for held.Next() && len(problems) < 5 {
		if err := held.Scan(&key, &email); err != nil {
			return 0, err
		}
		rows++
		var k [16]byte
		copy(k[:], key)
		entity, ok := entities[k]
		if !ok || len(key) != len(k) {
			problems = append(problems, fmt.Errorf("%s: unexpected row with key %x", t, []byte(key)))
			continue
		}
		delete(entities, k) // so a second row with this key counts as unexpected
		if want := w.user(w.at(newest[entity])).email; string(email) != want {
			problems = append(problems, fmt.Errorf("%s: the email of key %x is %q, not %q", t, k, email, want))
		}
	}
	if err := held.Err(); err != nil {
		return 0, err
	}
	if len(problems) == 0 && len(entities) > 0 {
		problems = append(problems, fmt.Errorf("%s: %d of %d rows are missing", t, len(entities), expected))
	}
	return rows, errors.Join(problems...)
}
