package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

const (
	defaultPath     = "replicator-state"
	defaultTable    = "replicator"
	defaultListen   = "127.0.0.1:9190"
	defaultMemory   = 64 << 20
	leastMemory     = 1 << 20
	defaultInterval = time.Second
	// Every view of 40 million cells within a day, for a few hundredths of a core.
	defaultVerifyRate = 1000
	leastVerifyEvery  = time.Second
	exampleDSN        = `"replicator:${DB_PASSWORD}@tcp(127.0.0.1:3306)/app"`
)

// Load reads the file at path. env looks variables up, as os.LookupEnv does. The error joins every *Problem found.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, &loader{env: env})
}

// LoadToAsk reads the file as Load does, for a command that only asks the running process: what it needs the
// environment or a secret's file for, and can't have, it leaves out.
func LoadToAsk(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, &loader{env: env, toAsk: true})
}

func load(path string, l *loader) (*Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no configuration file %s; name one with -c FILE, or write one with: replicator init --source DSN", path)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	l.file, l.dir, l.readFile = path, dir, os.ReadFile
	return l.load(data)
}

// loader reads one file.
type loader struct {
	file     string
	dir      string
	env      func(string) (string, bool)
	readFile func(string) ([]byte, error)
	problems []*Problem
	keys     map[string][]string // by a section's shape: what the loader knows
	config   *Config

	toAsk   bool // what can't be had from outside the file is left out
	leftOut bool // something was
}

// leavesOut reports whether what stands at a path, and can't be had from outside the file, is left out. The address of
// the running process never is.
func (l *loader) leavesOut(path string) bool {
	if !l.toAsk || path == "http.listen" {
		return false
	}
	l.leftOut = true
	return true
}

