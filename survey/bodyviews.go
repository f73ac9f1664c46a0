package survey

import (
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/internal/seen"
)

// suggestForBodies finds the properties in a table's bodies and suggests views of them, separately for each sampled
// kind of rows.
func (p *plan) suggestForBodies(f *followed) {
	all := []kindOfRow{{from: f.name, base: baseName(f.name)}}
	if f.column != "" {
		all = nil
		for _, value := range distinct(f.Values[f.col(f.column).Name]) {
			if value != "" {
				all = append(all, kindOfRow{from: f.name + "." + value, base: baseName(value, f.name)})
			}
		}
	}
	for i := range all {
		s := &all[i]
		s.table = f
		var docs []replicator.Object
		for row, doc := range f.body.decoded {
			if doc != nil && (f.column == "" || s.from == f.name+"."+f.kind(row)) {
				docs = append(docs, doc)
			}
		}
		if s.docs = len(docs); i >= mostKinds {
			continue
		}
		if s.properties, s.more = collect(docs); f.body.sure {
			p.suggest(s)
		}
	}
	f.kinds = all
}

func either(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// kind returns the kind of a sampled row: its value in the column that has the role `column`. It returns "" if the
// table has no such column.
func (f *followed) kind(row int) string {
	if f.column == "" {
		return ""
	}
	return string(f.Values[f.col(f.column).Name][row])
}

type candidate struct {
	*property
	typ   string
	score int
}

const (
	mostIndexes = 8  // at most so many indexes are suggested for one kind of rows
	mostFields  = 30 // at most so many fields are suggested for a row or document
)

// candidates returns the properties that may be worth an index, the most likely first.
func (s *kindOfRow) candidates() []candidate {
	var all []candidate
	for _, p := range s.properties {
		typ := p.indexType(seen.MostIndexed - s.table.keyBytes())
		if typ == "" || badName(p.name) || has(s.table.key, p.name) || secret(p.name) {
			continue
		}
		score := 10*appeal(p.name) + 30*len(p.values)/max(p.present, 1) + 30*p.present/max(s.docs, 1)
		switch {
		case p.Booleans > 0:
			score -= 40
		case typ == "BINARY(16)":
			score += 20
		case p.Decimals > 0:
			score -= 40
		case strings.HasSuffix(p.name, "_at") || strings.Contains(p.path, "."):
			score -= 20
		}
		all = append(all, candidate{p, typ, score})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return b.score - a.score })
	return all[:min(len(all), mostIndexes)]
}

// suggest creates the views of one kind of rows. At most one of the index views in MySQL is enabled. The others are
// written as comments.
func (p *plan) suggest(s *kindOfRow) {
	indexes := s.candidates()
	live := slices.IndexFunc(indexes, func(c candidate) bool {
		return c.Booleans+c.Decimals == 0 &&
			4*c.present >= s.docs
	})
	own, ok := p.indexedBeside(s, indexes)
	if ok {
		s.views = append(s.views, own)
	}
	for i, c := range indexes {
		v := p.index(s, c)
		if i == live && !ok {
			p.keep(&v, "main")
		}
		s.views = append(s.views, v)
	}
	if row, ok := p.row(s); ok {
		s.views = append(s.views, row)
	}
	if of := s.table.entity(); s.table.version == "" && of != nil && !has(s.table.key, of[len(of)-1]) {
		s.views = append(s.views, p.ofEntity(s, s.table.col(of[len(of)-1]))...)
	}
	fields := s.withBeside(s.fields(func(p *property) bool { return p.Lists+p.Objects == 0 }))
	if template := s.table.template(); template != "" && len(fields) > 0 {
		v := p.hash(s.from, s.base, template, fields)
		p.keep(&v, "cache")
		s.views = append(s.views, v)
	}
	if len(indexes) > 0 && !strings.ContainsAny(indexes[0].path, "{}:") {
		c := indexes[0]
		name := p.unique("views", s.base+"_by_"+word(c.path))
		s.views = append(s.views, stanza{
			note:   "Redis: the set of entities for each value.",
			header: "views." + name,
			settings: []pair{{"from", quoted(s.from)}, {"sink", `"cache"`}, {"kind", `"index"`},
				{"key", quoted(name + ":{" + c.path + "}")}},
		})
	}
	if fields := s.withBeside(s.fields(s.searchable)); len(fields) > 0 {
		v := p.document(s.from, s.base, fields)
		p.keep(&v, "search")
		s.views = append(s.views, v)
	}
}

