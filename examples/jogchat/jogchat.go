// Package jogchat is an example with schemaless cells: users, companies and schools in one table, as immutable
// versions. The views are index tables and row tables. The package contains the example's files, a writer with all
// kinds of changes, and a check of every table that shares no code with the replicator.
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

// Table describes one of the tables that the views fill.
type Table struct {
	Name   string
	Entity string   // the column_name of the cells in the table: users, companies or schools
	Fields []string // the properties of a cell's body that the table shows; also its column names
	Index  bool     // true: an index table (Fields and row_key); false: a row table (id and Fields)
}

// Tables returns the 17 target tables.
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
