package survey

import (
	"fmt"
	"strconv"
	"strings"
)

// suggestForAttributes suggests views of a table of attributes: a row, a hash and a document with the attributes of
// each entity, and the set of entities for each value of the first attribute.
func (p *plan) suggestForAttributes(f *followed) {
	base := baseName(f.name)
	var from []string
	var fields, types []pair
	column := f.col(f.column)
	for _, value := range distinct(f.Values[column.Name]) {
		name := word(value)
		if column.integer() {
			name = word(column.Name + "_" + value)
		}
		if name == "" || value == "" || hasPair(fields, name) || has(f.key, name) || secret(name) || len(name) > maxName ||
			len(fields) == mostFields {
			continue
		}
		is := strconv.Quote(value)
		if column.integer() {
			is = value
		}
		from = append(from, f.name+"."+value)
		fields = append(fields, pair{name, "=" + f.column + " == " + is + " ? " + f.valueOf + " : nil"})
		types = append(types, pair{name, f.col(f.valueOf).rowType()})
	}
	if len(fields) == 0 {
		return
	}
	name, _ := p.free(base+"_row", func(*Table) bool { return false })
	row := stanza{note: "A row for each entity, with a column for each attribute.",
		header: "views." + name, settings: []pair{
			{"from", list(from)}, {"sink", `"main"`}, {"kind", `"row"`}, {"fields", inline(fields)}}}
	row.create(types...)
	if len(p.db.Targets) > 0 || p.live["main"] == 0 {
		p.keep(&row, "main")
	}
	f.views = append(f.views, row)
	template := f.template()
	if template == "" {
		return
	}
	hash, document := p.hash("", base, template, nil), p.document("", base, nil)
	for _, v := range []*stanza{&hash, &document} {
		v.set("from", list(from))
		v.set("fields", inline(fields))
	}
	p.keep(&hash, "cache")
	p.keep(&document, "search")
	f.views = append(f.views, hash, document)
	if strings.ContainsAny(f.valueOf, "{}:") {
		return
	}
	name = p.unique("views", base+"_by_"+fields[0].name)
	f.views = append(f.views, stanza{note: fmt.Sprintf("Redis: the set of entities for each value of %s.", fields[0].name),
		header: "views." + name, settings: []pair{{"from", quoted(from[0])}, {"sink", `"cache"`}, {"kind", `"index"`},
			{"key", quoted(name + ":{" + f.valueOf + "}")}}})
}

// rowType returns a type that can hold this column's values in a row view.
func (c *Column) rowType() string {
	switch {
	case c.Text && c.holdsBody():
		return "LONGTEXT"
	case c.Text:
		return fmt.Sprintf("VARCHAR(%d)", c.Length)
	}
	return c.Type
}

func (v *stanza) set(name, text string) {
	for i := range v.settings {
		if v.settings[i].name == name {
			v.settings[i].text = text
		}
	}
}
