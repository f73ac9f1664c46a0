package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"replicator"
)

// Unclaimed implements replicator.Sweeper. There is nothing of the kind: a fill from the start writes to an index of its
// own, which replaces what was shown before as a whole.
func (t *Target) Unclaimed(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// page is where a sweep goes on.
type page struct {
	View  int             `json:"view"`
	Point string          `json:"point,omitempty"` // a point in time: what the pages are of
	After json.RawMessage `json:"after,omitempty"`
}

// keepPoint is how long a point in time is kept between two pages: the cells of one are looked up meanwhile.
const keepPoint = "15m"

// Outdated implements replicator.Sweeper. It pages through all documents, view by view.
func (t *Target) Outdated(ctx context.Context, before int64, after string, limit int) ([]replicator.Cell, string, error) {
	var p page
	if after != "" {
		if err := json.Unmarshal([]byte(after), &p); err != nil {
			return nil, "", fmt.Errorf("a sweep can't go on: %w", err)
		}
	}
	if p.View >= len(t.kept) {
		return nil, "", nil
	}
	k := t.kept[p.View]
	if p.Point == "" {
		if err := t.Refresh(ctx); err != nil {
			return nil, "", err
		}
		var opened struct {
			ID string `json:"id"`
		}
		if err := t.sink.client.call(ctx, http.MethodPost, "/"+k.generation.write+"/_pit?keep_alive="+keepPoint, nil, &opened); err != nil {
			return nil, "", fmt.Errorf("view %s: looking for cells that a fill did not confirm: %w", k.view.Name, err)
		}
		p.Point = opened.ID
	}
	found, err := t.page(ctx, &p, limit)
	if err != nil {
		return nil, "", fmt.Errorf("view %s: looking for cells that a fill did not confirm: %w", k.view.Name, err)
	}
	var cells []replicator.Cell
	for _, source := range found {
		all, err := k.parse(source)
		if err != nil {
			return nil, "", err
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s := all[name]
			from, c, ok := cellOf(name, s.key)
			if ok && from == t.source && s.present && max(s.state.Order, s.state.AsOf) < before {
				cells = append(cells, c)
			}
		}
	}
	if len(found) < limit { // the last page of the view
		_ = t.sink.client.call(ctx, http.MethodDelete, "/_pit", map[string]any{"id": p.Point}, nil) // else it ends by itself
		if p = (page{View: p.View + 1}); p.View >= len(t.kept) {
			return cells, "", nil
		}
	}
	next, err := json.Marshal(p)
	return cells, string(next), err
}

// page reads the sources of the next documents, and moves p on.
func (t *Target) page(ctx context.Context, p *page, limit int) ([]json.RawMessage, error) {
	body := map[string]any{
		"size": limit, "sort": []string{"_shard_doc"}, "track_total_hits": false,
		"pit":   map[string]any{"id": p.Point, "keep_alive": keepPoint},
		"query": filter(),
	}
	if p.After != nil {
		body["search_after"] = p.After
	}
	var result struct {
		Point string `json:"pit_id"`
		Hits  struct {
			Hits []struct {
				Source json.RawMessage `json:"_source"`
				Sort   json.RawMessage `json:"sort"`
			} `json:"hits"`
		} `json:"hits"`
	}
	if err := t.sink.client.call(ctx, http.MethodPost, "/_search", body, &result); err != nil {
		return nil, err
	}
	if result.Point != "" {
		p.Point = result.Point
	}
	var sources []json.RawMessage
	for _, h := range result.Hits.Hits {
		sources = append(sources, h.Source)
		p.After = h.Sort
	}
	return sources, nil
}
