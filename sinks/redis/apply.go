package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"replicator"
	"replicator/sinks/judge"
)

// Target keeps views of one source. It is safe for concurrent use.
type Target struct {
	sink    *Sink
	source  string
	others  []string // sources that an entity may move to
	views   []*replicator.View
	keepers []*keeper
	marks   *judge.Marks
	memory  *memory
	batches sync.Pool // of *batch, to be used again

	reclaims bool // it is there to take back what earlier definitions, views or sources put there
}

var _ replicator.Target = (*Target)(nil)

// maxTries is how often an entity is decided anew because somebody else changed its record meanwhile.
const maxTries = 50

// Apply implements replicator.Target: it reads the records of the batch's entities, decides in Go, and writes what it
// decided where the records are still the ones that were read; where they aren't, it does so again.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	b := t.newBatch(ops)
	defer t.release(b)
	t.memory.recall(b)
	todo := b.list
	for try := 0; len(todo) > 0; try++ {
		if try == maxTries {
			return replicator.Applied{}, fmt.Errorf("%d entities are changed by others all the time", len(todo))
		}
		if err := t.read(ctx, unknown(todo)); err != nil {
			return replicator.Applied{}, err
		}
		if err := t.readOthers(ctx, todo); err != nil {
			return replicator.Applied{}, err
		}
		var write, unsure []*entity
		for _, e := range todo {
			if err := e.decide(b); err != nil {
				return replicator.Applied{}, fmt.Errorf("entity %s: %w", e.text, err)
			}
			switch {
			case e.plan.changed || len(e.plan.record.pending) > 0:
				write = append(write, e)
			case e.assumed:
				e.known, e.assumed = false, false
				unsure = append(unsure, e)
			}
		}
		again, err := t.sink.write(ctx, b, write)
		if err != nil {
			return replicator.Applied{}, err
		}
		t.memory.learn(b, write, again)
		todo = slices.AppendSeq(unsure, maps.Keys(again))
	}
	t.marks.Applied()
	return b.Applied(), nil
}

// unknown are those entities of which it is not known what their records hold.
func unknown(entities []*entity) []*entity {
	return slices.DeleteFunc(slices.Clone(entities), func(e *entity) bool { return e.known })
}

// read reads the entities' records.
func (t *Target) read(ctx context.Context, entities []*entity) error {
	keys := make([]string, len(entities))
	for i, e := range entities {
		keys[i] = e.key
	}
	stored, err := t.sink.get(ctx, keys)
	if err != nil {
		return classify(err, "reading records")
	}
	for i, e := range entities {
		e.stored, e.known = stored[i], true
	}
	return nil
}

// wrongType is why a claim can't be held.
func wrongType(key, found string) error {
	return fmt.Errorf("the key %q holds a %s that something else put there: delete or rename it, then retry", key, found)
}

// Versions implements replicator.Target.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]int64, error) {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = recordKey(t.source, c.Key.String())
	}
	records, err := t.sink.records(ctx, keys)
	if err != nil {
		return nil, err
	}
	versions := judge.NewVersions(len(cells))
	for i, c := range cells {
		for _, k := range t.keepers {
			if k.view.Feeds(c) {
				versions.Add(i, k.known(records[i].find(c, k.id)).State.Version)
			}
		}
	}
	return versions.Lowest(), nil
}
