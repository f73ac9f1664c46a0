package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
)

// The binlog may contain rows without all their columns: with binlog_row_image = MINIMAL or NOBLOB, with
// binlog_row_value_options = PARTIAL_JSON, and on MariaDB 11.8, which omits generated columns.
//
// A row is delivered if it has everything that its table's views need. Otherwise only the fact that its cell changed is
// delivered, and the pipeline reads the row from the table. If even the cell is unknown, the table is reported with
// ErrUnlogged.

type imageParts struct {
	before, after *imagePart // nil: the images have all columns
	pairs         bool       // each row has two images
}

// imagePart says which columns a row image has.
type imagePart struct {
	present []byte // a bit for each column
	n       int
	diffs   bool // the image begins with a list of the JSON columns for which the image holds only differences
}

// partOf returns the imagePart for the columns in present; nil if the images have all n columns.
func partOf(present []byte, n int, diffs bool) *imagePart {
	part := &imagePart{present: present, diffs: diffs}
	for i := range n {
		if isSet(present, i) {
			part.n++
		}
	}
	if part.n == n && !diffs {
		return nil
	}
	return part
}

// lack says why a column is missing from a row image (a row as an event holds it, before or after a change).
type lack uint8

const (
	lacksNothing lack = iota
	lacksValue        // the image lacks the column; in an after image: the statement did not set it
	lacksChange       // the statement set the column, but the image has only the differences of a JSON document
)

// splitPart reads a row image that lacks columns, and returns its length in bytes.
func (p *plan) splitPart(data []byte, img *image, part *imagePart) (int, error) {
	if cap(img.spare) < len(p.columns) {
		img.spare = make([]lack, len(p.columns))
	}
	img.lacks = img.spare[:len(p.columns)]
	clear(img.values)
	c := binlog.Cursor{B: data}
	var diffs []byte // a bit for each JSON column; set: the image has only the differences
	if part.diffs && c.Packed()&1 != 0 {
		diffs = c.Take((p.count(binlog.KindJSON) + 7) / 8)
	}
	nulls := c.Take((part.n + 7) / 8)
	documents, images := 0, 0
	for i := range p.columns {
		column := &p.columns[i]
		img.lacks[i] = lacksNothing
		if column.Kind == binlog.KindJSON {
			if isSet(diffs, documents) {
				img.lacks[i] = lacksChange
			}
			documents++
		}
		if !isSet(part.present, i) {
			img.lacks[i] = lacksValue
			continue
		}
		null := isSet(nulls, images)
		images++
		if null || c.Bad {
			continue
		}
		n := column.Size(c.B[c.Off:])
		if n < 0 {
			return 0, binlog.ErrShort
		}
		value := c.Take(n)
		if !c.Bad && (p.wanted[i] || slices.Contains(p.primary, i)) {
			if column.Width == 0 {
				value = value[column.Prefix:]
			}
			img.values[i] = value
		}
	}
	if c.Bad || c.Off == 0 {
		return 0, binlog.ErrShort
	}
	return c.Off, nil
}

func (p *plan) count(kind binlog.Kind) (n int) {
	for i := range p.columns {
		if p.columns[i].Kind == kind {
			n++
		}
	}
	return n
}

// inherit fills in the columns that an UPDATE did not set, with their values in the before image.
func (img *image) inherit(before *image) {
	for i, lacks := range img.lacks {
		if lacks == lacksValue && before.has(i) {
			img.values[i], img.lacks[i] = before.values[i], lacksNothing
		}
	}
}

func (img *image) has(i int) bool { return img.lacks == nil || img.lacks[i] == lacksNothing }

func (p *plan) whole(img *image) bool {
	for i, lacks := range img.lacks {
		if lacks != lacksNothing && p.wanted[i] {
			return false
		}
	}
	return true
}

// untold returns the name of a key column, or of the column with the column role, that a row's first image lacks; "" if
// it lacks none. The second image of an UPDATE may lack such columns, because it gets them from the first.
func (p *plan) untold(part *imagePart) string {
	if part == nil {
		return ""
	}
	for _, i := range append(slices.Clone(p.key), p.column) {
		if i >= 0 && !isSet(part.present, i) {
			return p.columns[i].Name
		}
	}
	return ""
}

