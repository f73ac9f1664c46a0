package redis

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/keytemplate"
)

var _ replicator.Lister = (*Target)(nil)

// ListedBy implements replicator.Lister. It names the values of the key template and, for a ranking, those of the
// member template, because each member has its own sum.
func (t *Target) ListedBy(view int) (names []string) {
	v := t.keepers[view].view
	of := func(template string) {
		parts, _, _ := keytemplate.Parse(template) // the configuration has checked the template
		for _, p := range parts {
			names = append(names, p.Path)
		}
	}
	of(v.Key)
	switch {
	case v.Kind != "ranking":
	case v.Member != "":
		of(v.Member)
	default:
		names = append(names, "the entity's key")
	}
	return names
}

// spotted returns the key, and for a ranking the member, that the view's templates make from the values.
func (k *keeper) spotted(values []string) (c claim) {
	c.kind = k.kind
	parts, tail, _ := keytemplate.Parse(k.view.Key)
	c.key = keytemplate.Fill(parts, tail, values[:len(parts)])
	if rest := values[len(parts):]; k.kind == kindRanking {
		parts, tail, _ := keytemplate.Parse(k.view.Member)
		if c.member = rest[0]; len(parts) > 0 {
			c.member = keytemplate.Fill(parts, tail, rest)
		}
	}
	return c
}

// List implements replicator.Lister. For an index of entities' keys (kindSet), it reads only the records of the
// entities in the set. For any other view, it reads all records.
func (t *Target) List(
	ctx context.Context, view int, values []string, limit int,
) (found replicator.Listing, err error) {
	k := t.keepers[view]
	at := k.spotted(values)
	found.Place = "key " + at.key
	if at.member != "" {
		found.Place += ", member " + at.member
	}
	if k.sums() {
		found.Sum = new(big.Rat)
	}
	if found.Shown, err = t.sink.shown(ctx, at); err == nil && k.kind == kindSet {
		err = t.listMembers(ctx, k, at, limit, &found)
	} else if err == nil {
		err = t.listClaims(ctx, k, at, limit, &found)
	}
	if err != nil {
		err = classify(err, "view "+k.view.Name+": listing the cells that contribute to "+found.Place)
	}
	return found, err
}

// shown returns what readers see at a key, or at a ranking's member: a sum, or the holder of a unique value. It returns
// "" if there is nothing, if the key has another type, or if keys of this kind have no single value.
func (s *Sink) shown(ctx context.Context, at claim) (text string, err error) {
	switch at.kind {
	case kindCounter, kindUnique:
		text, err = s.rdb.Get(ctx, at.key).Result()
	case kindRanking:
		text, err = s.rdb.Do(ctx, "ZSCORE", at.key, at.member).Text()
	}
	if errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = nil
	}
	return text, err
}

// listMembers finds the cells that contribute a set's members, and members that no cell of any source contributes.
func (t *Target) listMembers(
	ctx context.Context, k *keeper, at claim, limit int, found *replicator.Listing,
) error {
	seen := map[string]bool{} // a scan may return a member twice
	for cursor := uint64(0); ; {
		members, next, err := t.sink.rdb.SScan(ctx, at.key, cursor, "", memberPage).Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil
		}
		if err != nil {
			return err
		}
		members = slices.DeleteFunc(members, func(m string) bool {
			again := seen[m]
			seen[m] = true
			return again
		})
		keys := make([]string, len(members))
		for i, m := range members {
			keys[i] = recordKey(m)
		}
		records, err := t.sink.records(ctx, keys)
		if err != nil {
			return err
		}
		for i, r := range records {
			if err := k.list(r, members[i], at, limit, found); err != nil {
				return err
			}
			ours := func(id viewID) bool { return slices.Contains(k.ids, id) }
			if claimed, err := r.claimsKey(k.kind, at.key, ours); err != nil {
				return err
			} else if !claimed && len(found.Orphans) < limit {
				found.Orphans = append(found.Orphans, members[i])
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// listClaims reads all records, and finds the cells that contribute to a key, or to a ranking's member.
func (t *Target) listClaims(
	ctx context.Context, k *keeper, at claim, limit int, found *replicator.Listing,
) error {
	seen := map[string]bool{} // the keys of records that were counted: a scan may return a key twice
	return t.eachRecord(ctx, func(key string, r *record) error {
		if seen[key] {
			return nil
		}
		before := found.Count
		if err := k.list(r, strings.TrimPrefix(key, recordKey("")), at, limit, found); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if found.Count > before {
			seen[key] = true
		}
		return nil
	})
}

// list adds to `found` the entity's cells that contribute to the key in `at`. In a ranking, a cell must contribute to
// the member in `at`, too.
func (k *keeper) list(r *record, entity string, at claim, limit int, found *replicator.Listing) error {
	for i := range r.cells {
		v := r.cells[i].view(k.id)
		if v == nil || !v.contributes() {
			continue
		}
		claims, err := parseClaims(v.claims)
		if err != nil {
			return replicator.Fatal(err)
		}
		var amount *big.Rat
		claimed := false
		for _, c := range claims {
			if c.kind != at.kind || c.key != at.key {
				continue
			}
			if c.kind == kindRanking && c.member != at.member && (c.member != "" || entity != at.member) {
				continue
			}
			claimed = true
			if k.sums() {
				n, ok := new(big.Rat).SetString(c.counted())
				if !ok {
					return replicator.Fatal(errDamaged)
				}
				if amount == nil {
					amount = new(big.Rat)
				}
				amount.Add(amount, n)
			}
		}
		if claimed {
			found.Add(replicator.Listed{Cell: r.cells[i].cell, Amount: amount}, limit)
		}
	}
	return nil
}
