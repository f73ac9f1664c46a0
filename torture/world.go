package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// farm has the servers. The runs use them one after another. A run may stop and kill servers, but all of them run again
// at its end.
type farm struct {
	source  map[servers.Kind]*servers.Server
	main    map[servers.Kind]*servers.Server // the servers of the MySQL sink
	cache   map[servers.Kind]*servers.Server
	elastic string // Elasticsearch's URL; "": no Elasticsearch
	search  *servers.Server
	brokers []*servers.Server // the first broker is also the controller; none: no Kafka
	lives   int               // how often a source got a new server id; the next id is computed from this number
}

// cacheArgs are options that make Redis keep acknowledged writes when it is killed. Otherwise views in Redis would go
// back to older states, which the test would report as an error.
var cacheArgs = []string{"--appendonly", "yes"}

func startFarm(ctx context.Context, c Choices) (*farm, error) {
	f := &farm{source: map[servers.Kind]*servers.Server{}, main: map[servers.Kind]*servers.Server{},
		cache: map[servers.Kind]*servers.Server{}}
	start := func(kind servers.Kind, args ...string) (*servers.Server, error) {
		return servers.Start(ctx, servers.Options{Kind: kind, Small: true, Args: args})
	}
	var err error
	for _, kind := range c.Sources {
		var args []string
		if kind.IsMariaDB() {
			args = append(args, "--log-slave-updates") // the source may be a replica for a while
		} else { // failovers require GTIDs
			args = append(args, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
		}
		if f.source[kind], err = start(kind, args...); err != nil {
			return f, err
		}
	}
	for _, kind := range c.mains() {
		if f.main[kind], err = start(kind); err != nil {
			return f, err
		}
	}
	for _, kind := range c.caches() {
		if f.cache[kind], err = start(kind, cacheArgs...); err != nil {
			return f, err
		}
	}
	if c.Search != "" {
		if f.search, err = start(c.Search); err != nil {
			return f, err
		}
		f.elastic = "http://" + f.search.Addr()
	}
	f.brokers, err = startBrokers(ctx, c.Brokers)
	return f, err
}

func (f *farm) all() []*servers.Server {
	var all []*servers.Server
	for _, some := range []map[servers.Kind]*servers.Server{f.source, f.main, f.cache} {
		for _, kind := range slices.Sorted(maps.Keys(some)) {
			all = append(all, some[kind])
		}
	}
	all = append(append(all, f.search), f.brokers...)
	return slices.DeleteFunc(all, func(s *servers.Server) bool { return s == nil })
}

// String names the servers' versions: sources, then sinks.
func (f *farm) String() string {
	var names []string
	for _, s := range f.all() {
		names = append(names, fmt.Sprint(s.Kind, " ", s.Version))
	}
	return strings.Join(names, ", ")
}

// mend resets servers after a run that the harness could not finish.
func (f *farm) mend(ctx context.Context) error {
	for _, s := range f.all() {
		_ = s.Resume() // this fails for a stopped server, which is started next
		if !s.Running() {
			if err := s.Restart(ctx); err != nil {
				return err
			}
		}
	}
	for _, s := range f.source {
		_ = tell(ctx, s, stopReplica(s)...) // this fails on servers that are not replicas
	}
	return nil
}

func (f *farm) close() {
	for _, s := range f.all() {
		_ = s.Close() // the error can be ignored: Close removes the directory even if it can't stop the server
	}
}

// Names of the links that the harness itself uses. They lead to servers that a fault may replace.
const (
	ownSource = "our source"
	ownCache  = "our cache"
)

// world is the state of one run: the servers' databases, the links, the program.
type world struct {
	process   // the program; with Kafka, the publisher
	plan      Plan
	servers   *farm
	source    *servers.Server
	at        addresses
	links     map[string]*link // proxies by name; faults disturb only the links that the program uses
	sourceDBs []*sql.DB        // one for each shard of the source, as root, not through the program's link
	sinkDBs   []*sql.DB        // one for each shard of the MySQL sink
	redis     *goredis.Client
	load      *workload
	reader    *reader
	others    []*launch.Process // commands, and second programs that faults started
	stream    *stream           // with Kafka, the topic and the members that read it; otherwise nil

	main      *servers.Server   // the server of the MySQL sink
	cache     *servers.Server   // the server of the Redis sink, which a fault may replace
	inflicted []string          // the faults that were really injected
	stuck     bool              // at the end, a view or a program did not run
	replica   *servers.Server   // a replica of the source, if a fault needs one
	extra     []*servers.Server // further servers that the run started
	mounted   bool              // the state directory is its own file system
	restarts  int               // how often a program that had ended unexpectedly was restarted
	overtaken bool              // another program had taken the views over for a while
}

func newWorld(ctx context.Context, f *farm, p Plan, binary, dir string, say func(string, ...any)) (*world, error) {
	w := &world{plan: p, servers: f, source: f.source[p.Source], main: f.main[p.Main],
		cache: f.cache[p.Cache], links: map[string]*link{},
		process: process{program: launch.Program{Path: binary, Dir: dir, Env: skewedBy(clockFile(dir))}, say: say}}
	name := w.databaseName(0)
	var err error
	all := map[string]*servers.Server{"source": w.source, "main": w.main, "cache": w.cache, "search": f.search,
		ownSource: w.source, ownCache: w.cache}
	for link, to := range all {
		if to == nil {
			continue
		}
		if w.links[link], err = newLink(to.Addr()); err != nil {
			return w, err
		}
	}
	if p.needsDisk() {
		if err := w.mountState(); err != nil {
			return w, err
		}
	}
	if p.needsReplica() {
		if err := w.startReplica(ctx); err != nil {
			return w, err
		}
	}
	var parts []string
	for part := range p.Parts {
		parts = append(parts, name+shardSuffix(part))
		db, err := freshDatabase(ctx, w.links[ownSource].address(), parts[part], "&binlog_row_image="+p.Images)
		if err != nil {
			return w, err
		}
		w.sourceDBs = append(w.sourceDBs, db)
	}
	for shard := range p.Shards {
		db, err := freshDatabase(ctx, w.main.Addr(), name+shardSuffix(shard), "")
		if err != nil {
			return w, err
		}
		w.sinkDBs = append(w.sinkDBs, db)
	}
	if err := w.copyTables(ctx); err != nil {
		return w, err
	}
	if err := w.plantTargets(ctx); err != nil {
		return w, err
	}
	w.redis = goredis.NewClient(&goredis.Options{Addr: w.links[ownCache].address(), MaxRetries: -1})
	if err := w.redis.FlushAll(ctx).Err(); err != nil {
		return w, err
	}
	listen, err := freeAddress()
	if err != nil {
		return w, err
	}
	w.at = addresses{
		source: "root@tcp(" + w.links["source"].address() + ")/" + name, store: w.source.DSN(name),
		main: "root@tcp(" + w.links["main"].address() + ")/" + name, cache: "redis://" + w.links["cache"].address() + "/0",
		listen: listen, prefix: name + ":",
	}
	if f.search != nil {
		w.at.search = "http://" + w.links["search"].address()
	}
	w.load = &workload{db: w.sourceDBs[0], parts: parts, tables: p.Tables, groups: p.joins(), forest: p.Forest,
		pace: 2 * time.Millisecond, moving: p.movesKeys()}
	w.reader = &reader{w: w, seen: map[string]string{}}
	if p.Topic != nil {
		if err := w.newStream(ctx, name); err != nil {
			return w, err
		}
	}
	return w, w.configure("")
}

// freeAddress returns an address whose port is free and stays free. It picks a random loopback address: on 127.0.0.1,
// connections and other torture processes could take the port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.1:0", 1+rand.IntN(250), rand.IntN(250)))
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// databaseName returns the name of a shard's database. The source and the MySQL sink use the same names.
func (w *world) databaseName(shard int) string {
	return fmt.Sprintf("torture%d%s", w.plan.Seed, shardSuffix(shard))
}

// freshDatabase makes an empty database, and connects to it. settings are further parameters of the DSN.
func freshDatabase(ctx context.Context, addr, name, settings string) (*sql.DB, error) {
	at := "root@tcp(" + addr + ")/"
	root, err := sql.Open("mysql", at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name,
		"CREATE DATABASE " + name + " CHARACTER SET utf8mb4"} {
		if _, err := root.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	// An ALTER may wait for writer A and block writer B from a table, while A waits for a row that B has locked. The
	// server does not detect this deadlock. Only a timeout ends it.
	return sql.Open("mysql", at+name+"?timeout=2s&readTimeout=10s&innodb_lock_wait_timeout=2"+settings)
}

// configure writes the configuration, without the view named `without`. It replaces the file in one step, so a program
// that is just starting reads either the old or the new one.
func (w *world) configure(without string) error {
	next := w.program.File() + ".next"
	if err := os.WriteFile(next, []byte(w.plan.toml(w.at, without)), 0o600); err != nil {
		return err
	}
	return os.Rename(next, w.program.File())
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.end(syscall.SIGKILL)
	for _, p := range w.others {
		p.Kill()
	}
	if w.stream != nil {
		w.stream.close(ctx)
	}
	drop := func(db *sql.DB, shard int) {
		_, _ = db.ExecContext(ctx, "DROP DATABASE "+w.databaseName(shard)) // to free space
		db.Close()
	}
	for part, db := range w.sourceDBs {
		drop(db, part)
	}
	for shard, db := range w.sinkDBs {
		drop(db, shard)
	}
	if w.servers.elastic != "" {
		w.dropIndexes(ctx)
	}
	if w.redis != nil {
		w.redis.Close()
	}
	for _, k := range w.links {
		k.close()
	}
	if w.mounted {
		_ = unmount(w.stateDir()) // if this fails, the run's directory stays
	}
	for _, s := range append(w.extra, w.replica) {
		if s != nil {
			_ = s.Close() // the error can be ignored: Close removes the directory even if it can't stop the server
		}
	}
}

func (w *world) dropIndexes(ctx context.Context) {
	pattern := strings.TrimSuffix(w.at.prefix, ":") + "_*"
	text, err := w.request(ctx, http.MethodGet, "/"+pattern+"?expand_wildcards=all&features=settings", "")
	var indexes map[string]any
	if err != nil || json.Unmarshal(text, &indexes) != nil {
		return
	}
	for name := range indexes {
		_, _ = w.request(ctx, http.MethodDelete, "/"+name, "")
	}
}

// document returns the fields of a document. If the document does not exist, it returns those of the server's error.
func (w *world) document(ctx context.Context, v View, id string) (fields, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		w.servers.elastic+"/"+v.index(w.at.prefix)+"/_source/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotFound {
		return nil, errors.New(res.Status)
	}
	d := json.NewDecoder(res.Body)
	d.UseNumber()
	var source map[string]any
	if err := d.Decode(&source); err != nil {
		return nil, err
	}
	return shownFields(source), nil
}

// logged returns the last lines of the logs of the run's programs.
func (w *world) logged(lines int) string {
	all := w.process.logged()
	if w.stream != nil {
		for i, m := range w.stream.members {
			all += fmt.Sprintf("\n-- member %d --\n%s", i, launch.LastLines(m.logged(), lines))
		}
		return all
	}
	return launch.LastLines(all, lines)
}

// copyDir copies a directory. The target must not exist.
func copyDir(to, from string) error { return os.CopyFS(to, os.DirFS(from)) }
