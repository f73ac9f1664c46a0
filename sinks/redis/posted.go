package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/sinks/judge"
)

// In a cluster, what each entity contributes to a key is stored in a hash in the same slot (the key's posts). So one
// script can add up the contributions, and correct the key's sums, at one moment. The script blocks the node while it
// reads them.

//go:embed posted.lua
var postedSource string

// postKey returns the key of the hash that has, in a cluster, the posts of `key`: what each entity contributes to it.
func postKey(key string) string { return postPrefix + sameSlot(key) }

// comparePosted compares the sums of some keys with the contributions that are stored beside the keys. It returns the
// wrong sums, and corrects them if mend is set.
func (t *Target) comparePosted(ctx context.Context, kind byte, keys []string, mend bool) ([]replicator.Stray, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	calls := make([]call, len(keys))
	for i, key := range keys {
		calls[i] = newCall([]string{key, postKey(key), beside(kind, key)}, string(rune(kind)), mend)
	}
	cmds, err := t.sink.run(ctx, t.sink.posted, calls)
	if err != nil {
		return nil, err
	}
	var wrong []replicator.Stray
	for i, cmd := range cmds {
		answer, err := cmd.Slice()
		if err != nil {
			return nil, err
		}
		for a := 0; a+2 < len(answer); a += 3 {
			at := sumAt{keys[i], fmt.Sprint(answer[a])}
			claims, _ := answer[a+1].(int64)
			wrong = append(wrong, replicator.Stray{Name: at.String(), At: placeOf(at.key, at.member, "", ofSum),
				Kind: judge.Difference(claims > 0, answer[a+2] == int64(1), false)})
		}
	}
	return slices.DeleteFunc(wrong, func(s replicator.Stray) bool { return s.Kind == "" }), nil
}

// strayPosted finds keys of the view that have stored sums, although no entity contributes to the keys.
func (t *Target) strayPosted(
	ctx context.Context, view int, after string, limit int,
) (strays []replicator.Stray, next string, err error) {
	const doing = "looking for sums without contributions"
	k, begins, stored := t.keepers[view], claimPrefix, "hash"
	if k.sums() {
		begins = sumPrefix
	}
	if k.kind == kindCounter {
		stored = "string"
	}
	found, next, err := t.sink.scan(ctx, begins, stored, after, limit)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	var keys []string
	for _, own := range found {
		key := userKeyOf(own, begins)
		if _, is := t.sink.names.Entities(k.view, key); is && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if keys, err = t.unposted(ctx, keys); err == nil {
		strays, err = t.comparePosted(ctx, k.kind, keys, false)
	}
	return strays, next, classify(err, doing)
}

// unposted returns the keys to which no entity contributes: they have no posts (contributions stored beside a key).
func (t *Target) unposted(ctx context.Context, keys []string) ([]string, error) {
	cmds, err := t.sink.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Exists(ctx, postKey(key))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var without []string
	for i, cmd := range cmds {
		if cmd.(*redis.IntCmd).Val() == 0 {
			without = append(without, keys[i])
		}
	}
	return without, nil
}

func (t *Target) tidyPosted(ctx context.Context, view int, list []sumAt) (mended int, err error) {
	var keys []string
	for _, at := range list {
		if !slices.Contains(keys, at.key) {
			keys = append(keys, at.key)
		}
	}
	wrong, err := t.comparePosted(ctx, t.keepers[view].kind, keys, true)
	return len(wrong), err
}

// mendPosted repairs, in a cluster, the sums of keys with pending changes: it adds up the contributions that the hash
// at postKey has. If another program has overwritten that hash, mendPosted deletes it, and counts that as an eviction.
func (t *Target) mendPosted(ctx context.Context, written []*entity) (mended bool, err error) {
	for _, e := range written {
		for i := range e.plan.record.pending {
			p := &e.plan.record.pending[i]
			found, err := t.sink.rdb.Type(ctx, postKey(p.key)).Result()
			if err == nil && found != "none" && found != "hash" {
				mended = true
				t.evictions.lost()
				err = t.sink.rdb.Del(ctx, postKey(p.key)).Err()
			}
			if err == nil && counts(p.kind) {
				var wrong []replicator.Stray
				wrong, err = t.comparePosted(ctx, p.kind, []string{p.key}, true)
				mended = mended || len(wrong) > 0
			}
			if err != nil {
				return false, classify(err, "correcting damaged sums")
			}
		}
		e.known, e.assumed = false, false
	}
	return mended, nil
}

// queryPost queues the command that asks whether the key of `s` has a post of the entity (see postKey). It does so only
// for kinds with sums or counts.
func (c *comparison) queryPost(ctx context.Context, p redis.Pipeliner, s *spot) {
	if counts(c.k.kind) {
		s.posted = p.HExists(ctx, postKey(s.claim.key), string(c.k.shows)+recordKey(c.text))
	}
}

// lacksPost reports whether queryPost has asked for the entity's post, and there was none.
func (s *spot) lacksPost() bool { return s.posted != nil && !s.posted.Val() }
