package mysql

import (
	"context"
	"slices"
	"sync/atomic"

	"replicator"
	"replicator/sinks/judge"
)

// Target is an open target for some views of one source. It is safe for concurrent use.
type Target struct {
	sink   *Sink
	source string
	others judge.Others // the other sources that may have a row of an entity
	views  []*replicator.View
	kept   []*keeper // the views' tables, in the order of views
	shared bool      // several cells of one key feed at least one view
	valued bool      // keeper.valued is set for at least one view
	whole  bool      // at least one view merges cells, and keeper.valued is not set for it
	crowds crowds
	server *server
	epoch  int64 // epoch in replicator_locks at the open; a swap raises it, and this target must be opened again

	retired map[uint32]bool // ids of views that were forgotten or redefined
	marks   *judge.Marks

	guesses atomic.Bool // true until a guess about which cells are new was wrong: see novelty.go
	novelty *novelty    // knows which cells are new; nil: any cell may have a state
}

var _ replicator.Target = (*Target)(nil)

// salt is hashed before a contribution, to make its digest. Each view has its own salt, so equal contributions to two
// views have different digests.
type salt = []byte

// Versions implements replicator.Target. It reads the versions from the cells' states.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	versions, err := t.versions(ctx, cells, func(replicator.Cell, *keeper) bool { return true })
	return versions.Spans(), err
}

// versions returns the versions of cells, by their states. counts reports whether a view's state is to be used for a
// cell.
func (t *Target) versions(
	ctx context.Context, cells []replicator.Cell, counts func(replicator.Cell, *keeper) bool,
) (judge.Versions, error) {
	entities := make([]string, len(cells))
	for i, c := range cells {
		entities[i] = entityID(t.source, c.Key)
	}
	states, err := readStates(ctx, t.sink.db, slices.Compact(slices.Sorted(slices.Values(entities))))
	if err != nil {
		return nil, classify(err, "reading versions from table "+stateTable)
	}
	versions := judge.NewVersions(len(cells))
	for i, c := range cells {
		state := states.of(entities[i], cellID(c))
		for _, k := range t.kept {
			if k.view.Feeds(c) && counts(c, k) {
				versions.Add(i, state.find(k.id).known().State.Version)
			}
		}
	}
	return versions, nil
}
