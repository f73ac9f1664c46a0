package redis

import (
	"context"
	"slices"
	"strings"
)

// A key of another type than the view's is somebody else's, and is left alone: unless the entity showed something
// there, as its record says. Then it is the view's, and was overwritten by hand.

// wrongKey is a key of another type that something was to be shown at, or a ranking whose sum would be beyond doubles.
type wrongKey struct {
	entity *entity
	at     viewKey
	found  string // the type that it has, or what else the script says
}

// settle removes those keys that are the view's own, once, and notes of the others that nothing can be shown there. The
// entities are to be decided anew.
func (s *Sink) settle(ctx context.Context, wrong []wrongKey) error {
	for _, w := range wrong {
		if strings.HasPrefix(w.found, sumBeyond) {
			w.entity.block(w.at, w.found)
			continue
		}
		own, err := w.entity.showedAt(w.at)
		if other := beside(w.at.kind, w.at.key); err == nil && !own && other != "" {
			var n int64 // of what is remembered of others there
			n, err = s.rdb.Exists(ctx, other).Result()
			own = n > 0
		}
		if err != nil {
			return classify(err, "looking who shows something at a key of another type")
		}
		if !own || slices.Contains(w.entity.freed, w.at) {
			w.entity.block(w.at, w.found)
			continue
		}
		if err := s.rdb.Eval(ctx, removeIfOfType, []string{w.at.key}, w.found).Err(); err != nil {
			return classify(err, "removing what somebody put in a view's place")
		}
		w.entity.freed = append(w.entity.freed, w.at)
	}
	return nil
}

const removeIfOfType = `if redis.call('TYPE', KEYS[1]).ok == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

// showedAt reports whether the entity's record says that the view shows something of it at a key.
func (e *entity) showedAt(k viewKey) (bool, error) {
	r, err := parseRecord(e.stored)
	if err != nil {
		return false, err
	}
	for _, p := range r.pending { // in a cluster the record is written first
		if p.viewKey == k {
			return false, nil
		}
	}
	return r.claimsKey(k.kind, k.key, anyView)
}