func (l *loader) problem(line int, key, format string, args ...any) {
	l.problems = append(l.problems, &Problem{File: l.file, Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (l *loader) knows(shape, key string) {
	if l.keys == nil {
		l.keys = map[string][]string{}
	}
	l.keys[shape] = append(l.keys[shape], key)
}

func (l *loader) load(data []byte) (*Config, error) {
	root := &section{l: l, at: l.parse(data)}
	if syntax := len(l.problems); syntax > 0 && l.problems[syntax-1].Key == "" {
		return nil, join(l.problems) // what follows a syntax error was not read, and would only seem to be missing
	}
	l.config = &Config{File: l.file, ownDatabase: map[string]bool{}, lines: map[string]int{}}
	if root.knows("source"); !root.has("source") {
		l.problem(0, "", "there is no [source]; say for example [source], and below it dsn = %s", exampleDSN)
	}
	l.source(root.sub("source"))
	l.checkpoint(root.sub("checkpoint"))
	l.http(root.sub("http"))
	limits := root.sub("limits")
	l.config.Limits.Memory = limits.size("memory", defaultMemory, leastMemory)
	limits.done()
	rebuild := root.sub("rebuild")
	l.config.Rebuild.Rate = int(rebuild.integer("rate", 0, 0, 1e9))
	rebuild.done()
	l.verify(root.sub("verify"))
	l.tables(root)
	l.sinks(root)
	l.views(root)
	root.done()
	if len(l.problems) > 0 {
		return nil, join(l.problems)
	}
	l.config.Partial = l.leftOut
	return l.config, nil
}

func (l *loader) verify(s *section) {
	v := &l.config.Verify
	v.Every = s.duration("every", 0, 0, 366*24*time.Hour)
	if v.Every > 0 && v.Every < leastVerifyEvery {
		s.problem("every", "expected at least %s, or \"0s\" for never", shown(leastVerifyEvery))
	}
	v.Rate = int(s.integer("rate", defaultVerifyRate, 0, 1e9))
	v.Repair = s.boolean("repair")
	text := s.name("sample", "100%", `"1%"`)
	var err error
	if v.Sample, err = Share(text); err != nil && text != "" {
		s.problem("sample", `expected a share, such as "1%%" or "0.01", and found %q`, text)
	}
	s.done()
}

func (l *loader) source(s *section) {
	src := &l.config.Source
	src.Shards = l.shards(s)
	src.Start = s.choice("start", "snapshot", "earliest", "latest")
	src.OnLost = s.choice("on_lost", "stop", "rebuild")
	src.OnSwap = s.choice("on_swap", "verify", "rebuild", "stop")
	src.ServerID = uint32(s.integer("server_id", 0, 1, 1<<32-1))
	s.done()
}

// shards reads dsn, or [shards]. It returns at least one shard, so that what reads on need not look.
func (l *loader) shards(s *section) []Shard {
	dsn := s.secret("dsn", exampleDSN)
	names := s.get("shards", aTable, "["+under(s.path, "shards")+"]")
	switch {
	case s.given("dsn") && s.has("shards"):
		s.problem("shards", "dsn is given as well; give one of the two")
	case s.has("shards"):
		if names == nil {
			return make([]Shard, 1)
		}
		return l.namedShards(s, names)
	case !s.given("dsn"):
		if s.at.line > 0 {
			s.need("dsn", exampleDSN)
		}
		return make([]Shard, 1)
	}
	return []Shard{l.shard(s, "dsn", dsn)}
}

// namedShards reads NAME = "DSN", or NAME = { dsn_file = "…" }.
func (l *loader) namedShards(s *section, at *node) []Shard {
	all := &section{l: l, at: at, path: under(s.path, "shards"), shape: under(s.shape, "shards")}
	var shards []Shard
	for _, name := range at.names {
		if problem := badName(name); problem != "" {
			all.problem(name, "%s", problem)
			continue
		}
		one, key := all, name
		if all.isTable(name) {
			one = &section{l: l, at: at.fields[name], path: under(all.path, name), shape: under(all.shape, "*")}
			key = "dsn"
			if !one.given(key) {
				one.problem("", "needs dsn or dsn_file")
			}
		}
		shard := l.shard(one, key, l.shardDSN(one, key))
		shard.Name = name
		shards = append(shards, shard)
		if one != all {
			one.done()
		}
	}
	if len(shards) == 0 {
		s.problem("shards", "is empty; say for example a = %s", exampleDSN)
		return make([]Shard, 1)
	}
	return shards
}

func (l *loader) shardDSN(s *section, key string) Secret {
	if key == "dsn" {
		return s.secret(key, exampleDSN)
	}
	if n := s.at.fields[key]; n.kind == unusable {
		return ""
	} else if n.kind != aText {
		s.problem(key, "expected a DSN, such as %s, or { dsn_file = \"…\" }, and found %s", exampleDSN, n.kind)
		return ""
	}
	return Secret(s.at.fields[key].text)
}

// shard parses a DSN. The driver's own errors may quote it, so they are not shown.
func (l *loader) shard(s *section, key string, dsn Secret) Shard {
	if dsn == "" {
		if n := s.at.fields[key]; n != nil && n.kind == aText {
			s.problem(key, "is empty; say for example %s", exampleDSN)
		}
		return Shard{}
	}
	c, err := mysql.ParseDSN(dsn.Reveal())
	if err != nil {
		if !s.has(key) {
			key += "_file"
		}
		s.problem(key, "is not a DSN (it is not shown, for the password's sake); it has the form USER:PASSWORD@tcp(HOST:PORT)/DATABASE?NAME=VALUE")
		return Shard{}
	}
	return Shard{DSN: dsn, Address: c.Addr, Database: c.DBName}
}

func (l *loader) checkpoint(s *section) {
	c := &l.config.Checkpoint
	c.Store = s.choice("store", "file", "mysql")
	c.Path = l.resolve(s.name("path", defaultPath, `"`+defaultPath+`"`))
	c.DSN = s.secret("dsn", exampleDSN)
	c.Table = s.name("table", defaultTable, `"`+defaultTable+`"`)
	c.Interval = s.duration("interval", defaultInterval, 10*time.Millisecond, time.Hour)
	if problem := badName(c.Table); problem != "" && c.Table != "" {
		s.problem("table", "%s", problem)
	}
	switch c.Store {
	case "file":
		c.DSN, c.Table = "", ""
		for _, key := range []string{"dsn", "dsn_file", "table"} {
			if s.has(key) {
				s.problem(key, `belongs to store = "mysql"; the file store has path`)
			}
		}
	case "mysql":
		c.Path = ""
		if s.has("path") {
			s.problem("path", `belongs to store = "file"; the mysql store has dsn and table`)
		}
		if !s.given("dsn") {
			s.need("dsn", exampleDSN)
		} else if shard := l.shard(s, "dsn", c.DSN); shard.DSN != "" && shard.Database == "" {
			s.problem("dsn", "names no database; end it with /DATABASE")
		}
	}
	s.done()
}

func (l *loader) http(s *section) {
	h := &l.config.HTTP
	h.Listen = s.text("listen", defaultListen, `"`+defaultListen+`"`)
	h.Token = s.secret("token", `"${REPLICATOR_TOKEN}"`)
	s.done()
	if h.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(h.Listen)
	if err != nil || port == "" {
		s.problem("listen", `%q is not HOST:PORT; say for example %q, or "" to turn it off`, h.Listen, defaultListen)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		s.problem("listen", "%q is not a port", port)
	}
	if !loopback(host) && h.Token == "" && !s.given("token") {
		s.problem("listen", "%s can be reached from other machines, so requests that change something need a token: say token_file = \"…\", or listen on 127.0.0.1", h.Listen)
	}
}

// loopback reports whether only this machine can reach the host.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (l *loader) tables(root *section) {
	names, sections := root.named("tables")
	for i, s := range sections {
		l.config.Tables = append(l.config.Tables, l.table(names[i], s))
	}
}

func (l *loader) table(name string, s *section) replicator.Table {
	t := replicator.Table{Name: name, Table: s.name("table", name, `"`+name+`"`)}
	if database, table, has := strings.Cut(t.Table, "."); has {
		t.Database, t.Table = database, table
		if database == "" || table == "" || strings.Contains(table, ".") {
			s.problem("table", `expected "TABLE" or "DATABASE.TABLE"`)
		}
	} else {
		l.config.ownDatabase[name] = true
		for _, shard := range l.config.Source.Shards {
			if shard.DSN != "" && shard.Database == "" {
				s.problem("table", `neither it nor the source's dsn names a database; say table = "DATABASE.%s", or end the dsn with /DATABASE`, t.Table)
				break
			}
		}
		t.Database = l.config.Source.Shards[0].Database
	}
	s.need("key", `"id"`)
	t.Key = texts(s.list("key", `"id" or ["user_id", "id"]`))
	t.Column = s.name("column", "", `"column_name"`)
	if t.Version = s.name("version", position, `"`+position+`"`); t.Version == position {
		t.Version = ""
	}
	t.Offset = texts(s.list("offset", `"added_at"`))
	t.Body = s.name("body", "", `"body"`)
	t.Codec = s.name("codec", "", `"json"`)
	switch {
	case t.Body == "" && t.Codec != "":
		s.problem("codec", "there is no body to decode; say body = \"COLUMN\", or leave the codec out: the row's own columns are then the fields")
	case t.Body != "" && t.Codec == "":
		t.Codec = formats()[0]
	case t.Codec != "":
		l.codec(s, t.Codec)
	}
	s.done()
	return t
}

// position is the version of tables whose rows are updated in place: their place in the binlog.
const position = "position"

// formats are what bodies can be written in; compressions what can stand around them.
func formats() []string      { return []string{"json", "msgpack", "pickle", "cbor"} }
func compressions() []string { return []string{"zlib", "gzip", "zstd", "lz4", "snappy"} }

// codec checks COMPRESSION+…+FORMAT.
func (l *loader) codec(s *section, codec string) {
	words := strings.Split(codec, "+")
	for i, word := range words {
		known := compressions()
		what := "compression"
		if i == len(words)-1 {
			known, what = formats(), "format"
		}
		if !slices.Contains(known, word) {
			s.problem("codec", "%q is not a %s of bodies%s; compressions come before the format, as in %q", word, what, meant(word, known), "zlib+pickle")
			return
		}
	}
}
