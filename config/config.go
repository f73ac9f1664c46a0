package config

import (
	"strings"
	"time"

	"replicator"
)

// Config is a configuration file, checked and complete.
type Config struct {
	File       string // as it was named
	Path       string // absolute
	Source     Source
	Checkpoint Checkpoint
	HTTP       HTTP
	Limits     Limits
	Rebuild    Rebuild
	Tables     []replicator.Table // in the order of the file; compiling the views sets Columns
	Sinks      []Sink             // in the order of the file
	Views      []*replicator.View // in the order of the file; compiling the views sets Fingerprint

	// Partial: LoadToAsk left something out. The rest is enough to ask the running process.
	Partial bool

	// ownDatabase has the tables that name no database: they are in each shard's own database.
	ownDatabase map[string]bool
	lines       map[string]int // the line of each view's key, by VIEW.KEY or VIEW.join.NAME.KEY; for VIEW, that of its section
}

// Line is the line of a view's key, or of its section if it has no such key, for errors that are found when the views
// are compiled. A name in a table of fields has the line of that table's key.
func (c *Config) Line(view, key string) int {
	for path := view + "." + key; ; {
		if line := c.lines[path]; line > 0 {
			return line
		}
		dot := strings.LastIndexByte(path, '.')
		if dot < 0 {
			return 0
		}
		path = path[:dot]
	}
}

// Source is what is replicated.
type Source struct {
	Shards     []Shard // at least one, in the order of the file; with Kafka the origin's, which may be omitted
	Kafka      *Topics // the changelogs in Kafka that are read; nil: the shards are read themselves
	Start      string  // where a view without a checkpoint starts: snapshot, earliest or latest
	OnLost     string  // what to do when the binlog was purged or a sink lost data: stop or rebuild
	OnUnlogged string  // what to do when rows change and the binlog doesn't say which: repair, rebuild or stop
	ServerID   uint32  // the replica id shown to the source; 0: the program chooses one
}

// ShardNames are the names of the shards, in the order of the file; for a dsn it is "".
func (s *Source) ShardNames() (names []string) {
	for _, shard := range s.Shards {
		names = append(names, shard.Name)
	}
	return names
}

// Checkpoint says where progress and dead letters are kept.
type Checkpoint struct {
	Store    string // file or mysql
	Path     string // file: the directory
	DSN      Secret // mysql
	Table    string // mysql: the prefix of the store's tables
	Interval time.Duration
}

// HTTP is the status page, the API and the metrics.
type HTTP struct {
	Listen string // HOST:PORT; "": off
	Token  Secret // asked of requests that change something; "": not asked
}

// Limits bounds the resources that the program uses.
type Limits struct {
	Memory  int64         // bytes of bodies in flight, for each pipeline
	Deleted time.Duration // how long sinks remember deleted cells; 0: forever
}

// Rebuild limits a rebuild's load on the source.
type Rebuild struct {
	Rate int // rows a second; 0: as fast as source and sink allow
}

// Table returns the table of that name; nil if there is none.
func (c *Config) Table(name string) *replicator.Table {
	for i := range c.Tables {
		if c.Tables[i].Name == name {
			return &c.Tables[i]
		}
	}
	return nil
}

// Sink returns the sink of that name; nil if there is none.
func (c *Config) Sink(name string) *Sink {
	for i := range c.Sinks {
		if c.Sinks[i].Name == name {
			return &c.Sinks[i]
		}
	}
	return nil
}

// View returns the view of that name; nil if there is none.
func (c *Config) View(name string) *replicator.View {
	for _, v := range c.Views {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// ShardTables returns the tables in that shard of the source. A table without a database in the file is in the database
// of the shard's DSN.
func (c *Config) ShardTables(s Shard) []replicator.Table {
	tables := append([]replicator.Table(nil), c.Tables...)
	for i := range tables {
		if c.ownDatabase[tables[i].Name] {
			tables[i].Database = s.Database
		}
	}
	return tables
}
