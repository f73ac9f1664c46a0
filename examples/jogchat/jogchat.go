// Package jogchat is the example of schemaless cells: users, companies and schools written as immutable versions to one
// table, and the index and row tables that are kept of them. It holds the example's files, a writer that does all that
// an application may do to its cells, and a check of every table against the cells that shares no code with the
// program.
package jogchat

import (
	_ "embed"
	"strings"
)

//go:embed schema.sql
var schema string

// Config is the example's configuration file. It takes JOGCHAT_DSN, JOGCHAT_STATE and JOGCHAT_LISTEN from the
// environment.
//
//go:embed replicator.toml
var Config string

// Schema returns the DDL statements of the example.
func Schema() []string {
	var statements []string
	for s := range strings.SplitSeq(schema, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	return statements
}

// Table is a target table of the example and where its columns come from.
type Table struct {
	Name   string
	Entity string   // the cells' column_name
	Fields []string // properties, which name the columns too
	Index  bool     // an index table (fields and row_key), else a row table (id and fields)
}

// Tables are the 17 tables that are kept.
func Tables() []Table {
	entities := []struct {
		name   string
		fields []string
	}{
		{"users", []string{"username", "email", "phone", "password", "activate"}},
		{"companies", []string{"category", "domain", "name"}},
		{"schools", []string{"category", "domain", "name"}},
	}
	var tables []Table
	for _, e := range entities {
		tables = append(tables, Table{Name: e.name, Entity: e.name, Fields: e.fields})
		for _, f := range append([]string{"id"}, e.fields...) {
			tables = append(tables, Table{Name: "index_" + e.name + "_" + f, Entity: e.name, Fields: []string{f}, Index: true})
		}
	}
	return tables
}
