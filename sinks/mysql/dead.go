package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"replicator"
	"replicator/sinks/judge"
)

// A state says of each view whether the cell is a dead letter there. The table of the dead says the same, so that they
// can be found without reading all states: it changes with them, in the same transaction.

// Dead implements replicator.Target.
func (t *Target) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	k := t.kept[view]
	cells, next, err := t.dead(ctx, k, after, limit)
	return cells, next, classify(err, "view "+k.view.Name+": listing its dead letters")
}

func (t *Target) dead(
	ctx context.Context, k *keeper, after string, limit int,
) (cells []replicator.Cell, next string, err error) {
	last, err := cellAt(after, []byte{})
	if err != nil {
		return nil, "", err
	}
	err = eachRow(ctx, t.sink.db, func(rows *sql.Rows) error {
		if err := rows.Scan(&last.Entity, &last.Cell); err != nil {
			return err
		}
		c, err := last.cell(t.source)
		cells = append(cells, c)
		return err
	}, "SELECT entity, cell FROM "+deadTable+" WHERE view = ? AND "+beyondCell+inOrder+strconv.Itoa(limit),
		k.id, last.Entity, last.Entity, last.Cell)
	if err == nil && len(cells) == limit {
		next = judge.Cursor(last)
	}
	return cells, next, err
}

// writeDead makes the table of the dead say what the items' states do. Of the dead themselves it does so whatever it
// said before.
func (w *writer) writeDead(items []*item) error {
	var buried, raised []deadCell
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			switch {
			case !c.applies:
			case c.digest == deadDigest || c.waits:
				buried = append(buried, deadCell{c.keeper.id, it.entity, it.cell})
			case c.old.known().Dead:
				raised = append(raised, deadCell{c.keeper.id, it.entity, it.cell})
			}
		}
		for _, p := range it.promoted {
			for _, view := range p.ended {
				raised = append(raised, deadCell{view, p.held.entity, it.cell})
			}
		}
	}
	if err := w.dead("INSERT IGNORE INTO "+deadTable+" (view, entity, cell) VALUES ", ",", buried,
		"(", ",", ",", ")"); err != nil {
		return err
	}
	return w.dead("DELETE FROM "+deadTable+" WHERE ", " OR ", raised,
		"(view = ", " AND entity = ", " AND cell = ", ")")
}

// deadCell is a cell that is a dead letter in a view, or was one.
type deadCell struct {
	view         uint32
	entity, cell string
}

// dead has a statement executed about cells, as many at a time as a statement takes. around is what stands before,
// between and after the three values of each.
func (w *writer) dead(statement, between string, cells []deadCell, around ...string) error {
	for n := 0; n < len(cells); {
		w.write(statement)
		for from := n; n < len(cells) && n-from < maxList && !w.full(); n++ {
			c := cells[n]
			w.text = append(appendAfter(w.text, n-from, between), around[0]...)
			w.text = append(strconv.AppendUint(w.text, uint64(c.view), 10), around[1]...)
			w.text = append(appendBinary(w.text, c.entity), around[2]...)
			w.text = append(appendBinary(w.text, c.cell), around[3]...)
		}
		if err := w.run(allViews); err != nil {
			return err
		}
	}
	return nil
}

// forgetDead removes what the table of the dead says of views that are no more. Where that is nothing it writes
// nothing: views are opened to be looked at, too, on a server that is read-only.
func (s *Sink) forgetDead(ctx context.Context, retired map[uint32]bool) error {
	if len(retired) == 0 {
		return nil
	}
	var ids []any
	for id := range retired {
		ids = append(ids, id)
	}
	theirs := " FROM " + deadTable + " WHERE view IN (" + placeholders(len(ids)) + ")"
	var one int
	err := s.db.QueryRowContext(ctx, "SELECT 1"+theirs+" LIMIT 1", ids...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = s.db.ExecContext(ctx, "DELETE"+theirs, ids...)
	}
	return classify(err, "table "+deadTable)
}
