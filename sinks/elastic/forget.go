package elastic

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

var _ replicator.Forgetter = (*Target)(nil)

// RaiseHorizon implements replicator.Forgetter. It also replaces the aliases that writes go to (gates), so that no
// write judged by a lower horizon can arrive.
func (t *Target) RaiseHorizon(ctx context.Context, horizon int64) error {
	return t.throughGates(ctx, func() error { return t.raiseHorizons(ctx, horizon) })
}

// ForgetGone implements replicator.Forgetter. It reads the documents without contributions, view by view. If several
// cells may share a document, it reads all documents, because a document that shows some cells may remember others that
// are gone.
func (t *Target) ForgetGone(
	ctx context.Context, after string, limit int,
) (found replicator.GoneCells, next string, err error) {
	var p page
	if err := judge.At(after, &p); err != nil || p.View >= len(t.kept) {
		return found, "", err
	}
	k, query := t.kept[p.View], onlyHidden()
	if k.merged {
		query = everything()
	}
	hits, next, err := t.hits(ctx, p.View, query, after, limit)
	if err == nil && next == "" && p.View+1 < len(t.kept) {
		next = judge.Cursor(page{View: p.View + 1})
	}
	if err == nil {
		err = t.throughGates(ctx, func() (err error) {
			found, err = t.forgetSome(ctx, k, hits)
			return err
		})
	}
	if err != nil {
		return found, "", fmt.Errorf("view %s: %w", k.view.Name, err)
	}
	return found, next, nil
}

// onlyHidden is a query for the documents without any contribution, such as those that only remember deleted cells. It
// leaves out the progress document.
func onlyHidden() object {
	query := everything()
	query["bool"].(object)["filter"] = object{"term": object{stateField + ".hidden": true}}
	return query
}

// raiseHorizons raises the horizons of the filled views, at most to their marks, and replaces their write aliases
// (gates). Each Target replaces each alias at least once, because an earlier process may have died after it raised the
// horizon and before it replaced the alias.
func (t *Target) raiseHorizons(ctx context.Context, horizon int64) error {
	registries, err := t.update(ctx, func(view int, r registry) error {
		m, ok := r[t.source]
		if is := min(horizon, m.Order); ok && m.Phase == replicator.PhaseFilled && is > m.Horizon {
			m.Horizon = is
			r[t.source] = m
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("storing the log position below which states of deleted cells are removed: %w", err)
	}
	moved := false
	for i, k := range t.kept {
		if is := registries[i][t.source].Horizon; is > k.forgets {
			if err := t.moveGate(ctx, k, is); err != nil {
				return inView(k.view, err)
			}
			k.moved, moved = is, true
		}
	}
	if !moved {
		return nil
	}
	if err := t.sink.client.writesEnd(ctx); err != nil {
		return err
	}
	for _, k := range t.kept {
		k.forgets = max(k.forgets, k.moved)
	}
	return nil
}

// forgetSome removes states of deleted cells below the horizon. `hits` are the documents of the view to examine.
func (t *Target) forgetSome(ctx context.Context, k *keeper, hits []hit) (found replicator.GoneCells, err error) {
	var documents []*document
	for _, h := range hits {
		_, forgotten, deleted := t.withoutForgettable(k, k.parse(h.Source))
		if found.Remembered += deleted - forgotten; forgotten > 0 {
			d := k.document(h.ID, h.Routing)
			if d.whole = k.merged; !k.merged { // the search has read the cell's state, and nothing else is needed
				d.known, d.exists, d.seq, d.term, d.source = true, true, h.Seq, h.Term, h.Source
			}
			documents = append(documents, d)
		}
	}
	err = t.sink.client.inParts(documents, func(part []*document) error {
		some, err := t.forgetIn(ctx, k, part)
		found.Add(some)
		return err
	})
	return found, err
}

// forgetIn is forgetSome for a part of the documents, which one request can read. It skips a document that another
// writer has changed meanwhile. The next walk reads that document again.
func (t *Target) forgetIn(ctx context.Context, k *keeper, part []*document) (found replicator.GoneCells, err error) {
	if k.merged {
		if err := t.sink.client.read(ctx, part); err != nil {
			return found, err
		}
	}
	var writes []*document
	of := map[*document]int{}
	for _, d := range part {
		left, forgotten, _ := t.withoutForgettable(k, d.contents())
		// Skip a document with nothing to forget. If documents have only one cell each (not `merged`), also skip one in
		// which an earlier definition of the view left a second cell.
		if forgotten == 0 || len(left) > 0 && !k.merged {
			continue
		}
		k.sort(left)
		d.next, d.remove = left, len(left) == 0
		writes, of[d] = append(writes, d), forgotten
	}
	if err := t.sink.client.write(ctx, writes); err != nil {
		return found, err
	}
	for _, d := range writes {
		t.memory.Forget(address{k.place, d.id})
		switch {
		case d.written:
			found.Forgotten += of[d]
		case d.failure.isGone():
			return found, gone(d.index)
		case d.failure.Status == http.StatusConflict, d.failure.isTemporary():
			found.Remembered += of[d]
		default:
			return found, d.failure.classify()
		}
		d.release()
	}
	return found, nil
}

// withoutForgettable returns the cells of a document without those that may be forgotten. `forgotten` is the number of
// cells that it leaves out, and `deleted` is the number of all cells whose row this source has deleted.
func (t *Target) withoutForgettable(k *keeper, all contents) (left contents, forgotten, deleted int) {
	left = slices.DeleteFunc(slices.Clone(all), func(s *slot) bool {
		from, _, ok := t.sink.cell(s)
		if !ok || from != t.source || !s.gone() || s.Shown || s.Dead || s.Waits {
			return false
		}
		deleted++
		if !s.Forgettable(k.forgets) {
			return false
		}
		forgotten++
		return true
	})
	return left, forgotten, deleted
}
