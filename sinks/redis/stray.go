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

// Unclaimed implements replicator.Tidier. It finds nothing, because a key doesn't say which cell it belongs to. Entries
// that the sink wrote are in the records, where Outdated finds them.
func (t *Target) Unclaimed(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// candidate is one item that a key shows. If no cell contributes it, it is an orphan (replicator.Stray).
type candidate struct {
	key      string
	member   string   // the member, in a set or a ranking
	entities []string // in a hash, a JSON object or a set of keys: the entities that could have put the item there
}

type search struct {
	sink *Sink
	k    *keeper
}

// Strays implements replicator.Tidier. It goes through the keys with the view's prefix. It skips keys of another type
// than the view's, and hashes without any of the view's fields.
func (t *Target) Strays(
	ctx context.Context, view int, after string, limit int,
) (strays []replicator.Stray, next string, err error) {
	if at, is := strings.CutPrefix(after, inPosts); is {
		if strays, next, err = t.strayPosts(ctx, view, at, limit); next != "" {
			next = inPosts + next
		} else if counts(t.keepers[view].kind) {
			next = inSums
		}
		return strays, next, err
	}
	if at, is := strings.CutPrefix(after, inSums); is {
		if strays, next, err = t.strayPosted(ctx, view, at, limit); next != "" {
			next = inSums + next
		}
		return strays, next, err
	}
	counted := !t.sink.cluster && counts(t.keepers[view].kind)
	at, inThem := strings.CutPrefix(after, inKeys)
	if counted && !inThem {
		if strays, next, err = t.straySums(ctx, view, at); next == "" && t.sink.names != nil {
			next = inKeys
		}
		return strays, next, err
	}
	if t.sink.names != nil {
		strays, next, err = t.strayKeys(ctx, view, at, limit)
	}
	switch {
	case next != "" && counted:
		next = inKeys + next
	case next == "" && t.sink.cluster && t.sink.names != nil:
		next = inPosts
	}
	return strays, next, err
}

// The search for orphans goes through several lists, one after another. Except in the first list, its cursor begins
// with one of these words.
const (
	inKeys  = "keys "  // on one server, after wrong sums: keys. A key without its sum would count as an orphan.
	inPosts = "posts " // in a cluster, after keys: posts, which are contributions stored beside keys
	inSums  = "sums "  // in a cluster, after posts: sums without contributions
)

func (t *Target) strayKeys(
	ctx context.Context, view int, after string, limit int,
) (strays []replicator.Stray, next string, err error) {
	k, names, doing := t.keepers[view], t.sink.names, "looking for orphans"
	begins := names.Begins(k.view)
	if begins == "" {
		return nil, "", nil
	}
	s := search{t.sink, k}
	keys, next, err := t.sink.scan(ctx, begins, storedAs(k.view), after, limit)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	for _, key := range keys {
		entities, ok := names.Entities(k.view, key)
		if !ok || strings.HasPrefix(key, prefix) {
			continue
		}
		found, err := s.at(ctx, candidate{key: key, entities: entities})
		if err != nil {
			return nil, "", classify(err, doing)
		}
		strays = append(strays, found...)
	}
	return strays, next, nil
}

// memberPage is how many members of a set or a ranking one step examines.
const memberPage = 500

// at finds the orphans at one key: the key itself, or members of a set or a ranking.
func (s *search) at(ctx context.Context, c candidate) (strays []replicator.Stray, err error) {
	read, step := s.sink.rdb.SScan, 1
	switch s.k.kind {
	case kindSet, kindMembers:
	case kindRanking:
		read, step = s.sink.rdb.ZScan, 2 // each member is followed by its score
	default:
		return s.among(ctx, []candidate{c})
	}
	for cursor := uint64(0); ; {
		list, next, err := read(ctx, c.key, cursor, "", memberPage).Result()
		if err != nil {
			return nil, err
		}
		var members []candidate
		for i := 0; i < len(list); i += step {
			members = append(members, s.withEntities(candidate{key: c.key, member: list[i]}))
		}
		found, err := s.among(ctx, members)
		if err != nil {
			return nil, err
		}
		strays = append(strays, found...)
		if cursor = next; cursor == 0 {
			return strays, nil
		}
	}
}

// withEntities returns c. For a set of entities' keys, it sets c.entities: only the member itself can have put the
// member into the set.
func (s *search) withEntities(c candidate) candidate {
	if s.k.kind == kindSet {
		c.entities = []string{c.member}
	}
	return c
}

// among returns the candidates that are orphans. It queries all of them together, and then each apparent orphan again,
// in a transaction.
func (s *search) among(ctx context.Context, candidates []candidate) (strays []replicator.Stray, err error) {
	probes := make([]probe, len(candidates))
	_, err = s.sink.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, c := range candidates {
			probes[i] = s.ask(ctx, p, c)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	for i, c := range candidates {
		orphan, err := probes[i].isOrphan(ctx, s.sink)
		if orphan && err == nil {
			orphan, err = s.isOrphan(ctx, s.sink.rdb, c)
		}
		if err != nil {
			return nil, err
		}
		if orphan {
			name := c.key
			if c.member != "" {
				name += " " + c.member
			}
			strays = append(strays, replicator.Stray{Name: name, At: placeOf(c.key, c.member), Kind: replicator.Extra})
		}
	}
	return strays, nil
}

// transactional is a client, or the connection of a WATCH.
type transactional interface {
	TxPipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

// isOrphan reports whether a candidate is an orphan. It asks in one transaction, because scripts change a key together
// with what the sink stores about it.
func (s *search) isOrphan(ctx context.Context, client transactional, c candidate) (bool, error) {
	var found probe
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		found = s.ask(ctx, p, c)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, err
	}
	return found.isOrphan(ctx, s.sink)
}

// claimKeys returns the sink's own keys that tell whether a cell contributes the candidate. In a cluster, they are in
// the slot of c.key.
func (s *search) claimKeys(c candidate) []string {
	if other := beside(s.k.kind, c.key); other != "" {
		return []string{other}
	}
	if s.sink.cluster {
		return []string{postPrefix + sameSlot(c.key)}
	}
	var records []string
	for _, text := range c.entities {
		records = append(records, recordKey(text))
	}
	return records
}

// probe holds the queries about a candidate: whether it exists (`held`), and whether a cell contributes it (`claimed`).
type probe struct {
	key     string
	kind    byte
	held    redis.Cmder
	claimed []redis.Cmder // whether a cell contributes the candidate; for some kinds, these queries read records
	records []string      // the keys of the records that `claimed` reads, in the same order; nil: it reads none
}

func (s *search) ask(ctx context.Context, p redis.Pipeliner, c candidate) probe {
	k, cluster, keys := s.k, s.sink.cluster, s.claimKeys(c)
	found := probe{key: c.key, kind: k.kind}
	switch k.kind {
	case kindHash:
		found.held = p.HMGet(ctx, c.key, k.names...)
	case kindSet, kindMembers:
		found.held = p.SIsMember(ctx, c.key, c.member)
	case kindRanking:
		found.held = p.ZScore(ctx, c.key, c.member)
	default:
		found.held = p.Exists(ctx, c.key)
	}
	claimed := func(cmd redis.Cmder) { found.claimed = append(found.claimed, cmd) }
	switch {
	case k.kind == kindMembers || k.kind == kindRanking:
		claimed(p.HExists(ctx, keys[0], c.member))
	case k.kind == kindUnique || k.kind == kindCounter || cluster && k.kind != kindSet:
		claimed(p.Exists(ctx, keys[0]))
	case cluster:
		claimed(p.HExists(ctx, keys[0], string(k.shows)+recordKey(c.member)))
	default:
		found.records = keys
		for _, key := range keys {
			claimed(p.Get(ctx, key))
		}
	}
	return found
}

func (p *probe) isOrphan(ctx context.Context, s *Sink) (bool, error) {
	for i, cmd := range p.claimed {
		// Each command has its own error: the pipeline returned only the first one, which may be a missing record.
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		claimed := false
		switch cmd := cmd.(type) {
		case *redis.BoolCmd:
			claimed = cmd.Val()
		case *redis.IntCmd:
			claimed = cmd.Val() > 0
		case *redis.StringCmd: // a record; "" if there is none
			r, err := s.parse(ctx, new(arena), cmd.Val(), entityOf(p.records[i]))
			if err == nil {
				claimed, err = r.claimsKey(p.kind, p.key, anyView)
			}
			if err != nil {
				return false, replicator.Fatal(err)
			}
		}
		if claimed {
			return false, nil
		}
	}
	switch cmd := p.held.(type) {
	case *redis.SliceCmd:
		return slices.ContainsFunc(cmd.Val(), func(v any) bool { return v != nil }), nil
	case *redis.BoolCmd:
		return cmd.Val(), nil
	case *redis.IntCmd:
		return cmd.Val() > 0, nil
	}
	return p.held.Err() == nil, nil // ZSCORE fails if the member does not exist
}

func anyView(viewID) bool { return true }

// claimsKey reports whether a cell of the entity contributes to the key, through a view for which `by` returns true.
func (r *record) claimsKey(kind byte, key string, by func(viewID) bool) (bool, error) {
	for _, c := range r.cells {
		for _, v := range c.views {
			if !by(v.id) {
				continue
			}
			claims, err := parseClaims(v.claims)
			if err != nil {
				return false, err
			}
			if slices.ContainsFunc(claims, func(c claim) bool { return c.kind == kind && c.key == key }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Tidy implements replicator.Tidier. From a hash it removes only the view's fields.
func (t *Target) Tidy(ctx context.Context, view int, strays []replicator.Stray) (removed int, err error) {
	const doing = "removing orphans"
	s := search{t.sink, t.keepers[view]}
	var sums []sumAt
	for _, stray := range strays {
		at := wire.NewReader(stray.At)
		c := candidate{key: at.Text(), member: at.Text()}
		entity, sum := "", false
		if at.More() {
			entity, sum = at.Text(), at.More() && at.Text() == ofSum
		}
		if at.Bad() {
			return removed, fmt.Errorf("can't decode %q, which should say where an orphan is", stray.At)
		}
		if sum {
			sums = append(sums, sumAt{c.key, c.member})
			continue
		}
		c.entities, _ = t.sink.names.Entities(s.k.view, c.key)
		var gone bool
		if entity != "" {
			gone, err = t.removePost(ctx, view, c.key, entity)
		} else {
			gone, err = s.remove(ctx, s.withEntities(c))
		}
		if err != nil {
			return removed, classify(err, doing)
		}
		if gone {
			removed++
		}
	}
	mended, err := t.tidySums(ctx, view, sums)
	return removed + mended, classify(err, "correcting wrong sums")
}

// placeOf encodes, for Tidy, where an orphan is. The parts are a key, a member, an entity and the text ofSum. Each may
// be "", or left out at the end. With an entity, the orphan is the entity's contribution that is stored beside the key
// (a post). With ofSum, it is a wrong sum.
func placeOf(parts ...string) string {
	var at []byte
	for _, part := range parts {
		at = wire.AppendText(at, part)
	}
	return string(at)
}

const ofSum = "sum"

// remove removes the candidate if it is an orphan. It gives up if other clients keep changing c.key, or the keys that
// tell whether a cell contributes the candidate.
func (s *search) remove(ctx context.Context, c candidate) (removed bool, err error) {
	work := func(tx *redis.Tx) error {
		if removed, err = s.isOrphan(ctx, tx, c); err != nil || !removed {
			return err
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			switch s.k.kind {
			case kindHash:
				p.HDel(ctx, c.key, s.k.names...)
			case kindSet, kindMembers:
				p.SRem(ctx, c.key, c.member)
			case kindRanking:
				p.ZRem(ctx, c.key, c.member)
			default:
				p.Del(ctx, c.key)
			}
			return nil
		})
		return err
	}
	for range maxTries {
		err = s.sink.rdb.Watch(ctx, work, append(s.claimKeys(c), c.key)...)
		if !errors.Is(err, redis.TxFailedErr) {
			return removed, err
		}
	}
	return false, nil // other writers keep changing the candidate: the next search finds it again
}
