package survey

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// ForeignKey is a reference from the rows of one table to the rows of another.
type ForeignKey struct {
	Columns []string // the columns of the table that has the foreign key
	Table   string   // the table to which the foreign key refers
	Refers  []string // the columns of that table, in the order of Columns
}

// These limit how many joins are proposed for a view.
const (
	mostParents  = 5
	mostChildren = 3
)

func (r *reader) foreign(ctx context.Context, t *Table) error {
	const query = "SELECT constraint_name, column_name, referenced_table_name, referenced_column_name " +
		"FROM information_schema.key_column_usage WHERE table_schema = ? AND table_name = ? AND " +
		"referenced_table_schema = table_schema AND referenced_table_name IS NOT NULL " +
		"ORDER BY constraint_name, ordinal_position"
	last := ""
	return r.each(ctx, query, []any{r.database, t.Name}, func(rows *sql.Rows) error {
		var name, column, table, refers string
		if err := rows.Scan(&name, &column, &table, &refers); err != nil {
			return err
		}
		if name != last {
			last = name
			t.Foreign = append(t.Foreign, ForeignKey{Table: table})
		}
		f := &t.Foreign[len(t.Foreign)-1]
		f.Columns, f.Refers = append(f.Columns, column), append(f.Refers, refers)
		return nil
	})
}

// suggestJoins proposes a document of a table with foreign keys, as a comment. The document has fields of the
// referenced rows, and lists of the rows that refer to the table's rows.
func (p *plan) suggestJoins(f *followed) {
	if !f.joinable() || len(f.Foreign) == 0 || f.joins() {
		return
	}
	j := &joinedView{table: f}
	for _, name := range f.plainFields() {
		j.add(name, name)
	}
	for _, key := range f.Foreign {
		if of := p.followedTable(key.Table); of != nil && of.joinable() && len(j.joins) < mostParents {
			j.parent(of, key)
		}
	}
	if len(j.joins) == 0 {
		return
	}
	children := 0
	for _, of := range p.tables {
		for _, key := range of.Foreign {
			if key.Table == f.Table.Name && of != f && of.joinable() && children < mostChildren && j.children(of, key) {
				children++
			}
		}
	}
	name := p.unique("views", strings.ToLower(baseName(f.name))+"_joined")
	f.views = append(f.views, stanza{
		note: "Elasticsearch: a document for each entity with rows of other tables, as the foreign keys say. The columns " +
			"on both sides of a join need an index: `replicator check` says which is missing.",
		header: "views." + name, settings: []pair{{"from", quoted(f.name)}, {"sink", `"search"`}, {"kind", `"document"`},
			{"index", quoted(name)}, {"fields", inline(j.fields)}}})
	for _, s := range j.joins {
		s.header = "views." + name + ".join." + s.header
		f.views = append(f.views, s)
	}
}

func (p *plan) followedTable(name string) *followed {
	i := slices.IndexFunc(p.tables, func(f *followed) bool { return f.Table.Name == name })
	if i < 0 {
		return nil
	}
	return p.tables[i]
}

// joinable reports whether a table can be joined: plain rows, one for each key, in a single table.
func (f *followed) joinable() bool {
	return f.Rows > 0 && f.body == nil && f.column == "" && f.version == "" && f.parts == nil
}

type joinedView struct {
	table  *followed
	fields []pair
	joins  []stanza // the sections of the joins; each header is the join's name
}

// add adds a field. It returns false if the target doesn't accept the name or the view already has it.
func (j *joinedView) add(name, path string) bool {
	same := func(f pair) bool { return strings.EqualFold(f.name, name) }
	if strings.HasPrefix(name, "_") || slices.ContainsFunc(j.fields, same) {
		return false
	}
	j.fields = append(j.fields, pair{name, path})
	return true
}

// name returns a name for a join that is not the name of a column, so that the join hides no column.
func (j *joinedView) name(name string) string {
	for j.table.col(name) != nil || slices.ContainsFunc(j.joins, func(s stanza) bool { return s.header == name }) {
		name = name[:min(len(name), maxName-1)] + "_"
	}
	return name
}

// parent joins the row that the table refers to.
func (j *joinedView) parent(of *followed, key ForeignKey) {
	fields := slices.DeleteFunc(of.plainFields(), func(name string) bool {
		return slices.ContainsFunc(of.Foreign, func(f ForeignKey) bool { return has(f.Columns, name) })
	})
	if len(fields) == 0 {
		return
	}
	shows := fields[0]
	if best := of.likeliest(); best != nil && has(fields, best.Name) {
		shows = best.Name
	}
	base := baseName(of.name)
	if stem := strings.TrimSuffix(strings.ToLower(key.Columns[0]), "_id"); len(key.Columns) == 1 && word(stem) != "" {
		base = word(stem)
	}
	name := j.name(base)
	if j.add(name+"_"+shows, name+"."+shows) {
		j.joins = append(j.joins, stanza{header: name, settings: []pair{{"table", quoted(of.name)},
			{"on", inline(conditions(key.Refers, key.Columns))}}})
	}
}

// children joins the rows that refer to the table, as a list. It returns false if it added nothing.
func (j *joinedView) children(of *followed, key ForeignKey) bool {
	fields := slices.DeleteFunc(of.plainFields(), func(name string) bool { return has(key.Columns, name) })
	name := j.name(baseName(of.name))
	if len(fields) == 0 || !j.add(name, name) {
		return false
	}
	j.joins = append(j.joins, stanza{header: name, settings: []pair{{"table", quoted(of.name)},
		{"on", inline(conditions(key.Columns, key.Refers))}, {"many", "true"}, {"fields", list(fields)}}})
	return true
}

// conditions pairs columns of the joined table with columns of the view's own row.
func conditions(joined, own []string) (on []pair) {
	for i := range joined {
		on = append(on, pair{joined[i], pathName(own[i])})
	}
	return on
}
