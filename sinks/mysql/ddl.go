package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/seen"
	"replicator/internal/sqlname"
)

// Schema returns the CREATE TABLE of each view's missing table. A comment marks columns whose values are unknown.
// Schema fails if the source doesn't answer, because it would have to guess types.
func (s *Sink) Schema(ctx context.Context, views []*replicator.View) ([]string, error) {
	var out []string
	from := s.origins("")
	for _, v := range views {
		sh, err := s.readShape(ctx, settingsOf(v).Table)
		if err != nil {
			return nil, fmt.Errorf("view %s: %w", v.Name, err)
		}
		if sh == nil {
			statement, err := s.design(ctx, v, from)
			if err != nil {
				return nil, fmt.Errorf("view %s: %w", v.Name, err)
			}
			out = append(out, statement)
		}
	}
	return out, nil
}

func (s *Sink) createTarget(ctx context.Context, v *replicator.View, from *origins) error {
	database, table := split(settingsOf(v).Table, s.database)
	if there, err := s.isThere(ctx, (&shape{database: database, table: table}).quoted()); there || err != nil {
		return err
	}
	statement, err := s.design(ctx, v, from)
	if err != nil {
		return err
	}
	statement = strings.Replace(statement, "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		return uncreated(v, err)
	}
	s.log.Info("created a table", "sink", s.name, "view", v.Name, "table", settingsOf(v).Table)
	return nil
}

// ddl returns the CREATE TABLE of a view's table. By default, texts are compared by their bytes, because two values of
// a body are equal only if their bytes are. `types` in the configuration overrides that.
func (s *Sink) ddl(ctx context.Context, v *replicator.View, columns []*declared) (string, error) {
	settings := settingsOf(v)
	database, table := split(settings.Table, s.database)
	name := sqlname.Quote(table)
	if database != s.database {
		name = sqlname.Quote(database) + "." + name
	}
	var lines, keys, group []string
	for _, c := range columns {
		lines = append(lines, "  "+c.line())
		switch c.role {
		case ofKey:
			keys = append(keys, sqlname.Quote(c.name))
		case ofGroup:
			group = append(group, sqlname.Quote(c.name))
		}
	}
	switch v.Kind {
	case "row":
		lines = append(lines, "  PRIMARY KEY ("+strings.Join(keys, ", ")+")")
	case "counter":
		lines = append(lines, "  PRIMARY KEY ("+strings.Join(group, ", ")+")")
	default:
		lines = append(lines, indexKeys(columns, keys)...)
	}
	set, collation, err := s.byBytes(ctx, "utf8mb4", true)
	return "CREATE TABLE " + name + " (\n" + strings.Join(lines, ",\n") +
		"\n) ENGINE=InnoDB DEFAULT CHARSET=" + set + " COLLATE=" + collation, err
}

// declare chooses the columns of a view's table, in their order. Columns of the existing table (has) stay unchanged.
// has is nil if there is no table.
func (s *Sink) declare(ctx context.Context, v *replicator.View, from *origins, has *shape) ([]*declared, error) {
	d := declarer{sink: s, view: v, from: from, has: has}
	if slices.ContainsFunc(v.Fields, func(f replicator.Field) bool { return d.given(f.Name) == "" }) {
		var err error
		if d.sampled, err = from.samples(ctx, v); err != nil {
			return nil, fmt.Errorf("sampling the source's rows to choose column types: %w", err)
		}
	}
	for _, u := range usesOf(v) {
		if err := d.declare(ctx, u); err != nil {
			return nil, err
		}
	}
	fitKey(d.columns)
	fitRow(d.columns)
	return d.columns, nil
}

// fitKey shortens the longest columns of the unique key until the key fits the server's limit. A column whose type is
// given (see declared) stays as it is.
func fitKey(columns []*declared) {
	for {
		total, most := int64(0), int64(4*prefix)
		var longest *declared
		for _, c := range columns {
			if c.role != ofKey && c.role != ofGroup {
				continue
			}
			n := indexBytes(c.typ)
			if total += n; n > most && !c.given {
				longest, most = c, n
			}
		}
		if total <= seen.MostIndexed || longest == nil {
			return
		}
		room := max(prefix, min(500, (seen.MostIndexed-(total-most))/4))
		longest.typ, longest.note = fmt.Sprintf("VARCHAR(%d)", room),
			"longer values don't fit: a key has at most 3072 bytes"
	}
}

// mostInRow is the size limit of columns stored within the row: 64 KiB, minus a little for the server.
const mostInRow = 65_000

