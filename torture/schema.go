package main

import (
	"encoding/hex"
	"fmt"
	"strings"
)

type keyType string

const (
	intKey  keyType = "int"
	uuidKey keyType = "uuid" // BINARY(16)
	textKey keyType = "text"
	pairKey keyType = "pair" // two columns: a number and a text

	groupKey keyType = "group" // only for the groups table
)

var keyTypes = []keyType{intKey, uuidKey, textKey, pairKey}

func (k keyType) columns() []string {
	switch k {
	case pairKey:
		return []string{"a", "b"}
	case groupKey:
		return []string{"grp"}
	}
	return []string{"k"}
}

func (k keyType) ddl() string {
	switch k {
	case intKey:
		return "k BIGINT NOT NULL"
	case uuidKey:
		return "k BINARY(16) NOT NULL"
	case textKey:
		return "k VARCHAR(40) COLLATE utf8mb4_bin NOT NULL"
	case groupKey:
		return "grp VARCHAR(20) COLLATE utf8mb4_bin NOT NULL"
	default:
		return "a INT NOT NULL, b VARCHAR(20) COLLATE utf8mb4_bin NOT NULL"
	}
}

// values returns the nth key as values for the driver.
func (k keyType) values(n int) []any {
	switch k {
	case intKey:
		return []any{int64(n)*7919 - 1000}
	case uuidKey: // every third key ends in zero bytes, which a row image omits
		b := make([]byte, 16)
		b[0], b[1] = byte(n), byte(n>>8)
		if n%3 != 0 {
			b[15] = byte(n)
		}
		return []any{b}
	case textKey:
		return []any{[]string{"Key ", "key ", "k%é", "学校"}[n%4] + fmt.Sprint(n/4, ".")}
	default:
		return []any{int64(n / 3), []string{"x", "Y", "z"}[n%3]}
	}
}

// show formats a key's values from the source as the template {k} or {a}:{b} does.
func (k keyType) show(values [][]byte) string {
	if k == uuidKey {
		return hex.EncodeToString(values[0])
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ":")
}

func (k keyType) template() string { return "{" + strings.Join(k.columns(), "}:{") + "}" }

// of returns the nth key of a table as text, as views show it.
func (k keyType) of(n int) string {
	var texts [][]byte
	for _, v := range k.values(n) {
		if b, ok := v.([]byte); ok {
			texts = append(texts, b)
		} else {
			texts = append(texts, []byte(fmt.Sprint(v)))
		}
	}
	return k.show(texts)
}

func (t Table) ddl(database string) string {
	name := database + "." + t.Name
	key := strings.Join(t.Key.columns(), ", ")
	switch t.Shape {
	case rows:
		index := ""
		if t.Joined {
			index = ", KEY (grp)"
		}
		if t.Refers != "" {
			index = fmt.Sprintf(", up BIGINT, FOREIGN KEY (up) REFERENCES %s.%s (k)", database, t.Refers)
		}
		return fmt.Sprintf(`CREATE TABLE %s (%s, n BIGINT NOT NULL, email VARCHAR(40) COLLATE utf8mb4_bin,
			grp VARCHAR(20) COLLATE utf8mb4_bin NOT NULL, amount INT NOT NULL, PRIMARY KEY (%s)%s)`, name, t.Key.ddl(), key, index)
	case grps:
		return fmt.Sprintf(`CREATE TABLE %s (%s, label BIGINT NOT NULL, up VARCHAR(20) COLLATE utf8mb4_bin, PRIMARY KEY (%s),
			KEY (up))`, name, t.Key.ddl(), key)
	case cells:
		return fmt.Sprintf(`CREATE TABLE %s (id BIGINT AUTO_INCREMENT PRIMARY KEY, %s, col VARCHAR(20) NOT NULL,
			version BIGINT NOT NULL, body LONGBLOB, UNIQUE KEY cell (%s, col, version))`, name, t.Key.ddl(), key)
	default:
		return fmt.Sprintf(`CREATE TABLE %s (id BIGINT AUTO_INCREMENT PRIMARY KEY, %s, version BIGINT NOT NULL,
			body LONGBLOB, UNIQUE KEY cell (%s, version))`, name, t.Key.ddl(), key)
	}
}

