package config

import (
	"strings"
	"time"

	"replicator"
)

// Config is a configuration file, checked and complete.
type Config struct {
	File       string // the path as given on the command line
	Path       string // the file's absolute path
	Source     Source
	Checkpoint Checkpoint
	HTTP       HTTP
	Limits     Limits
	Rebuild    Rebuild
	Tables     []replicator.Table // Table.Columns is set when the views are compiled
	Sinks      []Sink
	Views      []*replicator.View // View.Fingerprint is set when the views are compiled

	// Partial is set if LoadToAsk left out settings. A command that only asks the running process doesn't need them.
	Partial bool

	// ownDatabase has the tables for which the file names no database. They are in each shard's own database.
	ownDatabase map[string]bool
	lines       map[string]int // line numbers in the file, by VIEW, VIEW.KEY and VIEW.join.NAME.KEY
}

// Line returns the line of a view's key in the file, or of the view's section if the key is not given. For a name in a
// table of fields ("fields.email"), it returns the line of the key fields.
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

// Source says what is replicated.
type Source struct {
	Shards     []Shard // the MySQL servers; empty only if Kafka is set and the file names no server
	Kafka      *Topics // changelogs in Kafka to read instead of the shards; nil: the shards are read
	Start      string  // where a view without a checkpoint starts: snapshot, earliest or latest
	OnLost     string  // what to do if the binlog was purged or a sink lost data: stop or rebuild
	OnUnlogged string  // what to do if rows change and the binlog doesn't say which: repair, rebuild or stop
	ServerID   uint32  // server id of the replication connections; 0: replicator chooses one
}

// ShardNames returns the names of the shards, in the order of the file. A source with a single dsn has one shard, whose
// name is "".
func (s *Source) ShardNames() (names []string) {
	for _, shard := range s.Shards {
		names = append(names, shard.Name)
	}
	return names
}

// Checkpoint says where the log positions and the dead letters are stored.
type Checkpoint struct {
	Store    string // file or mysql
	Path     string // directory of the file store
	DSN      Secret
	Table    string // prefix of the mysql store's tables
	Interval time.Duration
}

// HTTP configures the status page, the API and the metrics.
type HTTP struct {
	Listen string // HOST:PORT; "": off
	Token  Secret // required for requests that change something; "": no token is needed
}

// Limits are limits of the resources that replicator uses.
type Limits struct {
	Memory  int64         // bytes of pending rows, for each pipeline
	Deleted time.Duration // how long sinks remember that a row was deleted; 0: forever
}

// Rebuild limits a rebuild's load on the source.
type Rebuild struct {
	Rate int // rows a second; 0: no limit
}

// Table returns the table with the given name, or nil.
func (c *Config) Table(name string) *replicator.Table {
	for i := range c.Tables {
		if c.Tables[i].Name == name {
			return &c.Tables[i]
		}
	}
	return nil
}

// Sink returns the sink with the given name, or nil.
func (c *Config) Sink(name string) *Sink {
	for i := range c.Sinks {
		if c.Sinks[i].Name == name {
			return &c.Sinks[i]
		}
	}
	return nil
}

// View returns the view with the given name, or nil.
func (c *Config) View(name string) *replicator.View {
	for _, v := range c.Views {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// ShardTables returns the tables of a shard. A table for which the file names no database is in the database of the
// shard's DSN.
func (c *Config) ShardTables(s Shard) []replicator.Table {
	tables := append([]replicator.Table(nil), c.Tables...)
	for i := range tables {
		if c.ownDatabase[tables[i].Name] {
			tables[i].Database = s.Database
		}
	}
	return tables
}
