package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/wire"
)

var _ replicator.Tidier = (*Target)(nil)

// Unclaimed implements replicator.Tidier. It finds nothing: which cell a key belongs to can't be told from the key, and
// what the sink itself once put there its records know, whatever became of the view since: see Outdated.
func (t *Target) Unclaimed(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// trace is one thing that a key shows, and who could have put it there.
type trace struct {
	key      string
	member   string   // of a set or a ranking
	entities []string // of a hash, a JSON object or a set of keys: whose it would be
}

// Strays implements replicator.Tidier. It goes through the keys that begin as the view's do. What has another type than
// the view's is not looked at, nor is a hash without any of the view's fields.
func (t *Target) Strays(ctx context.Context, view int, after string, limit int) ([]replicator.Stray, string, error) {
	k, doing := t.keepers[view], "looking for what nobody claims"
	if t.sink.names == nil {
		return nil, "", nil
	}
	begins := t.sink.names.Begins(k.view)
	if begins == "" {
		return nil, "", nil
	}
	sources, err := t.sink.rdb.SMembers(ctx, sourcesKey).Result()
	if err != nil {
		return nil, "", classify(err, doing)
	}
	keys, next, err := t.sink.scan(ctx, begins, storedType(k.kind), after, limit)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	var strays []replicator.Stray
	for _, key := range keys {
		entities, ok := t.sink.names.Entities(k.view, key)
		if !ok || strings.HasPrefix(key, prefix) {
			continue
		}
		found, err := t.straysAt(ctx, k, trace{key: key, entities: entities}, sources)
		if err != nil {
			return nil, "", classify(err, doing)
		}
		strays = append(strays, found...)
	}
	return strays, next, nil
}

// storedType is the type that Redis has for what a kind keeps.
func storedType(kind byte) string {
	switch kind {
	case kindHash:
		return "hash"
	case kindSet, kindMembers:
		return "set"
	case kindRanking:
		return "zset"
	}
	return "string"
}

// memberPage is how many members of a set or a ranking are looked at in one step.
const memberPage = 500

// straysAt finds the strays at one key.
func (t *Target) straysAt(ctx context.Context, k *keeper, at trace, sources []string) ([]replicator.Stray, error) {
	var read func(cursor uint64) *redis.ScanCmd
	step := 1
	switch k.kind {
	case kindSet, kindMembers:
		read = func(cursor uint64) *redis.ScanCmd { return t.sink.rdb.SScan(ctx, at.key, cursor, "", memberPage) }
	case kindRanking:
		read = func(cursor uint64) *redis.ScanCmd { return t.sink.rdb.ZScan(ctx, at.key, cursor, "", memberPage) }
		step = 2 // members and scores
	default:
		return t.strange(ctx, k, []trace{at}, sources)
	}
	var strays []replicator.Stray
	for cursor := uint64(0); ; {
		list, next, err := read(cursor).Result()
		if err != nil {
			return nil, err
		}
		var entries []trace
		for i := 0; i < len(list); i += step {
			e := trace{key: at.key, member: list[i]}
			if k.kind == kindSet {
				e.entities = []string{list[i]}
			}
			entries = append(entries, e)
		}
		found, err := t.strange(ctx, k, entries, sources)
		if err != nil {
			return nil, err
		}
		strays = append(strays, found...)
		if cursor = next; cursor == 0 {
			return strays, nil
		}
	}
}

// strange returns the traces that are strays: all are looked at together first, and what then seems to be one by
// itself, at one moment.
func (t *Target) strange(ctx context.Context, k *keeper, entries []trace, sources []string) ([]replicator.Stray, error) {
	looks := make([]traceLook, len(entries))
	_, err := t.sink.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, e := range entries {
			looks[i] = t.ask(ctx, p, k, e, sources)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var strays []replicator.Stray
	for i, e := range entries {
		stray, err := looks[i].stray()
		if err != nil {
			return nil, err
		}
		if stray {
			if stray, err = t.isStray(ctx, t.sink.rdb, k, e, sources); err != nil {
				return nil, err
			}
		}
		if stray {
			name := e.key
			if e.member != "" {
				name += " " + e.member
			}
			strays = append(strays, replicator.Stray{Name: name, At: string(wire.AppendText(wire.AppendText(nil, e.key), e.member)), Kind: replicator.Extra})
		}
	}
	return strays, nil
}

// transactional is a client, or the connection of a WATCH.
type transactional interface {
	TxPipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

// isStray looks at one trace in one transaction: a script that applies changes trace and claim together.
func (t *Target) isStray(ctx context.Context, c transactional, k *keeper, e trace, sources []string) (bool, error) {
	var l traceLook
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		l = t.ask(ctx, p, k, e, sources)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, err
	}
	return l.stray()
}

// traceLook is what was asked of a trace: whether it is there, and whether somebody claims it.
type traceLook struct {
	trace
	kind    byte
	held    redis.Cmder
	claimed []redis.Cmder // integers that are 1 if it is claimed, or records
}

// claimKeys are the keys that say who claims what a trace shows. In a cluster they are in the key's own slot.
func (t *Target) claimKeys(k *keeper, e trace, sources []string) []string {
	if other := beside(k.kind, e.key); other != "" {
		return []string{other}
	}
	if t.sink.cluster {
		return []string{postPrefix + sameSlot(e.key)}
	}
	var records []string
	for _, source := range sources {
		for _, text := range e.entities {
			records = append(records, recordKey(source, text))
		}
	}
	return records
}

func (t *Target) ask(ctx context.Context, p redis.Pipeliner, k *keeper, e trace, sources []string) traceLook {
	l := traceLook{trace: e, kind: k.kind}
	switch k.kind {
	case kindHash:
		names := make([]string, len(k.view.Fields))
		for i, f := range k.view.Fields {
			names[i] = f.Name
		}
		l.held = p.HMGet(ctx, e.key, names...)
	case kindSet, kindMembers:
		l.held = p.SIsMember(ctx, e.key, e.member)
	case kindRanking:
		l.held = p.ZScore(ctx, e.key, e.member)
	default:
		l.held = p.Exists(ctx, e.key)
	}
	keys := t.claimKeys(k, e, sources)
	switch {
	case k.kind == kindMembers || k.kind == kindRanking:
		l.claimed = append(l.claimed, p.HExists(ctx, keys[0], e.member))
	case k.kind == kindUnique || k.kind == kindCounter || t.sink.cluster && k.kind != kindSet:
		l.claimed = append(l.claimed, p.Exists(ctx, keys[0]))
	case t.sink.cluster:
		for _, source := range sources {
			l.claimed = append(l.claimed, p.HExists(ctx, keys[0], string(k.id)+recordKey(source, e.member)))
		}
	default:
		for _, key := range keys {
			l.claimed = append(l.claimed, p.Get(ctx, key))
		}
	}
	return l
}

// stray judges the answers.
func (l *traceLook) stray() (bool, error) {
	for _, cmd := range l.claimed {
		switch cmd := cmd.(type) {
		case *redis.BoolCmd:
			if cmd.Val() {
				return false, nil
			}
		case *redis.IntCmd:
			if cmd.Val() > 0 {
				return false, nil
			}
		case *redis.StringCmd:
			if errors.Is(cmd.Err(), redis.Nil) {
				continue
			}
			text := cmd.Val()
			r, err := parseRecord(text)
			if err != nil {
				return false, replicator.Fatal(err)
			}
			if claims, err := r.claimsKey(l.kind, l.key); claims || err != nil {
				return false, err
			}
		}
	}
	switch cmd := l.held.(type) {
	case *redis.SliceCmd:
		return slices.ContainsFunc(cmd.Val(), func(v any) bool { return v != nil }), nil
	case *redis.BoolCmd:
		return cmd.Val(), nil
	case *redis.IntCmd:
		return cmd.Val() > 0, nil
	}
	return l.held.Err() == nil, nil // a score
}

// claimsKey reports whether some cell of the entity contributes to the key.
func (r *record) claimsKey(kind byte, key string) (bool, error) {
	for _, c := range r.cells {
		for _, v := range c.views {
			claims, err := parseClaims(v.claims)
			if err != nil {
				return false, replicator.Fatal(err)
			}
			if slices.ContainsFunc(claims, func(c claim) bool { return c.kind == kind && c.key == key }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Tidy implements replicator.Tidier. Of a hash the view's fields go.
func (t *Target) Tidy(ctx context.Context, view int, strays []replicator.Stray) (removed int, err error) {
	k, doing := t.keepers[view], "removing what nobody claims"
	sources, err := t.sink.rdb.SMembers(ctx, sourcesKey).Result()
	if err != nil {
		return 0, classify(err, doing)
	}
	for _, s := range strays {
		at := wire.NewReader(s.At)
		e := trace{key: at.Text(), member: at.Text()}
		if at.Bad() {
			return removed, fmt.Errorf("%q is no place in a view", s.At)
		}
		e.entities, _ = t.sink.names.Entities(k.view, e.key)
		if k.kind == kindSet {
			e.entities = []string{e.member}
		}
		gone, err := t.remove(ctx, k, e, sources)
		if err != nil {
			return removed, classify(err, doing)
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

// remove removes an trace if it is a stray, on the condition that nobody touches it or its claims meanwhile.
func (t *Target) remove(ctx context.Context, k *keeper, e trace, sources []string) (removed bool, err error) {
	work := func(tx *redis.Tx) error {
		if removed, err = t.isStray(ctx, tx, k, e, sources); err != nil || !removed {
			return err
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			switch k.kind {
			case kindHash:
				for _, f := range k.view.Fields {
					p.HDel(ctx, e.key, f.Name)
				}
			case kindSet, kindMembers:
				p.SRem(ctx, e.key, e.member)
			case kindRanking:
				p.ZRem(ctx, e.key, e.member)
			default:
				p.Del(ctx, e.key)
			}
			return nil
		})
		return err
	}
	for range maxTries {
		if err = t.sink.rdb.Watch(ctx, work, append(t.claimKeys(k, e, sources), e.key)...); !errors.Is(err, redis.TxFailedErr) {
			return removed, err
		}
	}
	return false, nil // somebody is at it all the time: the next look finds it again
}
