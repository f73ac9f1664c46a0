package redis

import (
	"context"
	"fmt"
	"strconv"

	"replicator"
)

// Dead implements replicator.Target. A set of the sink's own names the entities; their records tell which of their
// cells it is.
func (t *Target) Dead(ctx context.Context, view int, after string, limit int) (cells []replicator.Cell, next string, err error) {
	k := t.keepers[view]
	cursor := uint64(0)
	if after != "" {
		if cursor, err = strconv.ParseUint(after, 10, 64); err != nil {
			return nil, "", fmt.Errorf("%q is not where a page of dead letters begins", after)
		}
	}
	texts, cursor, err := t.sink.rdb.SScan(ctx, k.dead, cursor, "", int64(limit)).Result()
	if err != nil {
		return nil, "", classify(err, "view "+k.view.Name+": listing its dead letters")
	}
	keys := make([]string, len(texts))
	for i, text := range texts {
		keys[i] = recordKey(t.source, text)
	}
	stored, err := t.sink.get(ctx, keys)
	if err != nil {
		return nil, "", classify(err, "reading records")
	}
	for i, s := range stored {
		r, err := parseRecord(s)
		if err != nil {
			return nil, "", replicator.Fatal(fmt.Errorf("%s: %w", keys[i], err))
		}
		for _, c := range r.cells {
			if v := r.find(c.cell, k.id); v != nil && v.dead() && v.generation == k.generation {
				cells = append(cells, c.cell)
			}
		}
	}
	if cursor != 0 {
		next = strconv.FormatUint(cursor, 10)
	}
	return cells, next, nil
}
