package survey

import (
	"slices"
	"strings"
)

type roles struct {
	key     []string
	column  string // the column with the kind of a row; "" if all rows of a key are of one kind
	version string // the version column; "" if rows are changed in place
	offset  []string
	body    *bodies  // the column with encoded documents, and its sampled values; nil: the rows have only plain columns
	objects []string // the columns that contain objects, except the column of the body
	valueOf string   // the column with an attribute's value; "" if the rows are not attributes of an entity
	isLog   bool     // the rows never change, and version is the column with the row's number
	problem string   // why the program can't read the table, and what to do; "" if it can
}

// assign finds the roles of a table's columns. In most tables a unique key shows them: a key with a version column
// means that a row is one of several versions. Logs and tables of attributes are recognized by the names of their
// columns.
func assign(t *Table, stages [][]Codec) roles {
	var r roles
	if t.Problem != "" {
		r.problem = t.Problem
		return r
	}
	if len(t.Unique) == 0 {
		r.problem = "it has no primary key and no unique key whose columns can't be NULL, so its rows can't be told " +
			"apart: add one"
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
	// A primary key of several columns is not written as the offset: without an offset, scans follow the primary key.
	if len(t.Primary) == 1 && !slices.Equal(r.key, t.Primary) {
		r.offset = t.Primary
	}
	for _, name := range r.key {
		if c := t.col(name); !c.identifies() {
			r.problem = "its column " + shown(name) + " is " + c.Type +
				", which can't be a key: add a unique key of another type"
		}
		if strings.ContainsAny(name, `.[]"`) {
			r.problem = "its key column " + shown(name) + " has a name that a view can't refer to: rename it"
		}
	}
	return r
}

var versionNames = []string{"version", "ref_key", "revision", "rev", "ver", "seq", "sequence", "generation",
	"timestamp", "ts", "time"}

// versions finds a unique index with a version column. The index's other columns become the key, except that one of
// them may become the `column`, which has the kind of a row. It returns false if there is no such index.
func (r *roles) versions(t *Table) bool {
	best := 0
	for _, u := range t.Unique {
		for i := len(u) - 1; i > 0; i-- { // a version is never the first column of a unique key
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

// versionRank rates a column of a unique key as the version; 0 means unsuitable.
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
		return 0 // probably a reference to another table, or a small number such as a line number in an order
	}
	return 1
}

// columnNames lists common names of columns that contain the kind of a row.
var columnNames = []string{"column_name", "column", "col", "family", "column_family", "kind", "type", "sort",
	"attribute", "aspect", "facet"}

// fewKinds is the most kinds of rows that a table may have. A column with more sampled values is no `column`.
const fewKinds = 50

// splitColumn divides a unique key. A column with few short texts, which looks like the kind of a row, gets the role
// `column`. The other columns are the key.
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
		case n > fewKinds || n > 4 && n > t.Rows/2:
			continue // so many different values are probably IDs
		case n > 0:
			rank++
		case rank == 1:
			continue // neither its name nor its values suggest that the column is the kind of a row
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

// keyNames lists common names of the column that identifies an entity, for tables that also number their rows.
var keyNames = []string{"id", "uuid", "guid", "key", "row_key", "entity_id", "entity", "object_id",
	"external_id", "public_id"}

// entityKey returns the unique key that identifies the rows' entities: usually the primary key. If that only numbers
// the rows of a table of bodies, entityKey prefers a key of one column that is a UUID or is named like a key.
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
