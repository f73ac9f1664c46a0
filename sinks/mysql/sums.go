package mysql

import (
	"context"
	"database/sql"
	"hash/fnv"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

// wrongSum is a group whose sum in the table differs from the sum of the amounts in the cells' states.
type wrongSum struct {
	id    string // the group, encoded
	lacks row    // the group, and the amount that the table's sum lacks
	kind  replicator.DifferenceKind
}

// span is a range of groups, by their hashes. The states are ordered by cell, not by group, so all of them are read for
// each span. Spans are as wide as memory allows.
type span struct{ from, to uint64 }

func everyGroup() span { return span{0, math.MaxUint64} }

func (s span) holds(id string) bool { h := hashOf(id); return s.from <= h && h <= s.to }

// hashOf returns a group's hash. The sums of groups are compared for one range of hashes at a time.
func hashOf(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// DefaultSumBytes is the default of Config.SumBytes: the approximate memory, in bytes, for the groups whose sums are
// compared at once.
const DefaultSumBytes = 32 << 20

// groupCost is the approximate memory of a group in a comparison, in bytes, besides its encoded values.
const groupCost = 400

// comparison compares the sums of groups, for a range of their hashes, with the amounts in the cells' states. Groups
// that the table's collation treats as equal count as one: the group that the table shows.
type comparison struct {
	span
	k       *keeper
	q       querier
	ids     map[uint32]bool // the view's ids, one for each source
	groups  map[string]*comparedGroup
	size    int64 // the approximate memory of groups, in bytes
	maxSize int64
}

type comparedGroup struct {
	group  row
	added  *big.Rat // the sum of the amounts in the cells' states
	stored *big.Rat // the table's sum; nil if the table has no row of the group
}

// wrongSumsIn returns the groups whose sum in the table differs from the amounts in the cells' states, for a range of
// the groups' hashes. If memory doesn't suffice for the whole range, end is where it stopped.
func wrongSumsIn(
	ctx context.Context, tx *sql.Tx, k *keeper, s span, most int64,
) (wrong []wrongSum, end uint64, err error) {
	c := &comparison{span: s, k: k, q: tx, ids: map[uint32]bool{}, groups: map[string]*comparedGroup{}, maxSize: most}
	owners, err := ownersOf(ctx, tx, k.view.Name)
	if err != nil {
		return nil, 0, err
	}
	for _, o := range owners {
		c.ids[o.id] = true
	}
	last := len(k.fields) - 1
	err = eachBound(ctx, tx, k.fields, func(r row) {
		if g := c.of(r[:last]); g != nil {
			g.stored = rational(r[last])
			c.narrow()
		}
	}, k.selectSums())
	if err != nil {
		return nil, 0, err
	}
	if err := c.addLedger(ctx); err != nil {
		return nil, 0, err
	}
	return c.wrong(), c.to, nil
}

// of returns the comparison's record of a group, or a new one. It returns nil if the group's hash is outside the range
// that is being compared.
func (c *comparison) of(group row) *comparedGroup {
	id := groupID(group)
	g := c.groups[id]
	if g == nil && c.holds(id) {
		g = &comparedGroup{group: group, added: new(big.Rat)}
		c.groups[id] = g
		c.size += int64(len(id)) + groupCost
	}
	return g
}

func groupID(group row) string { return string(appendRows(nil, []row{group})) }

// narrow halves the range of hashes that is being compared, until its groups fit into memory.
func (c *comparison) narrow() {
	for c.size > c.maxSize && c.to > c.from {
		c.to = c.from + (c.to-c.from)/2
		for id := range c.groups {
			if !c.holds(id) {
				delete(c.groups, id)
				c.size -= int64(len(id)) + groupCost
			}
		}
	}
}

const statesRead = 1000

// addLedger adds up the amounts in the states of all cells. It reads them in pages, because in between it must look up
// groups in the table, and a connection can't do that while it reads.
func (c *comparison) addLedger(ctx context.Context) error {
	var entity, cell []byte
	for {
		var unmatched []row
		n := 0
		condition, args := "TRUE", []any(nil)
		if entity != nil {
			condition, args = beyondCell, []any{entity, entity, cell}
		}
		err := eachState(ctx, c.q, func(e, id []byte, state cellState) error {
			n++
			entity, cell = append(entity[:0], e...), append(cell[:0], id...)
			some, err := c.add(state)
			unmatched = append(unmatched, some...)
			return err
		}, condition+inOrder+strconv.Itoa(statesRead), args...)
		if err != nil {
			return err
		}
		if err := c.match(ctx, unmatched); err != nil {
			return err
		}
		if n < statesRead {
			return nil
		}
	}
}

// byCollation reports whether groups that the table's collation treats as equal count as one. They do, unless the
// source distinguishes them (keeper.loose).
func (c *comparison) byCollation() bool {
	return len(c.k.loose) == 0 && slices.ContainsFunc(c.k.group(), (*column).collates)
}

// add adds a cell's contributions to groups that the comparison has a record of, and returns those whose groups must
// first be looked up in the table.
func (c *comparison) add(state cellState) (unmatched []row, err error) {
	collates := c.byCollation()
	for _, v := range state {
		if v.contribution() == "" || !c.ids[v.view] {
			continue
		}
		kept, err := parseRows(v.kept)
		if err != nil {
			return nil, err
		}
		for _, r := range kept {
			id := groupID(r[:len(r)-1])
			if g := c.groups[id]; g != nil {
				g.added.Add(g.added, rational(r[len(r)-1]))
			} else if collates || c.holds(id) {
				unmatched = append(unmatched, r)
			}
		}
	}
	return unmatched, nil
}

// match adds contributions to groups that the comparison has no record of yet. If the table lacks a contribution's
// group, but has a group that its collation treats as equal, the contribution counts for the latter.
func (c *comparison) match(ctx context.Context, unmatched []row) error {
	for some := range slices.Chunk(unmatched, maxList) {
		shown, err := readSums(ctx, c.q, c.k, " WHERE "+c.k.isOneOf(some))
		if err != nil {
			return err
		}
		same := map[string]bool{}
		for _, r := range shown {
			same[groupID(r[:len(r)-1])] = true
		}
		var others []row
		for _, r := range some {
			if group := r[:len(r)-1]; same[groupID(group)] || !c.byCollation() {
				c.count(group, r)
			} else {
				others = append(others, r)
			}
		}
		for few := range slices.Chunk(others, groupsAsked) {
			if err := c.matchByCollation(ctx, few); err != nil {
				return err
			}
		}
	}
	return nil
}

// count adds a contribution to a group, unless the group's hash is outside the range that is being compared.
func (c *comparison) count(group, contribution row) {
	if g := c.of(group); g != nil {
		g.added.Add(g.added, rational(contribution[len(contribution)-1]))
		c.narrow()
	}
}

// groupsAsked is how many groups one statement looks up, each by its own SELECT.
const groupsAsked = 100

// matchByCollation adds each contribution to the group in the table that the collation treats as equal. If there is
// none, it adds the contribution to the contribution's own group.
func (c *comparison) matchByCollation(ctx context.Context, contributions []row) error {
	var selects []string
	var groups []row
	one := selectList(c.k.fields) + " FROM " + c.k.table + " WHERE "
	for n, r := range contributions {
		selects = append(selects, "(SELECT "+strconv.Itoa(n)+", "+one+c.k.isOneOf([]row{r})+")")
		groups = append(groups, r[:len(r)-1])
	}
	columns := append([]*column{{typ: "bigint"}}, c.k.fields...)
	err := eachBound(ctx, c.q, columns, func(r row) { groups[r[0].(int64)] = r[1 : len(r)-1] },
		strings.Join(selects, " UNION ALL "))
	if err != nil {
		return err
	}
	for n, r := range contributions {
		c.count(groups[n], r)
	}
	return nil
}

func (c *comparison) wrong() (wrong []wrongSum) {
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[id]
		lacks := new(big.Rat).Set(g.added)
		held := g.stored != nil
		kind := judge.Difference(g.added.Sign() != 0, held, held && g.added.Cmp(g.stored) == 0) // a sum of 0 has no row
		if kind == "" {
			continue
		}
		w := wrongSum{id: id, kind: kind}
		if held {
			lacks.Sub(lacks, g.stored)
		}
		w.lacks = append(slices.Clone(g.group), replicator.Number(c.k.amount().sumText(lacks)))
		wrong = append(wrong, w)
	}
	return wrong
}
