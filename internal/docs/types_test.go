package docs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(insideVariable); dir != "" {
		os.Exit(inside(dir))
	}
	lab.Main(func() int { return servertest.Run(m) })
}

var update = flag.Bool("update", false, "write the tables of docs/types.md")

const page = "../../docs/types.md"

// bench has the servers. Once the program has run, they hold the documented values.
type bench struct {
	t       testing.TB
	db      lab.MySQL
	redis   lab.Redis
	elastic lab.Elastic
	index   string
}

func TestTypesAreStoredAsDocumented(t *testing.T) {
	server := servertest.Own(t, servers.MySQL)
	b := &bench{t: t, redis: lab.Redis{Server: servertest.Own(t, servers.Redis7)},
		elastic: lab.Elastic{URL: servertest.Elasticsearch(t)}, index: servertest.Name()}
	var dsn string
	b.db, dsn = lab.Prepare(t, server, "types", "")
	b.create()
	p := lab.Build(t, "TYPES", b.config(), "TYPES_DSN="+dsn, "TYPES_REDIS="+b.redis.Server.DSN("0"),
		"TYPES_ELASTIC="+b.elastic.URL)
	p.Beside("mapping.json", `{"dynamic": false}`) // values of one property have many types here
	p.CatchUp()

	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	written := replace(t, string(text), "columns", b.columns())
	bodies := b.bodies()
	written = replace(t, written, "values", b.values(bodies))
	written = replace(t, written, "targets", b.targets(bodies))
	if *update {
		if err := os.WriteFile(page, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(string(text), "\n"), strings.Split(written, "\n")
	for i, line := range is {
		if i >= len(was) || was[i] != line {
			t.Fatalf("docs/types.md, line %d: the program stores\n%s\nIf that is as it should be: "+
				"go test ./internal/docs -update", i+1, line)
		}
	}
}

// replace replaces the table between two comments of the page.
func replace(t testing.TB, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+": written by internal/docs -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/types.md has no place for the table %s: %s…%s", name, begin, end)
	}
	return before + begin + table + end + after
}

// bodyTable returns the name of the table for the bodies of one codec.
func bodyTable(codec string) string { return "body_" + strings.ReplaceAll(codec, "+", "_") }

// target returns the name of the table for a target type.
func target(i int) string { return fmt.Sprintf("target%d", i) }

// create makes tables and rows. Each case has a row of its own, so a value that doesn't fit affects no other value.
func (b *bench) create() {
	columns := []string{"id INT PRIMARY KEY"}
	for i, c := range columnCases() {
		columns = append(columns, fmt.Sprintf("c%d %s", i, c.ddl))
	}
	list := strings.Join(columns, ", ")
	statements := []string{"SET NAMES utf8mb4", "SET time_zone = '+00:00'", "CREATE TABLE source (" + list + ")",
		"CREATE TABLE typed (" + list + ")"}
	for i, c := range columnCases() {
		statements = append(statements, fmt.Sprintf("INSERT INTO source (id, c%d) VALUES (%d, %s)", i, i, c.literal))
	}
	for i, t := range targetTypes() {
		statements = append(statements, "CREATE TABLE "+target(i)+" (id INT PRIMARY KEY, v "+t+" NULL)")
	}
	for _, codec := range codecs() {
		statements = append(statements, "CREATE TABLE "+bodyTable(codec)+" (id INT PRIMARY KEY, body BLOB)")
	}
	for i, c := range bodyCases() {
		statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d, X'%x')", bodyTable(c.codec), i, c.body))
	}
	b.db.Exec(b.t, statements...)
}

func codecs() []string {
	var all []string
	for _, c := range bodyCases() {
		if !slices.Contains(all, c.codec) {
			all = append(all, c.codec)
		}
	}
	return all
}

// config returns the program's configuration.
func (b *bench) config() string {
	var c strings.Builder
	fmt.Fprint(&c, "[source]\ndsn = \"${TYPES_DSN}\"\n[checkpoint]\npath = \"${TYPES_STATE}\"\n[http]\n"+
		"listen = \"${TYPES_LISTEN}\"\n",
		"[sinks.main]\ntype = \"mysql\"\ndsn = \"${TYPES_DSN}\"\n[sinks.cache]\ntype = \"redis\"\nurl = \"${TYPES_REDIS}\"\n",
		"[sinks.search]\ntype = \"elastic\"\naddresses = [\"${TYPES_ELASTIC}\"]\n[tables.source]\nkey = \"id\"\n")
	var fields, from []string
	for i := range columnCases() {
		fields = append(fields, fmt.Sprintf("%q", fmt.Sprintf("c%d", i)))
	}
	for _, codec := range codecs() {
		fmt.Fprintf(&c, "[tables.%s]\nkey = \"id\"\nbody = \"body\"\ncodec = %q\n", bodyTable(codec), codec)
		from = append(from, fmt.Sprintf("%q", bodyTable(codec)))
	}
	views := func(name, from, fields string) {
		fmt.Fprintf(&c, "[views.%s_hash]\nsink = \"cache\"\nkind = \"hash\"\nkey = \"%s:{id}\"\nfrom = [%s]\nfields = [%s]\n",
			name, name, from, fields)
		fmt.Fprintf(&c, "[views.%s_json]\nsink = \"cache\"\nkind = \"json\"\nkey = \"%s_json:{id}\"\nfrom = [%s]\n"+
			"fields = [%s]\n", name, name, from, fields)
		fmt.Fprintf(&c, "[views.%s_document]\nsink = \"search\"\nkind = \"document\"\nindex = \"%s-%s\"\n"+
			"from = [%s]\nfields = [%s]\nmapping_file = \"mapping.json\"\n",
			name, b.index, name, from, fields)
	}
	row := func(name, from, fields string) {
		fmt.Fprintf(&c, "[views.%s]\nsink = \"main\"\nkind = \"row\"\nfrom = [%s]\nfields = [%s]\n", name, from, fields)
	}
	views("column", `"source"`, strings.Join(fields, ", "))
	row("typed", `"source"`, strings.Join(fields, ", "))
	views("body", strings.Join(from, ", "), `"v"`)
	for i := range targetTypes() {
		row(target(i), strings.Join(from, ", "), `"v"`)
	}
	return c.String()
}

