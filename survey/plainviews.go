package survey

import (
	"fmt"
	"slices"
	"strings"

	"replicator/internal/seen"
)

// suggestForRows suggests views of a table without bodies: a counter if the key has several columns and the rows have
// no version, as in a table of favorites, and otherwise an index of a column. It also suggests counts by a state
// column, and views for the other sinks.
func (p *plan) suggestForRows(f *followed) {
	if f.Rows == 0 {
		return
	}
	base := baseName(f.name)
	var main *stanza
	if len(f.key) > 1 && f.version == "" {
		main = p.counter(f, base)
	} else {
		main = p.columnIndex(f, base)
	}
	if main != nil {
		if len(p.db.Targets) > 0 || p.live["main"] == 0 || main.made {
			p.keep(main, "main")
		}
		f.views = append(f.views, *main)
	}
	state := f.stateColumn()
	if state != nil {
		f.views = append(f.views, p.countsInMySQL(f, base, state))
	}
	template := f.template()
	if template == "" {
		return
	}
	members, ok := p.members(f, base, template)
	if fields := f.plainFields(); f.joins() {
		p.keep(&members, "cache")
	} else if len(fields) > 0 {
		hash, document := p.hash(f.name, base, template, fields), p.document(f.name, base, fields)
		p.keep(&hash, "cache")
		p.keep(&document, "search")
		f.views = append(f.views, hash, document)
	}
	if ok {
		f.views = append(f.views, members)
	}
	if state != nil {
		f.views = append(f.views, p.countsInRedis(f, base, state))
	}
}

// joins reports whether the table is a join table: key columns, with at most some dates beside them.
func (f *followed) joins() bool {
	return len(f.key) > 1 && f.version == "" && !slices.ContainsFunc(f.plainFields(),
		func(name string) bool { return !f.col(name).temporal() })
}

// members suggests sets in Redis: the keys of the rows with the same value of the column that users most likely search
// by. If the key has several columns and the rows have no version, a set is made for each value of the first key column
// instead. It returns false if there is no column to search by.
func (p *plan) members(f *followed, base, template string) (stanza, bool) {
	if len(f.key) == 1 || f.version != "" {
		c := f.likeliest()
		if c == nil || strings.ContainsAny(c.Name, "{}:") {
			return stanza{}, false
		}
		name := p.unique("views", base+"_by_"+word(c.Name))
		return stanza{note: fmt.Sprintf("Redis: the set of %s for each %s.", shownList(f.key), shown(c.Name)),
			header: "views." + name, settings: []pair{{"from", quoted(f.name)}, {"sink", `"cache"`}, {"kind", `"index"`},
				{"key", quoted(name + ":{" + c.Name + "}")}}}, true
	}
	first := "{" + f.key[0] + "}"
	name := p.unique("views", base+"_by_"+word(f.key[0]))
	return stanza{note: fmt.Sprintf("Redis: the set of %s for each %s.", shownList(f.key[1:]), shown(f.key[0])),
		header: "views." + name, settings: []pair{{"from", quoted(f.name)}, {"sink", `"cache"`}, {"kind", `"index"`},
			{"key", quoted(name + ":" + first)}, {"member", quoted(strings.TrimPrefix(template, first+":"))}}}, true
}

// stateNames lists common names of state and kind columns, the more likely ones first.
var stateNames = []string{"status", "state", "order_status", "payment_status", "stage", "phase", "type", "kind",
	"category", "role", "level", "priority", "plan", "tier", "country", "language", "locale", "currency", "gender"}

// stateColumn returns the column that rows are likely to be counted by: a column that is named like a status, or else
// an ENUM. It returns nil if there is no such column.
func (f *followed) stateColumn() (best *Column) {
	rank := len(stateNames) + 3
	for i := range f.Columns {
		c := &f.Columns[i]
		lower := strings.ToLower(c.Name)
		small := c.DataType == "enum" || c.integer() && !c.Auto || c.Text &&
			(c.DataType == "char" || c.DataType == "varchar") &&
			(c.Length <= 64 || c.Length <= 255 && slices.Contains(stateNames[:2], lower))
		if !small || has(f.key, c.Name) || badName(c.Name) || secret(c.Name) || strings.EqualFold(c.Name, f.version) {
			continue
		}
		at := slices.Index(stateNames, lower)
		switch {
		case at >= 0:
		case strings.HasSuffix(lower, "_status"), strings.HasSuffix(lower, "_state"):
			at = 3
		case c.DataType == "enum":
			at = len(stateNames)
		case strings.HasSuffix(lower, "_type") && c.Text:
			at = len(stateNames) + 1
		default:
			continue
		}
		if at < rank {
			best, rank = c, at
		}
	}
	return best
}

