package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"replicator/internal/servers"
)

// Plan is all that a run is made of. It is a function of its seed, but for what shrinking takes away.
type Plan struct {
	Seed   uint64
	Source servers.Kind
	Main   servers.Kind // the MySQL sink's server
	Cache  servers.Kind // the Redis sink's
	Parts  int          // databases that the source is: 1, or 2 shards of one logical database
	Store  string       // file or mysql
	Shards int          // of the MySQL sink: 1 or 2
	Hears  string       // the source's read timeout, as a DSN has it; "": the default
	Images string       // binlog_row_image of the writers' sessions
	Memory string       // limits.memory
	Gone   string       `json:",omitempty"` // limits.deleted; "": the default, which no run is as long as
	Tables []Table
	Views  []View
	Forest bool   `json:",omitempty"` // rows of a tree and its leaves, under foreign keys in source and sink
	Topic  *Topic `json:",omitempty"` // through which the rows go; nil: the program keeps the views itself
	Idle   bool   // the source is silent from before the last fault on
	Writes int    // transactions before the last fault; more may follow
	Faults []Fault
}

// Fault is something that goes wrong while the writers write.
type Fault struct {
	Name string
	Arg  uint64        // which view, link or table, by the fault's own choice
	For  time.Duration // how long it lasts
	With bool          // it begins while the one before it lasts
}

func (f Fault) String() string {
	with := ""
	if f.With {
		with = "+"
	}
	return fmt.Sprintf("%s%s(%d,%s)", with, f.Name, f.Arg, f.For)
}

// Shapes of tables.
const (
	rows  = "rows"  // plain rows, changed in place: the binlog's order counts
	cells = "cells" // versions of cells with a column role and a body
	log   = "log"   // versions of entities, with a body and no column
	grps  = "grps"  // what plain rows are joined with
)

// Table is a source table.
type Table struct {
	Name  string
	Shape string
	Key   keyType
	Codec string // of a body: json or zlib+json
	Keys  int    // how many keys there are; the first Kept of them always exist

	Joined  bool   `json:",omitempty"` // its views show joined rows, too
	Pattern bool   `json:",omitempty"` // it is two tables, which a pattern names
	Refers  string `json:",omitempty"` // its rows may name a row of that table, in up
}

// Kept is how many keys of each table always exist and only ever grow: the reader watches them.
const Kept = 4

// View is a view of one table; of both its columns if it is merged.
type View struct {
	Name   string
	Sink   string // main, cache or search
	Kind   string
	Table  string
	Merged bool   // fields of the second column, too
	Where  bool   // only rows with an amount above half
	Field  string // of an index, and of a counter's or ranking's group
	Moves  bool   // of a row: what decides its shard is no part of its key
	Copy   bool   `json:",omitempty"` // of a row: its table was there before, and numbers rows like the source's
	Expire string `json:",omitempty"` // of a key in Redis; no run is as long
}

// Choices limits what a plan may hold.
type Choices struct {
	Sources []servers.Kind
	Search  servers.Kind   // Elasticsearch or OpenSearch; "": none
	Main    []servers.Kind // what the MySQL sink may be; nil: MariaDB 10.11
	Cache   []servers.Kind // what the Redis sink may be; nil: Redis 7
	Mounts  bool           // a file system of a run's own can be mounted
	Clock   bool           // the program is built so that its clock can be set
	Brokers int            // of Kafka, through which all goes; 0: there is none
	Faults  []string       // nil: all
	Writes  int            // 0: as the seed says
}

func (c Choices) mains() []servers.Kind {
	if len(c.Main) == 0 {
		return []servers.Kind{servers.MariaDB1011}
	}
	return c.Main
}

func (c Choices) caches() []servers.Kind {
	if len(c.Cache) == 0 {
		return []servers.Kind{servers.Redis7}
	}
	return c.Cache
}

