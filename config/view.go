package config

import (
	"encoding/json"
	"strings"

	"replicator"
)

// countColumn takes the number of cells in a counter that sums nothing.
const countColumn = "cnt"

func (l *loader) views(root *section) {
	names, sections := root.named("views")
	targets := map[string]string{}
	for i, s := range sections {
		v := l.view(names[i], s)
		l.config.lines[v.Name] = s.at.line
		for key, n := range s.at.fields {
			l.config.lines[v.Name+"."+key] = n.line
		}
		l.config.Views = append(l.config.Views, v)
		shared, again := "", false
		for _, target := range l.targets(v) {
			other := targets[target]
			again = again || other == v.Name
			if shared == "" && other != v.Name {
				shared = other
			}
			targets[target] = v.Name
		}
		if shared != "" {
			s.problem(l.targetKey(v), "the view %s is kept in the same place; two views must not share one", shared)
		}
		if again {
			s.problem("table", "%q is one table for several shards of the sink; leave the database out, so that each has its own", v.Table)
		}
	}
}

// targets are the places where a view is kept, comparable among views; none if that is not known.
func (l *loader) targets(v *replicator.View) []string {
	sink := l.config.Sink(v.Sink)
	switch {
	case sink == nil:
		return nil
	case v.Table != "":
		var places []string
		for i, to := range sink.Shards { // two sinks may lead to one database
			if i > 0 && v.ShardOn == "" {
				break
			}
			table := v.Table
			if !strings.Contains(table, ".") {
				table = to.Database + "." + table
			}
			places = append(places, to.Address+"\x00"+table)
		}
		return places
	case v.Index != "":
		return []string{v.Sink + "\x00" + v.Index}
	case sink.Type == "redis" && v.Key != "":
		return []string{v.Sink + "\x00" + v.Key}
	}
	return nil
}

func (l *loader) targetKey(v *replicator.View) string {
	switch l.config.Sink(v.Sink).Type {
	case "mysql":
		return "table"
	case "elastic":
		return "index"
	}
	return "key"
}

func (l *loader) view(name string, s *section) *replicator.View {
	for _, t := range sinkTypes() {
		for _, rule := range kindsOf(t) {
			for _, key := range rule.keys() {
				s.knows(key)
			}
		}
	}
	v := &replicator.View{Name: name}
	v.From = l.feeds(s)
	v.Where = s.name("where", "", `"activate == true"`)
	v.OnChange = s.choice("on_change", "refuse", "rebuild")
	sink, rule := l.kind(s, v)
	if rule.kind == "" {
		s.done()
		return v // without a kind nothing can be said about the other options
	}
	s.only(append(commonKeys(), rule.keys()...), "kind "+rule.kind+" of a "+sink.Type+" sink")
	for _, key := range rule.need {
		s.need(key, needExample(key))
	}
	v.Fields = l.fields(s, "fields")
	switch sink.Type {
	case "mysql":
		l.mysqlView(s, v)
	case "redis":
		l.redisView(s, v)
	case "elastic":
		l.elasticView(s, v)
	}
	l.distinct(s, v, sink.Type)
	s.done()
	return v
}

// kind reads a view's sink and kind, and returns the sink and what is known of the kind: nothing if either is wrong.
func (l *loader) kind(s *section, v *replicator.View) (*Sink, kindRule) {
	s.need("sink", `"main"`)
	s.need("kind", `"index"`)
	v.Sink = s.name("sink", "", `"main"`)
	v.Kind = s.name("kind", "", `"index"`)
	sink := l.config.Sink(v.Sink)
	if sink == nil {
		if v.Sink != "" {
			var names []string
			for _, k := range l.config.Sinks {
				names = append(names, k.Name)
			}
			s.problem("sink", "there is no [sinks.%s]%s", v.Sink, meant(v.Sink, names))
		}
		return nil, kindRule{}
	}
	var kinds []string
	for _, rule := range kindsOf(sink.Type) {
		if rule.kind == v.Kind {
			return sink, rule
		}
		kinds = append(kinds, rule.kind)
	}
	if v.Kind != "" && len(kinds) > 0 {
		s.problem("kind", "a %s sink has no kind %q%s", sink.Type, v.Kind, meant(v.Kind, kinds))
	}
	return sink, kindRule{}
}

// feeds reads from: TABLE or TABLE.COLUMN-VALUE. Names of tables hold no dot, so everything after the first one is the
// value.
func (l *loader) feeds(s *section) []replicator.Feed {
	s.need("from", `"cell.users"`)
	var feeds []replicator.Feed
	for _, p := range s.list("from", `"cell.users"`) {
		name, value, has := strings.Cut(p.text, ".")
		table := l.config.Table(name)
		switch {
		case table == nil:
			var names []string
			for _, t := range l.config.Tables {
				names = append(names, t.Name)
			}
			s.l.problem(p.line, under(s.path, "from"), "there is no [tables.%s]%s", name, meant(name, names))
			continue
		case has && table.Column == "":
			s.l.problem(p.line, under(s.path, "from"), "the table %s has no column that tells cells apart; say from = %q, or column = \"…\" in [tables.%s]", name, name, name)
		case has && value == "":
			s.l.problem(p.line, under(s.path, "from"), "a value of the column %s must follow the dot", table.Column)
		}
		for _, f := range feeds {
			if f.Table == name && (f.Column == "" || value == "" || f.Column == value) {
				s.l.problem(p.line, under(s.path, "from"), "%s and another entry feed the view the same cells", p.text)
			}
		}
		feeds = append(feeds, replicator.Feed{Table: name, Column: value})
	}
	return feeds
}

