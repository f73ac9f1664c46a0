package survey

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Views that are no comments are few. They are those of the tables that a person means first: with a name as users,
// orders and products have it, or with people's addresses, that many others refer to, with many rows.

// mattering are the last words of names of such tables, in the singular.
var mattering = []string{"user", "customer", "member", "account", "person", "people", "order", "product", "article",
	"post", "item", "invoice", "payment"}

const (
	ofName   = 5 // what a name counts: as much as so many tables that refer to it, or digits of its number of rows
	mostRefs = 6
)

// weight says how much a table matters, beside others.
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
	email := func(c Column) bool { return strings.EqualFold(c.Name, "email") } // of people, whatever they are called here
	if slices.Contains(mattering, last) || slices.Contains(mattering, strings.TrimSuffix(last, "s")) ||
		slices.ContainsFunc(t.Columns, email) {
		weight += ofName
	}
	return weight
}

// byWeight are the places of the tables, those first that matter most.
func (d *Database) byWeight() []int {
	places, weights := make([]int, len(d.Tables)), make([]int, len(d.Tables))
	for i := range places {
		places[i], weights[i] = i, d.weight(&d.Tables[i])
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	return places
}
