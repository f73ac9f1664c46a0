package survey

import (
	"fmt"
	"slices"
	"strings"
)

// ranked lists the last words of table names whose rows are often ranked, in the singular, the more likely ones first.
var ranked = []string{"product", "article", "item", "film", "post", "customer", "user", "member", "account"}

// suggestRanking proposes a ranking, as a comment, if the table has an amount and refers to another table. Products
// ranked by the quantity in their order lines are an example.
func (p *plan) suggestRanking(f *followed) {
	amount := f.amount()
	if !f.joinable() || amount == nil {
		return
	}
	var by *Column
	rank := len(ranked)
	for _, key := range f.Foreign {
		words := strings.FieldsFunc(strings.ToLower(key.Table), func(r rune) bool { return r < 'a' || r > 'z' })
		if len(key.Columns) != 1 || len(words) == 0 || p.followedTable(key.Table) == nil {
			continue
		}
		last := words[len(words)-1]
		at := slices.IndexFunc(ranked, func(name string) bool { return last == name || last == name+"s" })
		if c := f.col(key.Columns[0]); at >= 0 && at < rank && c != nil && !badName(c.Name) {
			by, rank = c, at
		}
	}
	if by == nil || strings.ContainsAny(by.Name, "{}:") {
		return
	}
	name := p.unique("views", baseName(f.name)+"_ranking_of_"+word(by.Name))
	f.views = append(f.views, stanza{
		note:   fmt.Sprintf("Redis: each %s by the sum of %s.", shown(by.Name), shown(amount.Name)),
		header: "views." + name, settings: []pair{{"from", quoted(f.name)}, {"sink", `"cache"`}, {"kind", `"ranking"`},
			{"key", quoted(name)}, {"member", quoted("{" + by.Name + "}")}, {"sum", quoted(amount.Name)}}})
}

// amount returns a column whose name and type suggest an amount, such as quantity, or nil if there is none.
func (f *followed) amount() *Column {
	for _, name := range amountNames {
		c := f.col(name)
		if c != nil && !has(f.key, name) && (c.integer() || c.DataType == "decimal") {
			return c
		}
	}
	return nil
}
