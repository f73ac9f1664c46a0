package canal

import "fmt"

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
// server does by itself. MariaDB (11.8) leaves generated columns out where a row is updated or deleted. Of a column that
// the table has no more it is not known whether it was generated; nobody wants it.
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
			return nil, fmt.Errorf("the server leaves the generated column %s out of the binlog where rows are updated or deleted: "+
				"say its expression in the view instead", c.Name)
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
