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

// wrongSum is a group whose sum in the table is not that of the ledger.
type wrongSum struct {
	id    string // the group in its stored form
	lacks row    // the group, and what the sum in the table lacks
	kind  replicator.DifferenceKind
}

// span is a range of groups, by the hashes of their stored forms. The ledger is in the order of cells, not of groups:
// so that it is compared with a table of any size in bounded memory, it is read once for each span, and spans are as
// wide as there is room for.
type span struct{ from, to uint64 }

// everyGroup is the span of all.
func everyGroup() span { return span{0, math.MaxUint64} }

func (s span) holds(id string) bool { h := placeOf(id); return s.from <= h && h <= s.to }

// placeOf is a group's place among the spans.
func placeOf(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // it never fails
	return h.Sum64()
}

// DefaultSumBytes is about how much memory the groups take whose sums are compared at once.
const DefaultSumBytes = 32 << 20

// groupCost is about what a group costs besides its stored form.
const groupCost = 400

// comparison holds the sums of a span's groups while they are compared. A group that the table's collation takes for
// another one, which the table shows, is that one.
type comparison struct {
	span
	k      *keeper
	q      querier
	ids    map[uint32]bool // the view's, one for each source
	groups map[string]*comparedGroup
	size   int64
	most   int64
}

type comparedGroup struct {
	group  row
	added  *big.Rat // what the ledger says
	stored *big.Rat // what the table says; nil if it has no row
}

// wrongSumsIn compares the ledger, of all sources, with the table, from the beginning of a span as far as the bound
// allows. It returns where it ended.
func wrongSumsIn(
	ctx context.Context, tx *sql.Tx, k *keeper, s span, most int64,
) (wrong []wrongSum, end uint64, err error) {
	c := &comparison{span: s, k: k, q: tx, ids: map[uint32]bool{}, groups: map[string]*comparedGroup{}, most: most}
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

// of is what is known of a group; nil outside the span.
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

// groupID is the stored form of a group.
func groupID(group row) string { return string(appendRows(nil, []row{group})) }

// narrow makes the span as small as the bound wants it.
func (c *comparison) narrow() {
	for c.size > c.most && c.to > c.from {
		c.to = c.from + (c.to-c.from)/2
		for id := range c.groups {
			if !c.holds(id) {
				delete(c.groups, id)
				c.size -= int64(len(id)) + groupCost
			}
		}
	}
}

// statesRead is how many cells' states are read at a time.
const statesRead = 1000

// addLedger adds up what all cells contribute. It pages through them, because groups are looked up in between.
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

// byCollation reports whether groups are one where the table's collation takes them for one. It is so where the source
// does, too. Where it does not (keeper.loose), groups that met in one row have made its sum wrong.
func (c *comparison) byCollation() bool {
	return len(c.k.loose) == 0 && slices.ContainsFunc(c.k.group(), (*column).collates)
}

// add adds what a cell contributes to known groups, and returns the rest. Where groups are not one by collation, a
// group outside the span can't be one of those inside.
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

// match adds contributions to groups that are not known: to those that the table shows them under, if it does. Most
// are shown as they are, in another span.
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

// count adds a contribution to a group, if that is in the span.
func (c *comparison) count(group, contribution row) {
	if g := c.of(group); g != nil {
		g.added.Add(g.added, rational(contribution[len(contribution)-1]))
		c.narrow()
	}
}

// groupsAsked is how many groups are looked up one by one in a statement.
const groupsAsked = 100

// matchByCollation adds contributions to the groups that the table's collation takes for theirs.
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

// wrong are the groups that differ.
func (c *comparison) wrong() (wrong []wrongSum) {
	for _, id := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[id]
		lacks := new(big.Rat).Set(g.added)
		held := g.stored != nil
		kind := judge.Difference(g.added.Sign() != 0, held, held && g.added.Cmp(g.stored) == 0) // a sum of 0 is no row
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
