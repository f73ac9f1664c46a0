package mysql

import (
	"context"
	"slices"
	"strings"

	"replicator"
	"replicator/config"
	"replicator/internal/nearest"
	"replicator/sinks/judge"
)

// Settings are the parts of a view's definition that only MySQL sinks have. Fingerprints include their JSON, so the
// names and the order of the fields must never change.
type Settings struct {
	// KeyFrom are the key columns of the view's table. Each Field has the column's Name. Its Path is a `$` and the name
	// of the source's key column that fills the column, such as "$row_key".
	KeyFrom []replicator.Field `json:"key_from,omitempty"`

	Table         string            `json:"table,omitempty"`          // TABLE, or DATABASE.TABLE
	VersionColumn string            `json:"version_column,omitempty"` // the column for the version; "": none
	ShardOn       string            `json:"shard_on,omitempty"`       // the column that decides the shard; "": none
	Create        bool              `json:"create,omitempty"`         // create the table if it is missing
	Types         map[string]string `json:"types,omitempty"`          // by column: its type when the table is created
	Shards        []string          `json:"shards,omitempty"`         // the shards' names, in order; nil: one shard
}

// Spread reports whether the view is kept in several shards.
func (s Settings) Spread() bool { return len(s.Shards) > 1 }

func settingsOf(v *replicator.View) Settings {
	s, _ := v.Settings.(Settings)
	return s
}

// Connection says where a sink's databases are.
type Connection struct {
	Shards []config.Shard // at least one, in the file's order, which decides where shard_on puts an entry
}

// Type describes MySQL sinks to the configuration.
func Type() config.SinkType {
	fields := []config.Key{{Name: "fields", Example: config.FieldsExample}}
	columns := []string{"table", "key", "key_column", "version_column", "shard_on", "create", "types"}
	return config.SinkType{
		Name: "mysql",
		Keys: []string{"dsn", "dsn_file", "shards"},
		Kinds: []config.Kind{
			{Name: "index", Need: fields, May: columns},
			{Name: "row", Need: fields, May: columns},
			{Name: "counter", Need: []config.Key{{Name: "group", Example: groupExample}},
				May: []string{"sum", "table", "shard_on", "create", "types"}},
		},
		Read:     readConnection,
		ReadView: readView,
		Open:     openSink,
	}
}

const (
	groupExample = `["object_id"]`

	// countColumn is the name of the amount's column in a counter that counts cells.
	countColumn = "cnt"
)

func readConnection(s *config.Section) any {
	c := Connection{Shards: s.Shards()}
	for i, shard := range c.Shards {
		if shard.DSN != "" && shard.Database == "" {
			s.Problem("dsn", "names no database; end it with /DATABASE")
		}
		for _, other := range c.Shards[:i] {
			if shard.DSN != "" && shard.Address == other.Address && shard.Database == other.Database {
				s.Problem("shards", "%s and %s are the same database, %s at %s; give each shard its own",
					other.Name, shard.Name, shard.Database, shard.Address)
			}
		}
	}
	return c
}

func openSink(o config.Opening) (replicator.Sink, error) {
	c := Config{Name: o.Sink.Name, Tables: o.Tables, Logger: o.Log, Timeout: o.Sink.Timeout, Samples: o.Samples,
		Sources: judge.Sources{Shards: o.Sources, Partitions: o.Partitions}, InPlace: o.InPlace}
	c.Columns = func(ctx context.Context, source, table string) ([]SourceColumn, error) {
		found, err := o.Columns(ctx, source, table)
		columns := make([]SourceColumn, len(found))
		for i, column := range found {
			columns[i] = SourceColumn(column)
		}
		return columns, err
	}
	databases := o.Sink.Settings.(Connection).Shards
	if len(databases) == 1 {
		c.DSN = databases[0].DSN.Reveal()
		return New(c)
	}
	var shards []Shard
	for _, s := range databases {
		shards = append(shards, Shard{Name: s.Name, DSN: s.DSN.Reveal()})
	}
	return NewSharded(c, shards, o.Views)
}

type viewReader struct {
	*config.ViewSection
	shards   []config.Shard
	settings Settings
}

