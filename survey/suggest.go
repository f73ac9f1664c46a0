package survey

import (
	"fmt"
	"slices"
	"strings"
)

// plan is what a configuration is made of.
type plan struct {
	db     *Database
	alike  map[string]*numbered // by the names of their tables
	tables []*followed          // that can be followed
	left   []string             // what is to be said of tables that can't, or need not be
	taken  map[string]bool
	given  map[string]bool // existing tables of the source that views are suggested for
	live   map[string]int  // views that are no comments, by sink
}

// followed is a table to follow.
type followed struct {
	*Table
	roles
	name  string    // in the configuration
	parts *numbered // that a pattern takes for this table; nil: it is a table
	sorts []sortOfCell
	views []stanza // of a table without a body
}

// sortOfCell is what a table holds, or one value of its column.
type sortOfCell struct {
	from       string // as a view names it
	base       string // what its views' names are made of
	table      *followed
	docs       int // decoded bodies
	properties []*property
	more       bool
	views      []stanza
}

// stanza is a section of the file.
type stanza struct {
	note     string // what stands above it
	header   string
	settings []pair // a key and a TOML value
	live     bool   // else it is a comment
	made     bool   // its table is there, and empty: somebody made it for the view
}

// create has the program create the view's table.
func (v *stanza) create(types ...pair) {
	v.settings = append(v.settings, pair{"create", "true"}, pair{"types", inline(types)})
}

// hash is a Redis hash for each entity.
func (p *plan) hash(from, base, template string, fields []string) stanza {
	name := p.unique("views", base+"_hash")
	if name != base+"_hash" { // another view has keys that begin so
		base = name
	}
	return stanza{note: "Redis: a hash for each entity.", header: "views." + name,
		settings: []pair{{"from", quoted(from)}, {"sink", `"cache"`},
			{"kind", `"hash"`}, {"key", quoted(base + ":" + template)}, {"fields", list(fields)}}}
}

// document is an Elasticsearch document for each entity.
func (p *plan) document(from, base string, fields []string) stanza {
	name := p.unique("views", strings.ToLower(base)+"_search")
	return stanza{note: "Elasticsearch: a document for each entity. Without a mapping_file its fields are mapped by " +
		"what they are here.",
		header: "views." + name, settings: []pair{{"from", quoted(from)}, {"sink", `"search"`}, {"kind", `"document"`},
			{"index", quoted(name)}, {"fields", documentFields(fields)}}}
}

// documentFields are the fields of a document. Elasticsearch takes none that begins like its own, as _id does.
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

// isOwn reports whether a table is the program's own: what it knows of its views, or what a rebuild makes beside one.
func isOwn(table string) bool {
	return strings.HasSuffix(table, "__rebuild") || strings.HasSuffix(table, "__replaced") ||
		slices.Contains([]string{"replicator_views", "replicator_state", "replicator_locks",
			"replicator_checkpoints", "replicator_dead_letters"}, table)
}

// mostSorts is how many values of a table's column views are suggested for.
const mostSorts = 20

// newPlan decides what the configuration says.
func newPlan(db *Database, stages [][]Codec) *plan {
	p := &plan{db: db, alike: findNumbered(db), taken: map[string]bool{}, given: map[string]bool{}, live: map[string]int{}}
	all, left := make([]*followed, len(db.Tables)), make([]string, len(db.Tables))
	for _, i := range db.byWeight() { // the first ones have the views that are no comments
		all[i], left[i] = p.follow(&db.Tables[i], stages)
	}
	p.left = slices.DeleteFunc(left, func(why string) bool { return why == "" })
	if db.Beyond > 0 {
		p.left = append(p.left,
			fmt.Sprintf("%d more: the %d that the server takes to hold most rows were looked at. `--table NAME`, which may "+
				"be repeated, names others.", db.Beyond, mostTables))
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
	for _, f := range all { // a table that a view may be kept in is no source
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

// follow finds the roles of a table's columns, and makes the views of its bodies; or it says why the table can't be
// followed, where that is to be said.
func (p *plan) follow(t *Table, stages [][]Codec) (f *followed, left string) {
	if ofFramework(t.Name) && !isOwn(t.Name) {
		return nil, fmt.Sprintf("%s: a framework keeps it for itself.", shown(t.Name))
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
	f.name = p.tableName(f.source())
	if f.body != nil {
		p.suggestForBodies(f)
		f.body.decoded = nil // there may be many tables
	}
	return f, left
}

// tableName is the name of a table in the configuration.
func (p *plan) tableName(table string) string {
	name := table
	if badName(name) {
		if name = word(table); name == "" {
			name = "table"
		}
	}
	return p.unique("tables", name)
}

// unique makes a name of a kind ("tables", "views") that nothing has yet, and takes it. Names of views name tables in
// MySQL, too, which may not tell upper from lower case.
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

// keeper is the database that views in MySQL are kept in.
func (p *plan) keeper() *Database {
	if t := p.target("mysql"); t != nil && t.Database != nil {
		return t.Database
	}
	return p.db
}

// table is a table of the database that views are kept in; nil if there is none of the name.
func (p *plan) table(name string) *Table {
	tables := p.keeper().Tables
	for i := range tables {
		if strings.EqualFold(tables[i].Name, name) {
			return &tables[i]
		}
	}
	return nil
}

// free makes the name of a view in MySQL that is kept in a table of its own, and returns a table of that name that fits
// and that the view may have: one that is empty, or that the program keeps under that name.
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
	// else it was not looked at
	empty := t.Rows == 0 && t.Problem == "" && !t.Skipped && len(t.Unique) > 0 && !isOwn(t.Name)
	kept := p.keeper().Kept[t.Name]
	return kept == view || empty && kept == ""
}

// secret reports whether a name looks like that of something that is better not copied around.
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

// appeal says how likely somebody wants to find entities by something of that name.
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
		return 1 // most often the key again
	case strings.Contains(lower, "email"), strings.HasSuffix(lower, "_id"), strings.HasSuffix(lower,
		"_key"), strings.HasSuffix(lower, "uuid"):
		return 5
	}
	return 0
}

// keyBytes is what a table's key takes in an index.
func (f *followed) keyBytes() (n int64) {
	for _, name := range f.key {
		n += f.col(name).bytes()
	}
	return n
}

// template is a template of the table's key, "" if there is none that a configuration takes.
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