func (t Table) toml() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "[tables.%s]\n", t.Name)
	if t.Pattern {
		fmt.Fprintf(b, "table = \"*_%s\"\n", t.Name)
	}
	fmt.Fprintf(b, "key = [\"%s\"]\n", strings.Join(t.Key.columns(), `", "`))
	if t.Shape == rows || t.Shape == grps {
		return b.String()
	}
	fmt.Fprintf(b, "version = \"version\"\noffset = \"id\"\nbody = \"body\"\ncodec = %q\n", t.Codec)
	if t.Shape == cells {
		b.WriteString("column = \"col\"\n")
	}
	return b.String()
}

func (v View) toml(t Table, prefix string) string {
	b := &strings.Builder{}
	from := fmt.Sprintf("%q", t.Name)
	if t.Shape == cells {
		from = fmt.Sprintf("%q", t.Name+".main")
		if v.Merged {
			from = fmt.Sprintf("[%q, %q]", t.Name+".main", t.Name+".more")
		}
	}
	fmt.Fprintf(b, "[views.%s]\nfrom = %s\nsink = %q\nkind = %q\n", v.Name, from, v.Sink, v.Kind)
	if v.Where {
		b.WriteString("where = \"amount > 50\"\n")
	}
	switch v.Sink + " " + v.Kind {
	case "main row":
		fmt.Fprintf(b, "create = true\nkey = { %s }\nfields = %s\n", assign(t.Key.columns()), v.fields(t))
		more := ""
		if v.Merged {
			more = ", city = 'VARCHAR(20)'"
		}
		for _, name := range v.more(t) {
			more += ", " + name + " = 'BIGINT'"
		}
		fmt.Fprintf(b, "types = { n = 'BIGINT', email = 'VARCHAR(40)', grp = 'VARCHAR(20)', amount = 'INT'%s }\n", more)
	case "main index":
		b.WriteString("create = true\nfields = [\"email\"]\ntypes = { email = 'VARCHAR(40) COLLATE utf8mb4_bin NOT NULL' }\n")
	case "main counter":
		b.WriteString("create = true\ngroup = [\"grp\"]\nsum = \"amount\"\n" +
			"types = { grp = 'VARCHAR(20) COLLATE utf8mb4_bin NOT NULL', amount = 'BIGINT NOT NULL' }\n")
	case "cache hash", "cache json":
		fmt.Fprintf(b, "key = \"%s%s:%s\"\nfields = %s\n", prefix, v.Name, t.Key.template(), v.fields(t))
	case "cache index", "cache counter":
		fmt.Fprintf(b, "key = \"%s%s:{%s}\"\n", prefix, v.Name, v.Field)
		if v.Kind == "counter" {
			b.WriteString("sum = \"amount\"\n")
		}
	case "cache ranking":
		fmt.Fprintf(b, "key = \"%s%s\"\nmember = \"{grp}\"\nsum = \"amount\"\n", prefix, v.Name)
	case "search document":
		fmt.Fprintf(b, "index = \"%s\"\nfields = %s\n", v.index(prefix), v.fields(t))
	}
	if v.Expire != "" {
		fmt.Fprintf(b, "expire = %q\n", v.Expire)
	}
	return b.String()
}

func (v View) index(prefix string) string { return strings.TrimSuffix(prefix, ":") + "_" + v.Name }

func (v View) fields(t Table) string {
	if v.Merged {
		return `["n", "email", "grp", "amount", "city"]`
	}
	more := ""
	for _, name := range v.more(t) {
		more += fmt.Sprintf(", %s = %q", name, t.path(name))
	}
	return `{ n = "n", email = "email", grp = "grp", amount = "amount"` + more + " }"
}

func assign(columns []string) string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = fmt.Sprintf("%s = \"$%s\"", c, c)
	}
	return strings.Join(all, ", ")
}

