package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// In a cluster, a single node may fall back to an earlier state, as after a failover. The records on that node then
// disagree with the posts (stored contributions) on other nodes. A fill writes again what the records say. After it,
// removeUnrecorded removes posts that no record mentions any more.

// post is what an entity contributes to one key of a view, as stored beside the key in a cluster.
type post struct {
	entity   entity
	pending  pending // the change that removes the contribution
	revision uint64  // the revision of the entity's record when the contribution was written
	stored   string  // as Redis stores the post: the revision, and then the contribution
}

// orphanedPosts says in messages what removeUnrecorded removes.
const orphanedPosts = "contributions in keys " + postPrefix + "… that no key " + entityPrefix + "… has"

// who returns the post's field in the hash that has all posts (contributions) of a key. It identifies the view and the
// entity.
func (p *post) who() string { return string(p.pending.id) + p.entity.key }

// removeUnrecorded removes, in a cluster, posts (stored contributions) to the target's views that no record mentions
// any more.
func (t *Target) removeUnrecorded(ctx context.Context) error {
	if !t.sink.cluster {
		return nil
	}
	const doing = "looking for " + orphanedPosts
	for after := ""; ; {
		keys, next, err := t.sink.scan(ctx, postPrefix, "hash", after, 500)
		if err != nil {
			return classify(err, doing)
		}
		for _, key := range keys {
			if err := t.eachPost(ctx, key, func(posts []post) error { return t.removeUnrecordedPosts(ctx, posts) }); err != nil {
				return classify(err, doing)
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// eachPost reads the hash at `key`, which has what entities contribute to one key of a view. It calls `do` with the
// contributions to the target's views, a page at a time.
func (t *Target) eachPost(ctx context.Context, key string, do func([]post) error) error {
	for cursor := uint64(0); ; {
		var fields []string
		var err error
		if fields, cursor, err = t.sink.rdb.HScan(ctx, key, cursor, "", memberPage).Result(); err != nil {
			return err
		}
		if err := do(t.posts(postedAt(key), fields)); err != nil {
			return err
		}
		if cursor == 0 {
			return nil
		}
	}
}

// strayPosts finds, in a cluster, stored contributions to a view that no record mentions any more. It also finds wrong
// sums.
func (t *Target) strayPosts(
	ctx context.Context, view int, after string, limit int,
) (strays []replicator.Stray, next string, err error) {
	const doing = "looking for " + orphanedPosts
	k, id := t.keepers[view], t.keepers[view].shows
	var sums []string
	keys, next, err := t.sink.scan(ctx, postPrefix, "hash", after, limit)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	for _, key := range keys {
		err := t.eachPost(ctx, key, func(posts []post) error {
			own := slices.DeleteFunc(posts, func(p post) bool { return p.pending.id != id })
			if of := postedAt(key); len(own) > 0 && counts(k.kind) && !slices.Contains(sums, of) {
				sums = append(sums, of)
			}
			left, err := t.withoutRecord(ctx, own)
			for _, p := range left {
				var held string
				if err == nil {
					held, err = t.sink.rdb.HGet(ctx, key, p.who()).Result()
				}
				if errors.Is(err, redis.Nil) {
					held, err = "", nil
				}
				if err != nil {
					return err
				}
				if held == p.stored { // the contribution has not changed since it was read
					strays = append(strays, p.stray())
				}
			}
			return err
		})
		if err != nil {
			return nil, "", classify(err, doing)
		}
	}
	wrong, err := t.comparePosted(ctx, k.kind, sums, false)
	return append(strays, wrong...), next, classify(err, doing)
}

// stray describes an orphaned post: an entity's stored contribution to a key that the entity's record doesn't mention.
// Its At names the entity, so that Tidy calls removePost.
func (p *post) stray() replicator.Stray {
	at := placeOf(p.pending.key, "", p.entity.text)
	return replicator.Stray{Name: p.pending.key + " " + p.entity.text, At: at, Kind: replicator.Extra}
}

// removePost removes an entity's post for a key of a view, if the entity's record doesn't mention it.
func (t *Target) removePost(ctx context.Context, view int, key, text string) (removed bool, err error) {
	who := string(t.keepers[view].shows) + recordKey(text)
	held, err := t.sink.rdb.HGet(ctx, postPrefix+sameSlot(key), who).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	posts, err := t.withoutRecord(ctx, t.posts(key, []string{who, held}))
	if err != nil || len(posts) == 0 {
		return false, err
	}
	return true, t.removeUnrecordedPosts(ctx, posts)
}

// postedAt returns the user's key to which the hash of posts at `posts` belongs. It is the inverse of postKey.
func postedAt(posts string) string { return userKeyOf(posts, postPrefix) }

// userKeyOf returns the user's key to which the sink's key `own` belongs: it returns key if `own` is
// prefix+sameSlot(key).
func userKeyOf(own, prefix string) string {
	tag, key, _ := strings.Cut(strings.TrimPrefix(own, prefix+"{"), "}")
	if key == "" {
		return tag
	}
	return key[1:]
}

// posts decodes fields of the hash that has what entities contribute to `key`. Each field is followed by its value.
// posts returns only contributions to the target's views.
func (t *Target) posts(key string, fields []string) (list []post) {
	begin := recordKey("")
	for i := 0; i+1 < len(fields); i += 2 {
		who, held := fields[i], fields[i+1]
		if len(who) < viewIDSize || len(held) < revisionDigits {
			continue
		}
		id, record := viewID(who[:viewIDSize]), who[viewIDSize:]
		at := slices.IndexFunc(t.keepers, func(k *keeper) bool { return k.shows == id })
		text, ours := strings.CutPrefix(record, begin)
		if at < 0 || !ours {
			continue
		}
		p := post{entity: entity{key: record, text: text}, stored: held}
		if _, err := fmt.Sscanf(held[:revisionDigits], "%d", &p.revision); err != nil {
			continue
		}
		p.pending = t.keepers[at].takenBack(key, text)
		list = append(list, p)
	}
	return list
}

// revisionDigits is the number of digits of every stored revision. The scripts compare revisions as texts.
const revisionDigits = 20

func (k *keeper) takenBack(key, text string) pending {
	p := pending{viewKey: viewKey{k.shows, k.kind, key}}
	switch p.kind {
	case kindHash:
		p.args = append([]string{"0"}, k.names...)
	case kindSet:
		p.args = []string{text, "-1"}
	}
	return p
}

// withoutRecord returns the posts (stored contributions) that their entities' records don't mention. It raises a post's
// revision to that of the record. The script that removes posts then keeps those of a later revision, which another
// process has written meanwhile.
func (t *Target) withoutRecord(ctx context.Context, posts []post) (without []post, err error) {
	if len(posts) == 0 {
		return nil, nil
	}
	keys := make([]string, len(posts))
	for i := range posts {
		keys[i] = posts[i].entity.key
	}
	records, err := t.sink.records(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, p := range posts {
		has, err := records[i].has(p.pending.viewKey)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keys[i], err)
		}
		if !has {
			p.revision = max(p.revision, records[i].revision)
			without = append(without, p)
		}
	}
	return without, nil
}

func (t *Target) removeUnrecordedPosts(ctx context.Context, posts []post) error {
	posts, err := t.withoutRecord(ctx, posts)
	if err != nil || len(posts) == 0 {
		return err
	}
	var calls []call
	for i := range posts {
		calls = append(calls, posts[i].entity.push(&posts[i].pending, posts[i].revision))
	}
	cmds, err := t.sink.run(ctx, t.sink.push, calls)
	for _, cmd := range cmds {
		if err == nil {
			err = cmd.Err()
		}
	}
	return classify(err, "removing "+orphanedPosts)
}

// has reports whether the record says that the entity contributes to the key, or lists a pending change of the key.
func (r *record) has(k viewKey) (bool, error) {
	if slices.ContainsFunc(r.pending, func(p pending) bool { return p.id == k.id && p.key == k.key }) {
		return true, nil
	}
	for i := range r.cells {
		for _, v := range r.cells[i].views { // one for each pair of a view and a source that feeds it
			claims, err := parseClaims(v.claims)
			if err != nil {
				return false, err
			}
			if slices.ContainsFunc(claims, func(c claim) bool { return c.key == k.key }) {
				return true, nil
			}
		}
	}
	return false, nil
}
