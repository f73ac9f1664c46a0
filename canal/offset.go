package canal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
)

// namedPlace is the prefix of an offset that the operator chose as a scan's start. The operator's text follows it.
const namedPlace = "from "

// Offset returns the start of a scan at the first row at or after an offset that the operator chose. text is the value
// of the offset column; if there are several, their values are joined by ":" (%3A for a ":" in a value), and the last
// ones may be omitted. Bytes are written as hexadecimal digits or a UUID, and a TIMESTAMP in UTC.
func Offset(text string) string { return namedPlace + text }

// ErrOffset means that a text isn't an offset of the table.
var ErrOffset = errors.New("the value isn't an offset of this table")

// CheckOffset returns an error that wraps ErrOffset if the text isn't an offset of the table.
func (s *Source) CheckOffset(ctx context.Context, table, text string) error {
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := s.loadTables(ctx, conn, srv, []string{table})
	if err != nil {
		return err
	}
	w := all.first(table)
	if w == nil {
		return fmt.Errorf("table %s isn't configured", table)
	}
	if w.Pattern {
		return fmt.Errorf("table %s: %w: the table is a pattern. A rebuild reads its tables from the beginning", table,
			ErrOffset)
	}
	w.Columns = nil // only offset columns matter here; other checks report missing columns
	x, err := newSelection(w)
	if err != nil {
		return err
	}
	_, _, err = x.named(text)
	return err
}

// named parses the operator's text (see Offset). It returns the offset columns for which the text has values, and the
// values as query arguments. The text can't have values for columns that only make the offset unique.
func (x *selection) named(text string) (columns []*selected, args []any, err error) {
	places := x.offset
	if n := len(x.t.Offset); n > 0 {
		places = places[:n]
	}
	values := []string{text}
	if len(places) > 1 {
		values = strings.Split(text, ":")
	}
	if len(values) > len(places) {
		return nil, nil, fmt.Errorf("table %s: %w: %q has %d parts, and an offset has %d", x.t.Name, ErrOffset, text,
			len(values), len(places))
	}
	for n, value := range values {
		if len(places) > 1 {
			value = replicator.UnescapePart(value)
		}
		c := &x.columns[places[n]]
		arg, err := c.namedValue(value)
		if err != nil {
			return nil, nil, fmt.Errorf("table %s, column %s: %w: %q is not of type %s",
				x.t.Name, c.Name, ErrOffset, value, c.dataType)
		}
		columns, args = append(columns, c), append(args, arg)
	}
	return columns, args, nil
}

// namedValue converts the operator's text to a query argument. A text that the server would misread (as 0, or as an
// invalid time) is an error.
func (c *selected) namedValue(text string) (any, error) {
	switch c.kind {
	case binlog.KindInt, binlog.KindYear, binlog.KindBit:
		return parseInteger(text)
	case binlog.KindDecimal, binlog.KindFloat, binlog.KindDouble:
		if _, ok := new(big.Float).SetString(text); !ok {
			return nil, ErrOffset
		}
	case binlog.KindDate, binlog.KindDatetime, binlog.KindTimestamp:
		return text, anyTime(text)
	case binlog.KindBytes:
		return hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	case binlog.KindEnum:
		if !slices.Contains(c.Members, text) {
			return nil, ErrOffset
		}
	}
	return text, nil
}

func anyTime(text string) (err error) {
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if _, err = time.Parse(layout, text); err == nil {
			return nil
		}
	}
	return err
}

func (x *selection) namedBounds(text string) ([]bound, error) {
	columns, values, err := x.named(text)
	if err != nil {
		return nil, x.t.fatal(err)
	}
	bounds := make([]bound, len(columns))
	for n, c := range columns {
		b := bound{name: c.sorted()}
		if c.kind == binlog.KindEnum || c.kind == binlog.KindSet {
			b.placeholder, b.arg = c.offsetArgument(values[n].(string))
		} else {
			b.placeholder, b.arg = c.argument(values[n])
		}
		bounds[n] = b
	}
	return bounds, nil
}