// columns returns the table of the source's column types. Types whose values are the same in JSON as in SQL share a
// row.
func (b *bench) columns() string {
	var places []place
	for i, c := range columnCases() {
		for _, table := range []string{"source", "typed"} {
			places = append(places, place{table, fmt.Sprintf("c%d", i), c.ddl, i})
		}
	}
	rows, cached := b.rows(places), b.cached("column", len(columnCases()),
		func(id int) string { return fmt.Sprintf("c%d", id) })
	var numbers, texts, digits []string
	var others strings.Builder
	for i, c := range columnCases() {
		source, stored := rows[places[2*i]], rows[places[2*i+1]]
		note := ""
		if stored == misfit {
			note = ", in MySQL " + misfit
		} else if stored != source {
			b.t.Errorf("%s %s: the source holds %s, the target %s", c.ddl, c.literal, source, stored)
		}
		column, is := code(strings.TrimSuffix(c.ddl, " NULL")), cached[i].json
		switch text := strings.Trim(c.literal, "'"); {
		case note == "" && is == c.literal:
			numbers = append(numbers, column)
		case note == "" && c.literal != text && is == strconv.Quote(text):
			texts = append(texts, column)
		case note == "" && is == strconv.Quote(strings.TrimPrefix(c.literal, "0x")):
			digits = append(digits, column)
		default:
			fmt.Fprintf(&others, "| %s | %s | %s%s |\n", column, code(c.literal), code(is), note)
		}
	}
	return fmt.Sprintf("| column | value | JSON |\n|---|---|---|\n| %s | a number | the same |\n"+
		"| %s | a text | the same, in quotes |\n| %s | `0xff00` | `\"ff00\"` |\n%s", strings.Join(numbers, ", "),
		strings.Join(texts, ", "), strings.Join(digits, ", "), &others)
}

// bodies reads what each sink holds of the properties.
func (b *bench) bodies() []property {
	var places []place
	for i := range bodyCases() {
		for j, t := range targetTypes() {
			places = append(places, place{target(j), "v", t, i})
		}
	}
	rows, cached := b.rows(places), b.cached("body", len(bodyCases()), func(int) string { return "v" })
	var all []property
	for i, c := range bodyCases() {
		s := property{bodyCase: c, text: cached[i]}
		for j := range targetTypes() {
			s.columns = append(s.columns, rows[places[i*len(targetTypes())+j]])
		}
		all = append(all, s)
	}
	return all
}

// property is a property of a body, and what the sinks hold of it.
type property struct {
	bodyCase
	text
	columns []string // by target type
}

// values returns the table of values. It omits a value if its stored text is one of the words that the page uses for
// it. The values of JSON bodies must be stored as written, except for spaces and the order of an object's members.
func (b *bench) values(all []property) string {
	var out strings.Builder
	fmt.Fprint(&out, "| codec | value | JSON |\n|---|---|---|\n")
	for _, s := range all {
		switch {
		case s.codec == "json":
			if is, want := s.json, ordered(b.t, s.shown); is != want {
				b.t.Errorf("json %s: stored as %s, not %s", s.shown, is, want)
			}
		case !slices.Contains(words(s.shown), s.hash):
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", s.codec, code(s.shown), code(s.json))
		}
	}
	return out.String()
}

// words returns the parts of a text between spaces, quotes and parentheses.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" '()", r) })
}

