package survey

import (
	"slices"
	"strings"
)

// roles are what a table's columns are for.
type roles struct {
	key     []string
	column  string // "" if the rows of a key are of one sort
	version string // "" if rows are changed in place
	offset  []string
	body    *bodies  // nil for plain rows
	objects []string // further columns that hold objects
	valueOf string   // the column of an attribute's value; "" if the rows are no attributes
	isLog   bool     // version counts the rows, which are never changed
	problem string   // why the table can't be followed, and what to do; "" if it can
}

// assign finds the roles of a table's columns: of its unique keys one says what an entity is, and whether a row is a
// version of a cell (key, column, version) or the cell itself.
func assign(t *Table, stages [][]Codec) roles {
	var r roles
	if t.Problem != "" {
		r.problem = t.Problem
		return r
	}
	if len(t.Unique) == 0 {
		r.problem = "it has no primary key and no unique key of columns that can't be NULL, which tell its rows apart: " +
			"add one"
		return r
	}
	var keyed []string
	for _, u := range t.Unique {
		keyed = append(keyed, u...)
	}
	r.body, r.objects = findBody(t, keyed, stages)
	switch {
	case r.body != nil && r.versions(t):
	case r.body == nil && r.attributes(t):
	case r.log(t):
	default:
		r.key = entityKey(t, r.body != nil)
		if r.body != nil {
			r.splitColumn(t, r.key)
		}
	}
	if len(t.Primary) == 1 && !slices.Equal(r.key, t.Primary) { // of several columns it is the default, and needs no words
		r.offset = t.Primary
	}
	for _, name := range r.key {
		if c := t.col(name); !c.identifies() {
			r.problem = "its column " + shown(name) + " is " + c.Type +
				", which can't be a key: add a unique key of another type"
		}
		if strings.ContainsAny(name, `.[]"`) {
			r.problem = "its key column " + shown(name) + " has a name that a view can't say: rename it"
		}
	}
	return r
}

// versionNames are names that columns of versions go by.
var versionNames = []string{"version", "ref_key", "revision", "rev", "ver", "seq", "sequence", "generation",
	"timestamp", "ts", "time"}

// versions finds a unique key of an entity, perhaps a sort of cell, and a version.
func (r *roles) versions(t *Table) bool {
	best := 0
	for _, u := range t.Unique {
		for i := len(u) - 1; i > 0; i-- { // a version stands behind what it is a version of
			name := u[i]
			rank := versionRank(t, name)
			rest := slices.Delete(slices.Clone(u), i, i+1)
			if rank <= best || slices.ContainsFunc(rest, func(n string) bool { return !t.col(n).identifies() }) {
				continue
			}
			best = rank
			r.version, r.column, r.key = name, "", rest
			r.splitColumn(t, rest)
		}
	}
	return best > 0
}

// versionRank says how well a column of a unique key does for a version: 0 if not at all.
func versionRank(t *Table, name string) int {
	c := t.col(name)
	lower := strings.ToLower(name)
	switch {
	case !c.orders() || c.Auto:
		return 0
	case slices.Contains(versionNames, lower):
		return 3
	case strings.HasSuffix(lower, "version") || strings.HasSuffix(lower, "_at") || strings.HasPrefix(lower, "version") ||
		strings.HasSuffix(lower, "_ts"):
		return 2
	case strings.HasSuffix(lower, "id") || c.DataType == "tinyint" || c.DataType == "smallint":
		return 0 // the key of something else, or a number of a part
	}
	return 1
}

// columnNames are names that columns of sorts of cells go by.
var columnNames = []string{"column_name", "column", "col", "family", "column_family", "kind", "type", "sort",
	"attribute", "aspect", "facet"}

// fewSorts is the most different values of a sample that still look like sorts of cells.
const fewSorts = 50

// splitColumn takes the column that tells the sorts of cells apart out of the columns that make a cell.
func (r *roles) splitColumn(t *Table, cell []string) {
	if len(cell) < 2 {
		return
	}
	best, found := 0, -1
	for i, name := range cell {
		c := t.col(name)
		if !c.shortText() {
			continue
		}
		rank := 1
		if slices.Contains(columnNames, strings.ToLower(name)) {
			rank = 3
		}
		switch n := len(distinct(t.Values[c.Name])); {
		case n > fewSorts || n > 4 && n > t.Rows/2:
			continue // that many are names of entities
		case n > 0:
			rank++
		case rank == 1:
			continue // nothing speaks for it
		}
		if rank > best {
			best, found = rank, i
		}
	}
	if found >= 0 {
		r.column = cell[found]
		r.key = slices.Delete(slices.Clone(cell), found, found+1)
	}
}

// distinct are the different values of a column, sorted.
func distinct(values [][]byte) []string {
	seen := map[string]bool{}
	var out []string
	for _, v := range values {
		if v != nil && !seen[string(v)] {
			seen[string(v)] = true
			out = append(out, string(v))
		}
	}
	slices.Sort(out)
	return out
}

// keyNames are names that the key of an entity goes by beside a number that only counts rows.
var keyNames = []string{"id", "uuid", "guid", "key", "row_key", "entity_id", "entity", "object_id",
	"external_id", "public_id"}

// entityKey is the unique key that names the entity: the primary key, but for a table of bodies whose primary key
// counts rows while another key of one column is a UUID or is called a key.
func entityKey(t *Table, bodies bool) []string {
	first := t.Unique[0]
	if !bodies || len(first) != 1 || !t.col(first[0]).Auto {
		return first
	}
	for _, u := range t.Unique[1:] {
		if len(u) != 1 {
			continue
		}
		c := t.col(u[0])
		uuid := c.DataType == "uuid" || c.DataType == "binary" && c.Length == 16 || c.DataType == "char" &&
			(c.Length == 36 || c.Length == 32)
		if c.identifies() && (uuid || slices.Contains(keyNames, strings.ToLower(c.Name))) {
			return u
		}
	}
	return first
}
