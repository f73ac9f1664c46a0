package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

// shardedTarget is an open target for some views of one source. It has a Target in every shard that holds one of them.
type shardedTarget struct {
	sink   *Sharded
	views  []*replicator.View
	shards []*Target // by shard; nil: the shard holds none of the views
	local  [][]int   // local[shard][view]: the view's index in the shard's target; absent: the shard lacks the view
	global [][]int   // the inverse of local: global[shard][i] is the index in views of the shard's view i
}

const absent = -1

var (
	_ replicator.Target = (*shardedTarget)(nil)
	_ replicator.Tidier = (*shardedTarget)(nil)

	_ replicator.Forgetter = (*shardedTarget)(nil)
	_ replicator.Shared    = (*shardedTarget)(nil)
)

// place computes the index of each view in each shard's target, and the inverse.
func (t *shardedTarget) place() {
	for shard, target := range t.shards {
		local, global := make([]int, len(t.views)), []int{}
		for i, v := range t.views {
			local[i] = absent
			if target != nil && (shard == 0 || settingsOf(v).ShardOn != "") {
				local[i] = len(global)
				global = append(global, i)
			}
		}
		t.local, t.global = append(t.local, local), append(t.global, global)
	}
}

// keepers returns the open tables of a view that lives in every shard, one for each shard.
func (t *shardedTarget) keepers(v *replicator.View) []*keeper {
	var kept []*keeper
	for _, target := range t.shards {
		for _, k := range target.kept {
			if k.view == v {
				kept = append(kept, k)
			}
		}
	}
	return kept
}

func (t *shardedTarget) each(do func(shard int, target *Target) error) error {
	return t.sink.each(func(shard int) error {
		if t.shards[shard] == nil {
			return nil
		}
		return do(shard, t.shards[shard])
	})
}

