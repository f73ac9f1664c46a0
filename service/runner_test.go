package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"replicator"
	"replicator/config"
	"replicator/server"
)

// logged collects the log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// eventually calls holds until it returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not so: %s", what)
		}
	}
}

// The source doesn't answer. The runner runs anyway, and it also reloads its configuration.
func TestARunnerGoesOnWithTheFileThatCanBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replicator.toml")
	cfg, err := load(t, file, cellViews)
	if err != nil {
		t.Fatal(err)
	}
	oneView := cellViews[:strings.Index(cellViews, "[views.phones]")]
	files := make(chan string, 1)
	reread := make(chan os.Signal)
	log := &logged{}
	failing := "" // the name of the sink that can't be opened
	r := Runner{
		Setup: Setup{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil)),
			OpenSink: func(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
				if sink.Name == failing {
					return nil, errors.New("a bad certificate")
				}
				return inMemory(cfg, sink, log)
			}},
		Metrics: server.NewMetrics(), Reread: reread,
		Load: func() (*config.Config, error) { return load(t, file, <-files) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	logs := func(text string, times int) {
		t.Helper()
		eventually(t, text, func() bool { return strings.Count(log.String(), text) == times })
	}
	reload := func(text string) { files <- text; reread <- syscall.SIGHUP }

	logs("msg=running views=3 sinks=2", 1)
	reload(strings.Replace(cellViews, "kind", "knid", 1))
	logs("can't be used. The old one stays in use", 1)
	reload(oneView)
	logs("msg=running views=1 sinks=1", 1)
	failing = "cache"
	reload(cellViews)
	logs("a bad certificate", 1)
	logs("msg=running views=1 sinks=1", 2) // the old service was stopped for the reload, and runs again
	reload(oneView)
	logs("msg=running views=1 sinks=1", 3)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	logs("stopped: all changes in flight are applied and saved", 1)
}

func TestARunnerThatCanNotBeginSaysSo(t *testing.T) {
	cfg := configured(t, cellViews)
	cfg.HTTP.Listen = "127.0.0.1:99999"
	setup := Setup{Config: cfg, Log: slog.New(slog.DiscardHandler), OpenSink: inMemory}
	r := Runner{Setup: setup, Metrics: server.NewMetrics()}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "99999") {
		t.Errorf("it says %v", err)
	}
	store, err := openStore(t.Context(), cfg) // the store's lock is free
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
