package pipeline

import (
	"context"
	"testing"

	"replicator"
)

// otherKeys is a source whose tables have keys that can't be compared.
type otherKeys struct{ replicator.Source }

func (otherKeys) SameKeys(context.Context, []string) error { return replicator.ErrOtherKeys }

func TestOnlyViewsThatMergeTablesByTheirKeysNeedKeysOfOneType(t *testing.T) {
	for kind, refused := range map[string]bool{
		"row": true, "hash": true, "json": true, "document": true, "index": true,
		"counter": false, "ranking": false, "changelog": false,
	} {
		v := &replicator.View{Name: "v", Kind: kind, From: []replicator.Feed{{Table: "a"}, {Table: "b"}}}
		if got, err := sameKeys(t.Context(), otherKeys{}, v); err != nil || (got != nil) != refused {
			t.Errorf("a view of kind %s is refused: %v, %v", kind, got, err)
		}
		v.From = v.From[:1]
		if got, err := sameKeys(t.Context(), otherKeys{}, v); err != nil || got != nil {
			t.Errorf("a view of kind %s of one table is refused: %v, %v", kind, got, err)
		}
	}
}