// Versions implements replicator.Target. If a column of the key decides the shard (inKey), only the key's own shard has
// states of it.
func (t *shardedTarget) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	by := make([]judge.Versions, len(t.shards))
	err := t.each(func(shard int, target *Target) (err error) {
		by[shard], err = target.versions(ctx, cells, func(c replicator.Cell, k *keeper) bool {
			if k.shardOn == nil || !k.shardOn.inKey {
				return true
			}
			key, err := c.Key.Values()
			return err == nil && k.home(key, len(t.shards)) == shard || err != nil && shard == 0
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	versions := judge.NewVersions(len(cells))
	for _, some := range by {
		versions.Join(some)
	}
	return versions.Spans(), nil
}

// Mark implements replicator.Target. It stores the same progress in all shards, because all of them have applied
// everything up to it.
func (t *shardedTarget) Mark(ctx context.Context, at replicator.Standing) error {
	return t.each(func(_ int, target *Target) error { return target.Mark(ctx, at) })
}

// Foreign implements replicator.Shared. It names the views that Foreign names in any shard.
func (t *shardedTarget) Foreign() (views []string) {
	for _, target := range t.shards {
		if target != nil {
			views = append(views, target.Foreign()...)
		}
	}
	slices.Sort(views)
	return slices.Compact(views)
}

// Outdated implements replicator.Target. It lists the cells shard by shard.
func (t *shardedTarget) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	return page(t, after, func(shard int, after string) ([]replicator.Cell, string, error) {
		if t.shards[shard] == nil {
			return nil, "", nil
		}
		return t.shards[shard].Outdated(ctx, before, after, limit)
	})
}

// RaiseHorizon implements replicator.Forgetter. Each shard has its own horizon: the log position below which deleted
// cells may have been forgotten.
func (t *shardedTarget) RaiseHorizon(ctx context.Context, horizon int64) error {
	for _, shard := range t.shards {
		if shard != nil {
			if err := shard.RaiseHorizon(ctx, horizon); err != nil {
				return err
			}
		}
	}
	return nil
}

// ForgetGone implements replicator.Forgetter. It goes through the shards one after the other.
func (t *shardedTarget) ForgetGone(
	ctx context.Context, after string, limit int,
) (found replicator.GoneCells, next string, err error) {
	_, next, err = page(t, after, func(shard int, after string) (_ []struct{}, next string, err error) {
		if t.shards[shard] != nil {
			found, next, err = t.shards[shard].ForgetGone(ctx, after, limit)
		}
		return nil, next, err
	})
	return found, next, err
}

// Held implements replicator.Target. It lists the view's cells shard by shard.
func (t *shardedTarget) Held(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Cell, string, error) {
	return t.pageCells(ctx, (*Target).Held, view, after, limit)
}

// Dead implements replicator.Target. It lists the view's dead letters shard by shard.
func (t *shardedTarget) Dead(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Cell, string, error) {
	return t.pageCells(ctx, (*Target).Dead, view, after, limit)
}

// Unclaimed implements replicator.Tidier. It lists the cells shard by shard.
func (t *shardedTarget) Unclaimed(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Cell, string, error) {
	return t.pageCells(ctx, (*Target).Unclaimed, view, after, limit)
}

func (t *shardedTarget) pageCells(
	ctx context.Context, of func(*Target, context.Context, int, string, int) ([]replicator.Cell, string, error),
	view int, after string, limit int,
) ([]replicator.Cell, string, error) {
	return page(t, after, func(shard int, after string) ([]replicator.Cell, string, error) {
		if t.local[shard][view] == absent {
			return nil, "", nil
		}
		return of(t.shards[shard], ctx, t.local[shard][view], after, limit)
	})
}

// Strays implements replicator.Tidier. It lists strays shard by shard, and adds the shard to each Stray's At.
func (t *shardedTarget) Strays(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Stray, string, error) {
	return page(t, after, func(shard int, after string) (strays []replicator.Stray, next string, err error) {
		if t.local[shard][view] == absent {
			return nil, "", nil
		}
		strays, next, err = t.shards[shard].Strays(ctx, t.local[shard][view], after, limit)
		for i := range strays {
			strays[i].At = strconv.Itoa(shard) + ":" + strays[i].At
		}
		return strays, next, err
	})
}

// Tidy implements replicator.Tidier. Each shard removes or corrects the strays that it listed.
func (t *shardedTarget) Tidy(ctx context.Context, view int, strays []replicator.Stray) (mended int, err error) {
	by := make([][]replicator.Stray, len(t.shards))
	for _, s := range strays {
		number, at, _ := strings.Cut(s.At, ":")
		shard, err := strconv.Atoi(number)
		if err != nil || shard < 0 || shard >= len(t.shards) || t.local[shard][view] == absent {
			return 0, fmt.Errorf("sink %s: %q doesn't identify an entry of a view", t.sink.name, s.At)
		}
		s.At = at
		by[shard] = append(by[shard], s)
	}
	for shard, some := range by {
		if len(some) == 0 {
			continue
		}
		n, err := t.shards[shard].Tidy(ctx, t.local[shard][view], some)
		if mended += n; err != nil {
			return mended, t.sink.in(shard, err)
		}
	}
	return mended, nil
}

// page returns a page of a listing that reads one shard after the other. The cursor contains the shard.
func page[T any](
	t *shardedTarget, after string, read func(shard int, after string) ([]T, string, error),
) ([]T, string, error) {
	var at struct {
		Shard int
		After string
	}
	if err := judge.At(after, &at); err != nil {
		return nil, "", err
	}
	if at.Shard < 0 || at.Shard >= len(t.shards) {
		return nil, "", fmt.Errorf("sink %s has no shard number %d: the sink had other shards when the listing began. "+
			"Begin the listing again", t.sink.name, at.Shard)
	}
	some, next, err := read(at.Shard, at.After)
	if err != nil {
		return nil, "", t.sink.in(at.Shard, err)
	}
	if at.After = next; next == "" {
		at.Shard++
	}
	if at.Shard == len(t.shards) {
		return some, "", nil
	}
	return some, judge.Cursor(at), nil
}
