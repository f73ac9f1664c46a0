package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// linksTable has keys of the kind that base62 and nanoid generate.
const linksTable = "CREATE TABLE links (id VARCHAR(11) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, url VARCHAR(100))"

const linkViews = `
[tables.links]
key = "id"

[views.link]
from = "links"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["url"]
create = true
types = { url = "VARCHAR(100)" }

[views.link_by_url]
from = "links"
sink = "main"
kind = "index"
fields = ["url"]
create = true
types = { url = "VARCHAR(100)" }

[views.link_count]
from = "links"
sink = "main"
kind = "counter"
group = ["id"]
create = true
types = { id = "VARCHAR(11)", cnt = "BIGINT" }
`

// differsByCase are changes of entities whose keys are equal in a case-insensitive collation.
var differsByCase = []string{
	"INSERT INTO links VALUES ('zz', 'u')", "INSERT INTO links VALUES ('ZZ', 'u')",
	"INSERT INTO links VALUES ('aB3', '1'), ('Ab3', '2')", "UPDATE links SET url = '3' WHERE id = 'aB3'",
	"INSERT INTO links VALUES ('gone', 'x'), ('GONE', 'y')", "DELETE FROM links WHERE id = 'gone'",
}

func (l *lab) expectLinks() {
	l.t.Helper()
	want := l.rows("SELECT id, url FROM links ORDER BY BINARY id")
	l.expect("SELECT id, url FROM link ORDER BY BINARY id", want...)
	l.expect("SELECT id, url FROM link_by_url ORDER BY BINARY id", want...)
	l.expect("SELECT id, cnt FROM link_count ORDER BY BINARY id", l.rows("SELECT id, 1 FROM links ORDER BY BINARY id")...)
}

func TestCreatedTargetsTellApartWhatTheSourceDoes(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec(linksTable, "INSERT INTO links VALUES ('filled', 'x'), ('FILLED', 'y')")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, linkViews)
	p := l.running()
	l.caughtUp()
	l.exec(differsByCase...)
	l.caughtUp()
	l.expectLinks()
	l.must("verify")
	l.must("rebuild", "link", "link_by_url", "link_count")
	l.expectLinks()
	l.must("verify")
	p.stop()
}

// The source's collation decides whether trailing spaces are significant. Created targets must follow it.
func TestCreatedTargetsKeepSpacesThatTheSourceTellsApart(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		keeps, ignores := "utf8mb4_0900_bin", "utf8mb4_bin"
		if s.Kind.IsMariaDB() {
			keeps = "utf8mb4_nopad_bin"
		}
		l.exec("CREATE TABLE kept (id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE "+keeps+" PRIMARY KEY, v INT)",
			"CREATE TABLE raw (id VARBINARY(20) PRIMARY KEY, v INT)",
			"CREATE TABLE padded (id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE "+ignores+" PRIMARY KEY, v INT)",
			"INSERT INTO kept VALUES ('a', 1), ('a ', 2), ('A', 3)", "INSERT INTO raw VALUES ('a', 1), ('a ', 2), ('A', 3)",
			"INSERT INTO padded VALUES ('a ', 1), ('A', 3)")
		var views []string
		for _, table := range []string{"kept", "raw", "padded"} {
			views = append(views,
				"[tables."+table+"]\nkey = \"id\"\n[views."+table+"_view]\nfrom = \""+table+"\"\nsink = \"main\"\nkind = \"row\"\n"+
					"key = { id = \"$id\" }\nfields = [\"v\"]\ncreate = true\ntypes = { v = \"INT\" }\n")
		}
		l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, strings.Join(views, "\n"))
		l.must("run", "--until-caught-up")
		for _, table := range []string{"kept", "raw", "padded"} {
			l.expect("SELECT HEX(id), v FROM "+table+"_view ORDER BY v",
				l.rows("SELECT HEX(id), v FROM "+table+" ORDER BY v")...)
		}
		l.must("verify")
	})
}

