package service

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/config"
)

func TestACatchUpThatFailsSaysWhatConcernsASinkOnce(t *testing.T) {
	l, main := keeping("main", "", "emails", "phones")
	m, cache := keeping("cache", "", "profile")
	l.source, m.source = &fakeSource{end: "f:4"}, &fakeSource{end: "f:4"}
	s := &Service{lines: lineup{running: []line{l, m}}}
	if err := s.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked(t, "main", main, "wait f:4 emails", "wait f:4 phones")
	main.fails = errors.New("it does not answer")
	err := s.CatchUp(t.Context(), "emails", "phones")
	if err == nil || err.Error() != "sink main: it does not answer" {
		t.Errorf("it says %v", err)
	}
	asked(t, "a sink of other views", cache, "wait f:4 profile")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.CatchUp(ctx); err == nil || !strings.Contains(err.Error(), "stopped before") {
		t.Errorf("when it is stopped: %v", err)
	}
	l.source = &fakeSource{}
	s = &Service{lines: lineup{running: []line{l}}}
	if err := s.CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), "access denied. `replicator check`") {
		t.Errorf("of a source that refuses: %v", err)
	}
}

func TestTheStatsOfASourceTellHowLongItsPositionWillLast(t *testing.T) {
	lag := 2.5
	for _, c := range []struct {
		name string
		from fakeSource
		want *float64
	}{
		{"an hour", fakeSource{left: time.Hour}, of(3600)},
		{"for ever", fakeSource{left: canal.Forever}, of(math.Inf(1))},
		{"it is gone", fakeSource{leftFail: replicator.ErrLost}, of(0)},
		{"the source does not answer", fakeSource{leftFail: errors.New("refused")}, nil},
	} {
		l, f := keeping("main", "", "emails", "phones")
		l.source = &c.from
		f.views[0].Applied, f.views[0].ReadLag = replicator.Position{Order: 9, Token: "{}"}, &lag
		s := &Service{lines: lineup{running: []line{l}}}
		got := s.SourceStats(t.Context())[0]
		if got.Events != 7 || got.PositionAge == nil || *got.PositionAge != lag ||
			(got.Retention == nil) != (c.want == nil) || c.want != nil && *got.Retention != *c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func of(n float64) *float64 { return &n }

func TestAServiceHasAPipelineForEachSinkAndShard(t *testing.T) {
	cfg := configured(t, twoShards)
	cfg.Source.ServerID = 100
	s, err := New(t.Context(), Setup{Config: cfg, Log: slog.New(slog.DiscardHandler), OpenSink: inMemory}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range s.lines.all() {
		got = append(got, l.sink+"/"+l.source.Name())
	}
	if want := "main/east main/west cache/east cache/west"; strings.Join(got, " ") != want {
		t.Errorf("pipelines %q, not %q", got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestNothingStaysOpenOfAConfigurationThatCanNotRun(t *testing.T) {
	cfg := configured(t, cellViews)
	closed := 0
	open := func(_ *config.Config, sink *config.Sink, _ *slog.Logger) (replicator.Sink, error) {
		if sink.Name == "cache" {
			return nil, errors.New("a bad certificate")
		}
		return closing{&closed}, nil
	}
	_, err := New(t.Context(), Setup{Config: cfg, Log: slog.New(slog.DiscardHandler), OpenSink: open}, nil)
	if err == nil || !strings.Contains(err.Error(), "a bad certificate") || closed != 1 {
		t.Errorf("it says %v, and closed %d sinks", err, closed)
	}
	store, err := openStore(t.Context(), cfg) // the store's lock is free
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// closing is a sink that counts its closes.
type closing struct{ closed *int }

func (closing) Open(context.Context, string, []*replicator.View) (replicator.Target, error) {
	return nil, errors.New("not opened")
}
func (closing) Marks(context.Context, string) ([]replicator.Mark, error) { return nil, nil }
func (closing) Forget(context.Context, string) error                     { return nil }
func (c closing) Close() error                                           { *c.closed++; return nil }
