package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"replicator/internal/servers"
)

// Plan is everything that defines a run. It depends only on its seed, except for parts that the flag -shrink removes.
type Plan struct {
	Seed   uint64
	Source servers.Kind
	Main   servers.Kind // the MySQL sink's server
	Cache  servers.Kind // the Redis sink's server
	Parts  int          // databases of the source: 1, or 2 shards of one logical database
	Store  string       // where the checkpoints are: file or mysql
	Shards int          // shards of the MySQL sink: 1 or 2
	Hears  string       // the parameters in the source's DSN: readTimeout, or "" for the default
	Images string       // binlog_row_image of the writers' sessions
	Memory string       // the setting limits.memory
	Gone   string       `json:",omitempty"` // limits.deleted; "": the default, which is longer than any run
	Tables []Table
	Views  []View
	Forest bool   `json:",omitempty"` // source and sink also have tables with foreign keys (forest.go)
	Topic  *Topic `json:",omitempty"` // the Kafka topic between the source and the views; nil: none
	Idle   bool   // the writers stop before the last fault
	Writes int    // transactions before the last fault; more may follow
	Faults []Fault
}

// Fault is a fault to inject while the writers write.
type Fault struct {
	Name string
	Arg  uint64        // selects a view, link or table; each fault uses it in its own way
	For  time.Duration // how long the fault lasts
	With bool          // the fault begins while the previous fault lasts
}

func (f Fault) String() string {
	with := ""
	if f.With {
		with = "+"
	}
	return fmt.Sprintf("%s%s(%d,%s)", with, f.Name, f.Arg, f.For)
}

// Shapes of source tables.
const (
	rows  = "rows"  // plain rows, updated in place: the last change in the binlog is the newest
	log   = "log"   // rows are versions of a key and have a body
	cells = "cells" // as in `log`, but a key has two cells: the column `col`, "main" or "more", has the column role
	grps  = "grps"  // the groups table, whose rows are joined with plain rows
)

// Table is a source table.
type Table struct {
	Name  string
	Shape string
	Key   keyType
	Codec string // the codec of the bodies: json or zlib+json
	Keys  int    // how many keys the table may have; the first 4 (Kept) always exist

	Joined  bool   `json:",omitempty"` // the table's views also show joined rows
	Pattern bool   `json:",omitempty"` // the source has two tables instead of this one, and a pattern matches both
	Refers  string `json:",omitempty"` // the table to which the foreign key `up` of this table refers
}

// Kept is how many keys of each table always exist. The column n in the rows of these keys only grows, and a `reader`
// polls the views to check that n never falls there.
const Kept = 4

// View is a view of one table.
type View struct {
	Name   string
	Sink   string // main, cache or search
	Kind   string
	Table  string
	Merged bool   // the table has the shape `cells`, and the view also shows fields of the cells "more"
	Where  bool   // the view shows only rows with amount > 50
	Field  string // the field of an index, or the group of a counter or ranking
	Moves  bool   // a view of kind `row`: a field outside the key selects the shard, so rows change shards
	Copy   bool   `json:",omitempty"` // the target table exists before the run, like a copy of a source's (copyTables)
	Expire string `json:",omitempty"` // how long keys in Redis live; longer than any run
}

// Choices limits what a plan may contain.
type Choices struct {
	Sources []servers.Kind
	Search  servers.Kind   // Elasticsearch or OpenSearch; "": none
	Main    []servers.Kind // kinds for the MySQL sink; nil: MariaDB 10.11
	Cache   []servers.Kind // kinds for the Redis sink; nil: Redis 7
	Mounts  bool           // a run can mount its own file system
	Clock   bool           // the program is built with a settable clock
	Brokers int            // how many brokers Kafka has, if the rows go through Kafka; 0: they don't
	Faults  []string       // the faults to choose from; nil: all faults
	Writes  int            // transactions in a run; 0: the seed decides
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

func planOf(seed uint64, c Choices) Plan {
	r := rand.New(rand.NewPCG(seed, 0x70727475))
	p := Plan{
		Seed: seed, Source: pick(r, c.Sources...), Store: pick(r, "file", "file", "mysql"),
		Shards: pick(r, 1, 1, 2), Parts: pick(r, 1, 1, 2), Hears: pick(r, "", "?readTimeout=6s"),
		Memory: pick(r, "1MiB", "2MiB", "64MiB"), Idle: r.IntN(2) == 0, Writes: 100 + r.IntN(400),
	}
	p.Main = c.mains()[seed%uint64(len(c.mains()))] // not drawn from r: that would change the rest of each seed's plan
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
	for i := range p.Views { // these parts are not drawn from r: that would change the rest of each seed's plan
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

// viewsOf returns at least three views of a table, of random kinds. A sink may get none of them.
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

func (p Plan) table(name string) Table {
	all := p.source()
	return all[slices.IndexFunc(all, func(t Table) bool { return t.Name == name })]
}

func (p Plan) sinks() []string {
	var names []string
	for _, v := range p.Views {
		if !slices.Contains(names, v.Sink) {
			names = append(names, v.Sink)
		}
	}
	return names
}

func (p Plan) views(sink string) []View {
	return slices.DeleteFunc(slices.Clone(p.Views), func(v View) bool { return v.Sink != sink })
}
