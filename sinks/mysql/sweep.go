package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/internal/uuid"
)

// Unclaimed implements replicator.Tidier. It finds the keys in the view's table to which no cell contributes, as the
// states show. Of each such key, it returns the cells that could feed the view, one for each element of View.From. The
// caller re-reads these cells, which removes orphaned entries. In a counter, Unclaimed corrects wrong sums instead.
func (t *Target) Unclaimed(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	k := t.kept[view]
	if k.ledger {
		_, err := t.mendSums(ctx, k, everyGroup(), func(wrongSum) bool { return true })
		return nil, "", classify(err, "view "+k.view.Name+": comparing the sums with the cells' amounts")
	}
	if k.fresh.Load() {
		return nil, "", nil
	}
	doing := "view " + k.view.Name + ": looking for orphaned entries"
	found, next, err := t.pageKeys(ctx, k, "", after, limit)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	owners, err := ownersOf(ctx, t.sink.db, k.view.Name)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	claimed, err := claimed(ctx, t.sink.db, owners, found)
	if err != nil {
		return nil, "", classify(err, doing)
	}
	var cells []replicator.Cell
	for i, key := range found {
		if claimed[i] {
			continue
		}
		for _, f := range k.view.From {
			cells = append(cells, replicator.Cell{Table: f.Table, Key: key, Column: f.Column})
		}
	}
	return cells, next, nil
}

// claimed reports, for each key, whether some cell of the key contributes, from any source.
func claimed(ctx context.Context, q querier, owners []owner, keys []replicator.Key) ([]bool, error) {
	var entities []string
	for _, key := range keys {
		for _, o := range owners {
			entities = append(entities, entityID(o.source, key))
		}
	}
	states, err := readStates(ctx, q, entities)
	if err != nil {
		return nil, err
	}
	claimed := make([]bool, len(keys))
	for i := range keys {
		for j, o := range owners {
			for _, state := range states[entities[i*len(owners)+j]] {
				claimed[i] = claimed[i] || state.views.find(o.id).known().Shown
			}
		}
	}
	return claimed, nil
}

// owner is a source that feeds a view, with the view's id in that source's states.
type owner struct {
	source string
	id     uint32
	salt   salt // for the digests in that source's states; nil if ownersOf made the owner
}

// ownersOf returns all sources that feed a view, this one included.
func ownersOf(ctx context.Context, q querier, view string) (all []owner, err error) {
	err = eachRow(ctx, q, func(rows *sql.Rows) error {
		var o owner
		err := rows.Scan(&o.source, &o.id)
		all = append(all, o)
		return err
	}, "SELECT source, id FROM "+viewsTable+" WHERE name = ?", view)
	return all, err
}

// keyKinds returns a sample value for each part of the key of the view's first table. The sample has the Go type of the
// part (keyKind). If the source can't be asked for its columns, the values of a stored cell's key are the samples; nil
// if there is none.
func (t *Target) keyKinds(ctx context.Context, k *keeper) ([]any, error) {
	table := k.view.From[0].Table
	from := t.sink.origins(t.source)
	var kinds []any
	for _, name := range t.sink.tables[table].Key {
		c, err := from.column(ctx, t.sink.tables[table], "$"+name)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return t.knownKinds(ctx, k.view.Name, table)
		}
		kinds = append(kinds, c.keyKind())
	}
	return kinds, nil
}

// keyKind returns a sample of the Go type that the column's values have in a replicator.Key. For a DECIMAL or a time,
// it is a text with as many digits after the point as the column's values have.
func (c *SourceColumn) keyKind() any {
	_, digits, _ := strings.Cut(strings.TrimRight(c.Type, ") unsigedzrofl"), "(")
	switch kind := c.kind(); kind {
	case "year", "bit":
		return int64(0)
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return []byte(nil)
	case "decimal":
		_, digits, _ = strings.Cut(digits, ",")
		fallthrough
	case "datetime", "timestamp", "time":
		n, _ := strconv.Atoi(digits)
		return "0." + strings.Repeat("0", n)
	default:
		if integerBits[kind] != 0 {
			return int64(0)
		}
	}
	return ""
}

