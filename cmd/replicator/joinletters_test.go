package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// If a row has more joined rows than the maximum, it becomes a dead letter that names a fix. The letter is cleared when
// rows are deleted.
func TestAListThatIsTooLongIsADeadLetterUntilItIsShort(t *testing.T) {
	t.Parallel()
	l := newJoinsLab(t, servertest.MySQL(t))
	p := l.running()
	l.equal()
	const many = 10_001
	values := make([]string, 0, many)
	for n := range many {
		values = append(values, fmt.Sprintf("(10, %d, 1)", 100+n))
	}
	l.exec("INSERT INTO items VALUES " + strings.Join(values, ","))
	l.caughtUp()
	letters := l.letters()
	if len(letters) != 1 || letters[0].View != "joined" || letters[0].Key != "10" ||
		!strings.Contains(letters[0].Reason, "more than 10000 rows") || !strings.Contains(letters[0].Reason, "limit") {
		t.Fatalf("%+v", letters)
	}
	l.expect("SELECT id FROM joined ORDER BY id", "11", "12", "13")
	if text := l.must("explain", "joined", "10"); !strings.Contains(text, "more than 10000 rows in total") ||
		!strings.Contains(text, "the first 50 are shown") {
		t.Error(text)
	}
	l.exec("DELETE FROM items WHERE line > 105")
	l.equal()
	if letters := l.letters(); len(letters) > 0 {
		t.Errorf("the list is short: %+v", letters)
	}
	p.stop()
}

// If a joined body can't be decoded, the entries that need it become dead letters that name the joined row. The letters
// are cleared when the joined row is corrected.
func TestAJoinedBodyThatCannotBeDecodedIsADeadLetterOfTheEntry(t *testing.T) {
	t.Parallel()
	l := newJoinsLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE profiles (n INT AUTO_INCREMENT PRIMARY KEY, id INT NOT NULL, version INT NOT NULL, body BLOB, "+
		"UNIQUE KEY (id, version))",
		`INSERT INTO profiles (id, version, body) VALUES (1, 1, '{"nick": "a"}'), (2, 1, '{"nick": "b"}')`)
	l.configure(source, strings.Split(program, "[tables.cell]")[0], orderTables, mainSink, `
[tables.profiles]
key = "id"
version = "version"
offset = "n"
body = "body"
codec = "json"
[views.nicks]
from = "orders"
sink = "main"
kind = "row"
create = true
fields = { status = "status", nick = "profile.nick" }
types = { status = "VARCHAR(20)", nick = "VARCHAR(20)" }
[views.nicks.join.profile]
table = "profiles"
on = { id = "customer_id" }
`)
	const nicks = "SELECT id, nick FROM nicks ORDER BY id"
	p := l.running()
	l.caughtUp()
	l.expect(nicks, "10 a", "11 b", "12 NULL", "13 a")
	l.exec("INSERT INTO profiles (id, version, body) VALUES (1, 2, '{\"nick\": ')")
	l.caughtUp()
	var keys []string
	for _, letter := range l.letters() {
		keys = append(keys, letter.Key)
		if !strings.Contains(letter.Reason, "join profile: row profiles") {
			t.Errorf("%+v", letter)
		}
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"10", "13"}) {
		t.Errorf("dead letters of %v", keys)
	}
	l.expect(nicks, "11 b", "12 NULL")
	if r := l.run("verify", "--repair"); r.code != exitDiffer ||
		strings.Count(r.out, "dead: view nicks: join profile") != 2 {
		t.Errorf("verify: %+v", r)
	}
	if text := l.must("explain", "nicks", "10"); !strings.Contains(text, "profiles.id = orders.customer_id = 1") ||
		!strings.Contains(text, "can't be decoded") {
		t.Error(text)
	}
	l.exec(`INSERT INTO profiles (id, version, body) VALUES (1, 3, '{"nick": "c"}')`)
	l.caughtUp()
	l.expect(nicks, "10 c", "11 b", "12 NULL", "13 c")
	if letters := l.letters(); len(letters) > 0 {
		t.Errorf("the row is mended: %+v", letters)
	}
	// The newest remaining version counts.
	l.exec("DELETE FROM profiles WHERE version > 1")
	l.caughtUp()
	l.expect(nicks, "10 a", "11 b", "12 NULL", "13 a")
	p.stop()
}
