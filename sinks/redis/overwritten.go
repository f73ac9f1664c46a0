package redis

import (
	"context"
	"slices"
	"strings"
)

// If a view's key has another type, another program wrote it. If the entity's record says that the key showed something
// of the entity, the program has overwritten the view's key: the program's value is removed. Otherwise the key is left
// alone.

// wrongKey is a key that can't show a contribution: it has another type, or a ranking's sum would exceed a double.
type wrongKey struct {
	entity *entity
	at     viewKey
	found  string // the key's type; or sumBeyond followed by the member of the ranking
}

// settle handles keys that can't show a contribution. If another program overwrote a key that is the view's own, settle
// removes the foreign value, but only once in a batch. Otherwise it notes in the entity that the key can't show the
// entity's contribution. The caller must then plan the changes of these entities again.
func (s *Sink) settle(ctx context.Context, wrong []wrongKey) error {
	for _, w := range wrong {
		if strings.HasPrefix(w.found, sumBeyond) {
			w.entity.block(w.at, w.found)
			continue
		}
		own, err := w.entity.showedAt(ctx, s, w.at)
		if other := beside(w.at.kind, w.at.key); err == nil && !own && other != "" {
			var n int64 // not 0 if the sink has sums or counts of members for the key
			n, err = s.rdb.Exists(ctx, other).Result()
			own = n > 0
		}
		if err != nil {
			return classify(err, "finding out whether another program has overwritten a view's key")
		}
		if !own || slices.Contains(w.entity.freed, w.at) {
			w.entity.block(w.at, w.found)
			continue
		}
		if err := s.rdb.Eval(ctx, removeIfOfType, []string{w.at.key}, w.found).Err(); err != nil {
			return classify(err, "removing another program's value from a view's key")
		}
		w.entity.freed = append(w.entity.freed, w.at)
	}
	return nil
}

const removeIfOfType = `if redis.call('TYPE', KEYS[1]).ok == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

// showedAt reports whether the key shows something of the entity, according to the entity's record. In a cluster, it
// returns false while the record lists a pending change of the key, because the key may not have been written yet.
func (e *entity) showedAt(ctx context.Context, s *Sink, k viewKey) (bool, error) {
	r, err := s.parse(ctx, new(arena), e.stored, e.text)
	if err != nil {
		return false, err
	}
	for _, p := range r.pending {
		if p.viewKey == k {
			return false, nil
		}
	}
	return r.claimsKey(k.kind, k.key, anyView)
}