// fields reads what is kept: a list of paths, or a table of names and paths.
func (l *loader) fields(s *section, key string) []replicator.Field {
	example := needExample(key) + ` or { name = "path" }`
	var fields []replicator.Field
	if s.isTable(key) {
		for _, p := range s.table(key, example) {
			l.path(s, key, p)
			fields = append(fields, replicator.Field{Name: p.name, Path: p.text})
		}
		return fields
	}
	for _, p := range s.list(key, example) {
		if strings.HasPrefix(p.text, "=") {
			s.l.problem(p.line, under(s.path, key), "an expression has no name of its own; say { NAME = %q }", p.text)
			continue
		}
		l.path(s, key, p)
		fields = append(fields, replicator.Field{Name: pathName(p.text), Path: p.text})
	}
	return fields
}

// path checks the form of a path; what an expression means is for who compiles it.
func (l *loader) path(s *section, key string, p pair) {
	if strings.HasPrefix(p.text, "=") {
		if strings.TrimSpace(p.text) == "=" {
			s.l.problem(p.line, under(s.path, key), "an expression must follow the =")
		}
		return
	}
	if pathName(p.text) == "" {
		s.l.problem(p.line, under(s.path, key), `%q is not a path; paths are "email", "address.city", "tags[]", "$column" or "=expression"`, p.text)
	}
}

// pathName is the name of what a path leads to: the last of its names, without quotes. It is "" if a name is empty.
func pathName(path string) string {
	name := ""
	for rest := strings.TrimPrefix(path, "$"); ; {
		var at int
		name, at = cutName(rest)
		rest = rest[at:]
		for strings.HasPrefix(rest, "[") {
			end := strings.Index(rest, "]")
			if end < 0 {
				return ""
			}
			rest = rest[end+1:]
		}
		if name == "" || rest == "" {
			return name
		}
		if rest[0] != '.' {
			return ""
		}
		rest = rest[1:]
	}
}

// cutName takes a name, which may stand in double quotes, from the start of s; at is where it ends.
func cutName(s string) (name string, at int) {
	if !strings.HasPrefix(s, `"`) {
		if at = strings.IndexAny(s, `.["]`); at < 0 {
			at = len(s)
		}
		return s[:at], at
	}
	var b strings.Builder
	for at = 1; at < len(s); at++ {
		switch s[at] {
		case '"':
			return b.String(), at + 1
		case '\\':
			if at++; at == len(s) {
				return "", len(s)
			}
		}
		b.WriteByte(s[at])
	}
	return "", len(s)
}

// distinct reports names that stand twice at the target. MySQL's column names don't tell upper from lower case.
func (l *loader) distinct(s *section, v *replicator.View, sinkType string) {
	seen := map[string]bool{}
	check := func(key, name string) {
		same := name
		if sinkType == "mysql" {
			same = strings.ToLower(name)
		}
		if seen[same] {
			s.problem(key, "the target's name %q occurs twice; rename one: { other_name = \"path\" }", name)
		}
		seen[same] = true
	}
	for _, f := range v.KeyFrom {
		check(cond(s.has("key"), "key", "key_column"), f.Name)
	}
	for _, f := range v.Fields {
		check(cond(s.has("group"), "group", "fields"), f.Name)
	}
	if v.VersionColumn != "" {
		check("version_column", v.VersionColumn)
	}
}

func cond(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func (l *loader) redisView(s *section, v *replicator.View) {
	v.Key = l.template(s, "key")
	v.Member = l.template(s, "member")
	v.Unique = s.boolean("unique")
	switch v.Kind {
	case "hash", "json":
		l.covers(s, "key", v)
	case "counter", "ranking":
		v.Sum = s.name("sum", "", `"cnt"`)
		v.Fields = []replicator.Field{l.amount(s, v.Sum, "sum")}
	}
}

// amount is the last field of a counter or ranking. Counting cells is summing ones.
func (l *loader) amount(s *section, sum, name string) replicator.Field {
	if sum == "" {
		return replicator.Field{Name: name, Path: "=1"}
	}
	l.path(s, "sum", pair{text: sum, line: s.line("sum")})
	return replicator.Field{Name: name, Path: sum}
}

func (l *loader) elasticView(s *section, v *replicator.View) {
	v.Key = l.template(s, "id")
	v.Member = l.template(s, "routing")
	v.Index = s.name("index", v.Name, `"users"`)
	if problem := badIndex(v.Index); problem != "" {
		s.problem("index", "%s", problem)
	}
	v.Mapping = l.json(s, "mapping_file")
	v.Settings = l.json(s, "settings_file")
	l.covers(s, "id", v)
}

// badIndex says what Elasticsearch would refuse in an index's name.
func badIndex(name string) string {
	switch {
	case name != strings.ToLower(name):
		return "Elasticsearch needs index names in lower case; say index = \"" + strings.ToLower(name) + "\""
	case strings.ContainsAny(name, "\\/*?\"<>| ,#:"), strings.HasPrefix(name, "-"), strings.HasPrefix(name, "_"), strings.HasPrefix(name, "+"), name == ".", name == "..":
		return "Elasticsearch does not allow this name of an index: it must not contain \\ / * ? \" < > | , # : or space, nor begin with - _ +"
	case len(name) > 200:
		return "the name of an index has at most 200 bytes, because the program adds to it"
	}
	return ""
}

// json reads a file of JSON.
func (l *loader) json(s *section, key string) string {
	path := s.name(key, "", `"users.json"`)
	if path == "" {
		return ""
	}
	data, err := l.readFile(l.resolve(path))
	var object map[string]any
	if err != nil {
		s.problem(key, "can't be read: %v", err)
	} else if err := json.Unmarshal(data, &object); err != nil {
		s.problem(key, "%s does not hold a JSON object: %v", path, err)
	}
	return string(data)
}
