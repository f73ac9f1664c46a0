package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"replicator"
	"replicator/sinks/judge"
)

// Target keeps the views that one source feeds. It is safe for concurrent use.
type Target struct {
	sink    *Sink
	source  string
	views   []*replicator.View
	keepers []*keeper
	marks   *judge.Marks
	memory  *memory

	evictions evictions
	batches   sync.Pool // released *batch values, for reuse

	registry  atomic.Pointer[registry] // the key replicator:registry, as last read
	proposals proposals

	reclaims bool // the target only removes contributions of earlier definitions, former views or former sources
}

var _ replicator.Target = (*Target)(nil)

// maxTries bounds how often a write is repeated because other processes keep changing the same data.
const maxTries = 50

// Apply implements replicator.Target. For each entity (the rows of one key) it reads the stored record, decides in Go
// which ops count, and lets a script write the result if the record is unchanged. If the record has changed, it decides
// again.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	b := t.newBatch(ops)
	defer t.release(b)
	t.memory.recall(b)
	todo := b.list
	for try := 0; len(todo) > 0; try++ {
		if try == maxTries {
			return replicator.Applied{}, fmt.Errorf("%d entities were changed by other processes during each of %d attempts",
				len(todo), maxTries)
		}
		if err := t.read(ctx, unknown(todo)); err != nil {
			return replicator.Applied{}, err
		}
		var write, unsure []*entity
		for _, e := range todo {
			if err := t.decide(ctx, b, e); err != nil {
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
		if err := t.lay(ctx, b, write); err != nil {
			return replicator.Applied{}, err
		}
		again, err := t.sink.write(ctx, b, write)
		if mended, failed := t.mend(ctx, err, write); mended {
			continue
		} else if err = cmp.Or(failed, err); err != nil {
			return replicator.Applied{}, t.blame(ctx, err, write)
		}
		if b.behind {
			if err := t.learn(ctx); err != nil {
				return replicator.Applied{}, err
			}
			b.behind, b.registry = false, t.registry.Load()
		}
		t.memory.learn(b, write, again)
		todo = slices.AppendSeq(unsure, maps.Keys(again))
	}
	t.marks.Applied()
	return b.Applied(), nil
}

// decide plans the effects of the batch on an entity (entity.decide). After an error that it can repair, it plans them
// again. If it doesn't know the record's layout (the part that many records share), it reads the registry, because
// another process may have added the layout. It removes a record that can't be read. It ignores states of a later
// definition of a view if no process uses that definition (disown).
func (t *Target) decide(ctx context.Context, b *batch, e *entity) error {
	for looked := false; ; {
		err := e.decide(b)
		if errors.Is(err, errNoLayout) && !looked {
			looked = true
			if _, err := t.sink.readRegistry(ctx); err != nil {
				return err
			}
			continue
		}
		if (errors.Is(err, errDamaged) || errors.Is(err, errNoLayout)) && e.stored != "" {
			if err := t.removeRecord(ctx, e); err != nil {
				return err
			}
			continue
		}
		var newer newerError
		if !errors.As(err, &newer) {
			return err
		}
		if unowned, failed := t.disown(ctx, newer); failed != nil || !unowned {
			return cmp.Or(failed, err)
		}
	}
}

// disown makes a view ignore states of a later generation (number of a definition) if no process uses it. None does if
// the view's mark has this process's generation, because a process writes its generation there before it applies
// anything. A batch in flight can leave such states when the marks are lost and the clock, which numbers generations,
// is set back.
func (t *Target) disown(ctx context.Context, newer newerError) (bool, error) {
	known, err := t.sink.readMarks(ctx, t.source)
	if err != nil || known[newer.k.view.Name] == nil {
		return false, err
	}
	mark, ok := known[newer.k.view.Name].whole()
	if !ok || mark.Generation != newer.k.generation {
		return false, nil
	}
	for was := newer.k.disowned.Load(); was < newer.generation; was = newer.k.disowned.Load() {
		newer.k.disowned.CompareAndSwap(was, newer.generation)
	}
	return true, nil
}

func unknown(entities []*entity) []*entity {
	return slices.DeleteFunc(slices.Clone(entities), func(e *entity) bool { return e.known })
}

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

// sumBeyond begins a script's answer if a change would take the sum of a ranking's member beyond the range of a double.
// The member follows. Without sumBeyond, the answer is the type of the key, which is not the view's type.
const sumBeyond = "="

// refused returns the error for a contribution that the key can't hold. found is the script's answer: sumBeyond and a
// member, or the type of the key.
func refused(key, found string) error {
	if member, is := strings.CutPrefix(found, sumBeyond); is {
		return fmt.Errorf("the sum of member %q in %q would exceed the range of a score, which is a double (±1.8e308): "+
			"correct or delete rows that add to it, then retry", member, key)
	}
	return fmt.Errorf("the key %q holds a %s that something else put there: delete or rename it, then retry", key, found)
}

// Versions returns, for each cell, the lowest and highest version in the target's views that the cell feeds.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = recordKey(c.Key.String())
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
	return versions.Spans(), nil
}
