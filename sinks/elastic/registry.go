package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// registryID is the id of the document in each index that holds the marks: beside the data, so that whoever removes,
// empties or restores the index takes them along.
const registryID = "replicator:marks"

// registry is that document: the view's mark for each source.
type registry struct {
	Marks map[string]replicator.StoredStanding `json:"marks"`
}

func registryOf(index string) *document { return &document{index: index, id: registryID} }

// parseRegistry reads the marks of a registry's document that was read; there are none if it does not exist.
func parseRegistry(d *document) (registry, error) {
	if d.failure != nil {
		return registry{}, fmt.Errorf("its marks can't be read: %w", d.failure.classify())
	}
	var doc struct {
		State struct {
			Cells registry `json:"cells"`
		} `json:"_replicator"`
	}
	if d.exists {
		if err := json.Unmarshal(d.source, &doc); err != nil {
			return registry{}, replicator.Fatal(fmt.Errorf("its marks can't be read: %w; rebuild the view", err))
		}
	}
	if doc.State.Cells.Marks == nil {
		doc.State.Cells.Marks = map[string]replicator.StoredStanding{}
	}
	return doc.State.Cells, nil
}

// render makes the document, which no alias shows and of which nothing is indexed.
func (r registry) render() ([]byte, error) {
	return json.Marshal(map[string]any{stateField: map[string]any{"hidden": true, "cells": r}})
}

// errAgain: another replicator wrote marks at the same time.
var errAgain = errors.New("others write the same marks all the time")

// update changes the marks of all kept views, each on the condition that nobody changed them in between.
func (t *Target) update(ctx context.Context, change func(view int, r *registry) error) ([]registry, error) {
	registries := make([]registry, len(t.kept))
	pending := make([]int, len(t.kept))
	for i := range pending {
		pending[i] = i
	}
	for range maxRounds {
		documents := make([]*document, len(pending))
		for n, i := range pending {
			documents[n] = registryOf(t.kept[i].generation.write)
		}
		read, err := t.readRegistries(ctx, pending, documents)
		if err != nil {
			return nil, err
		}
		var changed []*document
		for n, i := range pending {
			r := read[n]
			before := maps.Clone(r.Marks)
			if err := change(i, &r); err != nil {
				return nil, err
			}
			if documents[n].text, err = r.render(); err != nil {
				return nil, fmt.Errorf("view %s: %w", t.views[i].Name, err)
			}
			if documents[n].written = reflect.DeepEqual(before, r.Marks); !documents[n].written {
				changed = append(changed, documents[n])
			}
			registries[i] = r
		}
		if err := t.sink.client.write(ctx, changed); err != nil {
			return nil, err
		}
		var left []int
		for n, i := range pending {
			switch d := documents[n]; {
			case d.written:
			case d.failure.Status == http.StatusConflict:
				left = append(left, i)
			case d.failure.isGone():
				return nil, gone(d.index)
			default:
				return nil, inView(t.views[i], d.failure.classify())
			}
		}
		if pending = left; len(pending) == 0 {
			return registries, nil
		}
	}
	return nil, errAgain
}

// readRegistries reads the registries of some kept views.
func (t *Target) readRegistries(ctx context.Context, kept []int, documents []*document) ([]registry, error) {
	if err := t.sink.client.readEach(ctx, documents); err != nil {
		return nil, err
	}
	read := make([]registry, len(documents))
	var refused []error
	for n, i := range kept {
		r, err := parseRegistry(documents[n])
		if f := asFailure(err); f != nil && f.isGone() {
			return nil, gone(documents[n].index)
		}
		if err != nil {
			refused = append(refused, inView(t.views[i], err))
		}
		read[n] = r
	}
	return read, errors.Join(refused...)
}

// register gives each view a mark for the source where it has none.
func (t *Target) register(ctx context.Context) error {
	at := make([]replicator.Standing, len(t.views))
	_, err := t.update(ctx, func(view int, r *registry) error {
		m, ok := r.Marks[t.source]
		if !ok {
			m = replicator.StoredStanding{Phase: replicator.PhaseFilling}
			r.Marks[t.source] = m
		}
		at[view] = m.Standing()
		return nil
	})
	if err != nil {
		return fmt.Errorf("registering the views: %w", err)
	}
	t.marks = judge.NewMarks(t.views, at)
	return nil
}

// Mark implements replicator.Target. A view whose every source has now filled it is shown.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	err := t.marks.Mark(at, func(marking *judge.Marking) error {
		registries, err := t.update(ctx, func(view int, r *registry) error {
			m, ok := r.Marks[t.source]
			if !ok {
				return marking.Gone(view)
			}
			raised, err := marking.Raise(view, m.Standing())
			r.Marks[t.source] = raised.Stored()
			return err
		})
		if err != nil {
			return t.replaced(ctx, err)
		}
		return t.showFilled(ctx, registries)
	})
	if err == nil {
		t.sink.removeRetired(ctx)
	}
	return err
}

// showFilled lets aliases show the views that have been filled since they were opened.
func (t *Target) showFilled(ctx context.Context, registries []registry) error {
	for i, k := range t.kept {
		if !k.generation.shown && k.view.Shadows == "" && t.isFilled(registries[i]) {
			if err := t.takeOver(ctx, k); err != nil {
				return fmt.Errorf("view %s: %w", k.view.Name, err)
			}
		}
	}
	return nil
}

// isFilled reports whether a view is filled from every source.
func (t *Target) isFilled(r registry) bool {
	for _, m := range r.Marks {
		if m.Phase != replicator.PhaseFilled {
			return false
		}
	}
	return !slices.ContainsFunc(t.sink.config.Sources, func(source string) bool {
		_, ok := r.Marks[source]
		return !ok
	})
}

// takeOver lets the alias show the view's generation in place of the older ones, which go. Searches see either or the
// other.
func (t *Target) takeOver(ctx context.Context, k *keeper) error {
	if err := t.Refresh(ctx); err != nil {
		return err
	}
	all, err := t.sink.generations(ctx, settingsOf(k.view).Index)
	if err != nil {
		return err
	}
	var older []*generation
	for _, g := range all {
		switch {
		case g.isShadow():
		case g.number < k.generation.number:
			older = append(older, g)
		case g.number > k.generation.number:
			return nil // this one has been superseded itself; the next mark will tell
		case g.shown:
			k.generation.shown = true // another shard's pipeline did it
			return nil
		}
	}
	if err := t.sink.show(ctx, []*generation{k.generation}, older); err != nil {
		return err
	}
	t.sink.log.Info("view shown anew", "sink", t.sink.name, "view", k.view.Name, "index", k.generation.index)
	return nil
}