// toml returns the whole configuration, without the view named `without`.
func (p Plan) toml(a addresses, without string) string {
	own := p.reads(a) + p.process(a) + p.tables()
	if p.Topic != nil {
		return own + p.publishes(a)
	}
	return own + p.sinksAndViews(a, without)
}

func (p Plan) reads(a addresses) string {
	b := &strings.Builder{}
	b.WriteString("[source]\non_lost = \"rebuild\"\n")
	if p.Parts == 1 {
		fmt.Fprintf(b, "dsn = %q\n\n", a.source+p.Hears)
		return b.String()
	}
	b.WriteString("[source.shards]\n")
	for i := range p.Parts {
		fmt.Fprintf(b, "p%d = %q\n", i, a.source+shardSuffix(i)+p.Hears)
	}
	b.WriteString("\n")
	return b.String()
}

// process returns the configuration's sections that differ between processes: checkpoint, HTTP and limits.
func (p Plan) process(a addresses) string {
	b := &strings.Builder{}
	if p.Store == "mysql" {
		fmt.Fprintf(b, "[checkpoint]\nstore = \"mysql\"\ndsn = %q\ninterval = \"100ms\"\n\n", a.store)
	} else {
		b.WriteString("[checkpoint]\npath = \"state\"\ninterval = \"100ms\"\n\n")
	}
	fmt.Fprintf(b, "[http]\nlisten = %q\n\n[limits]\nmemory = %q\n", a.listen, p.Memory)
	if p.Gone != "" {
		fmt.Fprintf(b, "deleted = %q\n", p.Gone)
	}
	b.WriteString("\n")
	return b.String()
}

func (p Plan) tables() string {
	b := &strings.Builder{}
	for _, t := range p.source() {
		b.WriteString(t.toml() + "\n")
	}
	return b.String()
}

// sinksAndViews returns the configuration's sections for the sinks and the views. It leaves out the view named in the
// parameter `without`.
func (p Plan) sinksAndViews(a addresses, without string) string {
	b := &strings.Builder{}
	for _, s := range p.sinks() {
		switch s {
		case "main":
			b.WriteString("[sinks.main]\ntype = \"mysql\"\ntimeout = \"3s\"\n")
			if p.Shards == 1 {
				fmt.Fprintf(b, "dsn = %q\n\n", a.main)
				break
			}
			b.WriteString("[sinks.main.shards]\n")
			for i := range p.Shards {
				fmt.Fprintf(b, "s%d = %q\n", i, a.main+shardSuffix(i))
			}
			b.WriteString("\n")
		case "cache":
			fmt.Fprintf(b, "[sinks.cache]\ntype = \"redis\"\nurl = %q\ntimeout = \"3s\"\n\n", a.cache)
		case "search":
			fmt.Fprintf(b, "[sinks.search]\ntype = \"elastic\"\naddresses = [%q]\ntimeout = \"3s\"\n\n", a.search)
		}
	}
	for _, v := range p.Views {
		if v.Name != without {
			b.WriteString(v.toml(p.table(v.Table), a.prefix))
			if v.Sink == "main" && p.Shards > 1 {
				fmt.Fprintf(b, "shard_on = %q\n", v.shardOn(p.table(v.Table)))
			}
			b.WriteString(v.joinToml(p.table(v.Table)) + "\n")
		}
	}
	return b.String()
}

func shardSuffix(shard int) string {
	if shard == 0 {
		return ""
	}
	return fmt.Sprint("_", shard)
}

// shardOn returns the field that selects the shard of an entry. For a view of kind `row` it is a key column, unless
// v.Moves makes rows change shards.
func (v View) shardOn(t Table) string {
	if v.Moves {
		return "grp"
	}
	if v.Kind == "row" {
		return t.Key.columns()[0]
	}
	return v.Field
}

// addresses has the addresses at which the program reaches a run's servers, and the one at which the program listens.
// It also has the prefix of names in Redis and Elasticsearch, and the topic in Kafka.
type addresses struct {
	source, store, main, cache, search string
	listen                             string
	prefix                             string // the prefix of the run's names in Redis and Elasticsearch
	brokers                            []string
	topic                              string
}
