package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const itemViews = `
[tables.item]
key = "id"
column = "c"
version = "v"
body = "body"
codec = "json"

[tables.profile]
key = "id"

[views.kept]
from = "item.pii"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["n"]

[views.again]
from = "item.pii"
sink = "main"
kind = "index"
fields = ["n"]
on_change = "rebuild"

[views.healthy]
from = "profile"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["n"]

[views.merged]
from = ["item.pii", "profile"]
sink = "main"
kind = "row"
key = { id = "$id" }
fields = { n = "$id" }
`

// becomes waits until a query returns these rows.
func (l *lab) becomes(query string, want ...string) {
	l.t.Helper()
	eventually(l.t, func() error {
		if got := l.rows(query); !slices.Equal(got, want) {
			return fmt.Errorf("%s: got %q, want %q", query, got, want)
		}
		return nil
	})
}

// The source's tables define cells and versions. The program notices a change of these definitions while it runs and
// when it starts. No view continues under other definitions than those it was filled with.
func TestAnAlteredSourceTableIsAChangedDefinition(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		const text = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
		l.exec("CREATE TABLE item (place INT PRIMARY KEY AUTO_INCREMENT, id INT NOT NULL, c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, "+
			"v BIGINT NOT NULL, body TEXT, UNIQUE one (id, c))",
			"CREATE TABLE profile (id "+text+" PRIMARY KEY, n INT)",
			"CREATE TABLE kept (id "+text+" PRIMARY KEY, n "+text+")",
			"CREATE TABLE again (n "+text+", id "+text+", PRIMARY KEY (n, id), KEY (id))",
			"CREATE TABLE healthy (id "+text+" PRIMARY KEY, n INT)", "CREATE TABLE merged (id "+text+" PRIMARY KEY, n "+text+")")
		put := func(id, c string, v int, n string) {
			l.exec("INSERT INTO item (id, c, v, body) VALUES (" + id + ", '" + c + "', " + string(rune('0'+v)) +
				", '{\"n\": \"" + n + "\"}')")
		}
		put("1", "PII", 5, "five")
		l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, itemViews)
		const others = "column item.id is int"
		if r := l.run("check"); r.code != exitFailed || strings.Count(r.out, others) != 1 {
			t.Errorf("check: exit status %d\n%s", r.code, r.out)
		}
		p := l.running()
		l.failsWith("merged", others, "column profile.id is varchar(20) utf8mb4_bin")
		l.caughtUp("kept", "again", "healthy")
		l.expect("SELECT * FROM kept", "1 five")
		l.expect("SELECT * FROM again", "five 1")

		l.exec("ALTER TABLE item DROP KEY one, ADD UNIQUE one (id, c, v)", "INSERT INTO profile VALUES ('a', 1)")
		put("1", "pii", 9, "nine")
		put("1", "Pii", 7, "seven")
		l.failsWith("kept", "table item", "unique key", "rebuild kept")
		l.becomes("SELECT * FROM again", "nine 1")
		l.caughtUp("healthy")
		l.expect("SELECT * FROM healthy", "a 1")
		l.expect("SELECT * FROM kept", "1 five")
		if out := l.run("check").out; !strings.Contains(out, "unique key") {
			t.Errorf("check doesn't foresee it:\n%s", out)
		}
		p.stop()
		p = l.running()
		l.failsWith("kept", "table item", "unique key", "rebuild kept")
		l.must("rebuild", "kept")
		l.expect("SELECT * FROM kept", "1 nine")
		l.must("verify", "kept", "again", "healthy")

		l.exec("ALTER TABLE item MODIFY id " + text + " NOT NULL")
		put("'b'", "pii", 1, "text")
		l.failsWith("kept", "table item", "type or collation")
		l.must("rebuild", "kept")
		l.expect("SELECT * FROM kept ORDER BY id", "1 nine", "b text")
		l.becomes("SELECT * FROM again ORDER BY id", "nine 1", "text b")
		l.caughtUp("kept", "again", "healthy")
		l.must("verify", "kept", "again", "healthy")
		p.stop()
	})
}

// A sink is rebuilt in place after the type of a key changed. Afterwards it has nothing under the old keys and
// everything under the new ones, even if both are shown in the same form.
func TestWhatStoodUnderAnotherTypeOfKeyIsGone(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "CREATE TABLE price (id DECIMAL(10,2) PRIMARY KEY, n INT)",
		"INSERT INTO item VALUES (1, 10), (2, 10)", "INSERT INTO price VALUES (1, 1), (2, 2)")
	views := "[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n"
	for _, table := range []string{"item", "price"} {
		views += "[tables." + table + "]\nkey = \"id\"\n[views." + table + "]\nfrom = \"" + table +
			"\"\nsink = \"cache\"\nkind = \"hash\"\n" +
			"key = \"" + table + ":{id}\"\nfields = [\"n\"]\non_change = \"rebuild\"\n"
	}
	views += "[views.by_n]\nfrom = \"item\"\nsink = \"cache\"\nkind = \"index\"\nkey = \"by_n:{n}\"\n"
	l.configure(source, strings.Split(program, "[tables.cell]")[0], views)
	held := func() string {
		var all []string
		for _, pattern := range []string{"item:*", "price:*", "by_n:*"} {
			keys, err := rdb.Keys(t.Context(), pattern).Result()
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(keys)
			all = append(all, keys...)
		}
		members, err := rdb.SMembers(t.Context(), "by_n:10").Result()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(members)
		return fmt.Sprint(all, members)
	}
	p := l.running()
	l.caughtUp()
	if got := held(); got != "[item:1 item:2 price:1.00 price:2.00 by_n:10] [1 2]" {
		t.Fatal(got)
	}
	l.exec("ALTER TABLE item MODIFY id VARCHAR(20) NOT NULL", "ALTER TABLE price MODIFY id BIGINT NOT NULL",
		"DELETE FROM item WHERE id = '2'")
	l.failsWith("by_n", "type or collation")
	l.must("rebuild", "by_n")
	eventually(t, func() error {
		if got := held(); got != "[item:1 price:1 price:2 by_n:10] [1]" {
			return fmt.Errorf("held: %s", got)
		}
		return nil
	})
	l.caughtUp()
	l.must("verify")
	p.stop()
}