func TestTargetsThatCannotTellKeysApartAreRefusedWithTheirALTER(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	const ci = " VARCHAR(11) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
	l.exec(linksTable,
		"CREATE TABLE link (id"+ci+" PRIMARY KEY, url VARCHAR(100))",
		"CREATE TABLE link_by_url (url VARCHAR(100), id"+ci+", PRIMARY KEY (url, id), KEY (id))",
		"CREATE TABLE link_count (id"+ci+" PRIMARY KEY, cnt BIGINT)")
	healthy := "[tables.other]\nkey = \"id\"\n[views.healthy]\nfrom = \"other\"\nsink = \"main\"\nkind = \"row\"\nkey = { id = \"$id\" }\nfields = [\"v\"]\n"
	l.exec("CREATE TABLE other (id"+ci+" PRIMARY KEY, v INT)", "CREATE TABLE healthy (id"+ci+" PRIMARY KEY, v INT)",
		"INSERT INTO other VALUES ('a', 1)")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, linkViews, healthy)

	r := l.run("check")
	if r.code != exitFailed {
		t.Fatalf("check: exit status %d\n%s", r.code, r.out)
	}
	p := l.running()
	l.caughtUp("healthy")
	for _, view := range []string{"link", "link_by_url", "link_count"} {
		alter := "ALTER TABLE `" + l.database + "`.`" + view +
			"` MODIFY `id` varchar(11) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
		if !strings.Contains(r.out, alter) {
			t.Errorf("check doesn't say %q:\n%s", alter, r.out)
		}
		l.failsWith(view, alter)
		l.exec(alter)
	}
	p.stop()
	l.exec(differsByCase...)
	l.must("check")
	p = l.running()
	l.caughtUp()
	l.expectLinks()
	l.expect("SELECT id, v FROM healthy", "a 1")
	l.must("verify")
	p.stop()
}

// The bodies distinguish a counter's groups. A table whose collation can't distinguish them is accepted until two
// groups would share a row.
func TestGroupsThatMeetInOneRowFailTheirView(t *testing.T) {
	t.Parallel()
	for _, meeting := range []struct{ collation, other string }{
		{"utf8mb4_general_ci", "ROME"},
		{"utf8mb4_bin", "Rome "}, // this collation ignores trailing spaces
	} {
		t.Run(meeting.collation, func(t *testing.T) {
			groupsMeet(t, servertest.MySQL(t), meeting.collation, meeting.other)
		})
	}
}

func groupsMeet(t *testing.T, s *servers.Server, collation, other string) {
	l := newBareLab(t, s)
	l.exec("CREATE TABLE city (id INT PRIMARY KEY, body VARCHAR(100))",
		"CREATE TABLE by_name (name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE "+collation+" PRIMARY KEY, cnt BIGINT NOT NULL)",
		`INSERT INTO city VALUES (1, '{"name": "Oslo"}'), (2, '{"name": "Oslo"}'), (3, '{"name": "Rome"}')`)
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink,
		"[tables.city]\nkey = \"id\"\nbody = \"body\"\ncodec = \"json\"\n"+
			"[views.by_name]\nfrom = \"city\"\nsink = \"main\"\nkind = \"counter\"\ngroup = [\"name\"]\n")
	const alter = "MODIFY `name` varchar(20) CHARACTER SET utf8mb4 COLLATE "
	if out := l.must("check"); !strings.Contains(out, alter) {
		t.Errorf("check doesn't say %q:\n%s", alter, out)
	}
	p := l.running()
	l.caughtUp()
	l.exec(`UPDATE city SET body = '{"name": "Rome"}' WHERE id = 1`, "DELETE FROM city WHERE id = 2")
	l.caughtUp()
	l.expect("SELECT name, cnt FROM by_name", "Rome 2")
	l.exec(`INSERT INTO city VALUES (4, '{"name": "` + other + `"}')`)
	said := l.failsWith("by_name", "two groups share a row", alter).Error
	p.stop()
	_, statement, _ := strings.Cut(said, "ALTER TABLE")
	statement, _, _ = strings.Cut(statement, ", and then")
	l.exec("ALTER TABLE" + statement)
	p = l.running()
	l.caughtUp()
	l.must("verify", "--repair")
	l.expect("SELECT name, cnt FROM by_name ORDER BY cnt", other+" 1", "Rome 2")
	p.stop()
}
