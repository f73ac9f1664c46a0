package survey

import (
	"fmt"
	"slices"
	"strings"
)

// numbered is a group of tables whose names differ only in the number at their end, with the same columns and keys. The
// application has split one table into these parts, and a pattern reads them as one.
type numbered struct {
	numberedName
	tables []*Table // the sampled tables of the group, in the order of their names
	names  []string // the names of all tables of the group, sampled or not
	shared *bool    // whether two of the tables may have rows with the same key; nil: not known yet
}

// numberedName is the common part of the names of numbered tables.
type numberedName struct {
	stem   string // the name without the number
	digits int    // the number of digits; 0: the name has no number
}

// fewestNumbered is the smallest group that counts as one table. Two similar tables may be an old and a new version.
const fewestNumbered = 3

func splitNumber(name string) numberedName {
	stem := strings.TrimRight(name, "0123456789")
	return numberedName{stem, len(name) - len(stem)}
}

// findNumbered returns the groups of numbered tables, such as orders_1 to orders_9, by the name of each sampled table.
func findNumbered(db *Database) map[string]*numbered {
	groups, byName := map[numberedName]*numbered{}, map[string]*numbered{}
	for i := range db.Tables {
		t := &db.Tables[i]
		name := splitNumber(t.Name)
		if name.digits == 0 || word(name.stem) == "" || strings.ContainsAny(name.stem, "*?.") || db.Kept[t.Name] != "" {
			continue
		}
		if groups[name] == nil {
			groups[name] = &numbered{numberedName: name}
		}
		g := groups[name]
		if g.names = append(g.names, t.Name); !t.Skipped {
			g.tables = append(g.tables, t)
		}
	}
	for _, g := range groups {
		if len(g.names) < fewestNumbered || len(g.tables) < 2 || !g.alike() {
			continue
		}
		for _, t := range g.tables {
			byName[t.Name] = g
		}
	}
	return byName
}

func (g *numbered) alike() bool {
	first := g.tables[0]
	for _, t := range g.tables {
		same := t.Problem == "" && slices.Equal(t.Columns, first.Columns) && len(t.Unique) > 0 &&
			slices.EqualFunc(t.Unique, first.Unique, slices.Equal)
		if !same {
			return false
		}
	}
	return true
}

// pattern returns a pattern for the tables, such as orders_?. With *, it would also match tables of views, such as
// orders_by_email.
func (g *numbered) pattern() string { return g.stem + strings.Repeat("?", g.digits) }

// span describes the tables for a comment: "orders_1 to orders_9".
func (g *numbered) span() string {
	return fmt.Sprintf("%s to %s", shown(slices.Min(g.names)), shown(slices.Max(g.names)))
}

// chief returns the table with the most sampled rows. It stands for the whole group in the file.
func (g *numbered) chief() *Table {
	return slices.MaxFunc(g.tables, func(a, b *Table) int { return a.Rows - b.Rows })
}

// shareKeys reports whether two of the tables may have rows with the same key. They may if a key column is
// AUTO_INCREMENT, or if the samples contain such rows.
func (g *numbered) shareKeys(key []string) bool {
	known := map[string]bool{}
	for _, t := range g.tables {
		own := map[string]bool{}
		for row := range t.Rows {
			var text strings.Builder
			for _, name := range key {
				c := t.col(name)
				if c == nil || c.Auto {
					return true
				}
				if values := t.Values[c.Name]; row < len(values) {
					fmt.Fprintf(&text, "%d %s", len(values[row]), values[row])
				}
			}
			own[text.String()] = true
		}
		for k := range own {
			if known[k] {
				return true
			}
			known[k] = true
		}
	}
	return false
}

func fewNumbered(names []string) []string {
	seen := map[numberedName]int{}
	return slices.DeleteFunc(names, func(table string) bool {
		name := splitNumber(table)
		seen[name]++
		return name.digits > 0 && seen[name] > fewestNumbered
	})
}

// takeTogether adds the table f to its group of numbered tables (orders_1, orders_2, …), unless two tables of the
// group may have rows with the same key. part is true if another table of the group stands for f in the configuration.
// left is a note about tables that stay separate, or "".
func takeTogether(g *numbered, f *followed) (part bool, left string) {
	if g == nil {
		return false, ""
	}
	if g.shared == nil {
		shared := g.shareKeys(f.key)
		g.shared = &shared
	}
	switch {
	case !*g.shared:
		f.parts = g
		return f.Table != g.chief(), ""
	case f.Table == g.chief():
		left = fmt.Sprintf("%s have the same columns, and two of them may hold the same key. To read them as one "+
			"table, write table = %s, with \"$table\" in the key: see docs/concepts.md, Pattern.", g.span(), quoted(g.pattern()))
	}
	return false, left
}

// commonName returns the table's name in the comments and names of the new configuration. If the table stands for a
// group of numbered tables, that is the common start of their names.
func (f *followed) commonName() string {
	if f.parts != nil {
		return strings.TrimRight(f.parts.stem, "_-")
	}
	return f.Table.Name
}