// fitRow gives the longest columns a type that is stored outside of the row, until the row fits the server's limit. Key
// and group columns, and columns whose type is given (see declared), stay as they are.
func fitRow(columns []*declared) {
	for {
		total, most := int64(0), int64(256)
		var longest *declared
		for _, c := range columns {
			n := rowBytes(c.typ)
			total += n
			if n > most && !c.given && (c.role == ofRow || c.role == ofIndex) {
				longest, most = c, n
			}
		}
		if total <= mostInRow || longest == nil {
			return
		}
		longest.typ = outside(longest.typ)
	}
}

// outside returns the TEXT or BLOB type that replaces a VARCHAR or VARBINARY, because the server stores TEXT and BLOB
// values outside of the row.
func outside(typ string) string {
	_, rest, _ := strings.Cut(typ, ")") // rest is the character set and collation
	if strings.Contains(strings.ToUpper(typ), "BINARY(") {
		return "BLOB"
	}
	return "MEDIUMTEXT" + rest
}

// prefix is how many characters, or bytes, of a long column are indexed.
const prefix = 191

// indexKeys returns the keys of an index view's table: one by value, and one by the entity's key. The key by value is
// not the primary key if it has only the beginning of a long column, because equal beginnings would count as
// duplicates. Then an extra column numbers the rows.
func indexKeys(columns []*declared, keys []string) []string {
	room := int64(seen.MostIndexed)
	for _, c := range columns {
		if c.role == ofKey {
			room -= indexBytes(c.typ)
		}
	}
	byKey := "  KEY (" + strings.Join(keys, ", ") + ")"
	parts, long, fit := valueKey(columns, room)
	if !fit { // the index has no room for both the values and the key, so it gets only the values
		parts, _, _ = valueKey(columns, seen.MostIndexed)
		keys, long = nil, true
	}
	byValue := strings.Join(append(parts, keys...), ", ")
	if long {
		return []string{"  " + numberColumn(columns) + " BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY",
			"  KEY (" + byValue + ")", byKey}
	}
	return []string{"  PRIMARY KEY (" + byValue + ")", byKey}
}

// valueKey returns the parts of the MySQL key that finds an index view's entries by value. They take at most `room`
// bytes: as many columns as fit, and of a long column only the beginning. long: some column is not indexed in full.
// fit: all columns fit.
func valueKey(columns []*declared, room int64) (parts []string, long, fit bool) {
	for _, c := range columns {
		if c.role != ofIndex {
			continue
		}
		q, n := sqlname.Quote(c.name), indexBytes(c.typ)
		if (n > room || n > 2000) && n > 4*prefix { // the server refuses a prefix that is longer than the column
			q, n, long = fmt.Sprintf("%s(%d)", q, prefix), 4*prefix, true
		}
		if room -= n; room < 0 {
			return parts, long, false
		}
		parts = append(parts, q)
	}
	return parts, long, true
}

func numberColumn(columns []*declared) string {
	name := "replicator_id"
	for slices.ContainsFunc(columns, func(c *declared) bool { return strings.EqualFold(c.name, name) }) {
		name += "_"
	}
	return sqlname.Quote(name)
}

// outsideBytes is the size that counts for a type whose values are stored outside of the row. It exceeds the size limit
// of every index.
const outsideBytes = 1 << 20

// indexBytes returns the largest number of bytes that a value of the declared type can take in an index.
func indexBytes(typ string) int64 {
	d := strings.ToUpper(strings.TrimSpace(typ))
	name, rest, _ := strings.Cut(d, "(")
	name, _, _ = strings.Cut(name, " ")
	var n int64
	_, _ = fmt.Sscanf(rest, "%d", &n) // n stays 0 if the type has no length
	switch {
	case strings.HasSuffix(name, "TEXT"), strings.HasSuffix(name, "BLOB"), name == "JSON":
		return outsideBytes
	case name == "CHAR" || name == "VARCHAR":
		return n * characterBytes(d)
	case name == "BINARY" || name == "VARBINARY":
		return n
	}
	return 32 // enough for a number or a time
}

// rowBytes returns about how many bytes a value of the declared type takes in its row.
func rowBytes(typ string) int64 {
	if n := indexBytes(typ); n < outsideBytes {
		return n + 2
	}
	return 12
}

func characterBytes(declared string) int64 {
	_, set, _ := strings.Cut(declared, "CHARACTER SET ")
	set, _, _ = strings.Cut(set, " ")
	switch set {
	case "LATIN1", "ASCII":
		return 1
	case "UTF8", "UTF8MB3":
		return 3
	}
	return 4
}
