package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/config"
	"replicator/sinks/judge"
)

// Sink keeps views in one Redis or Valkey server, in the master that a Sentinel names, or in a cluster. It is safe for
// concurrent use.
type Sink struct {
	name    string
	user    string
	cluster bool
	tags    []string // in a cluster: hash tags that spread the copies of a view's mark over the slots
	log     *slog.Logger
	rdb     redis.UniversalClient
	links   *links
	names   config.Names  // tells which keys a view can make; nil: keys without a contributing cell are not found
	sources judge.Sources // sources (such as shards) that feed the sink, if rows may move between them
	feeds   func(source string) bool
	layouts layouts

	apply, swapMarks, swapRecord, push, posted, sums, forgetGone script // what each does is said in its .lua file

	sumBytes int64 // about how many bytes the sums that are compared at once may take
}

var _ replicator.Sink = (*Sink)(nil)

// New makes a sink. It does not connect yet. It fails if the configuration is wrong.
func New(c Config) (*Sink, error) {
	rdb, links, err := connect(c)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", c.Name, err)
	}
	s := &Sink{name: c.Name, user: c.Username, cluster: c.Cluster, log: c.Logger, rdb: rdb, links: links,
		names: c.Names, sources: c.Sources, feeds: c.Feeds,
		apply: newScript(library + applySource), swapMarks: newScript(marksSource),
		swapRecord: newScript(swapSource), push: newScript(library + pushSource),
		posted: newScript(library + postedSource),
		sums:   newScript(library + sumsSource), sumBytes: 32 << 20, forgetGone: newScript(forgetSource)}
	if s.cluster {
		s.tags = markTags()
	}
	if s.feeds == nil {
		s.feeds = func(source string) bool { return slices.Contains(s.sources.Shards, source) }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Open prepares views that the source feeds: it checks permissions, and reads or creates each view's mark.
func (s *Sink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t := &Target{sink: s, source: source, views: slices.Clone(views), memory: newMemory()}
	others, err := s.sources.Others(ctx, source)
	if err != nil {
		return nil, err
	}
	// A missing permission must be found before a script fails halfway.
	may := s.asksPermissions(ctx)
	if err := may.own(ctx).refusal(); err != nil {
		return nil, err
	}
	var refused []error
	for i, v := range views {
		k, err := s.keep(ctx, v, i, may)
		if err == nil {
			k.feedBy(source, others.Names())
		}
		t.keepers = append(t.keepers, k)
		refused = append(refused, replicator.OfView(err, v.Name))
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	marked, on, err := s.register(ctx, source, t.keepers)
	if err != nil {
		return nil, err
	}
	t.marks = judge.NewMarks(t.views, marked, on.servers)
	if err := t.learn(ctx); err != nil {
		return nil, err
	}
	t.evictions.begin(on.evicted)
	for i, k := range t.keepers {
		if !marked[i].Position.IsZero() {
			t.evictions.addSince(k.evicted)
		}
	}
	return t, t.makeRoom(ctx)
}

// Close implements replicator.Sink. The caller has closed all targets.
func (s *Sink) Close() error { return s.rdb.Close() }

// get reads strings; "" for a missing key.
func (s *Sink) get(ctx context.Context, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if s.cluster { // all keys of one command must be in one slot
		return s.getEach(ctx, keys)
	}
	args := make([]any, 1, 1+len(keys))
	args[0] = "mget"
	for i := range keys {
		args = append(args, &keys[i])
	}
	cmd := redis.NewStringSliceCmd(ctx, args...)
	if err := s.rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	if n := len(cmd.Val()); n != len(keys) {
		return nil, fmt.Errorf("MGET answers with %d values of %d", n, len(keys))
	}
	return cmd.Val(), nil
}

func (s *Sink) getEach(ctx context.Context, keys []string) ([]string, error) {
	cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Get(ctx, key)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	values := make([]string, len(keys))
	for i, cmd := range cmds {
		if values[i], err = cmd.(*redis.StringCmd).Result(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
	}
	return values, nil
}
