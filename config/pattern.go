package config

import (
	"slices"
	"strings"

	"replicator"
)

const wildcards = "*?"

// pattern marks a table as a pattern if its name has wildcards, and checks it. In the key of a pattern, it replaces
// $database and $table by the names without the $.
func (l *loader) pattern(t *replicator.Table, s *Section) {
	inDatabase := !l.config.ownDatabase[t.Name] && strings.ContainsAny(t.Database, wildcards)
	inTable := strings.ContainsAny(t.Table, wildcards)
	if !inDatabase && !inTable {
		return
	}
	t.Pattern = true
	if l.config.Source.Kafka != nil {
		s.Problem("table", "%q stands for several tables, which can't be read from Kafka; name one table", t.Table)
	}
	if l.config.ownDatabase[t.Name] && strings.ContainsAny(t.Database, wildcards) {
		s.Problem("table", "the name of the dsn's database has a * or a ?; say table = \"DATABASE.TABLE\"")
	}
	own := 0 // key columns other than $database and $table
	for i, column := range t.Key {
		switch column {
		case "$database", "$table":
			t.Key[i] = column[1:]
		default:
			own++
		}
	}
	if own == 0 && len(t.Key) > 0 {
		s.Problem("key", "does not name a column of the tables; say for example [\"$table\", \"id\"]")
	}
	t.Shared = inDatabase && !slices.Contains(t.Key, "database") || inTable && !slices.Contains(t.Key, "table")
}

// overlap returns the name of a table that both a and b cover, or "" if there is no such table. It compares only a
// pattern with a plain table. Two patterns are compared when the source is read.
func overlap(a, b *replicator.Table) string {
	switch {
	case a.Pattern && b.Pattern:
	case a.Pattern && a.Matches(b.Database, b.Table):
		return b.Table
	case b.Pattern && b.Matches(a.Database, a.Table):
		return a.Table
	}
	return ""
}

func (l *loader) kafkaSink(s *Section) bool {
	n := s.at.fields["sink"]
	sink := (*Sink)(nil)
	if n != nil && n.kind == aText {
		sink = l.config.Sink(n.text)
	}
	return sink != nil && sink.Type == "kafka"
}
