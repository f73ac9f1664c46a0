package elastic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/sinks/judge"
)

// Target is a set of open views of one source. It is safe for concurrent use.
type Target struct {
	sink   *Sink
	source string
	nearby []string // other sources to which the rows of a key may move
	views  []*replicator.View
	kept   []*keeper // kept[i] writes views[i]

	memory  memory
	novelty judge.Novelty // predicts whether documents are new

	marks  *judge.Marks
	looked time.Time // when the aliases were last checked; only Mark uses it
}

var (
	_ replicator.Target    = (*Target)(nil)
	_ replicator.Refresher = (*Target)(nil)
	_ replicator.Shared    = (*Target)(nil)
)

// Versions implements replicator.Target. It reads the versions from the states in the cells' documents.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) (spans []replicator.Span, err error) {
	err = t.throughGates(ctx, func() (err error) {
		spans, err = t.versions(ctx, cells)
		return err
	})
	return spans, err
}

func (t *Target) versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	versions := judge.NewVersions(len(cells))
	var documents []*document
	var of []int
	for i, c := range cells {
		for _, k := range t.kept {
			if !k.view.Feeds(c) {
				continue
			}
			id, routing, err := k.id(c)
			if err != nil {
				continue // no document can hold the cell, so it has no version
			}
			documents = append(documents, k.document(id, routing))
			of = append(of, i)
		}
	}
	n := 0
	err := t.sink.client.inParts(documents, func(part []*document) error {
		if err := t.sink.client.read(ctx, part); err != nil {
			return fmt.Errorf("reading versions: %w", err)
		}
		for _, d := range part {
			versions.Add(of[n], d.contents().known(slotName(t.source, cells[of[n]])).State.Version)
			d.release()
			n++
		}
		return nil
	})
	return versions.Spans(), err
}

// errReplaced means that another replicator, or another source's pipeline, has created a newer index for a view since
// the target was opened.
var errReplaced = fmt.Errorf("a view was rebuilt or started over since the views were opened: %w",
	replicator.ErrOpenAgain)

// replaced returns errReplaced instead of err if an index is missing because a newer index of the view replaced it.
// Then nothing is lost.
func (t *Target) replaced(ctx context.Context, err error) error {
	if !errors.Is(err, replicator.ErrSinkLost) {
		return err
	}
	for _, k := range t.kept {
		replaced, asked := t.isReplaced(ctx, k)
		if asked != nil {
			return inView(k.view, asked)
		}
		if replaced {
			return errReplaced
		}
	}
	return err
}

// isReplaced reports whether a view has a newer index. Either a rebuild was swapped in, or another source has begun to
// fill the view again because that source's tables changed.
func (t *Target) isReplaced(ctx context.Context, k *keeper) (bool, error) {
	all, err := t.sink.generations(ctx, k.alias)
	return slices.ContainsFunc(all, func(g *generation) bool {
		return g.belongs(k.view) && g.number > k.generation.number
	}), err
}

// Refresh makes everything that was applied visible to searches. By default, Elasticsearch does that only from time to
// time (refresh_interval).
func (t *Target) Refresh(ctx context.Context) error {
	if len(t.kept) == 0 {
		return nil
	}
	return t.throughGates(ctx, func() error {
		var indexes []string
		for _, k := range t.kept {
			indexes = append(indexes, k.gate.Load().alias)
		}
		err := t.sink.client.refresh(ctx, indexes)
		switch {
		case isMissing(err):
			return gone(strings.Join(indexes, ","))
		case err != nil:
			return fmt.Errorf("refreshing the indexes: %w", err)
		}
		return nil
	})
}