// fields returns the paths of up to mostFields first-level properties that fit accepts.
func (s *kindOfRow) fields(fit func(*property) bool) (paths []string) {
	for _, p := range s.properties {
		if s.atTop(p) && fit(p) && len(paths) < mostFields {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// searchable reports whether Elasticsearch accepts all values of a property and of everything inside it. Elasticsearch
// takes the type from the first value, so the values at one path must be of one kind, and integers must fit int64.
func (s *kindOfRow) searchable(top *property) bool {
	kinds := map[string]int{}
	for _, p := range s.properties {
		if p != top && !strings.HasPrefix(p.path, top.path+".") && !strings.HasPrefix(p.path, top.path+"[") {
			continue
		}
		if p.Integers > 0 && !(p.Least.IsInt64() && p.Greatest.IsInt64()) {
			return false
		}
		for bit, n := range []int{p.Texts + p.UUIDs + p.Bytes, p.Booleans, p.Objects, p.Integers + p.Decimals + p.Floats} {
			if n > 0 {
				kinds[strings.ReplaceAll(p.path, "[]", "")] |= 1 << bit
			}
		}
	}
	for _, k := range kinds {
		if k&(k-1) != 0 {
			return false
		}
	}
	return true
}

// atTop reports whether a property is directly in the body and has a name that targets accept.
func (s *kindOfRow) atTop(p *property) bool {
	return p.path == p.name && !badName(p.name) && !has(s.table.key, p.name) && !secret(p.name)
}

// index suggests an index of a property, in an existing table or in a new one.
func (p *plan) index(s *kindOfRow, c candidate) stanza {
	name := "index_" + s.base + "_" + word(c.path)
	var keyColumn string
	name, existing := p.free(name, func(t *Table) bool {
		column, ok := fitsIndex(t, s.table, c)
		keyColumn = column
		return ok
	})
	v := stanza{header: "views." + name, settings: []pair{{"from", quoted(s.from)},
		{"sink", `"main"`}, {"kind", `"index"`}}}
	if c.path == c.name {
		v.settings = append(v.settings, pair{"fields", list([]string{c.path})})
	} else {
		v.settings = append(v.settings, pair{"fields", inline([]pair{{c.name, c.path}})})
	}
	if existing == nil {
		v.create(pair{c.name, c.typ})
		return v
	}
	v.note = p.why(existing)
	if typ, ok := existing.col(c.name).createdAs(c.typ); ok && len(existing.Unique) == 1 && keyColumn == s.table.key[0] {
		v.create(pair{c.name, typ})
		return v
	}
	if keyColumn != s.table.key[0] {
		v.settings = append(v.settings, pair{"key_column", quoted(keyColumn)})
	}
	return v
}

func (p *plan) why(t *Table) string {
	if p.keeper().Kept[t.Name] != "" {
		return fmt.Sprintf("The table %s is there, and the program keeps this view in it already.", shown(t.Name))
	}
	return fmt.Sprintf("The table %s already exists and is empty.", shown(t.Name))
}

// fitsIndex reports whether a table is suitable for an index of a property: it has a column with the property's name
// and a column for the key.
func fitsIndex(t *Table, from *followed, c candidate) (keyColumn string, ok bool) {
	if len(t.Columns) != 2 || len(from.key) != 1 {
		return "", false
	}
	field := t.col(c.name)
	if field == nil || !field.holds(c.property) {
		return "", false
	}
	other := &t.Columns[0]
	if other == field {
		other = &t.Columns[1]
	}
	return other.Name, sameType(other, from.col(from.key[0]))
}

func sameType(a, b *Column) bool { return a.DataType == b.DataType && a.Length == b.Length }

// row suggests a view in MySQL with a row for each key, and a column for each first-level property that fits.
func (p *plan) row(s *kindOfRow) (stanza, bool) {
	name := s.base
	if s.table.column == "" {
		name += "_row"
	}
	var adopted []pair
	name, existing := p.free(name, func(t *Table) bool {
		adopted = fitsRow(t, s)
		return adopted != nil
	})
	v := stanza{header: "views." + name, settings: []pair{{"from", quoted(s.from)}, {"sink", `"main"`}, {"kind", `"row"`}}}
	var names []string
	if existing != nil {
		for _, f := range adopted[1:] {
			names = append(names, f.name)
		}
		v.note = p.why(existing)
		v.settings = append(v.settings, pair{"key", inline(adopted[:1])}, pair{"fields", list(names)})
		return v, true
	}
	var types []pair
	for _, c := range s.beside() {
		names, types = append(names, "$"+c.Name), append(types, pair{c.Name, c.Type})
	}
	for _, property := range s.properties {
		if typ := property.Row(property.name); typ != "" && s.atTop(property) && len(names) < mostFields &&
			!hasPair(types, property.name) {
			names = append(names, property.path)
			types = append(types, pair{property.name, typ})
		}
	}
	v.note = "A row for each entity."
	v.settings = append(v.settings, pair{"fields", list(names)})
	v.create(types...)
	return v, len(names) > 0
}

// ofEntity suggests views for a table of events: an index in MySQL and a set in Redis of the events of each entity.
// entity is the column with the entity's ID.
func (p *plan) ofEntity(s *kindOfRow, entity *Column) (views []stanza) {
	if badName(entity.Name) || !entity.indexable(seen.MostIndexed-s.table.keyBytes()) {
		return nil
	}
	name, _ := p.free("index_"+s.base+"_"+word(entity.Name), func(*Table) bool { return false })
	views = append(views, stanza{note: fmt.Sprintf("The rows of each %s.", entity.Name),
		header: "views." + name, settings: []pair{
			{"from", quoted(s.from)}, {"sink", `"main"`}, {"kind", `"index"`}, {"fields",
				inline([]pair{{entity.Name, "$" + entity.Name}})},
			{"create", "true"}}})
	name = p.unique("views", s.base+"_by_"+word(entity.Name))
	return append(views, stanza{note: fmt.Sprintf("Redis: the set of rows of each %s.", entity.Name),
		header: "views." + name, settings: []pair{
			{"from", quoted(s.from)}, {"sink", `"cache"`}, {"kind", `"index"`}, {"key",
				quoted(name + ":{$" + entity.Name + "}")}}})
}

func hasPair(pairs []pair, name string) bool {
	return slices.ContainsFunc(pairs, func(p pair) bool { return strings.EqualFold(p.name, name) })
}

// fitsRow returns how a row view can use the existing table t: pairs of a column and a path, the key first. It returns
// nil if the table is not suitable.
func fitsRow(t *Table, s *kindOfRow) []pair {
	if len(t.Primary) != 1 || len(s.table.key) != 1 || len(t.Columns) < 2 {
		return nil
	}
	key := t.col(t.Primary[0])
	if !sameType(key, s.table.col(s.table.key[0])) {
		return nil
	}
	pairs := []pair{{key.Name, "$" + s.table.key[0]}}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c == key {
			continue
		}
		found := slices.IndexFunc(s.properties, func(p *property) bool { return p.path == c.Name })
		if found < 0 || !c.holds(s.properties[found]) {
			return nil
		}
		pairs = append(pairs, pair{c.Name, c.Name})
	}
	return pairs
}
