package survey_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/survey"
)

// repeated adds n sampled rows to a table. Each value comes from a format with the row's number; %d may be left out.
func repeated(t survey.Table, n int, columns string, formats ...string) survey.Table {
	for i := range n {
		var row []string
		for _, f := range formats {
			if strings.Contains(f, "%") {
				f = fmt.Sprintf(f, i)
			}
			row = append(row, f)
		}
		add(&t, columns, row)
	}
	return t
}

func TestRolesAreFoundByTypesKeysAndContents(t *testing.T) {
	for _, c := range []struct {
		name  string
		table survey.Table
		has   []string
		lacks []string
	}{
		{"cells by any names",
			repeated(table("t", "n|e,s,r", "n int AUTO", "e varbinary(32)", "s varchar(20)", "r int unsigned", "b longtext"), 20,
				"e,s,r,b", "entity-%d", "profile", "%d", `{"a": "x%d"}`),
			[]string{`key = "e"`, `column = "s"`, `version = "r"`, `offset = "n"`, `body = "b"`, `from = "t.profile"`}, nil},
		{"a text that differs in every row is no sort of cell",
			repeated(table("t", "n|e,s,v", "n int AUTO", "e int", "s varchar(20)", "v bigint", "body json"), 20, "e,s,v,body",
				"1", "doc-%d", "%d", `{"a": "x%d"}`),
			[]string{`key = ["e", "s"]`, `version = "v"`}, []string{"column ="}},
		{"cells that are changed in place",
			repeated(table("t", "e,kind", "e char(36)", "kind enum('a','b')", "body json", "changed timestamp"), 20,
				"e,kind,body", "%d", "a", `{"a": "x%d"}`),
			[]string{`key = "e"`, `column = "kind"`, `body = "body"`, `# t: a row for each cell, updated in place.`},
			[]string{"version =", "offset ="}},
		{"versions by time",
			repeated(table("t", "n|doc,changed_at", "n int AUTO", "doc varchar(64)", "changed_at datetime(6)",
				"payload mediumblob"), 3, "doc,changed_at,payload", "d%d", "2024-01-01 00:00:00", `{"a": "x%d"}`),
			[]string{`key = "doc"`, `version = "changed_at"`, `body = "payload"`}, nil},
		{"a version that no key knows",
			repeated(table("t", "n", "n int AUTO", "doc int", "version int", "body json"), 3, "n,body", "%d", `{"a": "x%d"}`),
			[]string{`key = "n"`,
				`# If a row is a version of an entity, and not the entity itself, ` +
					`let key name the entity and set version = "version".`}, []string{"version ="}},
		{"bodies that decode before such as don't",
			repeated(table("t", "id", "id int AUTO", "data blob", "meta json"), 3, "id,data,meta", "%d",
				"\x89PNG", `{"a": "x%d"}`),
			[]string{`body = "meta"`}, nil},
		{"an id in a composite key is no version",
			repeated(table("t", "user_id,doc_id", "user_id int", "doc_id bigint", "body json"), 3, "user_id,doc_id,body",
				"%d", "%d", `{"a": "x%d"}`),
			[]string{`key = ["user_id", "doc_id"]`}, []string{"version ="}},
		{"the primary key, though an email is unique, too",
			repeated(table("t", "id|email", "id int AUTO", "email varchar(254)", "body json"), 3, "email,body",
				"%d@x.org", `{"a": "x%d"}`),
			[]string{`key = "id"`}, []string{"offset ="}},
		{"a UUID beside a number that counts rows",
			repeated(table("t", "n|u", "n int AUTO", "u uuid", "body json"), 3, "u,body", "%d", `{"a": "x%d"}`),
			[]string{`key = "u"`, `offset = "n"`}, nil},
		{"the column of objects that is called a body",
			repeated(table("t", "id", "id int AUTO", "extra json", "state json"), 3, "id,extra,state", "%d",
				`{"a": "x%d"}`, `{"b": "x%d"}`),
			[]string{`body = "state"`, "# Objects in JSON are in extra: views reach into them by $COLUMN.PROPERTY."}, nil},
		{"a bag of settings among plain columns is no body",
			repeated(table("t", "id", "id int AUTO", "name varchar(20)", "age int", "settings json"), 3,
				"id,settings", "%d", `{"a": "x%d"}`),
			[]string{"# t: plain rows, without a body: the columns are what views are made of.",
				"# Objects in JSON are in settings"}, []string{"body ="}},
		{"a long text is no body",
			repeated(table("t", "id", "id int AUTO", "title varchar(99)", "body text"), 3, "id,body", "%d", "Once upon a time."),
			[]string{"# t: plain rows", `[views.index_t_title]`}, []string{"body ="}},
		{"bodies behind two compressions",
			repeated(table("t", "id", "id int AUTO", "body blob"), 3, "id,body", "%d", string(gzipped(zlibbed(`{"a": "x"}`)))),
			[]string{`codec = "gzip+zlib+json"   # 3 of 3 sampled bodies decode`}, nil},
		{"bodies of no codec",
			repeated(table("t", "id", "id int AUTO", "body blob"), 3, "id,body", "%d", "\x89PNG %d"),
			[]string{"# The codec is not known: none of 3 sampled bodies is an object in any codec.", `#body = "body"`,
				`#codec = "json"`, "#[sinks.main]"}, []string{"[views."}},
		{"bodies that do not agree", mixed(),
			[]string{"# The codec is uncertain: 3 of 4 sampled bodies decode as json.", `#body = "body"`,
				`#codec = "json"`,
				"# t. Properties of 3 sampled rows"}, []string{"[views."}},
		{"no rows yet", table("t", "n|e,s,r", "n int AUTO", "e binary(16)", "column_name varchar(20)", "s varchar(20)",
			"r bigint", "body blob"),
			[]string{`[tables.t]`, `version = "r"`, "# The codec is not known: no body was sampled."}, []string{"#[tables"}},
		{"no rows yet, but JSON", table("t", "id", "id int AUTO", "body json"),
			[]string{`codec = "json"   # no body was sampled`}, nil},
		{"no key", table("t", "", "a int", "b text"), []string{"# - t: it has no primary key and no unique key"},
			[]string{"[tables.t]"}},
		{"a key of a type that is none", table("t", "f", "f double", "a int"),
			[]string{"# - t: its column f is double, which can't be a key: add a unique key of another type."},
			[]string{"[tables.t]"}},
		{"a key that a view can't name", table("t", "a.b", "a.b int", "a int"),
			[]string{"# - t: its key column a.b has a name that a view can't refer to: rename it."}, []string{"[tables.t]"}},
		{"a table that a configuration can't name", table("a.t", "a", "a int"),
			[]string{"# - a.t: a configuration can't name a table with a dot"}, []string{"[tables"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := written(t, c.table)
			lines := strings.Split(text, "\n")
			for _, want := range c.has {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("it lacks %s", want)
				}
			}
			for _, not := range c.lacks {
				if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, not) }) {
					t.Errorf("it has %s", not)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

func mixed() survey.Table {
	t := repeated(table("t", "id", "id int AUTO", "body blob"), 3, "id,body", "%d", `{"a": "x%d"}`)
	return repeated(t, 1, "id,body", "3", "broken")
}

func TestOddNamesAreWrittenAsTOMLAndPathsHaveThem(t *testing.T) {
	odd := repeated(table(`of "us" & ${them}`, "row~key,kind|n", "row~key int", "kind varchar(20)",
		"n int AUTO", "body~${x} json"), 6,
		"row key,kind,body ${x}", "%d", "ein \"Wert\".${x}\n学校",
		`{"a.b": {"c\"d": "x%d"}, "$e": "x%d", "${f}": "x%[1]d", "=g": 1, "": 2, "h[]": "x%[1]d", "line\nbreak": "y"}`)
	plain := repeated(table("Straße", "id", "id int", "Größe int", "name varchar(20)"), 3, "id", "%d")
	dashed := repeated(table("a-b", "id", "id int", "name varchar(20)"), 3, "id", "%d")
	text := written(t, odd, plain, dashed)
	for _, want := range []string{"[tables.of_us_them]\n", `table = "of \"us\" & $${them}"` + "\n",
		`key = "row key"` + "\n", `body = "body $${x}"` + "\n",
		`"a.b"."c\"d"`, `"line\nbreak"`, "[tables.Stra_e]\n" + `table = "Straße"` + "\n", "[tables.a-b]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	cfg := load(t, text)
	if got := cfg.Table("of_us_them"); got.Table != `of "us" & ${them}` ||
		got.Body != "body ${x}" || got.Column != "kind" {
		t.Errorf("it is read as %+v", got)
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestSecretsAndKeysAreNotSuggested(t *testing.T) {
	text := written(t, repeated(table("t", "id", "id int AUTO", "body json"), 4, "id,body", "%d",
		`{"id": %d, "password": "p", "api_token": "t", "name": "n"}`))
	for line := range strings.Lines(text) {
		if strings.Contains(line, "fields") && (strings.Contains(line, "password") || strings.Contains(line, "token") ||
			strings.Contains(line, `"id"`)) {
			t.Error(line)
		}
	}
}

func TestATableThatHoldsRowsIsNoPlaceForAView(t *testing.T) {
	taken := repeated(table("index_t_email", "email,id", "email varchar(254)", "id int"), 1, "email,id", "x", "1")
	source := repeated(table("t", "id", "id int AUTO", "body json"), 4, "id,body", "%d", `{"email": "e%d"}`)
	if text := written(t, source, taken); !strings.Contains(text, "\n[views.index_t_email_2]\n") ||
		!strings.Contains(text, "\n[tables.index_t_email]\n") {
		t.Errorf("with rows: %s", text)
	}
	taken = table("index_t_email", "email,id", "email varchar(254)", "id int")
	if text := written(t, source, taken); !strings.Contains(text, "\n[views.index_t_email]\n") ||
		strings.Contains(text, "[tables.index_t_email]") {
		t.Errorf("empty: %s", text)
	}
	taken = table("index_t_email", "email,entity_id|entity_id", "email varchar(200)", "entity_id int")
	if text := written(t, source, taken); !strings.Contains(text, "fields = [\"email\"]\nkey_column = \"entity_id\"\n\n") {
		t.Errorf("empty, and made by somebody: %s", text)
	}
	taken = table("index_t_email", "email,id", "email varchar(1)", "id int")
	if text := written(t, source, taken); !strings.Contains(text, "\n[views.index_t_email_2]\n") {
		t.Errorf("too short: %s", text)
	}
	taken = table("index_t_email", "", "email varchar(254)", "id int")
	if text := written(t, source, taken); !strings.Contains(text, "\n[views.index_t_email_2]\n") {
		t.Errorf("without a key, and so not looked at: %s", text)
	}
	taken = repeated(table("index_t_email", "email,id", "email varchar(254)", "id int"), 1, "email,id", "x", "1")
	text := writtenDB(t, &survey.Database{Tables: []survey.Table{source, taken},
		Kept: map[string]string{"index_t_email": "index_t_email"}})
	if !strings.Contains(text, "\n[views.index_t_email]\n") ||
		!strings.Contains(text, "# - index_t_email: the program keeps the view index_t_email in it.") {
		t.Errorf("kept by the program: %s", text)
	}
}

func TestTheProgramsOwnTablesAreNotFollowed(t *testing.T) {
	for _, name := range []string{"replicator_views", "replicator_horizons", "replicator_layouts", "users__rebuild"} {
		own := repeated(table(name, "id", "id int", "name varchar(99)"), 2, "id,name", "%d", "x%d")
		users := repeated(table("users", "id", "id int", "name varchar(99)"), 2, "id,name", "%d", "x%d")
		if text := written(t, users, own); strings.Contains(text, name) {
			t.Errorf("%s is in the configuration:\n%s", name, text)
		}
	}
}

func TestTablesThatAreCalledAlikeHaveViewsOfTheirOwn(t *testing.T) {
	cell := repeated(table("cell", "n|id,kind,v", "n int AUTO", "id int", "kind varchar(20)", "v bigint", "body json"), 6,
		"id,kind,v,body", "%d", "users", "%d", `{"email": "e%d"}`)
	upper := repeated(table("Users", "id", "id int AUTO", "email varchar(99)"), 2, "id", "%d")
	lower := repeated(table("users", "id", "id int AUTO", "email varchar(99)"), 2, "id", "%d")
	text := written(t, upper, cell, lower) // this also reads the text with every view enabled
	for _, want := range []string{"[tables.Users]", "[tables.users]", "[views.index_users_email]",
		"#[views.index_Users_email_2]", "#[views.index_users_email_3]", "#[views.users_2]"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

func TestOnlyAFewViewsAreKeptAtOnce(t *testing.T) {
	var tables []survey.Table
	for i := range 30 {
		tables = append(tables, repeated(table(fmt.Sprintf("t%d", i), "id", "id int AUTO", "body json"), 2, "id,body",
			"%d", `{"email": "e%d"}`))
	}
	if n := strings.Count(written(t, tables...), "\n[views."); n != 10 {
		t.Errorf("%d views are kept", n)
	}
}

func TestManySortsOfCellsAndPropertiesAreBounded(t *testing.T) {
	many := table("t", "n|e,kind,v", "n int AUTO", "e int", "kind varchar(20)", "v bigint", "body json")
	for i := range 60 {
		add(&many, "e,kind,v,body", []string{"1", fmt.Sprintf("kind%02d", i/2), fmt.Sprint(i),
			fmt.Sprintf(`{"a": "x%d", "m": {%s}}`, i, dynamic(i))})
	}
	text := written(t, many)
	if !strings.Contains(text, "# kind has more values in the sample, which are not described here: kind20, kind21, ") ||
		strings.Contains(text, "[views.index_kind20_a]") ||
		!strings.Contains(text, "[views.index_kind19_a]") || !strings.Contains(text, "#   (and more)") {
		t.Error(text)
	}
}

// dynamic returns 40 members of a JSON object. Their names differ for each n.
func dynamic(n int) string {
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf(`"k%d_%d": 1`, n, i))
	}
	return strings.Join(all, ", ")
}
