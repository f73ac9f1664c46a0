package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/sqlname"
)

// Schema returns the DDL of the views' tables that are missing, a statement each, with a type for every column: the
// configured one, else a guess that a comment points out.
func (s *Sink) Schema(ctx context.Context, views []*replicator.View) ([]string, error) {
	var out []string
	from := s.origins("").orNone(s.log)
	for _, v := range views {
		sh, err := s.readShape(ctx, settingsOf(v).Table)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
		if sh == nil {
			statement, err := s.ddl(ctx, v, from)
			if err != nil {
				return nil, fmt.Errorf("view %s: %w", v.Name, err)
			}
			out = append(out, statement)
		}
	}
	return out, nil
}

// createTarget creates a view's table if it is missing.
func (s *Sink) createTarget(ctx context.Context, v *replicator.View, from *origins) error {
	sh, err := s.readShape(ctx, settingsOf(v).Table)
	if err != nil || sh != nil {
		return err
	}
	statement, err := s.design(ctx, v, from)
	if err != nil {
		return err
	}
	statement = strings.Replace(statement, "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		return replicator.Fatal(classify(err, creating(v)))
	}
	s.log.Info("created a table", "sink", s.name, "view", v.Name, "table", settingsOf(v).Table)
	return nil
}

// The types of columns that the configuration says nothing of. A key's takes bytes, texts and numbers alike.
const (
	guessedKey     = "VARBINARY(255)"
	guessedField   = "VARCHAR(255)"
	guessedVersion = "BIGINT"
	guessedSum     = "BIGINT"
)

// ddl is the CREATE TABLE of a view's table. All its texts are compared by their bytes, as bodies tell their values
// apart; who wants it otherwise says so in `types`.
func (s *Sink) ddl(ctx context.Context, v *replicator.View, from *origins) (string, error) {
	settings := settingsOf(v)
	database, table := split(settings.Table, s.database)
	name := sqlname.Quote(table)
	if database != s.database {
		name = sqlname.Quote(database) + "." + name
	}
	d := declarer{sink: s, view: v, from: from}
	fieldsNull := " NOT NULL"
	if v.Kind == "row" {
		fieldsNull = " NULL"
	}
	keys := make([]string, 0, len(settings.KeyFrom))
	for _, f := range settings.KeyFrom {
		keys = append(keys, sqlname.Quote(f.Name))
	}
	if v.Kind == "row" {
		d.keys(ctx)
	}
	for i, f := range v.Fields {
		switch {
		case v.Kind == "counter" && i == len(v.Fields)-1: // a sum needs more room than its amounts
			d.column(ctx, replicator.Field{Name: f.Name}, guessedSum, fieldsNull)
		case v.Kind == "counter" && strings.HasPrefix(f.Path, "$"): // most likely a part of the key
			d.column(ctx, f, guessedKey, fieldsNull)
		default:
			d.column(ctx, f, guessedField, fieldsNull)
		}
	}
	if v.Kind != "row" {
		d.keys(ctx)
	}
	if settings.VersionColumn != "" {
		d.column(ctx, replicator.Field{Name: settings.VersionColumn}, guessedVersion, " NOT NULL")
	}
	switch v.Kind {
	case "row":
		d.lines = append(d.lines, "  PRIMARY KEY ("+strings.Join(keys, ", ")+")")
	case "counter":
		var group []string
		for _, f := range v.Fields[:len(v.Fields)-1] {
			group = append(group, sqlname.Quote(f.Name))
		}
		d.lines = append(d.lines, "  PRIMARY KEY ("+strings.Join(group, ", ")+")")
	default:
		d.lines = append(d.lines, indexKeys(v, keys)...)
	}
	set, collation, err := s.byBytes(ctx, "utf8mb4", true)
	if d.err != nil {
		err = d.err
	}
	return "CREATE TABLE " + name + " (\n" + strings.Join(d.lines, ",\n") + "\n) ENGINE=InnoDB DEFAULT CHARSET=" + set +
		" COLLATE=" + collation, err
}

// declarer writes the columns of a view's table, a line each. err is the first error.
type declarer struct {
	sink  *Sink
	view  *replicator.View
	from  *origins
	lines []string
	err   error
}

func (d *declarer) keys(ctx context.Context) {
	for _, f := range settingsOf(d.view).KeyFrom {
		d.column(ctx, f, guessedKey, " NOT NULL")
	}
}

// column declares a column: by the type that the configuration names, else by that of the source's column, else by a
// guess.
func (d *declarer) column(ctx context.Context, f replicator.Field, guess, null string) {
	typ, note := settingsOf(d.view).Types[f.Name], ""
	if typ == "" && d.err == nil {
		typ, d.err = d.sink.sourceType(ctx, d.view, f, d.from)
	}
	if typ == "" {
		typ, note = guess, " /* a guess: check it */"
	}
	d.lines = append(d.lines, "  "+sqlname.Quote(f.Name)+" "+typ+null+note)
}

// mariaDBTypes are the types that only MariaDB has, and those of the texts that it shows.
var mariaDBTypes = map[string]string{"uuid": "CHAR(36)", "inet4": "VARCHAR(15)", "inet6": "VARCHAR(39)"}

// sourceType is the type of the source's column that a field is made of, texts with a binary collation of their
// character set; "" if the field is made of something else, or of columns of several types, or if the type is too long
// for a key.
func (s *Sink) sourceType(ctx context.Context, v *replicator.View, f replicator.Field, from *origins) (string, error) {
	typ := ""
	for i, feed := range v.From {
		origin, err := from.column(ctx, s.tables[feed.Table], f.Path)
		if err != nil || origin == nil || v.Kind != "row" && isLong(origin.Type) {
			return "", err
		}
		here := origin.Type
		if srv, err := s.ask(ctx); err != nil {
			return "", err
		} else if text, ok := mariaDBTypes[origin.kind()]; ok && !srv.isMariaDB() {
			here = text
		}
		if origin.Charset != "" {
			set, collation, err := s.byBytes(ctx, origin.Charset, origin.tellsSpaces())
			if err != nil {
				return "", err
			}
			if set != "utf8mb4" { // the table's own
				here += " CHARACTER SET " + set + " COLLATE " + collation
			}
		}
		if i > 0 && here != typ {
			return "", nil
		}
		typ = here
	}
	return typ, nil
}

// indexKeys are the keys of an index's table: by value, and by the entity's key. Columns that are too long to be
// indexed in full can't be part of a primary key, which would take values for equal that begin alike.
func indexKeys(v *replicator.View, keys []string) []string {
	var parts []string
	long := false
	for _, f := range v.Fields {
		q := sqlname.Quote(f.Name)
		if isLong(settingsOf(v).Types[f.Name]) {
			q, long = q+"(191)", true
		}
		parts = append(parts, q)
	}
	byValue := strings.Join(append(slices.Clone(parts), keys...), ", ")
	byKey := "  KEY (" + strings.Join(keys, ", ") + ")"
	if long { // a number of its own, because many servers want every table to have a primary key
		return []string{"  replicator_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY", "  KEY (" + byValue + ")",
			byKey}
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
