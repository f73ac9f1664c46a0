package survey

import (
	"fmt"
	"slices"
	"strings"

	"replicator/internal/seen"
)

// suggestForRows makes the views of a table without bodies: counters where its key has several columns, as that of
// favorites has; indexes of its own columns else. One of them is kept at once only where the source has no bodies that
// are indexed.
func (p *plan) suggestForRows(f *followed) {
	if f.Rows == 0 {
		return
	}
	base := baseName(f.name)
	var main *stanza
	if len(f.key) > 1 {
		main = p.counter(f, base)
	} else {
		main = p.columnIndex(f, base)
	}
	if main != nil {
		main.live = p.live == 0
		if main.live {
			p.live++
		}
		f.views = append(f.views, *main)
	}
	template := f.template()
	fields := f.plainFields()
	if template == "" {
		return
	}
	if len(f.key) > 1 {
		first := "{" + f.key[0] + "}"
		rest := strings.TrimPrefix(template, first+":")
		name := p.unique("views", base+"_by_"+word(f.key[0]))
		f.views = append(f.views, stanza{note: fmt.Sprintf("Redis: the set of %s for each %s.", shownList(f.key[1:]), shown(f.key[0])), header: "views." + name,
			settings: []pair{{"from", quoted(f.name)}, {"sink", `"cache"`}, {"kind", `"index"`}, {"key", quoted(name + ":" + first)}, {"member", quoted(rest)}}})
	}
	if len(fields) > 0 {
		f.views = append(f.views, p.hash(f.name, base, template, fields), p.document(f.name, base, fields))
	}
}

// plainFields are the columns beside the key that are worth keeping.
func (f *followed) plainFields() (names []string) {
	for i := range f.Columns {
		c := &f.Columns[i]
		if !has(f.key, c.Name) && !badName(c.Name) && !secret(c.Name) && len(names) < mostFields {
			names = append(names, c.Name)
		}
	}
	return names
}

// amountNames are names that columns of amounts go by.
var amountNames = []string{"cnt", "count", "quantity", "qty", "amount", "score", "points", "total", "balance", "votes", "likes", "number"}

// counter counts rows, or sums their amounts, for each value of the key's first column; nil if that can't be a column's
// name.
func (p *plan) counter(f *followed, base string) *stanza {
	group := f.col(f.key[0])
	if badName(group.Name) || group.bytes() > seen.MostIndexed {
		return nil
	}
	sum, typ := "", "BIGINT"
	for _, name := range amountNames {
		c := f.col(name)
		if c == nil || has(f.key, name) || !(c.integer() || c.DataType == "decimal") {
			continue
		}
		if sum = c.Name; !c.integer() {
			typ = "DECIMAL(65,10)"
		}
		break
	}
	name, existing := p.free(base+"_counter", func(t *Table) bool {
		return len(t.Columns) == 2 && t.col(group.Name) != nil && t.col(either(sum, "cnt")) != nil && len(t.Primary) == 1 && has(t.Primary, group.Name)
	})
	v := &stanza{header: "views." + name, settings: []pair{{"from", quoted(f.name)}, {"sink", `"main"`}, {"kind", `"counter"`},
		{"group", list([]string{group.Name})}}}
	v.note = fmt.Sprintf("How many rows each %s has.", group.Name)
	if sum != "" {
		v.note = fmt.Sprintf("The sum of %s for each %s.", sum, group.Name)
		v.settings = append(v.settings, pair{"sum", quoted(sum)})
	}
	if existing != nil {
		v.note += " " + p.why(existing)
		if _, ok := existing.col(either(sum, "cnt")).createdAs(typ); !ok || !sameType(existing.col(group.Name), group) {
			return v
		}
	}
	v.create(pair{group.Name, group.Type}, pair{either(sum, "cnt"), typ})
	return v
}

// columnIndex is an index of the column that is the likeliest to be looked for; nil if there is none.
func (p *plan) columnIndex(f *followed, base string) *stanza {
	var best *Column
	score := -1
	for i := range f.Columns {
		c := &f.Columns[i]
		if has(f.key, c.Name) || badName(c.Name) || secret(c.Name) || !c.indexable(seen.MostIndexed-f.keyBytes()) {
			continue
		}
		if s := appeal(c.Name); s > score {
			best, score = c, s
		}
	}
	if best == nil {
		return nil
	}
	name, existing := p.free("index_"+base+"_"+word(best.Name), func(t *Table) bool {
		return len(t.Columns) == 2 && len(f.key) == 1 && t.col(best.Name) != nil && sameType(t.col(best.Name), best) &&
			t.col(f.key[0]) != nil && sameType(t.col(f.key[0]), f.col(f.key[0]))
	})
	v := &stanza{header: "views." + name, settings: []pair{{"from", quoted(f.name)}, {"sink", `"main"`}, {"kind", `"index"`},
		{"fields", list([]string{best.Name})}}}
	if existing != nil {
		v.note = p.why(existing)
	}
	if existing == nil || len(existing.Unique) == 1 {
		v.create(pair{best.Name, best.Type})
	}
	return v
}

// indexable reports whether an index may hold the column's values in full beside a key.
func (c *Column) indexable(room int64) bool {
	switch {
	case c.integer(), c.DataType == "decimal", c.DataType == "uuid", c.DataType == "enum":
		return true
	case slices.Contains([]string{"char", "varchar", "binary", "varbinary"}, c.DataType):
		return c.Length <= 500 && c.bytes() <= room
	}
	return false
}
