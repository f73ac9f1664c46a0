package redis

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/sinks/judge"
)

// Beside each key of a counter or a ranking, and of an index in which several entities may have the same value, the
// sink stores a sum. If Redis evicts a sum, or a record that contributed to it, the sum stays wrong until a
// verification or a rebuild adds up all records.
//
// Records change while they are read, so a difference may be no error. An audit compares as of one moment: from then
// on, the script that applies changes keeps the former contents of each record that it replaces.

//go:embed sums.lua
var sumsSource string

// The sink's own keys during an audit of sums. checkKey has the audit's name. beforeKey has the former contents of each
// record that was replaced since the audit began.
const (
	checkKey  = prefix + "checking"
	beforeKey = prefix + "before"
)

// sumAt identifies a sum: by a key, or by a member of a key.
type sumAt struct{ key, member string }

func (a sumAt) place() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.key + "\x00" + a.member)) // Write never fails
	return h.Sum64()
}

func (a sumAt) String() string { return strings.TrimSuffix(a.key+" "+a.member, " ") }

// tally is a sum of amounts, and the number of contributions in it.
type tally struct {
	claims int64
	amount big.Rat
}

func (t *tally) add(claims int64, amount *big.Rat) {
	t.claims += claims
	t.amount.Add(&t.amount, amount)
}

func (t *tally) text() string {
	places, _ := t.amount.FloatPrec() // a sum of decimals has finitely many digits
	return t.amount.FloatString(places)
}

// tallyOf parses a stored sum; nil means that none is stored. It returns false if the value is not a sum.
func tallyOf(kind byte, stored any) (*tally, bool) {
	t := new(tally)
	text, ok := stored.(string)
	if !ok {
		return t, stored == nil
	}
	if kind == kindRanking {
		claims, amount, _ := strings.Cut(text, " ")
		n, err := strconv.ParseInt(claims, 10, 64)
		if err != nil {
			return new(tally), false
		}
		t.claims, text = n, amount
	}
	if _, ok := t.amount.SetString(text); !ok || strings.Trim(text, "-.0123456789") != "" {
		return new(tally), false
	}
	return t, true
}

// same reports whether two tallies are stored as the same text.
func (t *tally) same(kind byte, other *tally) bool {
	return t.amount.Cmp(&other.amount) == 0 && (kind != kindRanking || t.claims == other.claims)
}

type wrongSum struct {
	sumAt
	lacks   tally // what must be added to the stored sum
	damaged bool  // the stored value is not a sum
	kind    replicator.DifferenceKind
}

// sums computes the sums of a view's keys from the amounts in records.
type sums struct {
	*Target
	k        *keeper
	from, to uint64         // only sums whose hash (sumAt.place) is in this range are computed
	only     map[sumAt]bool // only these sums are computed; nil: all in the range
	maxBytes int64
	bytes    int64
	tallies  map[sumAt]*tally
}

const (
	sumCost    = 300 // the bytes that a sum takes besides its key and member
	sumsAtOnce = 500 // the most sums that one audit compares
)

func (t *Target) sums(k *keeper, from uint64) *sums {
	return &sums{Target: t, k: k, from: from, to: math.MaxUint64, maxBytes: t.sink.sumBytes, tallies: map[sumAt]*tally{}}
}

// at returns a sum's tally, to which amounts are added; nil if s doesn't compute that sum.
func (s *sums) at(a sumAt) *tally {
	if s.only != nil && !s.only[a] {
		return nil
	}
	if t := s.tallies[a]; t != nil {
		return t
	}
	if p := a.place(); p < s.from || p > s.to {
		return nil
	}
	s.tallies[a] = new(tally)
	s.bytes += int64(len(a.key)+len(a.member)) + sumCost
	for s.bytes > s.maxBytes && s.to > s.from {
		s.narrow(s.from + (s.to-s.from)/2)
	}
	return s.tallies[a]
}

// narrow lowers the upper end of the range of hashes to `to`, and drops the sums above it, to save memory.
func (s *sums) narrow(to uint64) {
	s.to = to
	maps.DeleteFunc(s.tallies, func(a sumAt, _ *tally) bool {
		out := a.place() > to
		if out {
			s.bytes -= int64(len(a.key)+len(a.member)) + sumCost
		}
		return out
	})
}

// add adds the amounts in an entity's record, and reports whether the entity contributes to any of the sums.
func (s *sums) add(key string, r *record) (counts bool, err error) {
	for _, c := range r.cells {
		for i := range c.views {
			v := &c.views[i]
			if !v.contributes() || v.claims[0] != s.k.kind {
				continue
			}
			claims, err := parseClaims(v.claims)
			if err != nil {
				return false, replicator.Fatal(fmt.Errorf("%s: %w", key, err))
			}
			for _, x := range claims {
				if !s.isOurs(v.id, x.key) {
					continue
				}
				at := sumAt{x.key, x.member}
				if s.k.kind != kindCounter {
					at.member = cmp.Or(x.member, strings.TrimPrefix(key, recordKey("")))
				}
				amount, ok := new(big.Rat).SetString(x.counted())
				if t := s.at(at); t != nil && ok {
					counts = true
					t.add(1, amount)
				}
			}
		}
	}
	return counts, nil
}

