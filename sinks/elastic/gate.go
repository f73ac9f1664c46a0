package elastic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
	"replicator/internal/pause"
)

// gate is the alias that a view's writes go to, and the horizon that they are judged by (deleted cells below that log
// position may be forgotten). When the horizon rises, a new alias replaces the old one before anything is removed. So a
// write that was judged by a lower horizon fails, and can't create a removed document again.
type gate struct {
	alias   string
	horizon int64 // horizon of the target's source; never falls
}

// useIndex makes the keeper write to the index `g`, through that index's alias for writes. The horizon in the keeper's
// gate stays 0 until Target.register sets it.
func (k *keeper) useIndex(g *generation) {
	k.generation = g
	k.gate.Store(&gate{alias: g.write})
}

// throughGates calls the function `do`. If another process replaced a write alias (gate) meanwhile, and `do` failed for
// that reason, throughGates calls `do` again, with the new alias.
func (t *Target) throughGates(ctx context.Context, do func() error) error {
	for range maxRounds {
		before := make([]*gate, len(t.kept))
		for i, k := range t.kept {
			before[i] = k.gate.Load()
		}
		err := do()
		if !errors.Is(err, replicator.ErrSinkLost) {
			return err
		}
		moved := false
		for i, k := range t.kept {
			if err := t.learnGate(ctx, k); err != nil {
				return inView(k.view, err)
			}
			moved = moved || k.gate.Load() != before[i]
		}
		if !moved {
			return t.replaced(ctx, err)
		}
	}
	return errAgain
}

// learnGate reads the alias that a view's writes go to, and the view's horizon, from the cluster. Another process may
// have replaced them.
func (t *Target) learnGate(ctx context.Context, k *keeper) error {
	was := k.gate.Load()
	all, err := t.sink.generations(ctx, k.alias)
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.index != k.generation.index || g.uuid != k.generation.uuid { // another index, perhaps with the same name
			continue
		}
		if g.write == "" || g.write == was.alias {
			continue
		}
		// The horizon is read after the alias for writes, so it is not older than this alias.
		r, err := t.sink.registry(ctx, g)
		if err != nil {
			return err
		}
		k.gate.CompareAndSwap(was, &gate{g.write, max(was.horizon, r[t.source].Horizon)})
	}
	return nil
}

// moveGate replaces the alias that a view's writes go to, after the view's horizon has risen. The caller has already
// saved the new horizon with the view's marks.
func (t *Target) moveGate(ctx context.Context, k *keeper, horizon int64) error {
	g, was := k.generation, k.gate.Load()
	next := &gate{g.newGate(), max(was.horizon, horizon)}
	actions := []any{
		object{"remove": object{"index": g.index, "alias": was.alias, "must_exist": true}},
		object{"add": object{"index": g.index, "alias": next.alias, "is_hidden": true}},
	}
	var answer struct {
		Acknowledged bool `json:"acknowledged"`
	}
	request := esapi.IndicesUpdateAliasesRequest{Body: body(object{"actions": actions})}
	err := t.sink.client.call(ctx, request, &answer)
	switch {
	case isMissing(err):
		return gone(was.alias)
	case err != nil:
		return fmt.Errorf("replacing the write alias of index %s: %w", g.index, err)
	case !answer.Acknowledged: // a node may still use the old alias
		return fmt.Errorf("replacing the write alias of index %s: not all nodes have acknowledged it", g.index)
	}
	k.gate.CompareAndSwap(was, next)
	return nil
}

// writesPatience is how long to wait for pending writes. The cluster itself ends them after a minute.
const writesPatience = 2 * time.Minute

// writesEnd waits until all writes that are pending now have ended: they may have resolved an alias before it was
// replaced.
func (c *client) writesEnd(ctx context.Context) error {
	under, err := c.writes(ctx)
	for late := time.Now().Add(writesPatience); err == nil && len(under) > 0; {
		if time.Now().After(late) {
			return fmt.Errorf("a bulk request has not ended in the cluster for %s", writesPatience)
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		var now map[string]bool
		if now, err = c.writes(ctx); err == nil {
			for task := range under {
				if !now[task] {
					delete(under, task)
				}
			}
		}
	}
	return err
}

// writes lists the bulk requests that the cluster's nodes are running.
func (c *client) writes(ctx context.Context) (map[string]bool, error) {
	var answer struct {
		Nodes map[string]struct {
			Tasks map[string]any `json:"tasks"`
		} `json:"nodes"`
		Failures []any `json:"node_failures"`
	}
	err := c.call(ctx, esapi.TasksListRequest{Actions: []string{"indices:data/write/bulk*"},
		FilterPath: []string{"nodes.*.tasks.*.action", "node_failures.type"}}, &answer)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster which bulk requests are running (`GET _tasks`): %w", err)
	}
	if len(answer.Failures) > 0 {
		return nil, fmt.Errorf("asking the cluster which bulk requests are running (`GET _tasks`): %d nodes don't "+
			"answer", len(answer.Failures))
	}
	tasks := map[string]bool{}
	for _, n := range answer.Nodes {
		for task := range n.Tasks {
			tasks[task] = true
		}
	}
	return tasks, nil
}