// untold reports a table with ErrUnlogged, because the event does not say which cells changed.
func (s *stream) untold(p *plan, column string) error {
	return s.unlogged(p.t.Name, fmt.Errorf("table %s: the binlog holds rows without column %s, so the changed cells "+
		"are unknown. Set binlog_row_image=FULL on the source and in its sessions: %w", p.t.Name, column,
		replicator.ErrUnlogged))
}

// leavesOut reports whether the server omits generated columns from the binlog when a row is updated, deleted or
// replaced. MariaDB 11.8 does, whatever binlog_row_image says; MariaDB 10.11 and MySQL don't. Versions 11.0 to 11.7
// were not tested, and count as omitting them.
func (s server) leavesOut() bool { return s.flavor == gtid.MariaDB && s.isFrom(11, 0, 0) }

// Texts for findings: what rows that lack columns cost.
const (
	readsCells    = "if a logged row lacks a column that views need, its cell is read from the source"
	comparesViews = "each UPDATE or DELETE compares the whole table with its views"
)

func (c *checker) rowImages(ctx context.Context, db querier) {
	const rowImage, values = "binlog_row_image", "binlog_row_value_options"
	v, err := variable(ctx, db, rowImage)
	switch {
	case err != nil:
		c.fail(rowImage, describe(err), "")
	case strings.EqualFold(v, "FULL"):
		c.ok(rowImage, v)
	default:
		c.warn(rowImage, v+": "+readsCells,
			"SET GLOBAL binlog_row_image = FULL, and set it in my.cnf, to avoid reading cells from the source")
	}
	c.images = strings.ToUpper(v)
	if v, err := variable(ctx, db, values); err == nil && v != "" {
		c.warn(values, v+": "+readsCells,
			"SET GLOBAL binlog_row_value_options = '', and set it in my.cnf, to avoid reading cells from the source")
	}
}

func (c *checker) rowColumns(srv server, x *selection) {
	t := x.t
	read := slices.Concat(t.roleNames(), x.names)
	for _, column := range x.shape.columns {
		if !containsFold(read, column.Name) {
			continue
		}
		ofCell := containsFold(t.Key, column.Name) || strings.EqualFold(t.Column, column.Name)
		if ofCell && c.leavesBefore(x.shape, &column) {
			cost := "each DELETE, and each UPDATE of that column, compares the whole table with its views"
			if column.generated || !x.shape.foundByPrimary() {
				cost = comparesViews
			}
			c.warn("table "+t.Name, fmt.Sprintf("binlog_row_image is %s, and column %s, which identifies "+
				"the row's cell, is not in the primary key: %s", c.images, column.Name, cost),
				"SET GLOBAL binlog_row_image = FULL, and set it in my.cnf")
		}
		if !column.generated || !srv.leavesOut() {
			continue
		}
		cost, who, fix := readsCells, t.neededBy(column.Name), "use its expression in the view instead"
		switch {
		case ofCell:
			cost, who, fix = comparesViews, "which identifies the row's cell",
				"replace it by a column that the application writes"
		case containsFold(t.roleNames(), column.Name):
			who, fix = "which has a role", "replace it by a column that the application writes"
		}
		c.warn("table "+t.Name, fmt.Sprintf("MariaDB (11.8 and later, perhaps earlier) leaves the generated column "+
			"%s, %s, out of the binlog when rows are updated or deleted: %s", column.Name, who, cost), fix)
	}
}

func (c *checker) leavesBefore(s *schema, column *declaredColumn) bool {
	switch {
	case len(s.primary) == 0 || containsFold(s.primary, column.Name):
		return false
	case c.images == "NOBLOB":
		return strings.HasSuffix(column.dataType, "text") || strings.HasSuffix(column.dataType, "blob")
	}
	return c.images == "MINIMAL"
}