// isOurs reports whether the sums at a key belong to the view of s. They do if `id`, under which a record contributes
// to the key, is one of the view's ids. They also do, whatever the id, if the view's key template can make the key.
func (s *sums) isOurs(id viewID, key string) bool {
	if slices.Contains(s.k.ids, id) {
		return true
	}
	if s.sink.names == nil {
		return false
	}
	_, is := s.sink.names.Entities(s.k.view, key)
	return is
}

// straySums finds sums that differ from the records, a page at a time. after is the cursor of the page.
func (t *Target) straySums(ctx context.Context, view int, after string) ([]replicator.Stray, string, error) {
	const doing = "comparing the sums with what was added"
	k := t.keepers[view]
	if t.sink.cluster || !counts(k.kind) {
		return nil, "", nil
	}
	var from uint64
	if err := judge.At(after, &from); err != nil {
		return nil, "", err
	}
	doubtful, end, err := t.doubtful(ctx, k, from)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	var strays []replicator.Stray
	err = t.audit(ctx, k, doubtful, func(_ string, wrong []wrongSum) error {
		for _, w := range wrong {
			strays = append(strays, replicator.Stray{Name: w.String(), At: placeOf(w.key, w.member, "", ofSum), Kind: w.kind})
		}
		return nil
	})
	if err != nil {
		return nil, "", classify(err, doing)
	}
	next := ""
	if end < math.MaxUint64 {
		next = judge.Cursor(end + 1)
	}
	return strays, next, nil
}

// doubtful returns sums that differ from what the entities' records add up to. They may still be right, because records
// change meanwhile. It also returns the highest hash (sumAt.place) up to which it has compared sums.
func (t *Target) doubtful(ctx context.Context, k *keeper, from uint64) ([]sumAt, uint64, error) {
	s := t.sums(k, from)
	err := t.eachRecord(ctx, func(key string, r *record) error {
		_, err := s.add(key, r)
		return err
	})
	if err == nil {
		err = s.addShown(ctx)
	}
	if err != nil {
		return nil, 0, err
	}
	var differ []sumAt
	for some := range slices.Chunk(slices.Collect(maps.Keys(s.tallies)), recordPage) {
		remembered, err := s.remembered(ctx, some)
		if err != nil {
			return nil, 0, err
		}
		for i, at := range some {
			if held, ok := tallyOf(k.kind, remembered[i]); !ok || !held.same(k.kind, s.tallies[at]) {
				differ = append(differ, at)
			}
		}
	}
	if len(differ) > sumsAtOnce {
		slices.SortFunc(differ, func(a, b sumAt) int { return cmp.Compare(a.place(), b.place()) })
		s.to = differ[sumsAtOnce].place() - 1
		differ = differ[:sumsAtOnce]
	}
	return differ, s.to, nil
}

// addShown makes s compare the sums of all existing keys of the view. A key may have a sum although no record
// contributes to it.
func (s *sums) addShown(ctx context.Context) error {
	if s.sink.names == nil || s.sink.names.Begins(s.k.view) == "" {
		return nil
	}
	for after := ""; ; {
		keys, next, err := s.sink.scan(ctx, s.sink.names.Begins(s.k.view), storedAs(s.k.view), after, recordPage)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if !s.isOurs("", key) || strings.HasPrefix(key, prefix) {
				continue
			}
			if err := s.addStored(ctx, key); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// addStored makes s compare the sums that the sink stores for a key: one for a counter, one for each member otherwise.
func (s *sums) addStored(ctx context.Context, key string) error {
	if s.k.kind == kindCounter {
		s.at(sumAt{key: key})
		return nil
	}
	for cursor := uint64(0); ; {
		fields, next, err := s.sink.rdb.HScan(ctx, beside(s.k.kind, key), cursor, "", memberPage).Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil
		}
		if err != nil {
			return err
		}
		for i := 0; i < len(fields); i += 2 {
			s.at(sumAt{key, fields[i]})
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// remembered reads the stored sums; "?" stands for a value of another type.
func (s *sums) remembered(ctx context.Context, list []sumAt) ([]any, error) {
	cmds, err := s.sink.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, at := range list {
			if s.k.kind == kindCounter {
				p.Get(ctx, beside(s.k.kind, at.key))
			} else {
				p.HGet(ctx, beside(s.k.kind, at.key), at.member)
			}
		}
		return nil
	})
	found := make([]any, len(list))
	for i, cmd := range cmds {
		one := cmd.(*redis.StringCmd)
		switch failed := one.Err(); {
		case failed == nil:
			found[i] = one.Val()
		case redis.HasErrorPrefix(failed, "WRONGTYPE"):
			found[i] = "?"
		case !errors.Is(failed, redis.Nil):
			return nil, cmp.Or(err, failed)
		}
	}
	return found, nil
}
