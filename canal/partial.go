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

// The binlog may hold rows without all their columns. Where binlog_row_image is MINIMAL, an UPDATE has the primary key
// before and the columns that were set after, an INSERT the columns that it names, a DELETE the primary key; where it is
// NOBLOB, unchanged BLOBs are missing. Where binlog_row_value_options is PARTIAL_JSON, MySQL logs what an UPDATE changed
// within a JSON document. And MariaDB 11.8 leaves generated columns out. A session can set all but the last.
//
// One rule covers them: a row that has what its table's views need is handed on as it is, and of any other one only that
// its cell changed, which makes the pipeline read the cell again. Where not even the cell is told, the table counts as
// changed without a log.

// imageParts say which columns the images of a rows event have.
type imageParts struct {
	before, after *imagePart // nil: all
	pairs         bool       // each row has two images
}

// imagePart says which columns an image has.
type imagePart struct {
	present []byte // a bit for each column
	n       int    // set bits
	diffs   bool   // the image begins with which of its JSON columns hold differences
}

// partOf returns nil for images that have all of n columns.
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

// lack says whether an image has a column.
type lack uint8

const (
	lacksNothing lack = iota
	lacksValue        // an after image: the column was not set
	lacksChange       // the column was set, and the image does not hold its value
)

// splitPart is split for an image that lacks columns.
func (p *plan) splitPart(data []byte, img *image, part *imagePart) (int, error) {
	if cap(img.spare) < len(p.columns) {
		img.spare = make([]lack, len(p.columns))
	}
	img.lacks = img.spare[:len(p.columns)]
	clear(img.values)
	c := binlog.Cursor{B: data}
	var diffs []byte // a bit for each JSON column of the table
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

// count returns how many columns are of a kind.
func (p *plan) count(kind binlog.Kind) (n int) {
	for i := range p.columns {
		if p.columns[i].Kind == kind {
			n++
		}
	}
	return n
}

// inherit takes the columns that an UPDATE did not set from the image before it.
func (img *image) inherit(before *image) {
	for i, lacks := range img.lacks {
		if lacks == lacksValue && before.has(i) {
			img.values[i], img.lacks[i] = before.values[i], lacksNothing
		}
	}
}

// has reports whether the image has a column.
func (img *image) has(i int) bool { return img.lacks == nil || img.lacks[i] == lacksNothing }

// whole reports whether an image has all columns that are wanted.
func (p *plan) whole(img *image) bool {
	for i, lacks := range img.lacks {
		if lacks != lacksNothing && p.wanted[i] {
			return false
		}
	}
	return true
}

// untold returns a column without which the cell of a row is not known and that its first image lacks; "" if there is
// none. An after image has the cell, too, then.
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

// untold: rows changed, and the event does not tell of which cells.
func (s *stream) untold(p *plan, column string) error {
	return s.unlogged(p.t.Name, fmt.Errorf("table %s: the binlog holds rows without column %s, which tells whose rows they "+
		"are; set binlog_row_image=FULL on the source and in its sessions: %w", p.t.Name, column, replicator.ErrUnlogged))
}

// leavesOut reports whether the server leaves generated columns out of the binlog where a row is updated, deleted or
// replaced, whatever binlog_row_image and binlog_row_metadata say, STORED ones and those in keys, too. MariaDB 11.8
// does, in every engine; 10.11 and MySQL don't. Of the versions between these two it is not known.
func (s server) leavesOut() bool { return s.flavor == gtid.MariaDB && s.isFrom(11, 0, 0) }

// What rows without all their columns cost.
const (
	readsCells    = "a change of a row without a column that views need is read from the source"
	comparesViews = "an UPDATE or a DELETE there compares all of the table with its views"
)

// rowImages warns of settings by which rows lack columns.
func (c *checker) rowImages(ctx context.Context, db querier) {
	const rowImage, values = "binlog_row_image", "binlog_row_value_options"
	v, err := variable(ctx, db, rowImage)
	switch {
	case err != nil:
		c.fail(rowImage, describe(err), "")
	case strings.EqualFold(v, "FULL"):
		c.ok(rowImage, v)
	default:
		c.warn(rowImage, v+": "+readsCells, "SET GLOBAL binlog_row_image = FULL, and in the configuration, saves the reads")
	}
	c.images = strings.ToUpper(v)
	if v, err := variable(ctx, db, values); err == nil && v != "" {
		c.warn(values, v+": "+readsCells, "SET GLOBAL binlog_row_value_options = '', and in the configuration, saves the reads")
	}
}

// rowColumns warns of columns that are read and will be missing from the rows of a table.
func (c *checker) rowColumns(srv server, x *selection) {
	t := x.t
	read := slices.Concat(t.roleNames(), x.names)
	for _, column := range x.shape.columns {
		if !containsFold(read, column.Name) {
			continue
		}
		ofCell := containsFold(t.Key, column.Name) || strings.EqualFold(t.Column, column.Name)
		if ofCell && c.leavesBefore(x.shape, &column) {
			cost := "a DELETE there, or an UPDATE of that column, compares all of the table with its views"
			if column.generated || !x.shape.foundByPrimary() {
				cost = comparesViews
			}
			c.warn("table "+t.Name, fmt.Sprintf("binlog_row_image is %s, and the column %s, which tells whose row it is, is not in the "+
				"primary key: %s", c.images, column.Name, cost), "SET GLOBAL binlog_row_image = FULL, and in the configuration")
		}
		if !column.generated || !srv.leavesOut() {
			continue
		}
		cost, who, fix := readsCells, t.neededBy(column.Name), "say its expression in the view instead"
		switch {
		case ofCell:
			cost, who, fix = comparesViews, "which tells whose row it is", "make it a column that is written"
		case containsFold(t.roleNames(), column.Name):
			who, fix = "which has a role", "make it a column that is written"
		}
		c.warn("table "+t.Name, fmt.Sprintf("the generated column %s, %s: MariaDB (11.8 at the latest) leaves it "+
			"out of the binlog where rows are updated or deleted: %s", column.Name, who, cost), fix)
	}
}

// leavesBefore reports whether the server's images of rows before a change lack a column.
func (c *checker) leavesBefore(s *schema, column *declaredColumn) bool {
	switch {
	case len(s.primary) == 0 || containsFold(s.primary, column.Name):
		return false
	case c.images == "NOBLOB":
		return strings.HasSuffix(column.dataType, "text") || strings.HasSuffix(column.dataType, "blob")
	}
	return c.images == "MINIMAL"
}
