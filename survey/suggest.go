package survey

import (
	"fmt"
	"slices"
	"strings"
)

// plan is the content of a configuration before it is written.
type plan struct {
	db     *Database
	alike  map[string]*numbered // groups of tables whose names differ only in a number at the end, by table name
	tables []*followed
	left   []string        // notes on tables that the configuration does not follow
	taken  map[string]bool // names that the configuration uses: tables.NAME and views.NAME
	given  map[string]bool // existing tables in the source's database that will hold suggested views
	live   map[string]int  // the number of enabled views, by sink
}

// followed is a source table that the configuration lists, with the roles of its columns and the suggested views.
type followed struct {
	*Table
	roles
	name  string    // the name in the configuration
	parts *numbered // the group of tables that the configured pattern matches; nil: a single table
	kinds []kindOfRow
	views []stanza // the suggested views of a table without a body
}

// kindOfRow describes a table's sampled rows of one kind, or all its rows if no column has the role `column`.
type kindOfRow struct {
	from       string // the setting `from` of the suggested views: TABLE or TABLE.VALUE
	base       string // the start of the names of the suggested views
	table      *followed
	docs       int // how many bodies were decoded
	properties []*property
	more       bool
	views      []stanza
}

// stanza is a section of the file.
type stanza struct {
	note     string // the comment above the section
	header   string
	settings []pair // keys with TOML values
	live     bool   // the section is enabled; otherwise it is written as a comment
	made     bool   // a table that fits the view exists already
}

// create adds the settings that make the program create the view's table.
func (v *stanza) create(types ...pair) {
	v.settings = append(v.settings, pair{"create", "true"}, pair{"types", inline(types)})
}

// hash suggests a Redis hash for each row.
func (p *plan) hash(from, base, template string, fields []string) stanza {
	name := p.unique("views", base+"_hash")
	if name != base+"_hash" { // another view already has keys that start with base
		base = name
	}
	return stanza{note: "Redis: a hash for each entity.", header: "views." + name,
		settings: []pair{{"from", quoted(from)}, {"sink", `"cache"`},
			{"kind", `"hash"`}, {"key", quoted(base + ":" + template)}, {"fields", list(fields)}}}
}

// document suggests an Elasticsearch document for each row.
func (p *plan) document(from, base string, fields []string) stanza {
	name := p.unique("views", strings.ToLower(base)+"_search")
	return stanza{note: "Elasticsearch: a document for each entity. Without a mapping_file the types of its " +
		"fields come from the source's columns and the sampled bodies.",
		header: "views." + name, settings: []pair{{"from", quoted(from)}, {"sink", `"search"`}, {"kind", `"document"`},
			{"index", quoted(name)}, {"fields", documentFields(fields)}}}
}

// documentFields returns the fields of a document. Elasticsearch refuses fields that start like its own, such as _id.
func documentFields(paths []string) string {
	if !slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(path, "_") }) {
		return list(paths)
	}
	var fields []pair
	for _, path := range paths {
		name := strings.TrimLeft(path, "_")
		for name == "" || name != path && slices.Contains(paths, name) || hasPair(fields, name) {
			name += "_"
		}
		fields = append(fields, pair{name, path})
	}
	return inline(fields)
}

// isOwn reports whether a table belongs to the program: it holds the program's own state, or a rebuild created it.
func isOwn(table string) bool {
	return strings.HasPrefix(table, "replicator_") || strings.HasSuffix(table, "__rebuild") ||
		strings.HasSuffix(table, "__replaced")
}

// mostKinds is how many kinds of a table's rows get suggested views.
const mostKinds = 20

// newPlan decides the content of the configuration.
func newPlan(db *Database, stages [][]Codec) *plan {
	p := &plan{db: db, alike: findNumbered(db), taken: map[string]bool{}, given: map[string]bool{}, live: map[string]int{}}
	all, left := make([]*followed, len(db.Tables)), make([]string, len(db.Tables))
	for _, i := range db.byWeight() { // the most important tables first: only the first views of a sink are enabled
		all[i], left[i] = p.follow(&db.Tables[i], stages)
	}
	p.left = slices.DeleteFunc(left, func(why string) bool { return why == "" })
	if db.Beyond > 0 {
		p.left = append(p.left,
			fmt.Sprintf("%d more: only the %d with the most rows, as the server estimates, were read. To read others, "+
				"name them with `--table NAME`, which may be repeated.", db.Beyond, mostTables))
	}
	for _, i := range db.byWeight() {
		switch f := all[i]; {
		case f == nil, f.body != nil, p.given[f.Table.Name]:
		case f.column != "":
			p.suggestForAttributes(f)
		default:
			p.suggestForRows(f)
		}
	}
	for _, f := range all { // a table in which a suggested view will be kept is not listed as a source table
		if f != nil && !p.given[f.Table.Name] {
			p.tables = append(p.tables, f)
		}
	}
	for _, f := range p.tables {
		p.suggestJoins(f)
		p.suggestRanking(f)
	}
	return p
}

