package mysql

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"replicator"
)

// counterKind stores one row per group: the group's columns, and the sum of the amounts that cells contribute. A group
// whose sum is 0 has no row.
//
// Many cells share a row, so each cell's state records its amount. A change subtracts the old amount and adds the new
// one in the transaction that writes the state, so a replay adds nothing. All writers write groups in the same order,
// to avoid deadlocks.
type counterKind struct{}

// group returns the columns of a counter's group: all fields except the last, which is the amount.
func (k *keeper) group() []*column { return k.fields[:len(k.fields)-1] }
func (k *keeper) amount() *column  { return k.fields[len(k.fields)-1] }

// isOneOf returns the SQL condition for the rows of the given groups of a counter. Each element of `groups` begins with
// a group's values. If a sum comes after these values, it is ignored.
func (k *keeper) isOneOf(groups []row) string {
	return oneOf(k.group(), len(groups), func(n int) []any { return groups[n] })
}

func (k *keeper) selectSums() string { return "SELECT " + selectList(k.fields) + " FROM " + k.table }

func (counterKind) check(k *keeper, sh *shape) []string {
	if len(k.fields) < 2 {
		return []string{"a counter needs a group"}
	}
	var names []string
	for _, c := range k.group() {
		names = append(names, c.name)
	}
	problems := oneRow(k, sh, names, "group")
	if a := k.amount(); integerBits[a.typ] == 0 && a.typ != "decimal" {
		problems = append(problems, fmt.Sprintf("its column %s is %s, which can't add exactly: "+
			"make it a BIGINT or a DECIMAL", a.name, a.declared))
	}
	return problems
}

func (counterKind) row(k *keeper, e replicator.Entry, version int64) (row, error) {
	if slices.Contains(e.Fields, nil) {
		return nil, nil // the entry has no group, or no amount
	}
	r, err := k.convertFields(e, version)
	if err != nil {
		return nil, err
	}
	if d, ok := exact(r[len(r)-1]); !ok || d == (digits{}) {
		return nil, nil // zero adds nothing
	}
	return r, nil
}

// rows is never called: it makes the rows of one key, and a counter's group combines cells of many keys.
func (counterKind) rows(*keeper, [][]row) []row { return nil }

type sum struct {
	group row
	total *big.Rat
}

// sums are amounts by encoded group.
type sums map[string]*sum

// add adds the amounts of contributions. If back is set, it subtracts them.
func (s sums) add(rows []row, back bool) {
	for _, r := range rows {
		last := len(r) - 1
		amount := rational(r[last])
		if back {
			amount.Neg(amount)
		}
		id := string(appendRows(nil, []row{r[:last]}))
		if of, ok := s[id]; ok {
			of.total.Add(of.total, amount)
		} else {
			s[id] = &sum{group: r[:last], total: amount}
		}
	}
}

func rational(bound any) *big.Rat {
	n := new(big.Rat)
	if d, ok := exact(bound); ok {
		n.SetString(d.String())
	}
	return n
}

func (c *column) sumText(n *big.Rat) string {
	scale := 0
	if c.typ == "decimal" {
		scale = c.scale
	}
	d, _ := parseDigits(n.FloatString(scale))
	return d.String()
}