func readView(s *config.ViewSection) config.Target {
	r := &viewReader{ViewSection: s, shards: s.Sink.Settings.(Connection).Shards}
	r.settings.Table = s.Name("table", s.View.Name, `"`+s.View.Name+`"`)
	table := strings.ToLower(r.settings.Table[strings.LastIndex(r.settings.Table, ".")+1:])
	if slices.Contains(ownNames, table) {
		s.Problem("table", "%s is one of the program's own tables. Give the view's table another name", table)
	}
	if s.View.Kind == "counter" {
		r.counter()
	} else {
		r.settings.KeyFrom = r.keyFrom()
		r.settings.VersionColumn = s.Name("version_column", "", `"version"`)
	}
	var columns []string
	for _, f := range slices.Concat(r.settings.KeyFrom, s.View.Fields) {
		columns = append(columns, f.Name)
	}
	r.shardOn(columns)
	r.create(columns)
	r.loop()
	s.View.Settings = r.settings
	return config.Target{Key: "table", Places: r.places(), Names: r.names(), Fold: strings.ToLower}
}

func (r *viewReader) counter() {
	v := r.View
	v.Fields = r.Fields("group", groupExample)
	name := countColumn
	if r.IsTable("sum") {
		switch list := r.Table("sum", `"cnt" or { total = "cnt" }`); len(list) {
		case 0:
		case 1:
			name, v.Sum = list[0].Name, list[0].Text
		default:
			r.Problem("sum", "a counter can sum only one amount")
		}
	} else if v.Sum = r.Name("sum", "", `"cnt" or { total = "cnt" }`); strings.HasPrefix(v.Sum, "=") {
		r.Problem("sum", "the expression needs a column name: sum = { NAME = %q }", v.Sum)
	} else if v.Sum != "" {
		name = config.PathName(v.Sum)
	}
	v.Fields = append(v.Fields, r.Amount(v.Sum, name))
}

// keyFrom returns the target's columns that hold the key: key = { id = "$row_key" }, key_column = "entity_id", or the
// columns of the source table's own key. The target must use every column of the source's key. Otherwise two cells
// would share a row.
func (r *viewReader) keyFrom() []replicator.Field {
	if r.Has("key") {
		if r.Has("key_column") {
			r.Problem("key_column", "key is given as well; give one of the two")
		}
		var from []replicator.Field
		var paths []string
		for _, p := range r.Table("key", `{ id = "$row_key" }`) {
			from = append(from, replicator.Field{Name: p.Name, Path: "$" + strings.TrimPrefix(p.Text, "$")})
			paths = append(paths, from[len(from)-1].Path)
		}
		if len(from) > 0 {
			r.MadeOfKey("key", paths)
		}
		return from
	}
	renamed := config.Texts(r.List("key_column", `"entity_id"`))
	if len(r.View.From) == 0 {
		return nil
	}
	first := r.Config.Table(r.View.From[0].Table)
	for _, f := range r.View.From[1:] {
		if other := r.Config.Table(f.Table); !slices.Equal(other.Key, first.Key) {
			r.Problem("from", "the tables %s and %s have different keys (%s; %s), so they can't be merged",
				first.Name, other.Name, strings.Join(first.Key, ", "), strings.Join(other.Key, ", "))
		}
	}
	if len(renamed) > 0 && len(renamed) != len(first.Key) {
		r.Problem("key_column", "names %d columns, but the key of %s has %d: %s",
			len(renamed), first.Name, len(first.Key), strings.Join(first.Key, ", "))
		return nil
	}
	var from []replicator.Field
	for i, column := range first.Key {
		name := column
		if len(renamed) > 0 {
			name = renamed[i]
		}
		from = append(from, replicator.Field{Name: name, Path: config.ColumnPath(column)})
	}
	return from
}

