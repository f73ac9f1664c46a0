package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// A table's name is so long that no shadow table can be named after it. The view is rebuilt in place.
func TestAViewInATableOfALongNameIsRebuilt(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	long := strings.Repeat("l", 64)
	l.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY, city VARCHAR(20))", "INSERT INTO orders VALUES (1, 'Oslo')")
	views := func(fields string) string {
		all := "[tables.orders]\nkey = \"id\"\n"
		for _, name := range []string{"good", long} {
			all += "[views." + name + "]\nfrom = \"orders\"\nsink = \"main\"\nkind = \"row\"\ncreate = true\non_change = \"rebuild\"\n" +
				"fields = " + fields + "\n"
		}
		return all
	}
	l.configure(source, program, mainSink, views(`["city"]`))
	l.must("run", "--until-caught-up")
	l.must("rebuild", "good", long)
	l.configure(source, program, mainSink, views(`{ city = "city", town = "city" }`))
	l.must("run", "--until-caught-up")
	l.expect("SELECT town FROM good", "Oslo")
	l.expect("SELECT town FROM "+long, "Oslo")
}

// A view in a table that the program created gets more fields and loses others. Only the file is changed.
func TestViewsInCreatedTablesGetFurtherFields(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY, city VARCHAR(20), status VARCHAR(10), total DECIMAL(9,2))",
		"INSERT INTO orders VALUES (1, 'Oslo', 'new', 1.5), (2, 'Rome', 'paid', 2)")
	views := func(row, index, counter string) string {
		view := func(name, kind, more string) string {
			return "[views." + name + "]\nfrom = \"orders\"\nsink = \"main\"\nkind = \"" + kind + "\"\ncreate = true\n" +
				"on_change = \"rebuild\"\n" + more + "\n"
		}
		return "[tables.orders]\nkey = \"id\"\n" + view("o", "row", "fields = "+row) +
			view("by_status", "index", "fields = "+index) + view("sales", "counter", counter)
	}
	l.configure(source, program, mainSink, views(`["city"]`, `["status"]`, "group = [\"city\"]"))
	p := l.running()
	l.caughtUp()
	l.configure(source, program, mainSink,
		views(`["city", "total"]`, `["status", "city"]`, "group = [\"city\", \"status\"]\nsum = \"total\""))
	if out := l.must("check"); strings.Count(out, "a rebuild alters it: ALTER TABLE") != 3 {
		t.Errorf("check says\n%s", out)
	}
	if out := l.must("plan"); strings.Count(out, " rebuild  ") != 3 {
		t.Errorf("plan says\n%s", out)
	}
	p.reread(2)
	l.exec("INSERT INTO orders VALUES (3, 'Rome', 'paid', 4.25)")
	l.caughtUp("o", "by_status", "sales") // with the definitions in the changed file
	l.expect("SELECT id, city, total FROM o ORDER BY 1", "1 Oslo 1.50", "2 Rome 2.00", "3 Rome 4.25")
	l.expect("SELECT status, city, id FROM by_status ORDER BY 3", "new Oslo 1", "paid Rome 2", "paid Rome 3")
	l.expect("SELECT city, status, total FROM sales ORDER BY 1", "Oslo new 1.50", "Rome paid 6.25")
	l.must("verify")

	p.stop() // next, the rebuild command does the same
	l.configure(source, program, mainSink, strings.ReplaceAll(
		views(`["city", "total", "status"]`, `["city"]`, "group = [\"status\"]"), "on_change = \"rebuild\"\n", ""))
	l.must("rebuild", "o", "by_status", "sales")
	l.must("run", "--until-caught-up")
	l.expect("SELECT id, city, total, status FROM o ORDER BY 1", "1 Oslo 1.50 new", "2 Rome 2.00 paid", "3 Rome 4.25 paid")
	l.expect("SELECT city, id FROM by_status ORDER BY 2", "Oslo 1", "Rome 2", "Rome 3")
	l.expect("SELECT status, cnt FROM sales ORDER BY 1", "new 1", "paid 2")
	l.must("verify")
}

// A column of a created table follows the file, which gives it another property or another type.
func TestColumnsOfCreatedTablesAreMadeAnewForWhatTheyHoldNow(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	views := func(row, counter string) string {
		return "[views.people]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"row\"\ncreate = true\n" + row + "\n" +
			"[views.per_city]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"counter\"\ncreate = true\n" + counter + "\n"
	}
	l.put("a", 1, `{"city": "Oslo", "points": 3, "name": "Ann", "rank": "gold"}`)
	l.put("b", 1, `{"city": "Rome", "points": 4, "name": "Bob", "rank": "silver"}`)
	l.configure(source, program, mainSink, views(`fields = { who = "name", score = "points" }`, `group = { kind = "points" }`))
	l.must("run", "--until-caught-up")
	l.expect("SELECT who, score FROM people ORDER BY 1", "Ann 3", "Bob 4")

	long := strings.Repeat("x", 100)
	l.put("a", 2, `{"city": "Oslo", "points": 3, "name": "`+long+`", "rank": "gold"}`)
	l.configure(source, program, mainSink,
		views("fields = { who = \"name\", score = \"rank\" }\ntypes = { who = \"VARCHAR(150)\" }", `group = { kind = "city" }`))
	out := l.run("check").out
	if strings.Count(out, "a rebuild alters it: ALTER TABLE") != 2 || strings.Contains(out, "can't be stored") {
		t.Errorf("check says\n%s", out)
	}
	l.must("rebuild", "people", "per_city")
	l.must("run", "--until-caught-up")
	l.expect("SELECT who, score FROM people ORDER BY 1 DESC", long+" gold", "Bob silver")
	l.expect("SELECT kind, cnt FROM per_city ORDER BY 1", "Oslo 1", "Rome 1")
	l.must("verify")
	if out := l.must("check"); strings.Contains(out, "ALTER TABLE") {
		t.Errorf("check says\n%s", out)
	}
}