func (p *plan) countsInMySQL(f *followed, base string, by *Column) stanza {
	name, _ := p.free(base+"_by_"+word(by.Name)+"_counter", func(*Table) bool { return false })
	v := stanza{note: fmt.Sprintf("How many rows each %s has.", shown(by.Name)), header: "views." + name, settings: []pair{
		{"from", quoted(f.name)}, {"sink", `"main"`}, {"kind", `"counter"`}, {"group",
			list([]string{by.Name})}, {"create", "true"}}}
	if len(p.db.Targets) > 0 {
		p.keep(&v, "main")
	}
	return v
}

func (p *plan) countsInRedis(f *followed, base string, by *Column) stanza {
	name := p.unique("views", base+"_count_by_"+word(by.Name))
	v := stanza{note: fmt.Sprintf("Redis: how many rows each %s has.", shown(by.Name)),
		header: "views." + name, settings: []pair{
			{"from", quoted(f.name)}, {"sink", `"cache"`}, {"kind", `"counter"`}, {"key", quoted(name + ":{" + by.Name + "}")}}}
	p.keep(&v, "cache")
	return v
}

// plainFields returns up to mostFields columns that are not in the key. It leaves out names that a configuration
// refuses, and names that look like secrets.
func (f *followed) plainFields() (names []string) {
	for i := range f.Columns {
		c := &f.Columns[i]
		if !has(f.key, c.Name) && !badName(c.Name) && !secret(c.Name) && len(names) < mostFields {
			names = append(names, c.Name)
		}
	}
	return names
}

var amountNames = []string{"cnt", "count", "quantity", "qty", "amount", "score", "points", "total", "balance",
	"votes", "likes", "number"}

// counter suggests a counter of rows, or a sum of their amounts, for each value of the key's first column. It returns
// nil if that column can't be in a counter.
func (p *plan) counter(f *followed, base string) *stanza {
	group := f.col(f.key[0])
	if badName(group.Name) || group.bytes() > seen.MostIndexed {
		return nil
	}
	sum, typ := "", "BIGINT"
	if c := f.amount(); c != nil {
		if sum = c.Name; !c.integer() {
			typ = "DECIMAL(65,10)"
		}
	}
	name, existing := p.free(base+"_counter", func(t *Table) bool {
		return len(t.Columns) == 2 && t.col(group.Name) != nil && t.col(either(sum, "cnt")) != nil && len(t.Primary) == 1 &&
			has(t.Primary, group.Name)
	})
	v := &stanza{header: "views." + name, settings: []pair{{"from", quoted(f.name)},
		{"sink", `"main"`}, {"kind", `"counter"`},
		{"group", list([]string{group.Name})}}}
	v.note = fmt.Sprintf("How many rows each %s has.", group.Name)
	if sum != "" {
		v.note = fmt.Sprintf("The sum of %s for each %s.", sum, group.Name)
		v.settings = append(v.settings, pair{"sum", quoted(sum)})
	}
	if v.made = existing != nil; v.made {
		v.note += " " + p.why(existing)
		if _, ok := existing.col(either(sum, "cnt")).createdAs(typ); !ok || !sameType(existing.col(group.Name), group) {
			return v
		}
	}
	v.create(pair{group.Name, group.Type}, pair{either(sum, "cnt"), typ})
	return v
}

// columnIndex suggests an index of the column that users most likely search by. It returns nil if there is none.
func (p *plan) columnIndex(f *followed, base string) *stanza {
	best := f.likeliest()
	if best == nil {
		return nil
	}
	name, existing := p.free("index_"+base+"_"+word(best.Name), func(t *Table) bool {
		return len(t.Columns) == 2 && len(f.key) == 1 && t.col(best.Name) != nil && sameType(t.col(best.Name), best) &&
			t.col(f.key[0]) != nil && sameType(t.col(f.key[0]), f.col(f.key[0]))
	})
	v := &stanza{header: "views." + name, settings: []pair{{"from", quoted(f.name)},
		{"sink", `"main"`}, {"kind", `"index"`},
		{"fields", list([]string{best.Name})}}}
	if v.made = existing != nil; v.made {
		v.note = p.why(existing)
	}
	if existing == nil || len(existing.Unique) == 1 {
		v.create(pair{best.Name, best.Type})
	}
	return v
}

// likeliest returns the column that users most likely search by, or nil if there is none.
func (f *followed) likeliest() (best *Column) {
	score := -1
	for i := range f.Columns {
		c := &f.Columns[i]
		if has(f.key, c.Name) || badName(c.Name) || secret(c.Name) || strings.EqualFold(c.Name, f.version) ||
			!c.indexable(seen.MostIndexed-f.keyBytes()) {
			continue
		}
		if s := appeal(c.Name); s > score {
			best, score = c, s
		}
	}
	return best
}

// indexable reports whether an index can hold the column's full values. room is the number of bytes that the table's
// key leaves in the index.
func (c *Column) indexable(room int64) bool {
	switch {
	case c.integer(), c.DataType == "decimal", c.DataType == "uuid", c.DataType == "enum":
		return true
	case slices.Contains([]string{"char", "varchar", "binary", "varbinary"}, c.DataType):
		return c.Length <= 500 && c.bytes() <= room
	}
	return false
}
