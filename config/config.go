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
	Tables     []replicator.Table // in the order of the file; Columns is left to who compiles the views
	Sinks      []Sink             // in the order of the file
	Views      []*replicator.View // in the order of the file; Fingerprint is left to who compiles them

	// Partial: LoadToAsk left something out. It is enough to ask the running process.
	Partial bool

	// ownDatabase holds the tables that name no database: each shard has them in its own.
	ownDatabase map[string]bool
	lines       map[string]int // where each view's keys stand, by VIEW.KEY, or VIEW.join.NAME.KEY; VIEW is its section
}

// Line is where a view's key stands in the file, or its section if it has no such key: what only shows when the views
// are compiled names its line, too. A name in a table of fields stands where that does.
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
	Shards     []Shard // at least one, in the order of the file; with Kafka the origin's, which may be left out
	Kafka      *Topics // what is read is a changelog in Kafka; nil: the shards are read themselves
	Start      string  // where a view without a checkpoint starts: snapshot, earliest or latest
	OnLost     string  // what to do when the binlog was purged or a sink lost data: stop or rebuild
	OnUnlogged string  // what to do when rows change and the binlog doesn't say which: repair, rebuild or stop
	ServerID   uint32  // the replica id shown to the source; 0: the program chooses one
}

// ShardNames are the names of the shards, in the order of the file; of a dsn it is "".
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
	Table    string // mysql: what the names of the store's tables begin with
	Interval time.Duration
}

// HTTP is the status page, the API and the metrics.
type HTTP struct {
	Listen string // HOST:PORT; "": off
	Token  Secret // asked of requests that change something; "": not asked
}

// Limits bound what the program uses.
type Limits struct {
	Memory  int64         // bytes of bodies in flight, for each pipeline
	Deleted time.Duration // how long sinks remember cells that are gone; 0: for ever
}

// Rebuild bounds what a rebuild asks of the source.
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

// ShardTables returns the tables as that shard of the source has them: a table whose database is not named in the file
// is in the database of the shard's DSN.
func (c *Config) ShardTables(s Shard) []replicator.Table {
	tables := append([]replicator.Table(nil), c.Tables...)
	for i := range tables {
		if c.ownDatabase[tables[i].Name] {
			tables[i].Database = s.Database
		}
	}
	return tables
}
