package config

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/keytemplate"
)

// mysqlView reads what is said of a view in MySQL.
func (l *loader) mysqlView(s *section, v *replicator.View) {
	v.Table = s.name("table", v.Name, `"`+v.Name+`"`)
	if v.Kind == "counter" {
		l.mysqlCounter(s, v)
	} else {
		v.KeyFrom = l.keyFrom(s, v)
		v.VersionColumn = s.name("version_column", "", `"version"`)
	}
	var columns []string
	for _, f := range append(append([]replicator.Field(nil), v.KeyFrom...), v.Fields...) {
		columns = append(columns, f.Name)
	}
	l.shardOn(s, v, columns)
	l.create(s, v, columns)
	l.loop(s, v)
}

func (l *loader) mysqlCounter(s *section, v *replicator.View) {
	v.Fields = l.fields(s, "group")
	name := countColumn
	if s.isTable("sum") {
		switch list := s.table("sum", `"cnt" or { total = "cnt" }`); len(list) {
		case 0:
		case 1:
			name, v.Sum = list[0].name, list[0].text
		default:
			s.problem("sum", "a counter has one amount")
		}
	} else if v.Sum = s.name("sum", "", `"cnt" or { total = "cnt" }`); strings.HasPrefix(v.Sum, "=") {
		s.problem("sum", "an expression has no name of its own; say sum = { NAME = %q }", v.Sum)
	} else if v.Sum != "" {
		name = pathName(v.Sum)
	}
	v.Fields = append(v.Fields, l.amount(s, v.Sum, name))
}

// shardOn reads which column's value decides the shard. The shards' names, in order, belong to the view's definition:
// with others its entries are elsewhere.
func (l *loader) shardOn(s *section, v *replicator.View, columns []string) {
	v.ShardOn = s.name("shard_on", "", `"user_id"`)
	inKey := slices.ContainsFunc(v.KeyFrom, func(f replicator.Field) bool { return f.Name == v.ShardOn })
	switch {
	case v.ShardOn == "":
		return
	case !slices.Contains(columns, v.ShardOn):
		s.problem("shard_on", "%q is not a column of the view%s", v.ShardOn, meant(v.ShardOn, columns))
	case v.Kind == "counter" && v.ShardOn == v.Fields[len(v.Fields)-1].Name:
		s.problem("shard_on", "%q is the sum, which changes all the time: name a column of the group", v.ShardOn)
	case v.Kind == "row" && !inKey && l.mergesCells(v):
		s.problem("shard_on", "%q is not a column of the key: the row is made of several cells, which would not meet in one shard; name a column of the key", v.ShardOn)
	}
	if shards := l.config.Sink(v.Sink).Shards; len(shards) > 1 {
		for _, shard := range shards {
			v.Shards = append(v.Shards, shard.Name)
		}
	}
}

// mergesCells reports whether several cells of one key can feed a view.
func (l *loader) mergesCells(v *replicator.View) bool {
	return len(v.From) > 1 || len(v.From) == 1 && v.From[0].Column == "" && l.config.Table(v.From[0].Table).Column != ""
}

// create reads create and types.
func (l *loader) create(s *section, v *replicator.View, columns []string) {
	v.Create = s.boolean("create")
	types := s.table("types", `{ email = "VARCHAR(254)" }`)
	if s.has("types") && !v.Create {
		s.problem("types", "says how to create the table; say create = true beside it")
	}
	if v.VersionColumn != "" {
		columns = append(columns, v.VersionColumn)
	}
	for _, t := range types {
		if !slices.Contains(columns, t.name) {
			s.l.problem(t.line, under(s.path, "types"), "%q is not a column of the view%s", t.name, meant(t.name, columns))
			continue
		}
		if v.Types == nil {
			v.Types = map[string]string{}
		}
		v.Types[t.name] = t.text
	}
	if !v.Create {
		return
	}
	for _, f := range v.Fields {
		if v.Types[f.Name] == "" {
			s.problem("create", `the type of the column %s is missing; say types = { %s = "VARCHAR(254)" }`, f.Name, f.Name)
		}
	}
}

// loop reports a view that would be kept in a table it is made from: every write would cause the next.
func (l *loader) loop(s *section, v *replicator.View) {
	for _, from := range l.config.Source.Shards {
		for _, to := range l.config.Sink(v.Sink).Shards {
			if from.Address == "" || from.Address != to.Address {
				continue
			}
			database, table, has := strings.Cut(v.Table, ".")
			if !has {
				database, table = to.Database, v.Table
			}
			for _, t := range l.config.ShardTables(from) {
				if t.Database == database && t.Table == table {
					s.problem("table", "%s.%s is the source table [tables.%s]: a view can't be kept in it", database, table, t.Name)
					return
				}
			}
		}
	}
}

