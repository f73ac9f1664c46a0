package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// farm is the servers that runs use one after another. A run may stop and kill them, and leaves them running.
type farm struct {
	source  map[servers.Kind]*servers.Server
	main    *servers.Server // the MySQL sink's
	cache   *servers.Server
	elastic string // its URL; "": there is none
	search  *servers.Server
}

// startFarm starts one server of each kind that is asked for.
func startFarm(ctx context.Context, sources []servers.Kind, elastic bool) (*farm, error) {
	f := &farm{source: map[servers.Kind]*servers.Server{}}
	start := func(kind servers.Kind) (*servers.Server, error) {
		return servers.Start(ctx, servers.Options{Kind: kind, Small: true})
	}
	var err error
	for _, kind := range sources {
		if f.source[kind], err = start(kind); err != nil {
			return f, err
		}
	}
	if f.main, err = start(servers.MariaDB1011); err != nil {
		return f, err
	}
	if f.cache, err = start(servers.Redis7); err != nil {
		return f, err
	}
	if elastic {
		if f.search, err = start(servers.Elasticsearch); err != nil {
			return f, err
		}
		f.elastic = "http://" + f.search.Addr()
	}
	return f, nil
}

func (f *farm) close() {
	all := []*servers.Server{f.main, f.cache, f.search}
	for _, s := range f.source {
		all = append(all, s)
	}
	for _, s := range all {
		if s != nil {
			_ = s.Close() // its directory is removed, whatever it says
		}
	}
}

// world is one run: the servers' databases, the links, the program.
type world struct {
	plan     Plan
	servers  *farm
	source   *servers.Server
	at       addresses
	program  launch.Program
	links    map[string]*link // by the sink's name, and source
	sourceDB *sql.DB          // as root, past the link
	sinkDBs  []*sql.DB        // a database for each shard
	redis    *goredis.Client
	load     *workload
	reader   *reader
	say      func(format string, args ...any)

	running *launch.Process
	logs    []string
	others  []*launch.Process // commands and second programs
}

// newWorld prepares a run in a directory.
func newWorld(ctx context.Context, f *farm, p Plan, binary, dir string, say func(string, ...any)) (*world, error) {
	w := &world{plan: p, servers: f, source: f.source[p.Source], links: map[string]*link{}, say: say,
		program: launch.Program{Path: binary, Dir: dir}}
	name := fmt.Sprintf("torture%d", p.Seed)
	var err error
	if w.sourceDB, err = freshDatabase(ctx, w.source, name); err != nil {
		return w, err
	}
	for shard := range p.Shards {
		db, err := freshDatabase(ctx, f.main, name+shardSuffix(shard))
		if err != nil {
			return w, err
		}
		w.sinkDBs = append(w.sinkDBs, db)
	}
	w.redis = goredis.NewClient(&goredis.Options{Addr: f.cache.Addr(), MaxRetries: -1})
	if err := w.redis.FlushAll(ctx).Err(); err != nil {
		return w, err
	}
	all := map[string]*servers.Server{"source": w.source, "main": f.main, "cache": f.cache, "search": f.search}
	for link, to := range all {
		if to == nil {
			continue
		}
		if w.links[link], err = newLink(to.Addr()); err != nil {
			return w, err
		}
	}
	listen, err := newLink("") // a port that is free
	if err != nil {
		return w, err
	}
	listen.close()
	w.at = addresses{
		source: "root@tcp(" + w.links["source"].address() + ")/" + name, store: w.source.DSN(name),
		main: "root@tcp(" + w.links["main"].address() + ")/" + name, cache: "redis://" + w.links["cache"].address() + "/0",
		listen: listen.address(), prefix: name + ":",
	}
	if f.search != nil {
		w.at.search = "http://" + w.links["search"].address()
	}
	w.load = &workload{db: w.sourceDB, tables: p.Tables, pace: 2 * time.Millisecond}
	w.reader = &reader{w: w, seen: map[string]string{}}
	return w, w.configure("")
}

// freshDatabase makes an empty database, and connects to it.
func freshDatabase(ctx context.Context, s *servers.Server, name string) (*sql.DB, error) {
	root, err := sql.Open("mysql", s.DSN(""))
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
	return sql.Open("mysql", s.DSN(name)+"?timeout=2s&readTimeout=10s")
}

// configure writes the configuration, all but one view. A program that is just starting sees the old one or the new.
func (w *world) configure(without string) error {
	next := w.program.File() + ".next"
	if err := os.WriteFile(next, []byte(w.plan.toml(w.at, without)), 0o600); err != nil {
		return err
	}
	return os.Rename(next, w.program.File())
}

// start starts the program, unless it runs.
func (w *world) start(ctx context.Context) (err error) {
	if w.running != nil {
		return nil
	}
	w.running, err = w.program.Start(context.WithoutCancel(ctx), "run", "-c", w.program.File())
	return err
}

// end ends the program in a way, and keeps what it logged.
func (w *world) end(how syscall.Signal) {
	if w.running == nil {
		return
	}
	if how == syscall.SIGTERM {
		_ = w.running.Signal(how)
		select {
		case <-w.running.Done():
		case <-time.After(40 * time.Second):
			w.say("the program does not end after SIGTERM")
		}
	}
	w.running.Kill()
	w.logs = append(w.logs, w.running.Log())
	w.running = nil
}

// command runs a command of the program's beside it; how it ends is of no interest but to its caller.
func (w *world) command(ctx context.Context, args ...string) (out string, code int) {
	p, err := w.program.Start(ctx, append(args, "-c", w.program.File())...)
	if err != nil {
		return err.Error(), -1
	}
	return p.Output() + p.Log(), p.Code()
}

// close ends what the run started, and drops what it made.
func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.end(syscall.SIGKILL)
	for _, p := range w.others {
		p.Kill()
	}
	for _, k := range w.links {
		k.close()
	}
	drop := func(db *sql.DB, shard int) {
		_, _ = db.ExecContext(ctx, fmt.Sprintf("DROP DATABASE torture%d%s", w.plan.Seed, shardSuffix(shard))) // for space
		db.Close()
	}
	if w.sourceDB != nil {
		drop(w.sourceDB, 0)
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
}

// dropIndexes removes the run's indexes.
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

// documentN is the n of a document; "" if it is not there.
func (w *world) documentN(ctx context.Context, v View, id string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		w.servers.elastic+"/"+v.index(w.at.prefix)+"/_source/"+url.PathEscape(id), nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotFound {
		return "", errors.New(res.Status)
	}
	d := json.NewDecoder(res.Body)
	d.UseNumber()
	var source map[string]any
	if err := d.Decode(&source); err != nil {
		return "", err
	}
	return shownFields(source)["n"], nil
}

// logged is what the programs of the run logged, the last part of it.
func (w *world) logged(lines int) string {
	all := strings.Join(w.logs, "\n-- the next program --\n")
	if w.running != nil {
		all += "\n-- the last program --\n" + w.running.Log()
	}
	return launch.LastLines(all, lines)
}

// stateDir is where the program keeps its state.
func (w *world) stateDir() string { return filepath.Join(w.program.Dir, "state") }

// copyDir copies a directory; the target must not be there.
func copyDir(to, from string) error { return os.CopyFS(to, os.DirFS(from)) }
