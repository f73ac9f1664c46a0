package elastic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// Target is some views of one source, open. It is safe for concurrent use.
type Target struct {
	sink   *Sink
	source string
	views  []*replicator.View
	kept   []*keeper // the views, in their order

	memory memory

	// freshness is the share of documents that were new when they were written, lately, in thousandths.
	freshness atomic.Int64

	mu     sync.Mutex            // held by Mark
	marked []replicator.Standing // by view, as this target saw or marked it last
}

var (
	_ replicator.Target    = (*Target)(nil)
	_ replicator.Refresher = (*Target)(nil)
)

// guess takes documents for new where most have been lately: a create then costs one request, and one more where it is
// wrong. A reset is about a cell that is known.
func (b *batch) guess() {
	if b.target.freshness.Load() < 500 {
		return
	}
	for _, d := range b.documents {
		d.known = d.known || !slices.ContainsFunc(d.changes, func(c *change) bool { return c.do.AsOf != 0 })
	}
}

// learn notes how many documents were new.
func (b *batch) learn() {
	created, others := 0, 0
	for _, d := range b.documents {
		switch {
		case !d.exists:
			created++
		case !d.remembered:
			others++
		}
	}
	if created+others == 0 {
		return
	}
	share := int64(1000 * created / (created + others))
	old := b.target.freshness.Load()
	b.target.freshness.Store((old + share) / 2) // of two lanes at once one is lost: it is a guess
}

// Versions implements replicator.Target.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]int64, error) {
	versions := make([]int64, len(cells))
	var documents []*document
	var of []int
	for i, c := range cells {
		versions[i] = replicator.NoVersion
		for _, k := range t.kept {
			if !k.view.Feeds(c) {
				continue
			}
			id, routing, err := k.id(c)
			if err != nil {
				continue // no document of it can be there: nothing a delete could change
			}
			documents = append(documents, &document{index: k.generation.write, id: id, routing: routing, keeper: k})
			of = append(of, i)
		}
	}
	if err := t.sink.client.read(ctx, documents); err != nil {
		return nil, fmt.Errorf("reading versions: %w", t.replaced(ctx, err))
	}
	seen := make([]bool, len(cells))
	for n, d := range documents {
		i, version := of[n], replicator.NoVersion
		if d.exists {
			all, err := d.keeper.parse(d.source)
			if err != nil {
				return nil, err
			}
			if s := all[slotName(t.source, cells[i])]; s != nil {
				version = s.state.Version
			}
		}
		if !seen[i] || version < versions[i] {
			versions[i], seen[i] = version, true
		}
	}
	return versions, nil
}

// errReplaced: another replicator swapped in a rebuilt view since the target was opened.
var errReplaced = errors.New("a rebuilt view was swapped in since the views were opened: they are opened anew")

// replaced is err, or what really happened where an index is missed whose place another generation of the view has
// taken: nothing is lost then.
func (t *Target) replaced(ctx context.Context, err error) error {
	if !errors.Is(err, replicator.ErrSinkLost) {
		return err
	}
	for _, k := range t.kept {
		all, asked := t.sink.generations(ctx, k.view.Index)
		if asked != nil {
			return asked
		}
		if slices.ContainsFunc(all, func(g *generation) bool { return g.holds(k.view) && g.number > k.generation.number }) {
			return errReplaced
		}
	}
	return err
}

// Refresh makes readers see all that was applied: Elasticsearch lets searches see it only after a while
// (refresh_interval).
func (t *Target) Refresh(ctx context.Context) error {
	var indexes []string
	for _, k := range t.kept {
		indexes = append(indexes, k.generation.write)
	}
	if len(indexes) == 0 {
		return nil
	}
	if err := t.sink.client.call(ctx, esapi.IndicesRefreshRequest{Index: indexes}, nil); err != nil {
		if isMissing(err) {
			return gone(strings.Join(indexes, ","))
		}
		return fmt.Errorf("refreshing the indexes: %w", err)
	}
	return nil
}
