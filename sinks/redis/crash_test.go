package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
	"replicator/sinks/sinktest"
)

// cut makes requests fail at random: before the server got them, after that, or when it got a part of them. Most
// succeed, so that a call of a dozen requests reaches its last one in a few tries.
type cut struct{ made atomic.Int64 }

var errCut = errors.New("cut by the test")

func (c *cut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return c.between(func() error { return next(ctx, cmd) })
	}
}

func (c *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 1 && rand.IntN(6) == 0 { // only some reach their nodes
			c.made.Add(1)
			some := append([]redis.Cmder(nil), cmds...)
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			_ = next(ctx, some[:1+rand.IntN(len(some)-1)]) // nobody gets the answer
			return errCut
		}
		return c.between(func() error { return next(ctx, cmds) })
	}
}

func (c *cut) between(do func() error) error {
	switch rand.IntN(12) {
	case 0:
		c.made.Add(1)
		return errCut
	case 1:
		c.made.Add(1)
		_ = do() // nobody gets the answer
		return errCut
	}
	return do()
}

// stubborn is a sink that repeats what was cut, as a pipeline does after a crash.
type stubborn struct{ *Sink }

type stubbornTarget struct{ replicator.Target }

func again(do func() error) error {
	for {
		if err := do(); !errors.Is(err, errCut) {
			return err
		}
	}
}

func (s stubborn) Open(ctx context.Context, source string, views []*replicator.View) (t replicator.Target, err error) {
	err = again(func() error { t, err = s.Sink.Open(ctx, source, views); return err })
	return stubbornTarget{t}, err
}

func (s stubborn) Marks(ctx context.Context, source string) (m []replicator.Mark, err error) {
	err = again(func() error { m, err = s.Sink.Marks(ctx, source); return err })
	return m, err
}

func (s stubborn) Sources(ctx context.Context) (all []string, err error) {
	err = again(func() error { all, err = s.Sink.Sources(ctx); return err })
	return all, err
}

func (s stubborn) Forget(ctx context.Context, view string) error {
	return again(func() error { return s.Sink.Forget(ctx, view) })
}

func (t stubbornTarget) Apply(ctx context.Context, ops []replicator.Op) (a replicator.Applied, err error) {
	err = again(func() error { a, err = t.Target.Apply(ctx, ops); return err })
	return a, err
}

func (t stubbornTarget) Versions(ctx context.Context, cells []replicator.Cell) (v []replicator.Span, err error) {
	err = again(func() error { v, err = t.Target.Versions(ctx, cells); return err })
	return v, err
}

func (t stubbornTarget) RaiseHorizon(ctx context.Context, horizon int64) error {
	return again(func() error { return t.Target.(replicator.Forgetter).RaiseHorizon(ctx, horizon) })
}

func (t stubbornTarget) ForgetGone(
	ctx context.Context, after string, limit int,
) (n replicator.GoneCells, next string, err error) {
	forgotten := 0 // also counts cells whose request succeeded, but whose answer was lost
	err = again(func() error {
		n, next, err = t.Target.(replicator.Forgetter).ForgetGone(ctx, after, limit)
		forgotten += n.Forgotten
		return err
	})
	n.Forgotten = forgotten
	return n, next, err
}

func (t stubbornTarget) Dead(
	ctx context.Context, view int, after string, limit int,
) (cells []replicator.Cell, next string, err error) {
	err = again(func() error { cells, next, err = t.Target.Dead(ctx, view, after, limit); return err })
	return cells, next, err
}

func (t stubbornTarget) Held(
	ctx context.Context, view int, after string, limit int,
) (cells []replicator.Cell, next string, err error) {
	err = again(func() error { cells, next, err = t.Target.Held(ctx, view, after, limit); return err })
	return cells, next, err
}

func (t stubbornTarget) Outdated(
	ctx context.Context, before int64, after string, limit int,
) (cells []replicator.Cell, next string, err error) {
	err = again(func() error { cells, next, err = t.Target.Outdated(ctx, before, after, limit); return err })
	return cells, next, err
}

func (t stubbornTarget) Compare(ctx context.Context, ops []replicator.Op) (d []replicator.Difference, err error) {
	err = again(func() error { d, err = t.Target.Compare(ctx, ops); return err })
	return d, err
}

func (t stubbornTarget) Mark(ctx context.Context, at replicator.Standing) error {
	return again(func() error { return t.Target.Mark(ctx, at) })
}

// cutting runs the suite, or a part of it, over connections that are cut now and then.
func cutting(t *testing.T, views []*replicator.View, rdb redis.UniversalClient, c Config, histories int,
	run func(*testing.T, sinktest.Subject)) {
	t.Helper()
	hook := &cut{}
	c.Sources = judge.Sources{Shards: []string{"one", "other", "one/0", "other/0"}}
	s := subject(t, views, rdb, c)
	s.Histories = histories
	s.New = func(t testing.TB) replicator.Sink {
		sink := newSink(t, c)
		sink.rdb.AddHook(hook)
		return stubborn{sink}
	}
	run(t, s)
	t.Logf("%d requests were cut", hook.made.Load())
}

// TestCrashes runs the suite on one server while requests fail at random. TestCluster does the same in a cluster.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, views := range kinds() {
		t.Run(name, func(t *testing.T) {
			s := servertest.Own(t, servers.Redis7)
			cutting(t, views, client(t, s), Config{URLs: []string{s.DSN("0")}}, 4, sinktest.Run)
		})
	}
}