// planOf makes the plan of a seed.
func planOf(seed uint64, c Choices) Plan {
	r := rand.New(rand.NewPCG(seed, 0x70727475))
	p := Plan{
		Seed: seed, Source: pick(r, c.Sources...), Store: pick(r, "file", "file", "mysql"),
		Shards: pick(r, 1, 1, 2), Parts: pick(r, 1, 1, 2), Hears: pick(r, "", "?readTimeout=6s"),
		Memory: pick(r, "1MiB", "2MiB", "64MiB"), Idle: r.IntN(2) == 0, Writes: 100 + r.IntN(400),
	}
	p.Main = c.mains()[seed%uint64(len(c.mains()))] // not of r: what a seed gives stays
	p.Cache = c.caches()[seed/2%uint64(len(c.caches()))]
	p.Images = "FULL"
	if seed/4%2 == 1 {
		p.Images = "MINIMAL"
	}
	if seed/8%2 == 1 {
		p.Gone = "2s"
	}
	if c.Writes > 0 {
		p.Writes = c.Writes
	}
	for i := range 1 + r.IntN(2) {
		p.Tables = append(p.Tables, Table{
			Name: fmt.Sprintf("t%d", i), Shape: pick(r, rows, cells, cells, log), Key: pick(r, keyTypes...),
			Codec: pick(r, "json", "zlib+json"), Keys: 8 + r.IntN(100),
		})
	}
	for _, t := range p.Tables {
		p.Views = append(p.Views, viewsOf(r, t, c.Search != "")...)
	}
	if c.Brokers > 0 {
		p.throughKafka(r, c)
	}
	p.joinTables()
	p.splitTables()
	p.plantForest()
	for i := range p.Views { // not of r: what a seed gives stays
		v := &p.Views[i]
		v.adorn(p.table(v.Table), seed)
		v.Moves = p.Shards > 1 && seed%2 == 0 && v.Sink == "main" && v.Kind == "row" && !v.Merged
	}
	known := faultNames(p, c)
	for i := range 1 + r.IntN(5) {
		p.Faults = append(p.Faults, Fault{
			Name: pick(r, p.preferred(r, known)...), Arg: r.Uint64N(1000), With: i > 0 && r.IntN(3) == 0,
			For: time.Duration(20+r.IntN(1500)) * time.Millisecond,
		})
	}
	return p
}

// viewsOf are some views of a table, each sink's among them.
func viewsOf(r *rand.Rand, t Table, elastic bool) []View {
	all := []View{
		{Sink: "main", Kind: "row"},
		{Sink: "main", Kind: "index", Field: "email"},
		{Sink: "main", Kind: "counter", Field: "grp"},
		{Sink: "cache", Kind: "hash"},
		{Sink: "cache", Kind: "json"},
		{Sink: "cache", Kind: "index", Field: "email"},
		{Sink: "cache", Kind: "counter", Field: "grp"},
		{Sink: "cache", Kind: "ranking", Field: "grp"},
	}
	if elastic {
		all = append(all, View{Sink: "search", Kind: "document"})
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:3+r.IntN(len(all)-3)]
	for i := range all {
		v := &all[i]
		v.Name, v.Table = fmt.Sprintf("%s_%s_%s", t.Name, v.Sink, v.Kind), t.Name
		v.Where = r.IntN(4) == 0
		v.Merged = v.isWhole() && t.Shape == cells && !v.Where && r.IntN(2) == 0
	}
	return all
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// table is the table of a name.
func (p Plan) table(name string) Table {
	all := p.source()
	return all[slices.IndexFunc(all, func(t Table) bool { return t.Name == name })]
}

// sinks are the sinks that the views name.
func (p Plan) sinks() []string {
	var names []string
	for _, v := range p.Views {
		if !slices.Contains(names, v.Sink) {
			names = append(names, v.Sink)
		}
	}
	return names
}

// views are the views of a sink.
func (p Plan) views(sink string) []View {
	return slices.DeleteFunc(slices.Clone(p.Views), func(v View) bool { return v.Sink != sink })
}
