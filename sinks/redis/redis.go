package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// Sink keeps views in one Redis or Valkey server, in what a Sentinel says is the master, or in a cluster. It is safe for
// concurrent use.
type Sink struct {
	name    string
	cluster bool
	tags    []string // where the copies of the marks stand in a cluster
	log     *slog.Logger
	rdb     redis.UniversalClient
	names   func(v *replicator.View, name string) (entities []string, ok bool)

	apply, swapMarks, swapRecord, push *redis.Script
}

var _ replicator.Sink = (*Sink)(nil)

// New makes a sink. It connects to nothing yet; what is wrong with c is an error.
func New(c Config) (*Sink, error) {
	rdb, err := connect(c)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", c.Name, err)
	}
	s := &Sink{name: c.Name, cluster: c.Cluster, log: c.Logger, rdb: rdb, names: c.Names,
		apply: redis.NewScript(library + applySource), swapMarks: redis.NewScript(marksSource),
		swapRecord: redis.NewScript(swapSource), push: redis.NewScript(library + pushSource)}
	if s.cluster {
		s.tags = spreadTags(copies)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Open implements replicator.Sink.
func (s *Sink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t := &Target{sink: s, source: source, views: slices.Clone(views)}
	for i, v := range views {
		k, err := newKeeper(v, i)
		if err != nil {
			return nil, err
		}
		t.keepers = append(t.keepers, k)
	}
	// What may not be done must show before a script has done half of it.
	for _, f := range s.checkPermissions(ctx, func(part string) string { return part }, views) {
		if f.Level == replicator.Fail {
			return nil, replicator.Fatal(fmt.Errorf("%s; %s", f.Detail, f.Fix))
		}
	}
	if err := s.register(ctx, source, t.keepers); err != nil {
		return nil, err
	}
	for _, k := range t.keepers {
		t.marks.orders = append(t.marks.orders, k.markedAt)
	}
	return t, nil
}

// Close implements replicator.Sink. Targets are closed before.
func (s *Sink) Close() error { return s.rdb.Close() }

// get reads strings; nil where there is none.
func (s *Sink) get(ctx context.Context, keys []string) ([]*string, error) {
	values := make([]*string, len(keys))
	if len(keys) == 0 {
		return values, nil
	}
	if s.cluster { // a command has the keys of one slot
		cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.Get(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		for i, cmd := range cmds {
			text, err := cmd.(*redis.StringCmd).Result()
			switch {
			case err == nil:
				values[i] = &text
			case !errors.Is(err, redis.Nil):
				return nil, err
			}
		}
		return values, nil
	}
	found, err := s.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	for i, v := range found {
		if text, ok := v.(string); ok {
			values[i] = &text
		}
	}
	return values, nil
}

// run calls a script several times in one round trip. A server that does not know the script (it was restarted, took over,
// or was told to forget its scripts) is given it.
func (s *Sink) run(ctx context.Context, script *redis.Script, calls []*call) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(calls))
	for round := 0; ; round++ {
		unknown := false
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, c := range calls {
				switch {
				case cmds[i] == nil:
					cmds[i] = script.EvalSha(ctx, p, c.keys, c.args...)
				case redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT"):
					cmds[i] = script.Eval(ctx, p, c.keys, c.args...)
				}
			}
			return nil
		})
		if err == nil {
			return cmds, nil
		}
		for _, cmd := range cmds {
			if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
				unknown = true
			} else if cmd.Err() != nil {
				return nil, cmd.Err()
			}
		}
		if !unknown || round > 0 {
			return nil, err
		}
	}
}

func compare(a, b string) int { return cmp.Compare(a, b) }
