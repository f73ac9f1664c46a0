package view

import (
	"fmt"

	"replicator"
)

// Entities makes a function that renders a view's Key and Member of a cell alone, for views whose templates are made of
// the table's key (rows, hashes, JSON and documents): so a sink finds what a cell that is gone had put there. A
// template that is empty gives "". The function is safe for concurrent use.
func Entities(views []*replicator.View, tables []replicator.Table) (func(v *replicator.View,
	c replicator.Cell) (key, member string, err error), error) {
	type place struct{ view, table string }
	compiled := map[place]*feed{}
	for _, v := range views {
		for _, from := range v.From {
			t, err := findTable(v, from.Table, tables)
			if err != nil {
				return nil, err
			}
			f := &feed{name: v.Name}
			c := &leafCompiler{binder: &binder{table: t}, ids: map[string]int{}}
			if v.Key != "" {
				if f.key, err = c.keyTemplate(v.Key); err != nil {
					return nil, fmt.Errorf("view %s: key: %w", v.Name, err)
				}
			}
			if v.Member != "" {
				if f.member, err = c.entityTemplate(v.Member, "routing"); err != nil {
					return nil, fmt.Errorf("view %s: routing: %w", v.Name, err)
				}
			}
			compiled[place{v.Name, t.Name}] = f
		}
	}
	return func(v *replicator.View, c replicator.Cell) (key, member string, err error) {
		name := v.Name
		if v.Shadows != "" { // a shadow has the documents of the view that it stands in for
			name = v.Shadows
		}
		f := compiled[place{name, c.Table}]
		if f == nil {
			return "", "", fmt.Errorf("view %s is not fed by table %s", v.Name, c.Table)
		}
		s := &scope{}
		s.reset(&plan{}, c, nil)
		if f.key != nil {
			if key, _, err = s.render(f.key); err != nil {
				return "", "", fmt.Errorf("view %s: key: %w", v.Name, err)
			}
		}
		if f.member != nil {
			if member, _, err = s.render(f.member); err != nil {
				return "", "", fmt.Errorf("view %s: routing: %w", v.Name, err)
			}
		}
		return key, member, nil
	}, nil
}
