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

// Target keeps views of one source. It is safe for concurrent use.
type Target struct {
	sink    *Sink
	source  string
	views   []*replicator.View
	keepers []*keeper
	marks   *judge.Marks
	memory  *memory

	evictions evictions
	batches   sync.Pool // of *batch, to be used again

	horizons atomic.Pointer[horizons] // as they were read last

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
		again, err := t.sink.write(ctx, b, write)
		if mended, failed := t.mend(ctx, err, write); mended {
			continue
		} else if err = cmp.Or(failed, err); err != nil {
			return replicator.Applied{}, t.blame(ctx, err, write)
		}
		if b.behind {
			if err := t.learnHorizons(ctx); err != nil {
				return replicator.Applied{}, err
			}
			b.behind, b.horizons = false, t.horizons.Load()
		}
		t.memory.learn(b, write, again)
		todo = slices.AppendSeq(unsure, maps.Keys(again))
	}
	t.marks.Applied()
	return b.Applied(), nil
}

// decide is e.decide where what is found of a later generation is another process's, and damaged records are removed.
func (t *Target) decide(ctx context.Context, b *batch, e *entity) error {
	for {
		err := e.decide(b)
		if errors.Is(err, errDamaged) && e.stored != "" {
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

// disown notes that a later generation of a record is nobody's, if the marks say that the view's own is the latest: who
// begins one writes his mark first. A batch that was in flight when the marks were lost leaves such records where the
// clock was set back before the next generation was made of it; their states count in none.
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

// sumBeyond stands before a member of a ranking where the scripts say what is against a change: else that is a type.
const sumBeyond = "="

// refused is why a claim can't be held, by what the scripts say.
func refused(key, found string) error {
	if member, is := strings.CutPrefix(found, sumBeyond); is {
		return fmt.Errorf("with it the sum of member %q in %q is beyond what a score, a double, can be (±1.8e308): "+
			"correct or delete rows that it is made of, then retry", member, key)
	}
	return fmt.Errorf("the key %q holds a %s that something else put there: delete or rename it, then retry", key, found)
}

// Versions implements replicator.Target.
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
