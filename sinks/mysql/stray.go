package mysql

import (
	"context"
	"math"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

var _ replicator.Tidier = (*Target)(nil)

// Strays implements replicator.Tidier. It lists the groups of a counter whose sum is wrong. For other kinds of views it
// returns nothing: Held lists their orphaned entries.
func (t *Target) Strays(
	ctx context.Context, view int, after string, _ int,
) (strays []replicator.Stray, next string, err error) {
	k := t.kept[view]
	if !k.ledger {
		return nil, "", nil
	}
	s := everyGroup()
	if err := judge.At(after, &s.from); err != nil {
		return nil, "", err
	}
	wrong, end, err := t.wrongSums(ctx, k, s)
	for _, s := range wrong {
		strays = append(strays, replicator.Stray{Name: s.name(k), At: s.id, Kind: s.kind})
	}
	if err == nil && end < s.to {
		next = judge.Cursor(end + 1)
	}
	return strays, next, classify(err, "view "+k.view.Name+": comparing the sums with the cells' amounts")
}

func (s wrongSum) name(k *keeper) string {
	var parts []string
	for i, v := range s.lacks[:len(s.lacks)-1] {
		parts = append(parts, replicator.FormatValue(k.fields[i].shown(v)))
	}
	return strings.Join(parts, ":")
}

// Tidy implements replicator.Tidier. It corrects the sums of those groups of a counter that Strays listed.
func (t *Target) Tidy(ctx context.Context, view int, strays []replicator.Stray) (mended int, err error) {
	if len(strays) == 0 {
		return 0, nil
	}
	k, named := t.kept[view], map[string]bool{}
	around := span{from: math.MaxUint64}
	for _, s := range strays {
		named[s.At] = true
		around.from, around.to = min(around.from, hashOf(s.At)), max(around.to, hashOf(s.At))
	}
	mended, err = t.mendSums(ctx, k, around, func(s wrongSum) bool { return named[s.id] })
	return mended, classify(err, "view "+k.view.Name+": correcting the sums")
}