// shardOn reads the name of the column whose value decides the shard. The shards' names, in order, are part of the
// view's definition, because the entries' shards depend on them.
func (r *viewReader) shardOn(columns []string) {
	on := r.Name("shard_on", "", `"user_id"`)
	r.settings.ShardOn = on
	inKey := slices.ContainsFunc(r.settings.KeyFrom, func(f replicator.Field) bool { return f.Name == on })
	switch {
	case on == "":
		return
	case !slices.Contains(columns, on):
		r.Problem("shard_on", "%q is not a column of the view%s", on, nearest.Meant(on, columns))
	case r.View.Kind == "counter" && on == r.View.Fields[len(r.View.Fields)-1].Name:
		r.Problem("shard_on", "%q is the sum, which changes with every write. Name a column of the group", on)
	case r.View.Kind == "row" && !inKey &&
		judge.Shares(r.View, func(table string) bool { return r.Config.Table(table).Column != "" }):
		r.Problem("shard_on", "%q is not a key column of the view. Several cells contribute to one row, and would "+
			"land in different shards. Name a key column", on)
	}
	if len(r.shards) > 1 {
		for _, shard := range r.shards {
			r.settings.Shards = append(r.settings.Shards, shard.Name)
		}
	}
}

func (r *viewReader) create(columns []string) {
	r.settings.Create = r.Bool("create")
	types := r.Table("types", `{ email = "VARCHAR(254)" }`)
	if r.Has("types") && !r.settings.Create {
		r.Problem("types", "has an effect only with create = true. Add that to the view")
	}
	if r.settings.VersionColumn != "" {
		columns = append(columns, r.settings.VersionColumn)
	}
	for _, t := range types {
		if !slices.Contains(columns, t.Name) {
			r.ProblemAt(t, "types", "%q is not a column of the view%s", t.Name, nearest.Meant(t.Name, columns))
			continue
		}
		if r.settings.Types == nil {
			r.settings.Types = map[string]string{}
		}
		r.settings.Types[t.Name] = t.Text
	}
}

// loop refuses a view whose table also feeds it: every write would cause the next one.
func (r *viewReader) loop() {
	for _, from := range r.Config.Source.Shards {
		for _, to := range r.shards {
			if from.Address == "" || from.Address != to.Address {
				continue
			}
			database, table := split(r.settings.Table, to.Database)
			for _, t := range r.Config.ShardTables(from) {
				if t.Database != database || !strings.HasPrefix(t.Table, table) {
					continue
				}
				switch t.Table[len(table):] {
				case "":
					r.Problem("table", "%s.%s is the source table [tables.%s]. Keep the view in another table",
						database, table, t.Name)
					return
				case shadowTable, shadowTable + "_", oldTable:
					r.Problem("table", "a rebuild of the view would drop %s.%s, which is the source table [tables.%s]. Keep the view "+
						"in a table of another name", database, t.Table, t.Name)
					return
				}
			}
		}
	}
}

// places identifies the view's tables, and the tables that a rebuild creates and drops, in every shard that holds the
// view. A place is a server's address and a table's name. Two views must not share one of these tables, even if two
// sinks use the same database.
func (r *viewReader) places() []string {
	var places []string
	for i, to := range r.shards {
		if i > 0 && r.settings.ShardOn == "" {
			break
		}
		database, table := split(r.settings.Table, to.Database)
		// In lower case, because many servers ignore the case of names.
		place := to.Address + "\x00" + strings.ToLower(database+"."+table)
		if slices.Contains(places, place) {
			r.Problem("table", "%q is the same table for several shards of the sink. Leave the database out, "+
				"so that each shard has its own table",
				r.settings.Table)
			break
		}
		places = append(places, place, place+shadowTable, place+shadowTable+"_", place+oldTable)
	}
	return places
}

// names returns the columns that the sink writes, each with the setting that names it.
func (r *viewReader) names() (names []config.TargetName) {
	key, fields := "key_column", "fields"
	if r.Has("key") {
		key = "key"
	}
	if r.Has("group") {
		fields = "group"
	}
	for _, f := range r.settings.KeyFrom {
		names = append(names, config.TargetName{Key: key, Name: f.Name})
	}
	for _, f := range r.View.Fields {
		names = append(names, config.TargetName{Key: fields, Name: f.Name})
	}
	if r.settings.VersionColumn != "" {
		names = append(names, config.TargetName{Key: "version_column", Name: r.settings.VersionColumn})
	}
	return names
}
