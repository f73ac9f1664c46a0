package survey

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Only a few views are enabled. They belong to the tables that matter most to users. Such a table has a name like
// users, orders or products, contains email addresses, is referenced by many others, or has many rows.

// mattering lists the last words of important tables' names, in the singular.
var mattering = []string{"user", "customer", "member", "account", "person", "people", "order", "product", "article",
	"post", "item", "invoice", "payment"}

const (
	ofName   = 5 // a matching name counts as much as 5 referring tables, or 5 digits in the number of rows
	mostRefs = 6
)

// weight rates how much a table matters.
func (d *Database) weight(t *Table) int {
	rows := max(d.estimates[t.Name], int64(t.Rows))
	refs := 0
	for i := range d.Tables {
		of := &d.Tables[i]
		if of != t && slices.ContainsFunc(of.Foreign, func(k ForeignKey) bool { return strings.EqualFold(k.Table, t.Name) }) {
			refs++
		}
	}
	weight := min(refs, mostRefs) + len(strconv.FormatInt(rows, 10))
	words := strings.FieldsFunc(strings.ToLower(t.Name), func(r rune) bool { return r < 'a' || r > 'z' })
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	email := func(c Column) bool { return strings.EqualFold(c.Name, "email") } // tables with it are about people
	if slices.Contains(mattering, last) || slices.Contains(mattering, strings.TrimSuffix(last, "s")) ||
		slices.ContainsFunc(t.Columns, email) {
		weight += ofName
	}
	return weight
}

// byWeight returns the indexes of the tables, the most important first.
func (d *Database) byWeight() []int {
	places, weights := make([]int, len(d.Tables)), make([]int, len(d.Tables))
	for i := range places {
		places[i], weights[i] = i, d.weight(&d.Tables[i])
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	return places
}
