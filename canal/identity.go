package canal

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"replicator"
	"replicator/canal/binlog"
)

// Identities implements replicator.Source.
func (s *Source) Identities(ctx context.Context, names []string) (map[string]string, error) {
	found := map[string]string{}
	err := s.eachSchema(ctx, names, func(t *replicator.Table, shape *schema) error {
		own := shape.identity(t)
		if found[t.Name] != "" || own == "" {
			return nil
		}
		given, err := newColumnNames(t, shape, s.db.Conn).given(ctx)
		found[t.Name] = own + given
		return err
	})
	return found, err
}

func (s *Source) eachSchema(ctx context.Context, names []string, f func(*replicator.Table, *schema) error) error {
	conn, srv, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		if !slices.Contains(names, t.Name) {
			continue
		}
		t, shape, err := s.shapeOf(ctx, conn, srv, t)
		if replicator.IsFatal(err) { // the table does not exist; opening the table reports that
			continue
		}
		if err != nil {
			return classify(err)
		}
		if err := f(t, shape); err != nil {
			return err
		}
	}
	return nil
}

// shapeOf reads a table's schema. For a pattern it reads the first table, because all tables of a pattern have the same
// types of key columns.
func (s *Source) shapeOf(ctx context.Context, conn *sql.Conn, srv server, t *replicator.Table) (*replicator.Table, *schema,
	error,
) {
	if !t.Pattern {
		shape, err := readSchema(ctx, conn, t)
		return t, shape, err
	}
	p, err := s.loadPattern(ctx, conn, srv, *t)
	if err != nil {
		return t, nil, err
	}
	return &p.members[0].Table, p.members[0].schema.Load(), nil
}

// SameKeys fails with ErrOtherKeys if the types or collations of the tables' key columns disagree on which values are
// equal.
func (s *Source) SameKeys(ctx context.Context, names []string) error {
	var first *replicator.Table
	var keys []*declaredColumn
	return s.eachSchema(ctx, names, func(t *replicator.Table, shape *schema) error {
		var own []*declaredColumn
		for _, name := range t.Key {
			own = append(own, shape.column(name))
		}
		if first == nil {
			first, keys = t, own
		}
		for i, a := range keys {
			if i >= len(own) || a == nil || own[i] == nil {
				continue // compiling the views or opening the table reports the missing column
			}
			if b := own[i]; !a.sameKeys(b) {
				return fmt.Errorf("%w: column %s.%s is %s, and column %s.%s is %s", replicator.ErrOtherKeys,
					first.Name, a.Name, a.shown(), t.Name, b.Name, b.shown())
			}
		}
		return nil
	})
}

func (c *declaredColumn) shown() string { return strings.TrimSpace(c.fullType + " " + c.collation) }

// sameKeys reports whether the two columns agree on which values are equal as keys.
func (c *declaredColumn) sameKeys(other *declaredColumn) bool {
	kind := keyKindOf(newSelected(c).kind)
	switch {
	case kind != keyKindOf(newSelected(other).kind):
		return false
	case kind == keyDecimal || kind == keyTime: // as texts, 1.0 and 1.00 differ
		return c.identity() == other.identity()
	case kind == keyText:
		_, rules, _ := strings.Cut(c.collation, "_")
		_, others, _ := strings.Cut(other.collation, "_")
		return rules == others
	}
	return true
}

// identity describes how the table's rows form cells, and which row of a cell is the newest (see Source.Identities). It
// is "" if a column is missing; opening the table reports that.
func (s *schema) identity(t *replicator.Table) string {
	versions := "p" // "p": the newest row is the one with the highest log position
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

var digits = regexp.MustCompile(`\([0-9,]*\)`)

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

// identity describes how a column's values become part of a key. Two types have the same identity if their equal values
// give equal keys.
func (c *declaredColumn) identity() string {
	of := keyKindOf(newSelected(c).kind)
	digits := digits.FindString(c.fullType)
	switch of {
	case keyDecimal: // the number of decimals matters, because 1.0 and 1.00 give different keys
		_, scale, _ := strings.Cut(strings.Trim(digits, "()"), ",")
		return string(of) + scale
	case keyTime:
		return c.dataType + digits
	case keyBytes:
		if c.dataType == "binary" { // values are padded to the column's length
			return string(of) + digits
		}
	}
	return string(of)
}
