package redis

import (
	"context"
	"errors"
)

// Where somebody wrote to keys of the sink's own, what they told is lost, as where the server evicts them. So what is
// damaged is removed, and counted as evicted: the views are compared with the source then, and the sums with the
// records. In a cluster the sums are computed again at once: see posted.go.

// mend removes damaged sums and claims, if it is them that a write met, and reports whether the write is to be done
// again.
func (t *Target) mend(ctx context.Context, met error, written []*entity) (bool, error) {
	word, is := errors.AsType[plainError](met)
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
				return false, classify(err, "removing what is damaged")
			}
			t.evictions.lost()
			removed = true
		}
		e.known, e.assumed = false, false
	}
	return removed, nil
}

// isDamaged reports whether what is remembered beside the key of a change is no sum, or of another type.
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
		return false, classify(err, "looking what is damaged")
	}
	for _, one := range remembered {
		if _, ok := tallyOf(ch.kind, one); !ok {
			return true, nil
		}
	}
	return false, nil
}

const removeIfStill = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

// removeRecord removes an entity's damaged record.
func (t *Target) removeRecord(ctx context.Context, e *entity) error {
	if err := t.sink.rdb.Eval(ctx, removeIfStill, []string{e.key}, e.stored).Err(); err != nil {
		return classify(err, "removing a damaged record")
	}
	t.evictions.lost()
	e.stored = ""
	return nil
}
