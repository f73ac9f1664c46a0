package mysql

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

// Held implements replicator.Target. It leaves out entries that another source's target lists.
func (t *Target) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	k := t.kept[view]
	doing := "view " + k.view.Name + ": listing its entries"
	if k.ledger {
		cells, next, err := t.heldInLedger(ctx, k, after, limit)
		return cells, next, classify(err, doing)
	}
	found, next, err := t.pageKeys(ctx, k, "", after, limit)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	theirs, err := t.elsewhere(ctx, k, found)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	cells := make([]replicator.Cell, 0, len(found))
	for i, key := range found {
		if !theirs[i] {
			cells = append(cells, replicator.Cell{Table: k.view.From[0].Table, Key: key, Column: k.view.From[0].Column})
		}
	}
	return cells, next, nil
}

// elsewhere reports, for each key, whether another source's target lists its entries, so that only one target lists
// them. A target lists the keys to which its own source's cells contribute. Keys without contributions are listed by
// the source whose name sorts first.
func (t *Target) elsewhere(ctx context.Context, k *keeper, keys []replicator.Key) ([]bool, error) {
	owners, err := ownersOf(ctx, t.sink.db, k.view.Name)
	if err != nil {
		return nil, err
	}
	isOwn := func(o owner) bool { return o.source == t.source }
	others := slices.DeleteFunc(slices.Clone(owners), isOwn)
	if len(others) == 0 {
		return make([]bool, len(keys)), nil
	}
	theirs, err := claimed(ctx, t.sink.db, others, keys)
	if err != nil {
		return nil, err
	}
	own, err := claimed(ctx, t.sink.db, slices.DeleteFunc(owners, func(o owner) bool { return !isOwn(o) }), keys)
	notFirst := slices.ContainsFunc(others, func(o owner) bool { return o.source < t.source })
	for i := range own {
		theirs[i] = !own[i] && (theirs[i] || notFirst)
	}
	return theirs, err
}

// Compare implements replicator.Target. It reads the tables in one snapshot. It compares the version column only if the
// source has a version. Otherwise a log position is stored there, and a change and a re-read of the same row store
// different ones.
func (t *Target) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	items := make([]*item, 0, len(ops))
	converter := t.newConverter(ops)
	for i := range ops {
		items = append(items, converter.convert(i))
	}
	tx, err := t.sink.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, classify(err, "comparing")
	}
	differences, err := t.compareIn(ctx, tx, items)
	return differences, rollback(tx, classify(err, "comparing"))
}

