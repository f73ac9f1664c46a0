package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
)

// Schema returns the DDL of the views' tables that are missing, a statement each, with a type for every column: the
// configured one, else a guess that a comment points out.
func (s *Sink) Schema(ctx context.Context, views []*replicator.View) ([]string, error) {
	var out []string
	for _, v := range views {
		sh, err := s.readShape(ctx, v.Table)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
		if sh == nil {
			out = append(out, s.ddl(ctx, v))
		}
	}
	return out, nil
}

// createTarget creates a view's table if it is missing.
func (s *Sink) createTarget(ctx context.Context, v *replicator.View) error {
	sh, err := s.readShape(ctx, v.Table)
	if err != nil || sh != nil {
		return err
	}
	statement := strings.Replace(s.ddl(ctx, v), "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		err = classify(err, fmt.Sprintf("view %s: creating table %s from its types", v.Name, v.Table))
		return replicator.Fatal(err)
	}
	s.log.Info("created a table", "sink", s.name, "view", v.Name, "table", v.Table)
	return nil
}

// The types of columns that the configuration says nothing of. A key's takes bytes, texts and numbers alike.
const (
	guessedKey     = "VARBINARY(255)"
	guessedField   = "VARCHAR(255)"
	guessedVersion = "BIGINT"
	guessedSum     = "BIGINT"
)

// ddl is the CREATE TABLE of a view's table.
func (s *Sink) ddl(ctx context.Context, v *replicator.View) string {
	database, table := split(v.Table, s.database)
	name := quote(table)
	if database != s.database {
		name = quote(database) + "." + name
	}
	var lines []string
	column := func(f replicator.Field, guess, null string) {
		typ, note := v.Types[f.Name], ""
		if typ == "" {
			typ = s.sourceType(ctx, v, f)
		}
		if typ == "" {
			typ, note = guess, " /* a guess: check it */"
		}
		lines = append(lines, "  "+quote(f.Name)+" "+typ+null+note)
	}
	fieldsNull := " NOT NULL"
	if v.Kind == "row" {
		fieldsNull = " NULL"
	}
	keys := make([]string, 0, len(v.KeyFrom))
	for _, f := range v.KeyFrom {
		keys = append(keys, quote(f.Name))
	}
	if v.Kind == "row" {
		for _, f := range v.KeyFrom {
			column(f, guessedKey, " NOT NULL")
		}
	}
	for i, f := range v.Fields {
		switch {
		case v.Kind == "counter" && i == len(v.Fields)-1: // a sum needs more room than its amounts
			column(replicator.Field{Name: f.Name}, guessedSum, fieldsNull)
		case v.Kind == "counter" && strings.HasPrefix(f.Path, "$"): // most likely a part of the key
			column(f, guessedKey, fieldsNull)
		default:
			column(f, guessedField, fieldsNull)
		}
	}
	if v.Kind != "row" {
		for _, f := range v.KeyFrom {
			column(f, guessedKey, " NOT NULL")
		}
	}
	if v.VersionColumn != "" {
		column(replicator.Field{Name: v.VersionColumn}, guessedVersion, " NOT NULL")
	}
	switch v.Kind {
	case "row":
		lines = append(lines, "  PRIMARY KEY ("+strings.Join(keys, ", ")+")")
	case "counter":
		var group []string
		for _, f := range v.Fields[:len(v.Fields)-1] {
			group = append(group, quote(f.Name))
		}
		lines = append(lines, "  PRIMARY KEY ("+strings.Join(group, ", ")+")")
	default:
		lines = append(lines, indexKeys(v, keys)...)
	}
	return "CREATE TABLE " + name + " (\n" + strings.Join(lines, ",\n") + "\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
}

// sourceType is the type of the source's column that a field is made of; "" if it is made of something else, if the source
// can't be asked, or if the type is too long for a key.
func (s *Sink) sourceType(ctx context.Context, v *replicator.View, f replicator.Field) string {
	if s.columnType == nil || len(v.From) == 0 {
		return ""
	}
	table := s.tables[v.From[0].Table]
	column, own := strings.CutPrefix(f.Path, "$")
	if !own && table.Body != "" || strings.ContainsAny(column, ".[=") || column == "" {
		return ""
	}
	typ, err := s.columnType(ctx, table.Name, column)
	if err != nil {
		s.log.Warn("the source can't be asked for a column's type", "sink", s.name, "table", table.Name, "column", column, "error", err)
		return ""
	}
	if v.Kind != "row" && isLong(typ) {
		return ""
	}
	return typ
}

// indexKeys are the keys of an index's table: by value, and by the entity's key. Columns that are too long to be indexed in
// full can't be part of a primary key, which would take values for equal that begin alike.
func indexKeys(v *replicator.View, keys []string) []string {
	var parts []string
	long := false
	for _, f := range v.Fields {
		q := quote(f.Name)
		if isLong(v.Types[f.Name]) {
			q, long = q+"(191)", true
		}
		parts = append(parts, q)
	}
	byValue := strings.Join(append(slices.Clone(parts), keys...), ", ")
	byKey := "  KEY (" + strings.Join(keys, ", ") + ")"
	if long { // a number of its own, because many servers want every table to have a primary key
		return []string{"  replicator_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY", "  KEY (" + byValue + ")", byKey}
	}
	return []string{"  PRIMARY KEY (" + byValue + ")", byKey}
}

// isLong reports whether a declared type is too long for an index: 3,072 bytes are the limit, 4 a character.
func isLong(declared string) bool {
	d := strings.ToUpper(strings.TrimSpace(declared))
	if strings.Contains(d, "TEXT") || strings.Contains(d, "BLOB") {
		return true
	}
	var n int
	if _, err := fmt.Sscanf(d, "VARCHAR(%d)", &n); err == nil {
		return n > 500
	}
	if _, err := fmt.Sscanf(d, "VARBINARY(%d)", &n); err == nil {
		return n > 2000
	}
	return false
}
