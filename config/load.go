package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"replicator"
	"replicator/internal/nearest"
)

const (
	defaultPath     = "replicator-state"
	defaultTable    = "replicator"
	defaultListen   = "127.0.0.1:9190"
	defaultMemory   = 64 << 20
	defaultDeleted  = time.Hour
	leastMemory     = 1 << 20
	defaultInterval = time.Second
	exampleDSN      = `"replicator:${DB_PASSWORD}@tcp(127.0.0.1:3306)/app"`
)

// Load reads the file at path. env looks up environment variables, like os.LookupEnv. types are the known types of
// sinks. The error joins all *Problems that were found.
func Load(path string, env func(string) (string, bool), types []SinkType) (*Config, error) {
	return load(path, &loader{env: env, types: types})
}

// LoadToAsk reads the file like Load, for a command that only asks the running process. LoadToAsk leaves out a setting
// that needs a missing environment variable or secret file.
func LoadToAsk(path string, env func(string) (string, bool), types []SinkType) (*Config, error) {
	return load(path, &loader{env: env, types: types, toAsk: true})
}

// LoadAddress reads only the section [http], with the address at which the running process listens. The rest of the
// Config stays empty. The rest of the file may be invalid, because the operator may be editing it.
func LoadAddress(path string, env func(string) (string, bool)) (*Config, error) {
	l := &loader{env: env, toAsk: true}
	data, err := l.open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var section []byte
	inside := false
	for line := range bytes.Lines(data) {
		if text := bytes.TrimSpace(line); bytes.HasPrefix(text, []byte("[")) {
			inside = bytes.HasPrefix(text, []byte("[http]"))
		}
		if inside {
			section = append(section, line...)
		}
	}
	l.config = &Config{File: path, Path: filepath.Join(l.dir, filepath.Base(path))}
	l.http((&Section{l: l, at: l.parse(section)}).sub("http"))
	if len(l.problems) > 0 {
		return nil, join(l.problems)
	}
	return l.config, nil
}

func load(path string, l *loader) (*Config, error) {
	data, err := l.open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no configuration file %s; name one with -c FILE, or write one with: replicator init --source DSN", path)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return l.load(data)
}

func (l *loader) open(path string) (data []byte, err error) {
	if data, err = os.ReadFile(path); err == nil {
		l.file, l.readFile = path, os.ReadFile
		l.dir, err = filepath.Abs(filepath.Dir(path))
	}
	return data, err
}

type loader struct {
	file     string
	dir      string
	env      func(string) (string, bool)
	types    []SinkType
	readFile func(string) ([]byte, error)
	problems []*Problem
	keys     map[string][]string // the known keys, by Section.shape; only a test reads them
	config   *Config

	toAsk   bool // set by LoadToAsk: leave out settings whose environment variable or file is missing
	leftOut bool
}

// leavesOut is called if the environment variable or file of the setting at path is missing. It reports whether that is
// allowed, and then sets leftOut. The address of the running process (http.listen) is never left out.
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
	root := &Section{l: l, at: l.parse(data)}
	if syntax := len(l.problems); syntax > 0 && l.problems[syntax-1].Key == "" {
		return nil, join(l.problems) // parsing stopped at the syntax error, so other problems would mislead
	}
	l.config = &Config{File: l.file, Path: filepath.Join(l.dir, filepath.Base(l.file)), ownDatabase: map[string]bool{}, lines: map[string]int{}}
	if root.knows("source"); !root.Has("source") {
		l.problem(0, "", "there is no [source]; say for example [source], and below it dsn = %s", exampleDSN)
	}
	l.source(root.sub("source"))
	l.checkpoint(root.sub("checkpoint"))
	l.http(root.sub("http"))
	limits := root.sub("limits")
	l.config.Limits.Memory = limits.size("memory", defaultMemory, leastMemory)
	l.config.Limits.Deleted = limits.duration("deleted", defaultDeleted, 0, 365*24*time.Hour)
	limits.reportKeys()
	rebuild := root.sub("rebuild")
	l.config.Rebuild.Rate = int(rebuild.integer("rate", 0, 0, 1e9))
	rebuild.reportKeys()
	l.tables(root)
	l.sinks(root)
	l.views(root)
	root.reportKeys()
	if len(l.problems) > 0 {
		return nil, join(l.problems)
	}
	l.config.Partial = l.leftOut
	return l.config, nil
}

func (l *loader) source(s *Section) {
	src := &l.config.Source
	if s.choice("type", "mysql", "kafka") == "kafka" {
		src.Kafka = s.topics()
	} else {
		s.notOfMySQL()
	}
	if src.Kafka == nil || s.Given("dsn") || s.Has("shards") {
		src.Shards = s.Shards()
	}
	src.Start = s.choice("start", "snapshot", "earliest", "latest")
	src.OnLost = s.choice("on_lost", "stop", "rebuild")
	src.OnUnlogged = s.choice("on_unlogged", "repair", "rebuild", "stop")
	src.ServerID = uint32(s.integer("server_id", 0, 1, 1<<32-1))
	s.reportKeys()
}