func (counterKind) write(w *writer, k *keeper, changes []change) error {
	added := sums{}
	for _, c := range changes {
		added.add(c.taken, true)
		for _, rows := range c.rows {
			added.add(rows, false)
		}
	}
	var rows []row
	var mayVanish []row
	apart := map[string][]row{} // groups, by the text of an amount that the column's type can't hold
	for _, id := range slices.Sorted(maps.Keys(added)) {
		s := added[id]
		if s.total.Sign() == 0 {
			continue
		}
		if s.total.Sign() < 0 || !k.amount().unsigned {
			mayVanish = append(mayVanish, s.group)
		}
		text := k.amount().sumText(s.total)
		bound, err := k.amount().convert(replicator.Number(text))
		if err != nil { // the amount is too large or, in an UNSIGNED column, negative: insert 0, and add it below
			bound = int64(0)
			apart[text] = append(apart[text], s.group)
		}
		rows = append(rows, append(slices.Clone(s.group), bound))
	}
	if len(rows) == 0 {
		return nil
	}
	a := k.amount().quoted
	suffix := w.server.rowAlias() + " ON DUPLICATE KEY UPDATE " + a + " = " + k.table + "." + a + " + " +
		w.server.newRow(a)
	if err := w.insert(k, rows, make([][]any, len(rows)), suffix); err != nil {
		return err
	}
	for _, text := range slices.Sorted(maps.Keys(apart)) {
		// The number is part of the statement: the server would add a bound text as a DOUBLE.
		if err := w.onGroups(k, apart[text], "UPDATE "+k.table+" SET "+a+" = "+a+" + "+text+" WHERE "); err != nil {
			return err
		}
	}
	if err := w.keptApart(k, rows); err != nil {
		return err
	}
	return w.removeZeroes(k, mayVanish)
}

// keptApart fails if the server added an amount to another group's row, because a column's collation treats the two
// groups as equal.
func (w *writer) keptApart(k *keeper, rows []row) error {
	if len(k.loose) == 0 {
		return nil
	}
	group := len(k.group())
	id := func(r row) string { return string(appendRows(nil, []row{r[:group]})) }
	for some := range slices.Chunk(rows, maxList) {
		found, err := w.sums(k, " WHERE "+k.isOneOf(some))
		if err != nil {
			return err
		}
		held := map[string]bool{}
		for _, r := range found {
			held[id(r)] = true
		}
		if slices.ContainsFunc(some, func(r row) bool { return !held[id(r)] }) {
			c := k.loose[0]
			return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s, table %s: two groups share a row, "+
				"because the table's column %s (%s) treats some different values as equal. Run %s, and then "+
				"`replicator verify --repair %s`",
				k.view.Name, settingsOf(k.view).Table, c.name, c.collation, k.alter, k.view.Name)), k.view.Name)
		}
	}
	return nil
}

// onGroups runs a statement on the rows of the groups. The statement must end in WHERE: onGroups appends the condition
// that finds these rows.
func (w *writer) onGroups(k *keeper, groups []row, statement string) error {
	for some := range slices.Chunk(groups, maxList) {
		w.write(statement, k.isOneOf(some))
		if err := w.run(k.viewIndex); err != nil {
			return err
		}
	}
	return nil
}

// removeZeroes deletes the rows of groups whose sum is 0, one at a time. A DELETE with a list of groups would read a
// small table from end to end, and wait for every row that another transaction has locked.
func (w *writer) removeZeroes(k *keeper, groups []row) error {
	var zeroes []row
	for some := range slices.Chunk(groups, maxList) {
		found, err := w.sums(k, " WHERE "+k.amount().quoted+" = 0 AND "+k.isOneOf(some))
		if err != nil {
			return err
		}
		zeroes = append(zeroes, found...)
	}
	for _, r := range zeroes {
		w.write("DELETE FROM ", k.table, " WHERE ", k.isOneOf([]row{r}), " AND ", k.amount().quoted, " = 0")
		if err := w.run(k.viewIndex); err != nil {
			return err
		}
	}
	return nil
}

// sums reads rows of a counter's table, after sending all pending writes.
func (w *writer) sums(k *keeper, where string) ([]row, error) {
	if err := w.send(); err != nil {
		return nil, err
	}
	found, err := readSums(w.ctx, w.conn, k, where)
	if err != nil {
		return nil, &viewError{view: k.viewIndex, err: err}
	}
	return found, nil
}

func readSums(ctx context.Context, q querier, k *keeper, where string) (sums []row, err error) {
	err = eachBound(ctx, q, k.fields, func(r row) { sums = append(sums, r) }, k.selectSums()+where)
	return sums, err
}
