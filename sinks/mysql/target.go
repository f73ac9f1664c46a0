package mysql

import (
	"context"
	"math"
	"sync"

	"replicator"
)

// Target is some views of one source, open. It is safe for concurrent use.
type Target struct {
	sink   *Sink
	source string
	views  []*replicator.View
	kept   []*keeper // the views, in their order
	shared bool      // some view is fed by several cells of one key
	server *server
	epoch  int64 // of the sink, when the target was opened: see shadow.go

	retired map[uint32]bool // ids of views that are no more

	mu     sync.Mutex
	marked []replicator.Standing // by view, as this target saw or marked it last
}

var _ replicator.Target = (*Target)(nil)

// salt makes a view's digests its own.
type salt = []byte

// Versions implements replicator.Target.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]int64, error) {
	versions, err := t.versions(ctx, cells, func(replicator.Cell, *keeper) bool { return true })
	return known(versions), err
}

// noView is higher than any version: that of a cell that feeds no view.
const noView int64 = math.MaxInt64

// known makes NoVersion of the versions of cells that feed no view.
func known(versions []int64) []int64 {
	for i, v := range versions {
		if v == noView {
			versions[i] = replicator.NoVersion
		}
	}
	return versions
}

// versions returns the version that each cell stands at, the lowest over the views that it feeds and that count.
func (t *Target) versions(ctx context.Context, cells []replicator.Cell, counts func(replicator.Cell, *keeper) bool) ([]int64, error) {
	entities := make([]string, len(cells))
	for i, c := range cells {
		entities[i] = entityID(t.source, c.Key)
	}
	states, err := readStates(ctx, t.sink.db, entities, nil)
	if err != nil {
		return nil, classify(err, "reading versions from table "+stateTable)
	}
	versions := make([]int64, len(cells))
	for i, c := range cells {
		versions[i] = noView
		state := states[entities[i]][cellID(c)]
		for _, k := range t.kept {
			if !k.view.Feeds(c) || !counts(c, k) {
				continue
			}
			version := replicator.NoVersion
			if v := state.find(k.id); v != nil {
				version = v.state.Version
			}
			versions[i] = min(versions[i], version)
		}
	}
	return versions, nil
}
