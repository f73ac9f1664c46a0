package canal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"replicator/internal/sqlname"
)

// expectation is an estimate of how many rows of a table are of these kinds (values of Table.Column).
type expectation struct {
	kinds []string
	rows  int64
}

const sampledRows = 1000

// expected estimates how many rows a scan reads if it reads only some kinds (values of Table.Column). The server knows
// only the table's total, so expected counts the kinds among the rows at both ends of the table. The result is 0 if the
// scan reads all rows, or if no counted row is of these kinds.
func (r *Reader) expected(ctx context.Context, conn *sql.Conn, x *selection, kinds []string) (int64, error) {
	in, args := x.wanted(kinds)
	if in == "" {
		return 0, nil
	}
	if known := x.t.expected.Load(); known != nil && slices.Equal(known.kinds, kinds) {
		return known.rows, nil
	}
	var up, down []string
	for _, i := range x.offset {
		name := sqlname.Quote(x.columns[i].Name)
		up, down = append(up, name), append(down, name+" DESC")
	}
	name := sqlname.Quote(x.columns[x.column].Name)
	end := func(order []string) string {
		return fmt.Sprintf("(SELECT %s FROM %s ORDER BY %s LIMIT %d)", name, x.from(), strings.Join(order, ", "), sampledRows)
	}
	var looked, wanted, rows int64
	err := conn.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(SUM("+in+"), 0) FROM ("+end(up)+" UNION ALL "+end(down)+
		") AS ends", args...).Scan(&looked, &wanted)
	if err != nil {
		return 0, x.t.classify(err)
	}
	if looked > 0 {
		if rows, err = x.t.rows(ctx, conn); err != nil {
			return 0, err
		}
		rows = int64(float64(rows) * float64(wanted) / float64(looked))
	}
	x.t.expected.Store(&expectation{kinds: slices.Clone(kinds), rows: rows})
	return rows, nil
}

func (t *watched) rows(ctx context.Context, conn *sql.Conn) (n int64, err error) {
	err = conn.QueryRowContext(ctx,
		"SELECT COALESCE(MAX(TABLE_ROWS), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		t.Database, t.Table.Table).Scan(&n)
	return n, err
}