func (t *Target) compareIn(
	ctx context.Context, tx *sql.Tx, items []*item,
) ([]replicator.Difference, error) {
	states, err := t.readBatch(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	var differences []replicator.Difference
	for _, k := range t.kept {
		if k.ledger {
			differences = append(differences, ledgerDifferences(k, items, states)...)
			continue
		}
		expected, dead, err := t.expect(k, items, states)
		if err != nil {
			return nil, err
		}
		held, err := t.readHeld(ctx, tx, k, expected)
		if err != nil {
			return nil, err
		}
		wrong := map[string]bool{}
		for _, e := range expected {
			kind, lacking := k.differ(e.rows, held[e.id], e.versioned)
			if len(lacking) > 0 {
				alike, err := k.holdsAlike(ctx, tx, e.key, lacking)
				if err != nil {
					return nil, err
				}
				if !alike {
					kind = replicator.Stale
				}
			}
			if kind == "" {
				continue
			}
			wrong[e.item.entity] = true
			differences = append(differences, replicator.Difference{Op: e.item.opIndex, View: k.viewIndex, Kind: kind,
				States: k.statesOf(e.item.entity, items, states), Held: k.entries(held[e.id])})
		}
		for _, d := range dead {
			if !wrong[d.item.entity] {
				differences = append(differences, replicator.Difference{Op: d.item.opIndex, View: k.viewIndex,
					Kind: replicator.Dead, States: []replicator.State{d.item.known(k, states).State}, Err: d.why})
			}
		}
	}
	if len(differences) == 0 {
		return nil, nil
	}
	return differences, t.unreplaced(ctx, tx)
}

func (k *keeper) statesOf(entity string, items []*item, states *batchStates) (all []replicator.State) {
	for _, it := range items {
		if it.entity == entity && slices.ContainsFunc(it.values, func(c converted) bool { return c.keeper == k }) {
			all = append(all, it.known(k, states).State)
		}
	}
	return all
}

// unreplaced returns an error if a rebuilt view replaced one of the target's views since the target was opened. The
// states that were compared then belong to the replaced view.
func (t *Target) unreplaced(ctx context.Context, tx *sql.Tx) error {
	retired, err := retiredIDs(ctx, tx)
	if err == nil && slices.ContainsFunc(t.kept, func(k *keeper) bool { return retired[k.id] }) {
		err = errSwapped
	}
	return err
}

type expectation struct {
	item *item
	id   string // key, encoded for use as a map key
	key  []any
	rows []row

	versioned bool // the table's version column must equal the version in rows
}

type deadItem struct {
	item *item
	why  error // nil: the server refused the value, and the reason is not known here
}

func (it *item) known(k *keeper, states *batchStates) judge.Known {
	return states.own.of(it.entity, it.cell).find(k.id).known()
}

// versioned reports whether the table's version column must equal the op's version. If log positions are the versions,
// they need not be equal, because the stored one may come from a change or from a re-read.
func (it *item) versioned(k *keeper, states *batchStates) bool {
	v := it.op.Version
	return k.version != nil && v != it.op.Order && v != it.op.AsOf && v == it.known(k, states).State.Version
}

// isDead reports whether the view can't show one of the item's values, and why. why is nil if the server refused the
// value earlier: the state doesn't keep the server's reason.
func (it *item) isDead(i int, known judge.Known, states *batchStates) (why error, dead bool) {
	c := &it.values[i]
	if why = cmp.Or(it.op.Values[i].Err, c.err); why == nil {
		fellows, _ := states.fellows(c.keeper, it)
		why = judge.Claimed(*it.op, fellows)
	}
	return why, why != nil || len(c.rows) > 0 && known.Refused(*it.op)
}

// expect returns the rows that the view should have for each key, assuming that each item's op says what its cell is
// now. It also returns the items whose value the view can't hold, as dead letters.
func (t *Target) expect(
	k *keeper, items []*item, states *batchStates,
) (out []expectation, dead []deadItem, err error) {
	ordered := slices.Clone(items)
	slices.SortStableFunc(ordered, func(a, b *item) int { return cmp.Compare(a.entity, b.entity) })
	var all []contribution // all contributions to the key of out's last element
	whole := func() {
		if n := len(out); n > 0 {
			out[n-1].rows = k.kind.rows(k, inOrderOf(k.view, all))
		}
	}
	for _, it := range ordered {
		for i := range it.values {
			c := &it.values[i]
			if c.keeper != k {
				continue
			}
			why, isDead := it.isDead(i, it.known(k, states), states)
			if isDead {
				dead = append(dead, deadItem{it, why})
			}
			if c.key == nil || !k.shared && states.leads(k, it) {
				// No row can have the key, or the view shows another source's row, whose contents are unknown here.
				continue
			}
			id := string(appendRows(nil, []row{c.key}))
			if n := len(out); n == 0 || out[n-1].id != id {
				whole()
				e := expectation{item: it, id: id, key: c.key, versioned: k.version != nil}
				all = nil
				err := states.shown(k, it.entity, nil, func(cell string, rows []row) error {
					e.versioned = false
					var err error
					all, err = t.contributed(all, it.entity, cell, rows)
					return err
				})
				if err != nil {
					return nil, nil, err
				}
				out = append(out, e)
			}
			if !isDead {
				all = append(all, contribution{it.op.Cell, c.rows})
			}
			if e := &out[len(out)-1]; len(c.rows) > 0 {
				e.versioned = e.versioned && it.versioned(k, states)
			}
		}
	}
	whole()
	return out, dead, nil
}

// readHeld reads the rows that the view's table has for the expected keys: the fields, and the version if the table has
// a column for it.
func (t *Target) readHeld(
	ctx context.Context, tx *sql.Tx, k *keeper, expected []expectation,
) (map[string][]row, error) {
	columns := append(slices.Clone(k.keys), k.fields...)
	if k.version != nil {
		columns = append(columns, k.version)
	}
	held := map[string][]row{}
	for some := range slices.Chunk(expected, maxList) {
		err := eachBound(ctx, tx, columns, func(r row) {
			id := string(appendRows(nil, []row{r[:len(k.keys)]}))
			held[id] = append(held[id], r[len(k.keys):])
		}, "SELECT "+selectList(columns)+" FROM "+k.table+" WHERE "+
			oneOf(k.keys, len(some), func(n int) []any { return some[n].key }))
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}

func (k *keeper) entries(rows []row) []replicator.Entry {
	var entries []replicator.Entry
	for _, r := range rows {
		fields := slices.Clone(r[:len(k.fields)])
		for i, c := range k.fields {
			fields[i] = c.shown(fields[i])
		}
		entries = append(entries, replicator.Entry{Fields: fields})
	}
	return entries
}

// shown converts a bound value to the form for a report.
func (c *column) shown(v any) any {
	switch v := v.(type) {
	case string:
		switch c.typ {
		case "json":
			return replicator.RawJSON(v)
		case "decimal":
			return replicator.Number(v)
		}
	case float64:
		return replicator.Number(c.shortest(v))
	}
	return v
}

// asBound converts the server's text to the type that convert returns. A text that convert would refuse, because
// another program wrote it, stays a text.
func (c *column) asBound(text string) any {
	var v any = text
	switch c.typ {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return text
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit":
		v = []byte(text)
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "year":
		v = replicator.Number(text)
	case "float":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v = replicator.Number(c.shortest(f))
		}
	case "json":
		v = replicator.RawJSON(text)
	}
	bound, err := c.convert(v)
	if err != nil {
		return text
	}
	return bound
}

// differ compares `want`, the rows that a key should have, with `got`, the rows that it has. If the only difference is
// that rows are missing, kind is "", and `lacking` has these rows. The caller must then look for them in the table,
// because its collation may treat them as equal to other rows.
func (k *keeper) differ(want, got []row, versioned bool) (kind replicator.DifferenceKind, lacking []row) {
	if kind := judge.Difference(len(want) > 0, len(got) > 0, true); kind != "" || len(want) == 0 {
		return kind, nil
	}
	wanted, have := map[string]row{}, map[string]bool{}
	for _, r := range want {
		wanted[k.canonical(r)] = r
	}
	for _, r := range got {
		text := k.canonical(r)
		if have[text] || wanted[text] == nil || versioned && !k.sameVersion(wanted[text], r) {
			return replicator.Stale, nil
		}
		have[text] = true
	}
	for _, r := range want {
		if !have[k.canonical(r)] {
			lacking = append(lacking, r)
		}
	}
	return "", lacking
}

func (k *keeper) sameVersion(a, b row) bool {
	n := len(k.fields)
	return len(a) > n && len(b) > n && bytes.Equal(appendRows(nil, []row{a[n:]}), appendRows(nil, []row{b[n:]}))
}

// holdsAlike reports whether the table has, for each of the rows, one that its collation treats as equal.
func (k *keeper) holdsAlike(ctx context.Context, tx *sql.Tx, key []any, rows []row) (bool, error) {
	columns := append(slices.Clone(k.fields), k.keys...)
	for _, r := range rows {
		var held bool
		all := append(slices.Clone(r[:len(k.fields)]), key...)
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT * FROM "+k.table+" WHERE "+
			oneOf(columns, 1, func(int) []any { return all })+")").Scan(&held)
		if err != nil || !held {
			return false, err
		}
	}
	return true, nil
}

// canonical is a text that is the same for equal rows.
func (k *keeper) canonical(r row) string {
	values := make(row, len(k.fields))
	for i, c := range k.fields {
		values[i] = c.canonical(r[i])
	}
	return string(appendRows(nil, []row{values}))
}

func (c *column) canonical(v any) any {
	switch c.typ {
	case "set":
		if s, ok := v.(string); ok {
			parts := strings.Split(s, ",")
			slices.Sort(parts)
			return strings.Join(slices.Compact(parts), ",")
		}
	case "json":
		if s, ok := v.(string); ok {
			return canonicalJSON(s)
		}
	}
	return v
}

// canonicalJSON writes a document without spaces, with sorted members and numbers in one form.
func canonicalJSON(s string) string {
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return s
	}
	b, err := json.Marshal(withDigits(v))
	if err != nil {
		return s
	}
	return string(b)
}

func withDigits(v any) any {
	switch v := v.(type) {
	case json.Number:
		if d, ok := parseDigits(string(v)); ok {
			return json.Number(d.String())
		}
	case []any:
		for i := range v {
			v[i] = withDigits(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withDigits(v[name])
		}
	}
	return v
}
