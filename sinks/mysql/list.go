package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"

	"replicator"
)

var (
	_ replicator.Lister = (*Target)(nil)
	_ replicator.Lister = (*shardedTarget)(nil)
)

// listed are the columns by which an index's entries, or a counter's sum, are found.
func (k *keeper) listed() []*column {
	if k.ledger {
		return k.group()
	}
	return k.fields
}

// ListedBy implements replicator.Lister. It names the columns of an index's value, or of a counter's group.
func (t *Target) ListedBy(view int) (names []string) {
	for _, c := range t.kept[view].listed() {
		names = append(names, c.name)
	}
	return names
}

// List implements replicator.Lister. It reads an index's entries from the index's table. For a counter, it reads all
// states of the source, because only they show the parts of a sum.
func (t *Target) List(ctx context.Context, view int, values []string, limit int) (replicator.Listing, error) {
	k := t.kept[view]
	wanted, err := k.readValues(values)
	if err != nil {
		return replicator.Listing{}, err
	}
	found := replicator.Listing{Place: "table " + settingsOf(k.view).Table}
	if !k.ledger {
		err := t.listEntries(ctx, k, wanted, limit, &found)
		return found, classify(err, "view "+k.view.Name+": listing the keys that have a value")
	}
	tx, err := t.sink.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err == nil {
		err = rollback(tx, t.listAmounts(ctx, tx, k, wanted, limit, &found))
	}
	return found, classify(err, "view "+k.view.Name+": listing the amounts of a sum")
}

// readValues converts an operator's texts to the types of the listed columns. Binary values are hexadecimal digits.
func (k *keeper) readValues(texts []string) (row, error) {
	columns := k.listed()
	wanted := make(row, len(columns))
	for i, c := range columns {
		var v any = texts[i]
		if isBinary(c) {
			b, err := hex.DecodeString(strings.ReplaceAll(texts[i], "-", ""))
			if err != nil {
				return nil, fmt.Errorf("%w: column %s is %s, and %q is neither hexadecimal digits nor a UUID",
					replicator.ErrNoValue, c.name, c.declared, texts[i])
			}
			v = b
		}
		var err error
		if wanted[i], err = c.convert(v); err != nil {
			return nil, fmt.Errorf("%w: column %s: %w", replicator.ErrNoValue, c.name, err)
		}
	}
	return wanted, nil
}

func isBinary(c *column) bool {
	return strings.Contains(c.typ, "binary") || strings.Contains(c.typ, "blob")
}

func (t *Target) listEntries(ctx context.Context, k *keeper, wanted row, limit int, found *replicator.Listing) error {
	condition := oneOf(k.fields, 1, func(int) []any { return wanted })
	for after := ""; ; {
		keys, next, err := t.pageKeys(ctx, k, condition, after, maxList)
		if err != nil {
			return err
		}
		theirs, err := t.elsewhere(ctx, k, keys)
		if err != nil {
			return err
		}
		for i, key := range keys {
			if from := k.view.From[0]; !theirs[i] {
				found.Add(replicator.Listed{Cell: replicator.Cell{Table: from.Table, Key: key, Column: from.Column}}, limit)
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// listAmounts finds the cells that contribute to `group`, or to a group in the table that the table's collation treats
// as equal to `group`.
func (t *Target) listAmounts(
	ctx context.Context, tx *sql.Tx, k *keeper, group row, limit int, found *replicator.Listing,
) error {
	shown, err := readSums(ctx, tx, k, " WHERE "+k.isOneOf([]row{group}))
	if err != nil {
		return err
	}
	last := len(k.group())
	ids := map[string]bool{groupID(group): true}
	for _, r := range shown {
		ids[groupID(r[:last])] = true
		found.Shown = replicator.FormatValue(k.amount().shown(r[last]))
	}
	found.Sum = new(big.Rat)
	first, end := sourceRange(t.source)
	return eachState(ctx, tx, func(entity, cell []byte, state cellState) error {
		contribution := state.find(k.id).contribution()
		if contribution == "" {
			return nil
		}
		rows, err := parseRows(contribution)
		if err != nil {
			return err
		}
		var amount *big.Rat
		for _, r := range rows {
			if ids[groupID(r[:last])] {
				amount = cmp.Or(amount, new(big.Rat))
				amount.Add(amount, rational(r[last]))
			}
		}
		if amount == nil {
			return nil
		}
		c, err := parseCell(t.source, string(entity), string(cell))
		found.Add(replicator.Listed{Cell: c, Amount: amount}, limit)
		return err
	}, "entity >= ? AND entity < ? ORDER BY entity, cell", first, end)
}

// ListedBy implements replicator.Lister. It asks one shard, because all shards have the same columns.
func (t *shardedTarget) ListedBy(view int) []string {
	for shard, local := range t.local {
		if local[view] != absent {
			return t.shards[shard].ListedBy(local[view])
		}
	}
	return nil
}

// List implements replicator.Lister. It also lists entries in a shard where they do not belong.
func (t *shardedTarget) List(
	ctx context.Context, view int, values []string, limit int,
) (found replicator.Listing, err error) {
	for shard, local := range t.local {
		if local[view] == absent {
			continue
		}
		some, err := t.shards[shard].List(ctx, local[view], values, limit)
		if err != nil {
			return found, t.sink.in(shard, err)
		}
		found.Join(some, limit)
	}
	return found, nil
}