// knownKinds returns the values of some stored cell's key, as samples of their types; nil if there is no cell. It also
// looks for cells of other sources, because the target's source may have no states yet.
func (t *Target) knownKinds(ctx context.Context, view, table string) ([]any, error) {
	owners, err := ownersOf(ctx, t.sink.db, view)
	if err != nil {
		return nil, err
	}
	isOwn := func(o owner) bool { return o.source == t.source }
	if i := slices.IndexFunc(owners, isOwn); i > 0 {
		owners[0], owners[i] = owners[i], owners[0]
	}
	cell := cellID(replicator.Cell{Table: table})
	for _, o := range owners {
		from, to := sourceRange(o.source)
		var known cellPlace
		row := t.sink.db.QueryRowContext(ctx, "SELECT entity, cell FROM "+stateTable+
			" WHERE entity >= ? AND entity < ? AND cell >= ? AND cell < ? LIMIT 1",
			from, to, []byte(cell), after([]byte(cell)))
		err := row.Scan(&known.Entity, &known.Cell)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c, err := known.cell(o.source)
		if err != nil {
			return nil, err
		}
		return c.Key.Values()
	}
	return nil, nil
}

// sourceKey converts a target's key to the source's key. kinds has a sample value for each part of the source's key,
// and the part gets the sample's type.
func (k *keeper) sourceKey(values []sql.NullString, kinds []any) (replicator.Key, error) {
	parts := make([]any, len(k.keys))
	for i, c := range k.keys {
		at := k.keyOf[i]
		var known any
		if at < len(kinds) {
			known = kinds[at]
		}
		var err error
		if parts[at], err = c.asSource(values[i].String, known); err != nil {
			return "", fmt.Errorf("key column %s %w", c.name, err)
		}
	}
	return replicator.MakeKey(parts...)
}

// asSource converts the text of a key column to a value of the source's key, in the type and format of a sample value
// (known). Without a sample, the column's type decides.
func (c *column) asSource(text string, known any) (any, error) {
	number := integerBits[c.typ] != 0 || c.typ == "year" || c.typ == "bit"
	if c.typ == "bit" {
		text = fmt.Sprint(c.asBound(text))
	}
	if known == nil {
		switch {
		case number:
			known = int64(0)
		case strings.Contains(c.typ, "binary") || strings.Contains(c.typ, "blob"):
			known = []byte(nil)
		default:
			known = text
		}
	}
	switch known := known.(type) {
	case int64, uint64:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, errors.New("holds a value that is not an integer")
		}
		return n, nil
	case []byte:
		if id, ok := uuid.Parse(text); ok && c.typ != "varbinary" {
			return id, nil
		}
		return []byte(text), nil
	case string:
		switch {
		case c.typ == "binary" && len(text) == 16:
			return uuid.Text([]byte(text)), nil
		case number, c.typ == "decimal":
			if d, ok := parseDigits(strings.TrimLeft(text, " ")); ok {
				text = d.String()
			}
			return withDigitsAs(text, known), nil
		case c.typ == "datetime", c.typ == "timestamp", c.typ == "time":
			if whole, fraction, ok := strings.Cut(text, "."); ok {
				text = strings.TrimSuffix(whole+"."+strings.TrimRight(fraction, "0"), ".")
			}
			return withDigitsAs(text, known), nil
		}
	}
	return text, nil
}

// withDigitsAs appends zeros after the point until there are as many digits as in `other`, a sample of the source
// column. The source writes all values of a column with the same number of digits, and so do cells' keys.
func withDigitsAs(text, other string) string {
	_, digits, _ := strings.Cut(other, ".")
	_, own, point := strings.Cut(text, ".")
	if missing := len(digits) - len(own); missing > 0 {
		if !point {
			text += "."
		}
		text += strings.Repeat("0", missing)
	}
	return text
}

// Dead implements replicator.Target. No index finds dead letters, so it reads all states of the source, a page at a
// time.
func (t *Target) Dead(ctx context.Context, view int, from string, limit int) ([]replicator.Cell, string, error) {
	k := t.kept[view]
	cells, next, err := t.cells(ctx, from, limit, func(state cellState) bool { return state.find(k.id).known().Dead })
	return cells, next, classify(err, "view "+k.view.Name+": listing its dead letters")
}

// Outdated implements replicator.Target. It reads a page of the source's states, and returns the cells whose last
// applied op, in some view, is from before a log position.
func (t *Target) Outdated(
	ctx context.Context, before int64, from string, limit int,
) ([]replicator.Cell, string, error) {
	cells, next, err := t.cells(ctx, from, limit, func(state cellState) bool {
		return slices.ContainsFunc(t.kept, func(k *keeper) bool { return state.find(k.id).known().Outdated(before) })
	})
	return cells, next, classify(err, "looking for cells that a fill did not confirm")
}
