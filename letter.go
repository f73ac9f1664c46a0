package replicator

import (
	"cmp"
	"encoding/json"
	"time"
)

// NewDeadLetter makes the dead letter of an op in a view. row is the op's row, nil if there is none. locate formats a
// log position for people. The caller sets the letter's source.
func NewDeadLetter(view string, op Op, row *Row, err error, locate func(order int64) string) DeadLetter {
	d := DeadLetter{View: view, Cell: op.Cell, Version: op.Version, Order: op.Order, Reason: err.Error(),
		Time: time.Now().UTC()}
	if d.Order == 0 {
		d.Order = op.AsOf
	}
	at := d.Order
	if row != nil {
		d.Raw, at = rawRow(row), cmp.Or(row.Place, at)
	}
	d.Position = locate(at)
	return d
}

// rawRow returns the part of a row that a dead letter keeps: the body as stored, or the columns as JSON.
func rawRow(row *Row) []byte {
	if row.Body != nil {
		if row.Text != nil {
			if text, err := row.Text(row.Body); err == nil {
				return text
			}
		}
		return row.Body
	}
	columns := make(map[string]string, len(row.Columns))
	for i, v := range row.Columns {
		if v != nil && i < len(row.Names) {
			columns[row.Names[i]] = FormatValue(v)
		}
	}
	raw, _ := json.Marshal(columns) // a map of strings can always be marshalled
	return raw
}
