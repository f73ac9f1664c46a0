package canal

import (
	"fmt"
	"slices"

	"replicator/canal/gtid"
)

// ofPart is the plan for images that lack columns, as bits say; same says that a row's two images have the same. It is
// an error unless the server does so by itself.
func (p *plan) ofPart(present []byte, same bool) (part *plan, err error) {
	if same {
		if part, err = p.lacking(present); err != nil {
			return nil, p.t.fatal(fmt.Errorf("table %s: %w. %s", p.t.Name, err, wayOut))
		}
	}
	if part == nil {
		return nil, p.t.fatal(fmt.Errorf("table %s: the binlog holds rows without all their columns; set binlog_row_image=FULL on "+
			"the source and in its sessions. %s", p.t.Name, wayOut))
	}
	return part, nil
}

// lacking is the plan for images that have only some of the columns, as the bits say; nil where that is not what the
// server does by itself: see server.leavesOut. Of a column that the table has no more it is not known whether it was
// generated; nobody wants it.
func (p *plan) lacking(present []byte) (*plan, error) {
	if known := p.partial[string(present)]; known != nil {
		return known, nil
	}
	s := p.t.schema.Load()
	part := &plan{t: p.t, raw: p.raw, single: p.single, lookups: p.lookups}
	for i, c := range p.columns {
		if isSet(present, i) {
			part.columns = append(part.columns, c)
			continue
		}
		if now := s.column(c.Name); now != nil && !now.generated {
			return nil, nil
		}
		if p.wanted[i] {
			return nil, p.t.ofReaders(c.Name, fmt.Errorf("the server leaves the generated column %s out of the binlog "+
				"where rows are updated or deleted: say its expression in the view instead", c.Name))
		}
	}
	if err := part.assign(s); err != nil {
		return nil, err
	}
	if p.partial == nil {
		p.partial = map[string]*plan{}
	}
	p.partial[string(present)] = part
	return part, nil
}

// leavesOut reports whether the server leaves generated columns out of the binlog where a row is updated, deleted or
// replaced, whatever binlog_row_image and binlog_row_metadata say, STORED ones and those in keys, too. MariaDB 11.8
// does, in every engine; 10.11 and MySQL don't. Of the versions between these two it is not known.
func (s server) leavesOut() bool { return s.flavor == gtid.MariaDB && s.isFrom(11, 0, 0) }

// leftOut warns of generated columns that are read and will be missing.
func (c *checker) leftOut(srv server, x *selection) {
	if !srv.leavesOut() {
		return
	}
	t := x.t
	read := slices.Concat(t.roleNames(), x.names)
	for _, column := range x.shape.columns {
		if !column.generated || !containsFold(read, column.Name) {
			continue
		}
		who, fix := t.neededBy(column.Name), "say its expression in the view instead"
		if containsFold(t.roleNames(), column.Name) {
			who, fix = "which has a role", "make it a column that is written"
		}
		c.warn("table "+t.Name, fmt.Sprintf("the generated column %s, %s: MariaDB (11.8 at the latest) leaves it "+
			"out of the binlog where rows are updated or deleted, and the views that need it stop there",
			column.Name, who), fix)
	}
}