// keyFrom says which of the target's columns hold the key: key = { id = "$row_key" }, key_column = "entity_id", or the
// columns of the table's own key. Every column of the table's key must be there, else two cells would share a row.
func (l *loader) keyFrom(s *section, v *replicator.View) []replicator.Field {
	if s.has("key") {
		if s.has("key_column") {
			s.problem("key_column", "key is given as well; give one of the two")
		}
		var from []replicator.Field
		for _, p := range s.table("key", `{ id = "$row_key" }`) {
			from = append(from, replicator.Field{Name: p.name, Path: "$" + strings.TrimPrefix(p.text, "$")})
		}
		if len(from) > 0 {
			l.keyCovers(s, "key", v, from)
		}
		return from
	}
	renamed := texts(s.list("key_column", `"entity_id"`))
	if len(v.From) == 0 {
		return nil
	}
	first := l.config.Table(v.From[0].Table)
	for _, f := range v.From[1:] {
		if other := l.config.Table(f.Table); !slices.Equal(other.Key, first.Key) {
			s.problem("from", "the tables %s and %s have different keys (%s; %s), so they can't be merged",
				first.Name, other.Name, strings.Join(first.Key, ", "), strings.Join(other.Key, ", "))
		}
	}
	if len(renamed) > 0 && len(renamed) != len(first.Key) {
		s.problem("key_column", "names %d columns, but the key of %s has %d: %s", len(renamed), first.Name, len(first.Key), strings.Join(first.Key, ", "))
		return nil
	}
	var from []replicator.Field
	for i, column := range first.Key {
		name := column
		if len(renamed) > 0 {
			name = renamed[i]
		}
		from = append(from, replicator.Field{Name: name, Path: "$" + column})
	}
	return from
}

func (l *loader) keyCovers(s *section, key string, v *replicator.View, from []replicator.Field) {
	var columns []string
	for _, f := range from {
		columns = append(columns, strings.TrimPrefix(f.Path, "$"))
	}
	l.madeOfKey(s, key, v, columns)
}

// madeOfKey checks that what a key is made of is exactly the key of every table that feeds the view.
func (l *loader) madeOfKey(s *section, key string, v *replicator.View, columns []string) {
	done := map[string]bool{}
	for _, f := range v.From {
		table := l.config.Table(f.Table)
		if done[table.Name] || len(table.Key) == 0 { // that a key is missing was said
			continue
		}
		done[table.Name] = true
		for _, column := range columns {
			if !slices.Contains(table.Key, column) {
				s.problem(key, "%q is not in the key of the table %s (%s): a %s's key is made of the table's key alone, so that it can't move; to find cells by a property use an index",
					column, table.Name, strings.Join(table.Key, ", "), v.Kind)
				return
			}
		}
		for _, column := range table.Key {
			if !slices.Contains(columns, column) {
				s.problem(key, "lacks %q of the key of the table %s (%s): cells that differ only there would overwrite each other",
					column, table.Name, strings.Join(table.Key, ", "))
				return
			}
		}
	}
}

// template reads a template and checks its form: {path} or {path:format}.
func (l *loader) template(s *section, key string) string {
	text := s.name(key, "", `"user:{id}"`)
	if _, err := references(text); err != nil {
		s.problem(key, "%v", err)
	}
	return text
}

// covers checks that a key's template is made of the table's key. An empty one is: it stands for the key.
func (l *loader) covers(s *section, key string, v *replicator.View) {
	template := v.Key
	if template == "" {
		return
	}
	names, err := references(template)
	if err != nil {
		return // said already
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "$")
	}
	l.madeOfKey(s, key, v, names)
}

// references returns the paths that a template refers to.
func references(template string) ([]string, error) {
	parts, _, err := keytemplate.Parse(template)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range parts {
		if formats := keytemplate.Forms(); p.Form != "" && !slices.Contains(formats, p.Form) {
			return nil, fmt.Errorf("%q is not a format of a template%s", p.Form, meant(p.Form, formats))
		}
		if pathName(p.Path) == "" {
			return nil, fmt.Errorf("%s names no path; templates are made of text and {path}, {path:uuid}, {path:hex} or {path:base64}", p)
		}
		names = append(names, p.Path)
	}
	return names, nil
}
