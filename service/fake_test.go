package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/internal/servers/servertest"
	"replicator/pipeline"
	"replicator/sinks"
	"replicator/sinks/sinktest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// fakeEngine is a pipeline that records the requests to it.
type fakeEngine struct {
	views []replicator.ViewStatus
	asked []string
	fails error // the error that every request except Keeps and Status returns

	mu      sync.Mutex
	swapped map[string]int64 // views with a pending comparison
}

func (f *fakeEngine) note(words ...string) error {
	f.asked = append(f.asked, strings.Join(words, " "))
	return f.fails
}

func (f *fakeEngine) Run(_, stop context.Context) error { <-stop.Done(); return f.fails }

func (f *fakeEngine) Keeps(view string) bool {
	return slices.ContainsFunc(f.views, func(v replicator.ViewStatus) bool { return v.View == view })
}

func (f *fakeEngine) Status(map[string]int) []replicator.ViewStatus { return slices.Clone(f.views) }

func (f *fakeEngine) Wait(_ context.Context, fence string, views []string) error {
	return f.note(append([]string{"wait", fence}, views...)...)
}
func (f *fakeEngine) Renew(_ context.Context, views ...string) error {
	return f.note(append([]string{"renew"}, views...)...)
}
func (f *fakeEngine) Look(_ context.Context, view string, cells []replicator.Cell) error {
	words := []string{"look", view}
	for _, c := range cells {
		words = append(words, c.Key.String())
	}
	return f.note(words...)
}

func (f *fakeEngine) Rebuild(_ context.Context, views []string, mode pipeline.RebuildMode, from string) error {
	how := "by swap"
	if mode == pipeline.InPlace {
		how = "in place"
	}
	return f.note("rebuild", strings.Join(views, "+"), how, from)
}
func (f *fakeEngine) Pause(_ context.Context, view string) error  { return f.note("pause", view) }
func (f *fakeEngine) Resume(_ context.Context, view string) error { return f.note("resume", view) }
func (f *fakeEngine) Swapped() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.swapped)
}

func (f *fakeEngine) Shown() map[string]time.Time { return nil }

func (f *fakeEngine) Compared(view string, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.note("compared", view)
	if f.swapped[view] == at {
		delete(f.swapped, view)
	}
}

// fakeSource has a retention and, if end is set, a position. Methods that it doesn't implement panic.
type fakeSource struct {
	replicator.Source
	name     string
	left     time.Duration
	leftFail error
	offset   error  // the result of CheckOffset
	format   string // the binlog_format in Stats
	end      string // the position of Latest, FILE:POS; "": Latest fails
}

func (s *fakeSource) Name() string       { return s.name }
func (s *fakeSource) Stats() canal.Stats { return canal.Stats{Events: 7, Bytes: 70, Format: s.format} }
func (s *fakeSource) Retention(context.Context, replicator.Position) (time.Duration, error) {
	return s.left, s.leftFail
}
func (s *fakeSource) CheckOffset(context.Context, string, string) error { return s.offset }
func (s *fakeSource) Close() error                                      { return nil }
func (s *fakeSource) Latest(context.Context, []replicator.Position) (replicator.Position, error) {
	if s.end == "" {
		return replicator.Position{}, replicator.Fatal(errors.New("access denied"))
	}
	return replicator.Position{Order: 4, Token: s.end}, nil
}

// keeping returns a fake pipeline of a sink and a shard that keeps the views.
func keeping(sink, shard string, views ...string) (line, *fakeEngine) {
	f := &fakeEngine{}
	l := line{engine: f, sink: sink, source: &fakeSource{name: shard}}
	for _, v := range views {
		f.views = append(f.views, replicator.ViewStatus{View: v, Sink: sink, Source: shard, State: replicator.StateRunning})
		l.views = append(l.views, &replicator.View{Name: v})
	}
	return l, f
}

const cellViews = `
[source]
dsn = "nobody@tcp(127.0.0.1:1)/app"

[checkpoint]
path = "state"

[http]
listen = ""

[tables.cell]
key = "row_key"
column = "column_name"
version = "ref_key"
offset = "added_at"
body = "body"
codec = "json"

[sinks.main]
type = "mysql"
dsn = "nobody@tcp(127.0.0.1:1)/app"

[sinks.cache]
type = "redis"
url = "redis://127.0.0.1:1/0"

[views.emails]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["email"]

[views.phones]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["phone"]

[views.profile]
from = "cell.users"
sink = "cache"
kind = "json"
key = "user:{row_key}"
fields = ["username"]
`

// twoShards changes cellViews to a source of two shards.
var twoShards = strings.NewReplacer(`[source]
dsn = "nobody@tcp(127.0.0.1:1)/app"`, `[source.shards]
east = "nobody@tcp(127.0.0.1:1)/app"
west = "nobody@tcp(127.0.0.1:2)/app"`).Replace(cellViews)

// configured loads a configuration in a new directory and defines its views.
func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := load(t, filepath.Join(t.TempDir(), "replicator.toml"), text)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func load(t *testing.T, file, text string) (*config.Config, error) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, os.LookupEnv, sinks.Types())
	if err != nil {
		return nil, err
	}
	return cfg, Define(cfg)
}

// inMemory opens sinks in memory.
func inMemory(*config.Config, *config.Sink, *slog.Logger) (replicator.Sink, error) {
	return sinktest.NewReference(), nil
}

// serving returns a service of fake pipelines, with a store in a directory.
func serving(t *testing.T, cfg *config.Config, lines ...line) *Service {
	t.Helper()
	store, err := openStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Service{Setup: Setup{Config: cfg, Log: slog.New(slog.DiscardHandler)}, store: store,
		lines: lineup{running: lines}}
}