func (l *loader) checkpoint(s *Section) {
	c := &l.config.Checkpoint
	c.Store = s.choice("store", "file", "mysql")
	c.Path = l.resolve(s.Name("path", defaultPath, `"`+defaultPath+`"`))
	c.DSN = s.Secret("dsn", exampleDSN)
	c.Table = s.Name("table", defaultTable, `"`+defaultTable+`"`)
	c.Interval = s.duration("interval", defaultInterval, 10*time.Millisecond, time.Hour)
	if problem := badName(c.Table); problem != "" && c.Table != "" {
		s.Problem("table", "%s", problem)
	}
	switch c.Store {
	case "file":
		c.DSN, c.Table = "", ""
		for _, key := range []string{"dsn", "dsn_file", "table"} {
			if s.Has(key) {
				s.Problem(key, `belongs to store = "mysql". Set that store, or remove %s: the file store uses path`,
					key)
			}
		}
	case "mysql":
		c.Path = ""
		if s.Has("path") {
			s.Problem("path", `belongs to store = "file". Set that store, or remove path: the mysql store uses dsn `+
				`and table`)
		}
		if !s.Given("dsn") {
			s.Need("dsn", exampleDSN)
		} else if shard := s.shard("dsn", c.DSN); shard.DSN != "" && shard.Database == "" {
			s.Problem("dsn", "names no database; end it with /DATABASE")
		}
	}
	s.reportKeys()
}

func (l *loader) http(s *Section) {
	h := &l.config.HTTP
	h.Listen = s.text("listen", defaultListen, `"`+defaultListen+`"`)
	h.Token = s.Secret("token", `"${REPLICATOR_TOKEN}"`)
	if key := s.given("token"); h.Token != "" && !sendable(h.Token.Reveal()) {
		s.Problem(key, "can't be sent in an HTTP header. Use one line of up to %d bytes without blanks around it, "+
			"such as the output of `openssl rand -hex 32`", longestToken)
	}
	s.reportKeys()
	if h.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(h.Listen)
	if err != nil || port == "" {
		s.Problem("listen", `%q is not HOST:PORT; say for example %q, or "" to turn it off`, h.Listen, defaultListen)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		s.Problem("listen", "%q is not a port", port)
	}
	// A command that only asks the running process (toAsk) may lack the environment variable that `token` names.
	empty := !s.Given("token") || s.Has("token") && !l.toAsk
	if !loopback(host) && h.Token == "" && empty {
		s.Problem("listen", "%s can be reached from other machines, so requests that change something need a "+
			"token. Set token_file = \"…\", or listen on 127.0.0.1", h.Listen)
	}
}

// longestToken is the size of the longest token that fits into a request along with the other headers
// (server.mostHeader).
const longestToken = 4096

// sendable reports whether the Authorization header of a request can hold the token.
func sendable(token string) bool {
	return len(token) <= longestToken && token == strings.TrimSpace(token) &&
		!strings.ContainsFunc(token, unicode.IsControl)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (l *loader) tables(root *Section) {
	names, sections := root.named("tables")
	for i, s := range sections {
		t := l.table(names[i], s)
		l.pattern(&t, s)
		for _, other := range l.config.Tables {
			if both := overlap(&t, &other); both != "" {
				s.Problem("table", "[tables.%s] names %s, too, but each table must belong to one section. Change "+
					"the pattern, or write from = %q in the views", other.Name, both, other.Name)
			}
			if t.Database == other.Database && t.Table == other.Table {
				s.Problem("table", "[tables.%s] names %s, too, but each table must belong to one section. Write "+
					"from = %q in the views, and remove this section", other.Name, t.Table, other.Name)
			}
		}
		l.config.Tables = append(l.config.Tables, t)
	}
}

func (l *loader) table(name string, s *Section) replicator.Table {
	t := replicator.Table{Name: name, Table: s.Name("table", name, `"`+name+`"`)}
	if database, table, has := strings.Cut(t.Table, "."); has {
		t.Database, t.Table = database, table
		if database == "" || table == "" || strings.Contains(table, ".") {
			s.Problem("table", `expected "TABLE" or "DATABASE.TABLE"`)
		}
	} else {
		l.config.ownDatabase[name] = true
		for _, shard := range l.config.Source.Shards {
			if shard.DSN != "" && shard.Database == "" {
				s.Problem("table", `neither this key nor the source's dsn names a database. Write table = `+
					`"DATABASE.%s", or end the dsn with /DATABASE`, t.Table)
				break
			}
		}
		// With Kafka, the dsn's database is no default for the table's database: the changelog's rows may come from any
		// other database.
		if shards := l.config.Source.Shards; len(shards) > 0 && l.config.Source.Kafka == nil {
			t.Database = shards[0].Database
		}
	}
	s.Need("key", `"id"`)
	t.Key = Texts(s.List("key", `"id" or ["user_id", "id"]`))
	t.Column = s.Name("column", "", `"column_name"`)
	if t.Version = s.Name("version", position, `"`+position+`"`); t.Version == position {
		t.Version = ""
	}
	t.Offset = Texts(s.List("offset", `"added_at"`))
	t.Body = s.Name("body", "", `"body"`)
	t.Codec = s.Name("codec", "", `"json"`)
	switch {
	case t.Body == "" && t.Codec != "":
		s.Problem("codec", "there is no body to decode. Write body = \"COLUMN\", or remove the codec to use the "+
			"row's own columns as fields")
	case t.Body != "" && t.Codec == "":
		t.Codec = replicator.Formats()[0]
	case t.Codec != "":
		l.codec(s, t.Codec)
	}
	s.reportKeys()
	return t
}

// position is the default of a table's version setting: of two rows, the one that changed later in the log is the
// newer.
const position = "position"

func (l *loader) codec(s *Section, codec string) {
	words := strings.Split(codec, "+")
	for i, word := range words {
		known := replicator.Compressions()
		what := "compression"
		if i == len(words)-1 {
			known, what = replicator.Formats(), "format"
		}
		if !slices.Contains(known, word) {
			s.Problem("codec", "%q is not a known %s%s; compressions come before the format, as in %q", word, what,
				nearest.Meant(word, known), "zlib+pickle")
			return
		}
	}
}
