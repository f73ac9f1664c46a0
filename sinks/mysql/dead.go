package mysql

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

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
	var buried, raised []any
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			switch {
			case !c.applies:
			case c.digest == deadDigest:
				buried = append(buried, c.keeper.id, []byte(it.entity), []byte(it.cell))
			case c.old.known().Dead:
				raised = append(raised, c.keeper.id, []byte(it.entity), []byte(it.cell))
			}
		}
	}
	err := w.dead("INSERT IGNORE INTO "+deadTable+" (view, entity, cell) VALUES ", "(?, ?, ?)", ", ", buried)
	if err != nil {
		return err
	}
	return w.dead("DELETE FROM "+deadTable+" WHERE ", "(view = ? AND entity = ? AND cell = ?)", " OR ", raised)
}

// dead executes a statement about cells, three values each, as few at a time as a statement takes.
func (w *writer) dead(statement, one, between string, cells []any) error {
	for len(cells) > 0 {
		n, size := 0, 0
		for n < len(cells) && n < 3*maxList {
			if size += sizeOf(cells[n : n+3]); n > 0 && size > w.server.packet/2 {
				break
			}
			n += 3
		}
		list := strings.TrimSuffix(strings.Repeat(one+between, n/3), between)
		if _, err := w.tx.ExecContext(w.ctx, statement+list, cells[:n]...); err != nil {
			return &viewError{view: allViews, err: err}
		}
		cells = cells[n:]
	}
	return nil
}

// forgetDead removes what the table of the dead says of views that are no more.
func (s *Sink) forgetDead(ctx context.Context, retired map[uint32]bool) error {
	if len(retired) == 0 {
		return nil
	}
	var ids []any
	for id := range retired {
		ids = append(ids, id)
	}
	_, err := s.db.ExecContext(ctx, "DELETE FROM "+deadTable+" WHERE view IN ("+placeholders(len(ids))+")", ids...)
	return classify(err, "table "+deadTable)
}