// follow finds the roles of a table's columns, and suggests views of its bodies. If the new configuration leaves the
// table out, `f` is nil, and `left` is the reason that a comment gives, or "" for no comment.
func (p *plan) follow(t *Table, stages [][]Codec) (f *followed, left string) {
	if ofFramework(t.Name) && !isOwn(t.Name) {
		return nil, fmt.Sprintf("%s: a framework uses it for itself.", shown(t.Name))
	}
	if isOwn(t.Name) || t.Skipped {
		return nil, ""
	}
	f = &followed{Table: t, roles: assign(t, stages)}
	switch view := p.db.Kept[t.Name]; {
	case view != "":
		return nil, fmt.Sprintf("%s: the program keeps the view %s in it.", shown(t.Name), shown(view))
	case f.problem != "":
		return nil, fmt.Sprintf("%s: %s.", shown(t.Name), f.problem)
	case strings.Contains(t.Name, "."):
		return nil, fmt.Sprintf("%s: a configuration can't name a table with a dot in its name: rename it.", shown(t.Name))
	}
	part, left := takeTogether(p.alike[t.Name], f)
	if part {
		return nil, ""
	}
	f.name = p.tableName(f.commonName())
	if f.body != nil {
		p.suggestForBodies(f)
		f.body.decoded = nil // frees memory, because there may be many tables
	}
	return f, left
}

// tableName returns the name that the configuration uses for a table of the source.
func (p *plan) tableName(table string) string {
	name := table
	if badName(name) {
		if name = word(table); name == "" {
			name = "table"
		}
	}
	return p.unique("tables", name)
}

// unique returns an unused name of a kind ("tables", "views") and marks it as used. Case doesn't count, because views
// name MySQL tables, whose names may be case-insensitive.
func (p *plan) unique(kind, name string) string {
	for n := 1; ; n++ {
		candidate := name[:min(len(name), maxName)]
		if n > 1 {
			end := fmt.Sprintf("_%d", n)
			candidate = name[:min(len(name), maxName-len(end))] + end
		}
		key := kind + "." + candidate
		if kind == "views" {
			key = strings.ToLower(key)
		}
		if !p.taken[key] {
			p.taken[key] = true
			return candidate
		}
	}
}

// keeper returns the database that holds the views in MySQL.
func (p *plan) keeper() *Database {
	if t := p.target("mysql"); t != nil && t.Database != nil {
		return t.Database
	}
	return p.db
}

// table returns a table of the database that holds the views in MySQL, by name, or nil.
func (p *plan) table(name string) *Table {
	tables := p.keeper().Tables
	for i := range tables {
		if strings.EqualFold(tables[i].Name, name) {
			return &tables[i]
		}
	}
	return nil
}

// free returns an unused name for a view in MySQL, which is also the name of the view's table. If the table exists, it
// is empty or already keeps this view, and `fits` accepts it. free then returns the table, too.
func (p *plan) free(name string, fits func(*Table) bool) (string, *Table) {
	for n := 1; ; n++ {
		candidate := name
		if n > 1 {
			candidate = fmt.Sprintf("%s_%d", name[:min(len(name), maxName-4)], n)
		}
		if len(candidate) > maxName || p.taken["views."+strings.ToLower(candidate)] {
			name = name[:min(len(name), maxName-4)]
			continue
		}
		t := p.table(candidate)
		if t != nil && !(p.ours(t, candidate) && fits(t)) {
			continue
		}
		name = p.unique("views", candidate)
		if t != nil && p.keeper() == p.db {
			p.given[t.Name] = true
		}
		return name, t
	}
}

// ours reports whether a view of that name may be kept in an existing table.
func (p *plan) ours(t *Table, view string) bool {
	// Rows is 0 also for a table that was not sampled. That table may have rows.
	empty := t.Rows == 0 && t.Problem == "" && !t.Skipped && len(t.Unique) > 0 && !isOwn(t.Name)
	kept := p.keeper().Kept[t.Name]
	return kept == view || empty && kept == ""
}

// secret reports whether a name looks like the name of a password or another value that should not be copied.
func secret(name string) bool {
	lower := strings.ToLower(name)
	if slices.ContainsFunc(strings.FieldsFunc(lower, func(r rune) bool { return !isWord(r) || r == '_' }),
		func(word string) bool { return word == "pass" || word == "passphrase" || word == "otp" }) {
		return true
	}
	return slices.ContainsFunc([]string{"password", "passwd", "pwd", "secret", "token", "salt", "hash", "api_key",
		"apikey", "private_key", "activation_key",
		"credential", "ssn"},
		func(s string) bool { return strings.Contains(lower, s) })
}

// appeal rates how likely users search rows by a property of that name.
func appeal(name string) int {
	lower := strings.ToLower(name)
	for i, names := range [][]string{
		{"email", "mail"}, {"username", "user_name", "login", "handle", "nickname", "screen_name"}, {"slug",
			"code", "sku", "isbn", "iban"},
		{"user_id", "account_id", "customer_id", "owner_id", "author_id", "external_id"},
		{"phone", "mobile", "domain", "link", "url", "owner", "name", "title"},
	} {
		if slices.Contains(names, lower) {
			return 10 - i
		}
	}
	switch {
	case lower == "id":
		return 1 // a property `id` is usually a copy of the key, by which rows are found anyway
	case strings.Contains(lower, "email"), strings.HasSuffix(lower, "_id"), strings.HasSuffix(lower,
		"_key"), strings.HasSuffix(lower, "uuid"):
		return 5
	}
	return 0
}

func (f *followed) keyBytes() (n int64) {
	for _, name := range f.key {
		n += f.col(name).bytes()
	}
	return n
}

// template returns the table's key as a template, {A}:{B}. It returns "" if a column's name does not fit into a
// template.
func (f *followed) template() string {
	parts := make([]string, len(f.key))
	for i, name := range f.key {
		if pathName(name) != name || strings.ContainsAny(name, "{}:") {
			return ""
		}
		parts[i] = "{" + name + "}"
	}
	return strings.Join(parts, ":")
}
