package view

import (
	"fmt"
	"slices"

	"replicator"
)

// binder resolves the paths of views of one table, and collects the properties and columns that the paths need.
type binder struct {
	table   *replicator.Table
	names   []string // the properties of the body that the paths need
	columns []string // the columns that the paths need, except those that are in replicator.Cell
	needed  []string // those of `columns` that the table must have; the others are optional
	merged  bool     // the view has several tables, so an unknown column may belong to another table

	tables []replicator.Table // tables that joins may name
	joins  []*joinPlan
	joinAt map[string]int // by the join's name in the view that is being compiled: an index in the slice `joins`
}

// resolve compiles a path: it finds the property, column or join that the path starts with. In a table without a body
// every name is a column. If a join has the name of a property, the name means the join.
func (b *binder) resolve(p path) (ref, error) {
	if at, ok := b.joinAt[p.root]; ok && !p.own {
		return b.joinedPath(at, p)
	}
	r := ref{text: p.text, step: p.step}
	if p.own || b.table.Body == "" {
		var err error
		r.root, err = b.column(p.root)
		if err == nil && len(p.step) > 0 && r.root.kind != rootColumn {
			err = fmt.Errorf("column %s of table %s is a plain value, so a path can't lead "+
				"into it", p.root, b.table.Name)
		}
		return r, err
	}
	r.root = root{kind: rootMember, at: place(&b.names, p.root), name: p.root}
	return r, nil
}

func (b *binder) column(name string) (root, error) {
	t := b.table
	if i := slices.Index(t.Key, name); i >= 0 {
		return root{kind: rootKey, at: i, name: name}, nil
	}
	switch {
	case name == t.Body && name != "":
		return root{}, fmt.Errorf("$%s is the body of table %s. Name a property of the body, without $", name, t.Name)
	case name == t.Column && name != "":
		return root{kind: rootCell, name: name}, nil
	case name == t.Version && name != "":
		place(&b.needed, name)
		return root{kind: rootVersion, at: place(&b.columns, name), name: name}, nil
	}
	if !b.merged {
		place(&b.needed, name)
	}
	return root{kind: rootColumn, at: place(&b.columns, name), name: name, optional: b.merged}, nil
}

func (b *binder) everyColumn() { place(&b.columns, allColumns); place(&b.needed, allColumns) }

// place returns the index of name in list. If name is not in the list, place appends it.
func place(list *[]string, name string) int {
	i := slices.Index(*list, name)
	if i < 0 {
		i = len(*list)
		*list = append(*list, name)
	}
	return i
}

// template compiles a template that may use any values of the row. A name without $ means the key column of that name,
// if the table's key has such a column.
func (c *leafCompiler) template(text string) (*template, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	for i := range t.parts {
		p := &t.parts[i]
		if _, joins := c.joinAt[p.path.root]; !joins && slices.Contains(c.table.Key, p.path.root) {
			p.path.own = true
		}
		if p.leaf, err = c.path(p.path); err != nil {
			return nil, err
		}
		p.entity = p.leaf.ref.join == 0 && p.leaf.ref.root.kind == rootKey
	}
	return t, nil
}

// entityTemplate compiles a template that may use only the table's key columns, so that an update of a row never moves
// its entry.
func (c *leafCompiler) entityTemplate(text, what string) (*template, error) {
	t, err := c.template(text)
	if err != nil {
		return nil, err
	}
	for i := range t.parts {
		if p := &t.parts[i]; !p.entity {
			return nil, fmt.Errorf("%s must consist of the table's key, so that an entry never moves, but {%s} is "+
				"not a key column of table %s%s. To find cells by another property, use an index",
				what, p.path.text, c.table.Name, didYouMean(p.path.root, c.table.Key))
		}
	}
	return t, nil
}

// keyTemplate compiles the key of a row, hash, JSON or document view. The template must contain all key columns, so
// that rows with different keys never share an entry.
func (c *leafCompiler) keyTemplate(text string) (*template, error) {
	t, err := c.entityTemplate(text, "the key")
	if err != nil {
		return nil, err
	}
	for _, column := range c.table.Key {
		used := func(p part) bool { return p.path.root == column }
		if !slices.ContainsFunc(t.parts, used) {
			return nil, fmt.Errorf("the key must contain all key columns of table %s, or entities would share a "+
				"key. Add {%s}",
				c.table.Name, column)
		}
	}
	return t, nil
}
