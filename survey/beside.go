package survey

import (
	"slices"
	"strings"

	"replicator/internal/seen"
)

// A table may have ordinary columns beside a body. Views show both. If the table itself has an index of such a column,
// an index view of that column is suggested rather than an index view of a property.

// beside returns the columns beside the body that views can show. It leaves out columns that have a role or may hold
// bodies, names that views refuse, and columns named like a property.
func (s *kindOfRow) beside() (all []*Column) {
	f := s.table
	for i := range f.Columns {
		c := &f.Columns[i]
		switch name := c.Name; {
		case has(f.key, name), has(f.offset, name), has(f.objects, name), strings.EqualFold(name, f.body.column),
			strings.EqualFold(name, f.column), strings.EqualFold(name, f.version), c.holdsBody():
		case badName(name), secret(name), strings.HasPrefix(name, "_"), s.hasProperty(name):
		default:
			all = append(all, c)
		}
	}
	return all
}

func (s *kindOfRow) hasProperty(name string) bool {
	return slices.ContainsFunc(s.properties, func(p *property) bool { return strings.EqualFold(p.path, name) })
}

// withBeside returns up to mostFields paths: those of the columns beside the body, and then properties. It returns nil
// if properties is empty.
func (s *kindOfRow) withBeside(properties []string) (paths []string) {
	if len(properties) == 0 {
		return nil
	}
	for _, c := range s.beside() {
		paths = append(paths, "$"+c.Name)
	}
	paths = append(paths, properties...)
	return paths[:min(len(paths), mostFields)]
}

// indexedBeside suggests an index view of a column beside the body. Candidates are the first columns of the source
// table's own indexes. indexedBeside takes the candidate that users most likely search by. It returns false if there is
// none, or if users more likely search by a property.
func (p *plan) indexedBeside(s *kindOfRow, indexes []candidate) (v stanza, ok bool) {
	var best *Column
	if s.docs == 0 { // views of this table are written only if bodies were decoded
		return v, false
	}
	for _, c := range s.beside() {
		if s.table.leads(c.Name) && c.indexable(seen.MostIndexed-s.table.keyBytes()) &&
			(best == nil || appeal(c.Name) > appeal(best.Name)) {
			best = c
		}
	}
	if best == nil || s.table.column != "" || len(indexes) > 0 && appeal(indexes[0].name) > appeal(best.Name) {
		return v, false
	}
	name, _ := p.free("index_"+s.base+"_"+word(best.Name), func(*Table) bool { return false })
	v = stanza{header: "views." + name, settings: []pair{{"from", quoted(s.from)}, {"sink", `"main"`}, {"kind", `"index"`},
		{"fields", list([]string{"$" + best.Name})}}}
	v.create(pair{best.Name, best.Type})
	p.keep(&v, "main")
	return v, true
}
