package canal

import (
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"replicator"
	"replicator/canal/binlog"
)

// MariaDB's system-versioned tables store former rows together with the current ones. A SELECT doesn't show former
// rows, but the binlog contains them like any other rows. The column with the end of a row's validity tells them apart.
// If the table's definition doesn't name the two columns of validity, they are row_start and row_end, and
// information_schema.columns lacks them.

const (
	rowStartExpression = "ROW START" // the generation_expression of the column with the start of a row version's validity
	rowEndExpression   = "ROW END"   // and of the column with its end
	impliedRowStart    = "row_start"
	impliedRowEnd      = "row_end"
)

// readOptions reads the table's default character set. It also adds the two columns of a system-versioned table that
// information_schema.columns lacks.
func (s *schema) readOptions(ctx context.Context, tx *sql.Tx, t *replicator.Table) error {
	return s.readOption(tx.QueryRowContext(ctx, "SELECT "+optionFields+" FROM information_schema.tables "+
		"WHERE table_schema = ? AND table_name = ?", t.Database, t.Table).Scan)
}

const optionFields = "table_type, COALESCE(table_collation, '')"

func (s *schema) readOption(scan func(...any) error) error {
	var kind, collation string
	err := scan(&kind, &collation)
	charset, _, _ := strings.Cut(collation, "_") // a collation's name begins with the name of its character set
	s.charset = charsetName(charset)
	if err == nil && s.rowEnd == "" && kind == "SYSTEM VERSIONED" {
		for _, name := range []string{impliedRowStart, impliedRowEnd} {
			c := declaredColumn{dataType: "timestamp", fullType: "timestamp(6) /* mariadb-5.3 */"}
			c.Name, c.Digits, c.Hires = name, 6, true // implied columns always have MariaDB's 5.3 format
			s.columns = append(s.columns, c)
		}
		s.rowEnd = impliedRowEnd
	}
	return err
}

// withoutRowEnd returns an index's columns without the one that has the end of a row's validity: the server adds that
// column to every unique key.
func (s *schema) withoutRowEnd(columns []string) []string {
	if s.rowEnd == "" {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(name string) bool { return strings.EqualFold(name, s.rowEnd) })
}

// rowEndOf returns the index of the column with the end of a row's validity (system versioning), or -1. It also finds
// the column in rows that were logged before the table's versioning was dropped.
func rowEndOf(s *schema, columns []binlog.Column) int {
	last := len(columns) - 1
	if s.rowEnd == "" && last > 1 && columns[last-1].Name == impliedRowStart && columns[last].Name == impliedRowEnd &&
		s.column(impliedRowEnd) == nil {
		return last
	}
	return slices.IndexFunc(columns, func(c binlog.Column) bool { return s.rowEnd != "" && strings.EqualFold(c.Name, s.rowEnd) })
}

// isHistory reports whether an image is of a former row of a system-versioned table. In current rows the end of
// validity is 2038-01-19 03:14:07.999999, from MariaDB 11.5 on 2106-02-07 06:28:15.999999. If the table is versioned by
// transactions, it is the largest 64-bit number.
func (p *plan) isHistory(img *image) bool {
	if p.rowEnd < 0 {
		return false
	}
	switch until := img.values[p.rowEnd]; len(until) {
	case 8:
		return binary.LittleEndian.Uint64(until) != math.MaxUint64
	case 4, 5, 6, 7:
		seconds := binary.BigEndian.Uint32(until)
		return seconds != math.MaxInt32 && seconds != math.MaxUint32
	}
	return false
}
