package canal

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"replicator"
	"replicator/canal/binlog"
)

// Identities implements replicator.Source.
func (s *Source) Identities(ctx context.Context, names []string) (map[string]string, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, classify(err)
	}
	defer conn.Close()
	found := map[string]string{}
	for _, name := range names {
		for i := range s.cfg.Tables {
			t := &s.cfg.Tables[i]
			if t.Name != name || found[name] != "" {
				continue
			}
			shape, err := readSchema(ctx, conn, t)
			if replicator.IsFatal(err) { // it is not there: opening it says so
				continue
			}
			if err != nil {
				return nil, classify(err)
			}
			if found[name] = shape.identity(t); found[name] == "" {
				continue
			}
			given, err := newColumnNames(t, shape, s.db.Conn).given(ctx)
			if err != nil {
				return nil, err
			}
			found[name] += given
		}
	}
	return found, nil
}

// SameKeys implements replicator.Source.
func (s *Source) SameKeys(ctx context.Context, names []string) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Close()
	type keys struct {
		table   *replicator.Table
		columns []*declaredColumn
	}
	var first *keys
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		if !slices.Contains(names, t.Name) {
			continue
		}
		shape, err := readSchema(ctx, conn, t)
		if replicator.IsFatal(err) { // it is not there: opening it says so
			continue
		}
		if err != nil {
			return classify(err)
		}
		own := &keys{table: t}
		for _, name := range t.Key {
			own.columns = append(own.columns, shape.column(name))
		}
		if first == nil {
			first = own
			continue
		}
		for i, a := range first.columns {
			if i >= len(own.columns) || a == nil || own.columns[i] == nil {
				continue // who compiles the views, or opens the table, says so
			}
			if b := own.columns[i]; !a.sameKeys(b) {
				return fmt.Errorf("%w: column %s.%s is %s, and column %s.%s is %s", replicator.ErrOtherKeys,
					first.table.Name, a.Name, a.shown(),
					t.Name, b.Name, b.shown())
			}
		}
	}
	return nil
}

// shown is the type for a person.
func (c *declaredColumn) shown() string { return strings.TrimSpace(c.fullType + " " + c.collation) }

// sameKeys reports whether equal values of two columns are equal as keys, and different ones different.
func (c *declaredColumn) sameKeys(other *declaredColumn) bool {
	kind := keyKindOf(newSelected(c).kind)
	switch {
	case kind != keyKindOf(newSelected(other).kind):
		return false
	case kind == keyDecimal || kind == keyTime: // their texts are the keys
		return c.identity() == other.identity()
	case kind == keyText:
		_, rules, _ := strings.Cut(c.collation, "_")
		_, others, _ := strings.Cut(other.collation, "_")
		return rules == others
	}
	return true
}

// identity says what one cell of the table and its versions are: see replicator.Source. Where a column is missing it is
// "": whoever reads the table says so.
func (s *schema) identity(t *replicator.Table) string {
	versions := "p" // the place in the binlog
	if t.Version != "" && !s.single(t) {
		c := s.column(t.Version)
		if c == nil {
			return ""
		}
		switch versions = "n"; newSelected(c).kind {
		case binlog.KindDatetime:
			versions = "d"
		case binlog.KindTimestamp:
			versions = "t"
		}
	}
	cells := []string{versions}
	for _, name := range t.Key {
		c := s.column(name)
		if c == nil {
			return ""
		}
		cells = append(cells, c.identity())
	}
	if c := s.column(t.Column); c != nil && !c.tellsAll() {
		cells = append(cells, c.collation)
	}
	return strings.Join(cells, " ")
}

// digits are the fractional digits, or the digits, of a type: (6), (10,2).
var digits = regexp.MustCompile(`\([0-9,]*\)`)

// keyKind is what a value becomes in a key.
type keyKind string

const (
	keyInteger keyKind = "integer"
	keyDecimal keyKind = "decimal"
	keyTime    keyKind = "time"
	keyText    keyKind = "text"
	keyBytes   keyKind = "bytes"
)

func keyKindOf(k binlog.Kind) keyKind {
	switch k {
	case binlog.KindInt, binlog.KindYear, binlog.KindBit:
		return keyInteger
	case binlog.KindDecimal:
		return keyDecimal
	case binlog.KindDate, binlog.KindTimeOld, binlog.KindTime, binlog.KindDatetimeOld, binlog.KindDatetime,
		binlog.KindTimestampOld, binlog.KindTimestamp:
		return keyTime
	case binlog.KindBytes:
		return keyBytes
	}
	return keyText
}

// identity is how a column's values become a part of a key: the same for two types whose equal values give equal keys.
func (c *declaredColumn) identity() string {
	of := keyKindOf(newSelected(c).kind)
	digits := digits.FindString(c.fullType)
	switch of {
	case keyDecimal: // 1.0 and 1.00 are other texts
		_, scale, _ := strings.Cut(strings.Trim(digits, "()"), ",")
		return string(of) + scale
	case keyTime:
		return c.dataType + digits
	case keyBytes:
		if c.dataType == "binary" { // padded to its length
			return string(of) + digits
		}
	}
	return string(of)
}
