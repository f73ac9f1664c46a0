package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// check samples a few rows of the source. It reports whether the codec decodes them, whether they have the properties
// of the views' paths, and whether their values fit the targets. These findings are not failures, because a run would
// still start.
func TestCheckTriesRowsOfTheSource(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(cellViews)
	if out := l.must("check"); strings.Contains(out, "sampled") {
		t.Errorf("of no rows it says\n%s", out)
	}
	l.put("a", 1, `{"email": "a@x.org", "phone": 7, "username": "ann"}`)
	l.put("b", 1, `{"email": "b@x.org", "phone": 8, "username": "bob"}`)
	if out := l.must("check"); !strings.Contains(out, "ok    table cell: bodies: 2 sampled bodies are json") ||
		strings.Contains(out, "warn  view") {
		t.Errorf("of sound rows it says\n%s", out)
	}
	l.put("c", 1, `{"email": "c@x.org", "phone": "a secret number", "username": "a name that is too long"}`)
	l.put("d", 1, `no JSON`)
	l.configure(source, program, mainSink, emailView, usersView, phoneView,
		strings.NewReplacer("index_users_email", "mistyped", `["email"]`,
			`{ email = "e_mail" }`).Replace(emailView)+"table = \"index_users_email2\"\ncreate = true\n",
		strings.NewReplacer("index_users_email", "misnamed", "cell.users",
			"cell.user").Replace(emailView)+"table = \"index_users_email3\"\ncreate = true\n",
		strings.NewReplacer("index_users_phone",
			"numbers").Replace(phoneView)+"table = \"numbers\"\ncreate = true\nwhere = \"username == 'ann'\"\n",
		strings.Replace(strings.NewReplacer("index_users_email", "nowhere").Replace(emailView), "[\"email\"]",
			"[\"email\"]\nwhere = \"nope == 1\"", 1)+"table = \"nowhere\"\ncreate = true\n",
		"[views.summed]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"counter\"\ngroup = [\"email\"]\nsum = \"phone\"\ncreate = true\n",
		"[views.columned]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"row\"\nkey = { id = \"$row_key\" }\nfields = [\"ref_key\"]\ncreate = true\n",
		"[views.narrow]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"row\"\nkey = { id = \"$row_key\" }\n"+
			"fields = { sort = \"$column_name\" }\ncreate = true\ntypes = { sort = \"VARCHAR(3)\" }\n",
		"[views.counted]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"counter\"\ngroup = [\"email\"]\ncreate = true\n")
	out := l.must("check")
	for _, want := range []string{
		"warn  table cell: bodies: 1 of 4 sampled bodies are not json: ",
		"warn  view mistyped: none of 3 sampled rows has e_mail, which field email reads",
		"warn  view misnamed: none of 4 sampled rows belongs to cell.user; the rows belong to users",
		"warn  view index_users_phone: 1 values in 3 sampled rows can't be stored: phone: ",
		"warn  view users: 1 values in 3 sampled rows can't be stored: username: ",
		"warn  view nowhere: none of 3 sampled rows satisfies where: nope == 1",
		"warn  view summed: 1 values in 3 sampled rows can't be stored: phone: it is not a number",
		"did you mean \"email\"?",
		"the table has this column: write `$ref_key`",
		"its column sort takes 3 characters, while column_name of the source takes",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it lacks %s\n%s", want, out)
		}
	}
	if strings.Contains(out, "secret") || strings.Contains(out, "warn  view numbers") ||
		strings.Contains(out, "warn  view counted") ||
		strings.Contains(out, "warn  view index_users_email:") {
		t.Errorf("it shows a value, or what is not so:\n%s", out)
	}
	l.configure(source, program, mainSink, strings.Replace(emailView, `["email"]`, `{ email = "$ref_kye" }`, 1))
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, `did you mean "ref_key"?`) ||
		!strings.Contains(r.out, "replicator.toml:") {
		t.Errorf("of a column that is not there it says\n%s", r.out)
	}
}

