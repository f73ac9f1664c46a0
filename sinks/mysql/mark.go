package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"replicator"
)

// storedMark is a view's mark as its row in the table of views has it.
type storedMark struct {
	order int64
	token string // the position's, and behind a line's end what is known of the view's fill, in JSON: storedFill
	phase string
}

// The phases of a view. A third is that of a shadow whose swap has begun: see shadow.go.
const (
	phaseFilling = "filling"
	phaseFilled  = "filled"
)

type storedFill struct {
	Fill   map[string]replicator.Progress `json:"fill,omitzero"`
	From   int64                          `json:"from,omitempty"`
	Repair bool                           `json:"repair,omitempty"`
	Epoch  int64                          `json:"epoch,omitempty"`
	Swap   int64                          `json:"swapped,omitempty"`
}

// standing is how far the view has come by the mark.
func (m storedMark) standing() (replicator.Standing, error) {
	token, text, _ := strings.Cut(m.token, "\n")
	var fill storedFill
	if text != "" {
		if err := json.Unmarshal([]byte(text), &fill); err != nil {
			return replicator.Standing{}, replicator.Fatal(fmt.Errorf("its mark in table %s is damaged: rebuild the view, or stop the program and forget the view with "+
				"`replicator checkpoint forget`, which fills it anew", viewsTable))
		}
	}
	at := replicator.Standing{Position: replicator.Position{Order: m.order, Token: token}, Epoch: fill.Epoch, Swapped: fill.Swap}
	if m.phase != phaseFilling {
		return at, nil
	}
	if at.Fill = fill.Fill; at.Fill == nil { // it was opened and never marked
		at.Fill = map[string]replicator.Progress{}
	}
	at.FillFrom, at.Repair = fill.From, fill.Repair
	return at, nil
}

// storeMark is the mark of a standing.
func storeMark(at replicator.Standing) storedMark {
	m := storedMark{order: at.Position.Order, token: at.Position.Token, phase: phaseFilled}
	if at.Filling() {
		m.phase = phaseFilling
	}
	if at.Filling() || at.Epoch != 0 || at.Swapped != 0 {
		text, err := json.Marshal(storedFill{at.Fill, at.FillFrom, at.Repair, at.Epoch, at.Swapped})
		if err != nil {
			panic("a mark is texts and numbers: " + err.Error())
		}
		m.token += "\n" + string(text)
	}
	return m
}

// Mark implements replicator.Target.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == 0 {
		return nil
	}
	tx, err := t.sink.db.BeginTx(ctx, nil)
	if err != nil {
		return t.unmarked(err)
	}
	marked, err := t.mark(ctx, tx, at)
	if is(err, noDatabase) {
		return t.unmarked(rollback(tx, err))
	}
	if err != nil {
		return t.lost(ctx, rollback(tx, classify(err, "table "+viewsTable)))
	}
	if err := tx.Commit(); err != nil {
		return classify(err, "table "+viewsTable)
	}
	t.marked = marked
	if !at.Filling() {
		t.grown()
	}
	return nil
}

// unmarked is why nothing could be marked. A database that was there when the views were opened, and isn't now, is lost
// with all it held.
func (t *Target) unmarked(err error) error {
	if is(err, noDatabase) {
		return fmt.Errorf("database %s is gone: %w", t.sink.database, replicator.ErrSinkLost)
	}
	return classify(err, "table "+viewsTable)
}

// mark raises the marks and returns what they are then, by view.
func (t *Target) mark(ctx context.Context, tx *sql.Tx, at replicator.Standing) ([]replicator.Standing, error) {
	args := make([]any, len(t.kept))
	place := map[uint32]int{}
	for i, k := range t.kept {
		args[i] = int64(k.id)
		place[k.id] = i
	}
	found := make([]storedMark, len(t.kept))
	rows, err := tx.QueryContext(ctx, "SELECT id, mark_order, mark_token, phase FROM "+viewsTable+
		" WHERE name IS NOT NULL AND id IN ("+marks(len(args))+") ORDER BY id FOR UPDATE", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uint32
		var m storedMark
		if err := rows.Scan(&id, &m.order, &m.token, &m.phase); err != nil {
			return nil, err
		}
		found[place[id]] = m
		delete(place, id)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, i := range place {
		return nil, fmt.Errorf("the mark of view %s is gone: %w", t.views[i].Name, replicator.ErrSinkLost)
	}
	marked := make([]replicator.Standing, len(t.kept))
	for i, m := range found {
		stood, err := m.standing()
		if err != nil {
			return nil, replicator.OfView(fmt.Errorf("view %s: %w", t.views[i].Name, err), t.views[i].Name)
		}
		if stood.Below(t.marked[i]) {
			return nil, fmt.Errorf("the mark of view %s fell: %w", t.views[i].Name, replicator.ErrSinkLost)
		}
		marked[i] = stood.Raise(at)
	}
	return marked, t.write(ctx, tx, found, marked)
}

// write writes the marks that changed, in as few statements as there are different ones: most often all views stand at
// one place.
func (t *Target) write(ctx context.Context, tx *sql.Tx, found []storedMark, marked []replicator.Standing) error {
	changed := map[storedMark][]any{}
	var order []storedMark
	for i, k := range t.kept {
		m := storeMark(marked[i])
		if m == found[i] {
			continue
		}
		if changed[m] == nil {
			order = append(order, m)
		}
		changed[m] = append(changed[m], int64(k.id))
	}
	for _, m := range order {
		ids := changed[m]
		_, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET mark_order = ?, mark_token = ?, phase = ? WHERE id IN ("+marks(len(ids))+")",
			append([]any{m.order, m.token, m.phase}, ids...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// lost is err, or what really happened where marks are missed because another replicator swapped in rebuilt views:
// these have marks of their own, and nothing is lost.
func (t *Target) lost(ctx context.Context, err error) error {
	if !errors.Is(err, replicator.ErrSinkLost) {
		return err
	}
	epoch, asked := t.sink.readEpoch(ctx)
	switch {
	case asked != nil:
		return asked
	case epoch != t.epoch:
		return errSwapped
	}
	return err
}