// ordered returns a JSON text without spaces. The members of an object are sorted.
func ordered(t testing.TB, written string) string {
	t.Helper()
	if strings.HasPrefix(written, "{") {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(written), &members); err != nil {
			t.Fatal(err)
		}
		sorted, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		written = string(sorted)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(written)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// targets returns the table of the columns in which a property can be stored. Values with the same JSON must be stored
// alike, whatever their codecs, and appear only once.
func (b *bench) targets(all []property) string {
	var distinct []property
	for _, s := range all {
		i := slices.IndexFunc(distinct, func(d property) bool { return d.text == s.text })
		if i < 0 {
			distinct = append(distinct, s)
		} else if d := distinct[i]; !slices.Equal(d.columns, s.columns) {
			b.t.Errorf("%s %s is stored as %q, and %s %s as %q", d.codec, d.shown, d.columns, s.codec, s.shown, s.columns)
		}
	}
	var out strings.Builder
	fmt.Fprint(&out, "| column | unchanged | in another form |\n|---|---|---|\n")
	for i, t := range targetTypes() {
		var same, changed, bytes, refused []string
		for _, s := range distinct {
			switch is := s.columns[i]; {
			case is == misfit:
				refused = append(refused, code(s.shown))
			case is == s.hash, equalNumbers(is, s.hash), equalJSON(is, s.json):
				same = append(same, code(s.shown))
			case is == fmt.Sprintf("0x%x", s.hash):
				bytes = append(bytes, code(s.shown))
			default:
				changed = append(changed, code(s.shown)+" as "+code(is))
			}
		}
		if len(bytes) > 0 {
			changed = append(changed, "the bytes of the text: "+listed(bytes, refused, len(same)+len(changed)))
			refused = nil
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", t, listed(same, refused, len(changed)), strings.Join(changed, ", "))
	}
	return out.String()
}

// listed names the values that are taken, or, if most are taken, the values that are refused.
func listed(taken, refused []string, others int) string {
	if len(taken) <= len(refused)+others || len(refused) == 0 {
		return strings.Join(taken, ", ")
	}
	if others > 0 {
		return "all others but " + strings.Join(refused, ", ")
	}
	return "all but " + strings.Join(refused, ", ")
}

// equalNumbers reports whether two texts are the same number, with more or fewer zeros at the end.
func equalNumbers(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok && ok2 && x.Cmp(y) == 0
}

// equalJSON reports whether MySQL's JSON equals the program's, except for spaces.
func equalJSON(mysql, ours string) bool {
	var b bytes.Buffer
	return json.Compact(&b, []byte(mysql)) == nil && b.String() == ours
}

// misfit marks a value that was not stored.
const misfit = "✗"

func code(text string) string {
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

// place is a column of a row in MySQL.
type place struct {
	table, column, ddl string
	id                 int
}

// rows reads values from MySQL: bytes as hexadecimal digits, misfit if there is no row.
func (b *bench) rows(places []place) map[place]string {
	var queries []string
	held := map[place]string{}
	for n, p := range places {
		expression := p.column
		switch {
		case strings.Contains(p.ddl, "BINARY"), strings.Contains(p.ddl, "BLOB"):
			expression = "CONCAT('0x', LOWER(HEX(" + p.column + ")))"
		case strings.HasPrefix(p.ddl, "BIT"):
			expression += " + 0"
		}
		queries = append(queries, fmt.Sprintf("SELECT %d, %s FROM %s WHERE id = %d", n, expression, p.table, p.id))
		held[p] = misfit
	}
	rows, err := b.db.Rows(b.t.Context(), strings.Join(queries, ";\n"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range rows {
		n, err := strconv.Atoi(r[0])
		if err != nil {
			b.t.Fatal(err)
		}
		held[places[n]] = r[1]
	}
	return held
}

// text is a value in a Redis hash, and its JSON.
type text struct{ hash, json string }

// cached reads n values. It checks that Redis and Elasticsearch hold the same JSON, and that a hash holds the same
// text.
func (b *bench) cached(view string, n int, field func(id int) string) []text {
	ctx := b.t.Context()
	var commands []string
	for id := range n {
		commands = append(commands, fmt.Sprintf("HGET %s:%d %s", view, id, field(id)),
			fmt.Sprintf("GET %s_json:%d", view, id))
	}
	replies, err := b.redis.Do(ctx, commands...)
	if err != nil {
		b.t.Fatal(err)
	}
	all := make([]text, n)
	for id := range n {
		object, _ := replies[2*id+1].(string)
		all[id] = text{fmt.Sprint(replies[2*id]), member(b.t, []byte(object), field(id))}
		source, err := b.elastic.Source(ctx, b.index+"-"+view, strconv.Itoa(id))
		if err != nil {
			b.t.Fatal(err)
		}
		if elastic := member(b.t, source, field(id)); elastic != all[id].json {
			b.t.Errorf("%s %d: Redis holds %s, Elasticsearch %s", view, id, all[id].json, elastic)
		}
		if hash := all[id].hash; hash != all[id].json && strconv.Quote(hash) != all[id].json {
			b.t.Errorf("%s %d: a hash holds %s, and JSON is %s", view, id, hash, all[id].json)
		}
	}
	return all
}

// member returns a member of a JSON object, as JSON without spaces.
func member(t testing.TB, object []byte, name string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, m[name]); err != nil {
		t.Fatalf("%s: no %s: %v", object, name, err)
	}
	return b.String()
}
