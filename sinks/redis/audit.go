package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
	"replicator/sinks/judge"
)

// audit compares the stored sums in `list` with the sums of what all records contribute, as of one moment. If some are
// wrong, it calls `do` with them and the name of the audit. Only one audit runs at a time on a server.
func (t *Target) audit(ctx context.Context, k *keeper, list []sumAt, do func(name string, wrong []wrongSum) error) error {
	if len(list) == 0 {
		return nil
	}
	name := rand.Text()
	held, err := t.beginAudit(ctx, k, list, name)
	if err != nil {
		return err
	}
	defer func() { // if this fails, the audit expires by itself after a minute
		_, _ = t.step(context.WithoutCancel(ctx), nil, "end", name, k)
	}()
	s := t.sums(k, 0)
	s.only, s.maxBytes = map[sumAt]bool{}, math.MaxInt64
	for _, at := range list {
		s.only[at] = true
	}
	if err := s.addAsOf(ctx, name); err != nil {
		return err
	}
	var wrong []wrongSum
	for i, at := range list {
		added := cmp.Or(s.tallies[at], new(tally))
		stored, ok := tallyOf(k.kind, held[i])
		isHeld := held[i] != nil
		kind := judge.Difference(added.claims > 0, isHeld, ok && isHeld && stored.same(k.kind, added))
		if ok && stored.same(k.kind, added) || kind == "" {
			continue
		}
		w := wrongSum{sumAt: at, lacks: *added, damaged: !ok, kind: kind}
		w.lacks.claims -= stored.claims
		w.lacks.amount.Sub(&added.amount, &stored.amount)
		wrong = append(wrong, w)
	}
	if len(wrong) == 0 {
		return nil
	}
	return do(name, wrong)
}

// beginAudit waits until no other audit of sums is running, and begins one. It returns the stored sums as of that
// moment.
func (t *Target) beginAudit(ctx context.Context, k *keeper, list []sumAt, name string) ([]any, error) {
	keys, args := make([]string, len(list)), make([]any, len(list))
	for i, at := range list {
		keys[i], args[i] = beside(k.kind, at.key), at.member
	}
	for {
		answer, err := t.step(ctx, keys, "begin", name, k, args...)
		if err != nil || answer != nil {
			return answer, err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// errOvertaken means that this audit of sums expired, because it made no step for a minute. Another one may have begun.
var errOvertaken = errors.New("the comparison of sums was interrupted for over a minute: repeat it")

// addAsOf adds up the amounts in all records. If a record changed after the audit began, its former contents count.
func (s *sums) addAsOf(ctx context.Context, name string) error {
	before := map[string]string{} // by record key: what the record was at the audit's beginning, if it was replaced since
	seen := map[string]bool{}     // the keys of records that were added up: a scan may return a key twice
	return s.eachPage(ctx, func(keys []string) error {
		answer, err := s.step(ctx, keys, "page", name, s.k)
		if err == nil && len(answer) != 2 {
			err = errOvertaken
		}
		if err != nil {
			return err
		}
		replaced, _ := answer[0].([]any)
		records, _ := answer[1].([]any)
		for i := 0; i+1 < len(replaced); i += 2 {
			key := fmt.Sprint(replaced[i])
			if _, known := before[key]; !known {
				before[key], _ = replaced[i+1].(string)
			}
		}
		for i, key := range keys[:min(len(keys), len(records))] {
			stored, was := before[key]
			if !was {
				stored, _ = records[i].(string)
			}
			if seen[key] {
				continue
			}
			r, err := s.sink.parse(ctx, new(arena), stored, entityOf(key))
			if err != nil {
				return replicator.Fatal(fmt.Errorf("%s: %w", key, err))
			}
			counts, err := s.add(key, r)
			if err != nil {
				return err
			}
			if counts {
				seen[key] = true
			}
		}
		return nil
	})
}

// step calls the script sums.lua for one step of an audit, such as "begin". An audit compares stored sums with what
// records contribute. step returns nil if another audit is running, or if the named one has expired.
func (t *Target) step(ctx context.Context, keys []string, step, name string, k *keeper, args ...any) ([]any, error) {
	c := newCall(append([]string{checkKey, beforeKey}, keys...), append([]any{step, name, string(k.kind)}, args...)...)
	cmds, err := t.sink.run(ctx, t.sink.sums, []call{c})
	if err != nil {
		return nil, err
	}
	switch answer := cmds[0].Val().(type) {
	case []any:
		return answer, nil
	case int64:
		if answer == 1 {
			return []any{}, nil
		}
	}
	return nil, nil
}

func (t *Target) tidySums(ctx context.Context, view int, list []sumAt) (mended int, err error) {
	k := t.keepers[view]
	if t.sink.cluster {
		return t.tidyPosted(ctx, view, list)
	}
	for some := range slices.Chunk(list, sumsAtOnce) {
		err := t.audit(ctx, k, some, func(name string, wrong []wrongSum) error {
			var keys []string
			var args []any
			for _, w := range wrong {
				thrown := ""
				if w.damaged {
					thrown = "1"
				}
				keys = append(keys, w.key, beside(k.kind, w.key))
				args = append(args, w.member, thrown, w.lacks.claims, w.lacks.text())
			}
			answer, err := t.step(ctx, keys, "mend", name, k, args...)
			if err == nil && answer == nil {
				err = errOvertaken
			}
			if err == nil {
				mended += len(wrong)
			}
			return err
		})
		if err != nil {
			return mended, err
		}
	}
	return mended, nil
}
