package config

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/nearest"
)

const (
	onExample   = `{ id = "customer_id" }`
	mostJoined  = int64(replicator.MaxJoined)
	onlyForMany = "belongs to a join with many = true. Any other join has one row"
	notSearched = "%q is not a column. Joins find rows only by columns of the source. Add a generated column for " +
		"a value inside another column"
	namesOneTable = "names several tables. A view with joins can name only one"
)

// joins reads the joins of a view. v.From must have been read before.
func (l *loader) joins(s *Section, v *replicator.View) {
	names, sections := s.named("join")
	if len(names) == 0 {
		return
	}
	l.config.lines[v.Name+".join"] = s.line("join")
	if l.config.Source.Kafka != nil {
		s.Problem("join", "Views that are fed from Kafka have no joins. Feed the view from the database, or remove the join")
	}
	if slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table != v.From[0].Table }) {
		s.Problem("from", namesOneTable)
	}
	tables := map[string]*replicator.Table{}
	for i, j := range sections {
		if n := j.at.fields["table"]; n != nil {
			tables[names[i]] = l.config.Table(n.text)
		}
	}
	if len(v.From) > 0 {
		tables[""] = l.config.Table(v.From[0].Table)
	}
	for i, j := range sections {
		l.config.lines[v.Name+".join."+names[i]] = j.at.line
		for key, n := range j.at.fields {
			l.config.lines[v.Name+".join."+names[i]+"."+key] = n.line
		}
		v.Joins = append(v.Joins, l.join(names[i], names, j, tables))
	}
	throughLists(v, sections)
	_, known := v.Lookups()
	bad := slices.IndexFunc(v.Joins, func(j replicator.Join) bool { return !slices.Contains(known, j.Name) })
	if bad >= 0 {
		sections[bad].Problem("on", "the joins refer to each other in a circle. At least one of them must refer to a column of the "+
			"view's own row")
	}
}

// throughLists refuses joins that refer to a join with many rows, because it is unclear which of the rows is meant.
func throughLists(v *replicator.View, sections []*Section) {
	for i, j := range v.Joins {
		for _, on := range j.On {
			if slices.ContainsFunc(v.Joins, func(o replicator.Join) bool { return o.Name == on.From && o.Many }) {
				sections[i].Problem("on", "the join %s may have many rows, and a join can refer only to a join "+
					"with a single row", on.From)
			}
		}
	}
}

// join reads one join. tables has the table of each join of the view by name, and the view's own table under "".
func (l *loader) join(name string, names []string, s *Section, tables map[string]*replicator.Table) replicator.Join {
	j := replicator.Join{Name: name}
	s.Need("table", `"customers"`)
	j.Table = s.Name("table", "", `"customers"`)
	table := tables[name]
	switch {
	case j.Table == "":
	case table == nil:
		var all []string
		for _, t := range l.config.Tables {
			all = append(all, t.Name)
		}
		s.Problem("table", "there is no [tables.%s]%s", j.Table, nearest.Meant(j.Table, all))
	case table.Pattern:
		s.Problem("table", "[tables.%s] stands for several tables (%s), which can't be joined", j.Table, table.Table)
	case table.Column != "":
		s.Problem("table", "the table %s has a column role (%s), so a key may have several rows. Such a table cannot be joined",
			j.Table, table.Column)
	}
	s.Need("on", onExample)
	for _, p := range s.Table("on", onExample) {
		on, problem := joinOn(p, names, tables)
		if table != nil && p.Name == table.Body {
			problem = fmt.Sprintf(notSearched, p.Name)
		}
		if problem != "" {
			s.ProblemAt(p, "on."+p.Name, "%s", problem)
		} else {
			j.On = append(j.On, on)
		}
	}
	j.Many = s.Bool("many")
	own := &ViewSection{Section: s, Config: l.config}
	j.Fields = own.Fields("fields", `["sku", "qty"]`)
	own.distinct(Target{Names: targetNames(j.Fields)})
	j.Where = s.Name("where", "", `"qty > 0"`)
	j.Order = Texts(s.List("order", `["line_no"]`))
	for i, column := range j.Order {
		if j.Order[i] = columnName(column); j.Order[i] == "" {
			s.Problem("order", "%q is not a column. Sort the rows by columns of the table %s", column, j.Table)
		}
	}
	j.Limit = int(s.Int("limit", 0, 1, mostJoined))
	for _, key := range []string{"fields", "order", "limit"} {
		if s.Has(key) && !j.Many {
			s.Problem(key, onlyForMany)
		}
	}
	s.reportKeys()
	return j
}

func targetNames(fields []replicator.Field) []TargetName {
	names := []TargetName{}
	for _, f := range fields {
		names = append(names, TargetName{"fields", f.Name})
	}
	return names
}

func joinOn(p Pair, names []string, tables map[string]*replicator.Table) (on replicator.JoinOn, problem string) {
	on.Column = p.Name
	path := p.Text
	if first, rest := cutName(path); rest != "" && rest[0] == '.' && !strings.HasPrefix(path, "$") {
		if !slices.Contains(names, first) {
			return on, fmt.Sprintf("the view has no join %q%s. Write JOIN.COLUMN, or a column of the view's own row", first,
				nearest.Meant(first, names))
		}
		on.From, path = first, rest[1:]
	}
	on.Path = columnName(path)
	table := tables[on.From]
	switch {
	case on.Path == "", on.Path[0] == '=', table != nil && on.Path == table.Body:
		return on, fmt.Sprintf(notSearched, p.Text)
	case table != nil && table.Body != "" && !strings.HasPrefix(path, "$") && !slices.Contains(table.Key, on.Path):
		return on, fmt.Sprintf("%q is a property in the bodies of the table %s. Joins find rows only by columns of "+
			"the source. Add a generated column for the property, and refer to it as %q",
			p.Text, table.Name, strings.TrimSuffix(p.Text, path)+"$"+path)
	}
	return on, ""
}
