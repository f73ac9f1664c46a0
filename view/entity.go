package view

import (
	"fmt"

	"replicator"
)

// Entities returns a function that makes a view's Key and Member without the row, so that a sink can find the entry
// of a deleted row. It works for views whose templates use only the table's key: rows, hashes, JSON and documents.
// Several goroutines may call the function.
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
		if v.Shadows != "" { // a shadow, which rebuilds another view, uses the document IDs of that view
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
