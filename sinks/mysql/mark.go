package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"replicator"
	"replicator/internal/link"
	"replicator/internal/remedy"
	"replicator/sinks/judge"
)

// storedMark is how far a view has come, as its row in replicator_views stores it.
type storedMark struct {
	order int64
	token string // the position's token and, after a newline, the progress of the view's fill (storedFill) as JSON
	phase string // replicator.PhaseFilling, replicator.PhaseFilled, or phaseSwapping
}

type storedFill struct {
	Fill   map[string]replicator.Progress `json:"fill,omitzero"`
	From   int64                          `json:"from,omitempty"`
	Repair bool                           `json:"repair,omitempty"`
	Epoch  int64                          `json:"epoch,omitempty"`
	Swap   int64                          `json:"swapped,omitempty"`
}

func (m storedMark) standing() (replicator.Standing, error) {
	token, text, _ := strings.Cut(m.token, "\n")
	var fill storedFill
	if text != "" {
		if err := json.Unmarshal([]byte(text), &fill); err != nil {
			return replicator.Standing{}, replicator.Fatal(fmt.Errorf("its mark in table %s is damaged. Run "+
				"`replicator rebuild "+remedy.Views+"`, which fills the view again",
				viewsTable))
		}
	}
	phase := replicator.PhaseFilled // phaseSwapping counts as filled, too
	if m.phase == replicator.PhaseFilling {
		phase = m.phase
	}
	return replicator.StoredStanding{Order: m.order, Token: token, Phase: phase, Fill: fill.Fill, FillFrom: fill.From,
		Repair: fill.Repair, Epoch: fill.Epoch, Swapped: fill.Swap}.Standing(), nil
}

func storeMark(at replicator.Standing) storedMark {
	m := storedMark{order: at.Position.Order, token: at.Position.Token, phase: at.Stored().Phase}
	if at.Filling() || at.Epoch != 0 || at.Swapped != 0 {
		text, err := json.Marshal(storedFill{at.Fill, at.FillFrom, at.Repair, at.Epoch, at.Swapped})
		if err != nil {
			panic("marshaling a mark: " + err.Error())
		}
		m.token += "\n" + string(text)
	}
	return m
}

// Mark implements replicator.Target. Unless the views are being filled, it first checks tables that were not checked
// lately.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	err := t.marks.Mark(at, func(marking *judge.Marking) error {
		if !at.Filling() {
			if err := t.lookAtTables(ctx, at.Position.Order); err != nil {
				return err
			}
		}
		return t.sink.transaction(ctx, func(tx *sql.Tx) error { return t.mark(ctx, tx, marking) })
	})
	switch {
	case errors.Is(err, errAltered), errors.Is(err, replicator.ErrSinkLost) && replicator.IsOfViews(err):
		return err
	case is(err, noDatabase): // another program dropped the database since the views were opened
		return fmt.Errorf("database %s is gone: %w", t.sink.database, replicator.ErrSinkLost)
	case err != nil:
		return t.lost(ctx, classify(err, "table "+viewsTable))
	case !at.Filling():
		t.endFreshness()
	}
	return nil
}

var _ replicator.Shared = (*Target)(nil)

// Foreign implements replicator.Shared.
func (t *Target) Foreign() []string { return t.marks.Foreign() }

func (t *Target) mark(ctx context.Context, tx *sql.Tx, marking *judge.Marking) error {
	found, server, err := t.readMarks(ctx, tx)
	if err != nil {
		return err
	}
	changed := map[storedMark][]any{} // the ids of the views that get this mark
	var order []storedMark
	for i, k := range t.kept {
		m, ok := found[k.id]
		if !ok {
			return marking.Gone(i)
		}
		stood, err := m.standing()
		if err != nil {
			return replicator.OfView(fmt.Errorf("view %s: %w", k.view.Name, err), k.view.Name)
		}
		marked, err := marking.Raise(i, stood)
		if err == nil {
			err = marking.Answered(server)
		}
		if err != nil {
			return err
		}
		next := storeMark(marked)
		if next == m {
			continue
		}
		if changed[next] == nil {
			order = append(order, next)
		}
		changed[next] = append(changed[next], int64(k.id))
	}
	for _, m := range order {
		ids := changed[m]
		_, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET mark_order = ?, mark_token = ?, phase = ? WHERE id IN ("+
			placeholders(len(ids))+")", append([]any{m.order, m.token, m.phase}, ids...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// serverName is an SQL expression that identifies a server, so that a replacement is noticed. A restart doesn't change
// its value. link.Moved changes it if the address led to a different server and back.
const serverName = "CONCAT_WS(' ', @@GLOBAL.server_id, @@GLOBAL.hostname, @@GLOBAL.port, " + link.Moved + ")"

// readMarks reads and locks the marks (the progress) of the target's views, by view id. server tells which server
// answered.
func (t *Target) readMarks(ctx context.Context, tx *sql.Tx) (_ map[uint32]storedMark, server string, _ error) {
	ids := make([]any, len(t.kept))
	for i, k := range t.kept {
		ids[i] = int64(k.id)
	}
	found := map[uint32]storedMark{}
	err := eachRow(ctx, tx, func(rows *sql.Rows) error {
		var id uint32
		var m storedMark
		err := rows.Scan(&id, &m.order, &m.token, &m.phase, &server)
		found[id] = m
		return err
	}, "SELECT id, mark_order, mark_token, phase, "+serverName+" FROM "+viewsTable+
		" WHERE name IS NOT NULL AND id IN ("+placeholders(len(ids))+") ORDER BY id FOR UPDATE", ids...)
	return found, server, err
}

// lost returns err, or errSwapped if marks are missing only because another replicator swapped in rebuilt views, which
// have marks of their own.
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
