package redis

import (
	"context"
	"errors"
)

// If another program writes to the sink's own keys, their contents are lost, as if the server had evicted them. So
// damaged keys are removed and count as evicted: the pipeline then compares the views with the source, and the sums
// with the records. In a cluster, the sums are computed again at once (posted.go).

// mend removes the damaged sums and counts that made a write fail with the error `cause`. It reports whether it removed
// any: then the write must be repeated.
func (t *Target) mend(ctx context.Context, cause error, written []*entity) (bool, error) {
	word, is := errors.AsType[plainError](cause)
	if !is || word != "DAMAGED" && word != "WRONGTYPE" {
		return false, nil
	}
	if t.sink.cluster {
		return t.mendPosted(ctx, written)
	}
	removed := false
	for _, e := range written {
		for i := range e.plan.changes {
			ch := &e.plan.changes[i]
			other := beside(ch.kind, ch.key)
			if other == "" {
				continue
			}
			damaged, err := t.isDamaged(ctx, ch)
			if err != nil {
				return false, err
			}
			if !damaged {
				continue
			}
			if err := t.sink.rdb.Del(ctx, other).Err(); err != nil {
				return false, classify(err, "removing damaged keys")
			}
			t.evictions.lost()
			removed = true
		}
		e.known, e.assumed = false, false
	}
	return removed, nil
}

// isDamaged reports whether another program overwrote the sums or counts that the sink stores for the key of a change:
// one has another type, or is not a number.
func (t *Target) isDamaged(ctx context.Context, ch *change) (bool, error) {
	list := []sumAt{{key: ch.key}}
	if ch.kind != kindCounter {
		list = list[:0]
		for i := 0; i < len(ch.args); i += 2 {
			list = append(list, sumAt{ch.key, ch.args[i]})
		}
	}
	remembered, err := (&sums{Target: t, k: &keeper{kind: ch.kind}}).remembered(ctx, list)
	if err != nil {
		return false, classify(err, "looking for damaged keys")
	}
	for _, one := range remembered {
		if _, ok := tallyOf(ch.kind, one); !ok {
			return true, nil
		}
	}
	return false, nil
}

const removeIfStill = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

// removeRecord removes an entity's damaged record, if it is still the one that was read.
func (t *Target) removeRecord(ctx context.Context, e *entity) error {
	if err := t.sink.rdb.Eval(ctx, removeIfStill, []string{e.key}, e.stored).Err(); err != nil {
		return classify(err, "removing the entity's damaged record")
	}
	t.evictions.lost()
	e.stored = ""
	return nil
}
