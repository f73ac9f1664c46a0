package elastic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
	"replicator/sinks/judge"
)

// Unclaimed implements replicator.Tidier. It never returns cells, because a fill from the start writes to a new index,
// which then replaces the shown one as a whole.
func (t *Target) Unclaimed(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// page is the cursor of a listing: where the next page of documents begins.
type page struct {
	View  int             `json:"view"`
	Point string          `json:"point,omitempty"` // the point in time that the pages are read from
	After json.RawMessage `json:"after,omitempty"`
	Size  int             `json:"size,omitempty"` // how many documents to request next
}

// keepPoint is how long the server keeps a point in time between two pages. In that time, replicator deals with the
// cells of one page.
const keepPoint = "15m"

// Outdated implements replicator.Target. It finds cells whose last applied op lies before the log position `before`. It
// reads hidden documents, too, because they may hold the states of such cells.
func (t *Target) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	var p page
	if err := judge.At(after, &p); err != nil || p.View >= len(t.kept) {
		return nil, "", err
	}
	cells, next, err := t.walk(ctx, p.View, everything(), after, limit, func(s *slot, _ contents) bool {
		return s.Outdated(before)
	})
	if err == nil && next == "" && p.View+1 < len(t.kept) {
		next = judge.Cursor(page{View: p.View + 1})
	}
	return cells, next, err
}

// everything is a query for all documents that hold cells.
func everything() object {
	return object{"bool": object{"must_not": object{"ids": object{"values": []string{registryID}}}}}
}

// Held implements replicator.Target. It lists this source's cells in the documents that the view's alias shows. It
// skips a cell whose row this source has deleted, if the document also has a row of another source: the row has moved
// to that source.
func (t *Target) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.walk(ctx, view, filter(), after, limit, func(s *slot, all contents) bool {
		return !s.gone() || !slices.ContainsFunc(t.others(t.kept[view], all), func(o *slot) bool { return !o.gone() })
	})
}

// Dead implements replicator.Target. It lists cells whose state in their document says that they are dead letters.
func (t *Target) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.walk(ctx, view, everything(), after, limit, func(s *slot, _ contents) bool { return s.Dead })
}

// walk pages through the documents that a query finds, and returns those of their cells for which the function `wanted`
// returns true. It requests only the states, without contributions: the version in the state tells whether a cell is
// deleted.
func (t *Target) walk(
	ctx context.Context, view int, query object, after string, limit int, wanted func(s *slot, all contents) bool,
) ([]replicator.Cell, string, error) {
	found, next, err := t.hits(ctx, view, query, after, limit)
	if err != nil {
		return nil, "", err
	}
	var cells []replicator.Cell
	for _, h := range found {
		all := t.kept[view].parse(h.Source)
		t.kept[view].sort(all)
		for _, s := range all {
			if from, c, ok := t.sink.cell(s); ok && from == t.source && wanted(s, all) {
				cells = append(cells, c)
			}
		}
	}
	return cells, next, nil
}

// hit is a document in a search's answer, as of the search's point in time.
type hit struct {
	ID      string          `json:"_id"`
	Routing string          `json:"_routing"`
	Seq     int64           `json:"_seq_no"`
	Term    int64           `json:"_primary_term"`
	Source  json.RawMessage `json:"_source"`
	Sort    json.RawMessage `json:"sort"`
}

// searchItems is the most documents that a page may have. Finding the start of a page costs the server as much as
// reading some thousand documents.
const searchItems = 5000

// hits returns the next page of a view's documents that a query finds.
func (t *Target) hits(
	ctx context.Context, view int, query object, after string, limit int,
) (found []hit, next string, err error) {
	err = t.throughGates(ctx, func() (err error) {
		found, next, err = t.nextHits(ctx, view, query, after, limit)
		return err
	})
	return found, next, err
}

func (t *Target) nextHits(
	ctx context.Context, view int, query object, after string, limit int,
) (found []hit, next string, err error) {
	k := t.kept[view]
	var p page
	if err := judge.At(after, &p); err != nil {
		return nil, "", err
	}
	p.View, p.Size = view, cmp.Or(p.Size, fewDocuments)
	if p.Point == "" {
		if err := t.Refresh(ctx); err != nil {
			return nil, "", err
		}
		if p.Point, err = t.sink.client.openPoint(ctx, k.gate.Load().alias); err != nil {
			return nil, "", fmt.Errorf("view %s: listing its documents: %w", k.view.Name, err)
		}
	}
	found, more, err := t.page(ctx, query, &p, min(limit, p.Size))
	if err != nil {
		return nil, "", fmt.Errorf("view %s: listing its documents: %w", k.view.Name, err)
	}
	if !more {
		t.sink.client.closePoint(ctx, p.Point)
		return found, "", nil
	}
	return found, judge.Cursor(p), nil
}

// page reads the next documents that the query finds, and moves the cursor `p` behind them. It reports whether there
// may be more.
func (t *Target) page(ctx context.Context, query object, p *page, size int) (found []hit, more bool, err error) {
	order, apart := t.sink.client.pageOrder()
	if !apart {
		size++ // because `dropLastTies` drops at least one hit of a full page
	}
	for ; ; size *= 2 {
		found, err = t.search(ctx, query, order, p, size)
		if more = len(found) == size; err != nil || !more {
			break
		}
		if !apart {
			found = dropLastTies(found)
		}
		if len(found) > 0 {
			p.After = found[len(found)-1].Sort
			break
		}
	}
	return found, more, err
}

// search reads up to `size` documents that come after p.After.
func (t *Target) search(ctx context.Context, query object, order string, p *page, size int) ([]hit, error) {
	search := object{
		"size": size, "_source": stateAlone, "sort": []string{order}, "track_total_hits": false,
		"seq_no_primary_term": true,
		"pit":                 object{"id": p.Point, "keep_alive": keepPoint},
		"query":               query,
	}
	if p.After != nil {
		search["search_after"] = p.After
	}
	var result struct {
		Point string `json:"pit_id"`
		Hits  struct {
			Hits []hit `json:"hits"`
		} `json:"hits"`
	}
	began := time.Now()
	answer, err := t.sink.client.send(ctx, esapi.SearchRequest{Body: body(search)})
	if err == nil {
		err = decode(answer, &result)
	}
	if err != nil {
		return nil, err
	}
	p.Size = paced(p.Size, searchItems, len(result.Hits.Hits), len(answer), time.Since(began))
	if result.Point != "" {
		p.Point = result.Point
	}
	return result.Hits.Hits, nil
}