// TestAPathThatNamesAColumnIsToldBeforeThereAreRows also checks the hint while other findings are failures.
func TestAPathThatNamesAColumnIsToldBeforeThereAreRows(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(100), data JSON)")
	const customers = source + `
[checkpoint]
path = "state"
[http]
listen = "${LISTEN}"
[tables.customers]
key = "id"
body = "data"
codec = "json"
` + mainSink
	view := func(name, path string) string {
		return "[views." + name + "]\nfrom = \"customers\"\nsink = \"main\"\nkind = \"index\"\nfields = [\"" + path +
			"\"]\ncreate = true\n"
	}
	const hint = "→ the table has this column: write `$email`"
	l.configure(customers, view("by_email", "email"), view("by_phone", "phone"), view("right", "$email"))
	if out := l.must("check"); strings.Count(out, "the table has this column") != 1 || !strings.Contains(out, hint) ||
		!strings.Contains(out, "view by_email: email names a property in the body column data of table customers (") {
		t.Errorf("before there are rows it says\n%s", out)
	}
	l.exec(`INSERT INTO customers VALUES (1, 'a@x.org', '{"phone": 7}')`)
	l.configure(customers, view("by_email", "email"), view("wrong", "$emial"))
	if r := l.run("check"); r.code != exitFailed || !strings.Contains(r.out, hint) {
		t.Errorf("while a column is not there it says\n%s", r.out)
	}
	l.configure(customers, view("by_email", "email"))
	if out := l.must("check"); strings.Count(out, hint) != 1 || !strings.Contains(out, "none of 1 sampled rows has email") {
		t.Errorf("of rows it says\n%s", out)
	}
	l.exec(`UPDATE customers SET data = '{"email": "b@x.org"}'`)
	if out := l.must("check"); strings.Contains(out, hint) {
		t.Errorf("of a body that has it, too, it says\n%s", out)
	}
}

const plainViews = `
[source]
dsn = "${DSN}"

[checkpoint]
path = "state"

[http]
listen = "${LISTEN}"

[sinks.main]
type = "mysql"
dsn = "${DSN}"

[tables.p]
key = ["id", "part"]

[tables.q]
key = "id"

[views.rows]
from = "p"
sink = "main"
kind = "row"
key = { id = "$id", part = "$part" }
fields = { lower = "=lower(name)", total = "=price * qty", many = "=qty > 3", twice = "=id * 2", a = "js.a", b = "js.b" }
where = "name != 'none'"
create = true

[views.texts]
from = "p"
sink = "main"
kind = "index"
fields = { text = "=upper(txt)" }
create = true

[views.sums]
from = "p"
sink = "main"
kind = "counter"
group = ["id"]
sum = { t = "=price * qty" }
create = true

[views.both]
from = ["p", "q"]
sink = "main"
kind = "counter"
group = ["name", "note"]
create = true

[views.notes]
from = "q"
sink = "main"
kind = "index"
fields = ["note"]
create = true
`

// Plain columns are sampled as a scan reads them. Expressions over columns, over the key and over JSON in columns have
// types, and check must not warn about values that a run accepts.
func TestExpressionsOverColumnsAreSampled(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		l.exec("CREATE TABLE p (id INT, part INT, name VARCHAR(40) NOT NULL, price DECIMAL(10,2) NOT NULL, qty INT NOT NULL, "+
			"txt VARCHAR(400) NOT NULL, js JSON, PRIMARY KEY (id, part))",
			"CREATE TABLE q (id INT PRIMARY KEY, note VARCHAR(20))",
			`INSERT INTO p VALUES (1, 1, 'Foo', 1.25, 3, REPEAT('x', 300), '{"a": 1, "b": "x"}'), `+
				`(2, 1, 'Bar', 2.50, 4, 'y', '{"a": -4, "b": "y"}')`,
			"INSERT INTO q VALUES (1, 'n')")
		l.configure(plainViews)
		for _, when := range []string{"before the views are filled", "afterwards"} {
			if r := l.run("check"); r.code != 0 || strings.Contains(r.out, "warn  view") || strings.Contains(r.out, "fail  ") {
				t.Errorf("%s check says (%d)\n%s%s", when, r.code, r.out, r.errors)
			}
			l.must("run", "--until-caught-up")
		}
		l.expect("SELECT CONCAT_WS(' ', column_name, data_type) FROM information_schema.columns WHERE table_name = 'rows' "+
			"AND table_schema = DATABASE() AND column_name NOT IN ('id', 'part') ORDER BY column_name",
			"a bigint", "b varchar", "lower varchar", "many tinyint", "total double", "twice bigint")
		l.expect("SELECT CONCAT_WS(' ', id, part, `lower`, total, many, twice, a, b) FROM `rows` ORDER BY id",
			"1 1 foo 3.75 0 2 1 x", "2 1 bar 10 1 4 -4 y")
		l.expect("SELECT CONCAT_WS(' ', id, CHAR_LENGTH(`text`)) FROM texts ORDER BY id", "1 300", "2 1")
		l.expect("SELECT data_type FROM information_schema.columns WHERE table_name = 'sums' AND column_name = 't' "+
			"AND table_schema = DATABASE()", "decimal")
		if letters := l.letters(); len(letters) > 0 {
			t.Errorf("dead letters: %v", letters)
		}
	})
}
