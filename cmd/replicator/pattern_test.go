package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// many is a set of tables that the configuration names by a pattern, with views of them.
type many struct {
	*lab
	tenants bool // each table has its own database; else all are in one
	present []int
}

const shardedOrders = `
[tables.orders]
table = "orders_*"
key = "id"

[views.shown]
from = "orders"
sink = "main"
kind = "row"
key = { id = "id" }
fields = { status = "status", place = "$table" }

[views.by_status]
from = "orders"
sink = "main"
kind = "index"
fields = ["status"]
key = { id = "id" }
`

const tenantOrders = `
[tables.orders]
table = "${TENANTS}_*.orders"
key = ["$database", "id"]

[views.shown]
from = "orders"
sink = "main"
kind = "row"
key = { place = "$database", id = "id" }
fields = ["status"]

[views.by_status]
from = "orders"
sink = "main"
kind = "index"
fields = ["status"]
key = { place = "$database", id = "id" }
`

func newMany(t *testing.T, s *servers.Server, tenants bool) *many {
	m := &many{lab: newBareLab(t, s), tenants: tenants}
	views, key, entry := shardedOrders, "id", "status, id"
	if tenants {
		views, key, entry = tenantOrders, "place, id", "status, place, id"
	}
	m.env["TENANTS"] = m.database
	m.exec(fmt.Sprintf("CREATE TABLE shown (place VARCHAR(64) COLLATE utf8mb4_bin, id BIGINT, status VARCHAR(20), "+
		"PRIMARY KEY (%s))", key),
		fmt.Sprintf("CREATE TABLE by_status (status VARCHAR(20), place VARCHAR(64) COLLATE utf8mb4_bin NOT NULL DEFAULT '', "+
			"id BIGINT, PRIMARY KEY (%s), KEY (%s))", entry, key))
	if !tenants {
		m.exec("ALTER TABLE by_status DROP COLUMN place")
	}
	m.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, views)
	t.Cleanup(func() {
		if !t.Failed() || s.Running() {
			for i := range 10 {
				_, _ = m.db.Exec(fmt.Sprintf("DROP DATABASE IF EXISTS %s_%d", m.database, i)) // errors don't matter now
			}
		}
	})
	return m
}

// name returns the name of a table that matches the pattern.
func (m *many) name(i int) string {
	if m.tenants {
		return fmt.Sprintf("%s_%d.orders", m.database, i)
	}
	return fmt.Sprintf("%s.orders_%d", m.database, i)
}

const ordersColumns = "(id BIGINT PRIMARY KEY, status VARCHAR(20))"

func (m *many) create(i int, columns string) {
	m.t.Helper()
	if m.tenants {
		m.exec(fmt.Sprintf("CREATE DATABASE %s_%d", m.database, i))
	}
	m.exec("CREATE TABLE " + m.name(i) + columns)
	m.present = append(m.present, i)
}

func (m *many) drop(i int) {
	m.t.Helper()
	if m.tenants {
		m.exec(fmt.Sprintf("DROP DATABASE %s_%d", m.database, i))
	} else {
		m.exec("DROP TABLE " + m.name(i))
	}
	m.absent(i)
}

func (m *many) absent(i int) {
	m.present = slices.DeleteFunc(m.present, func(n int) bool { return n == i })
}

func (m *many) put(i, id int, status string) {
	m.t.Helper()
	m.exec(fmt.Sprintf("REPLACE INTO %s (id, status) VALUES (%d, '%s')", m.name(i), id, status))
}

// agree waits until the views match the rows of all tables that match the pattern.
func (m *many) agree(step string) {
	m.t.Helper()
	m.caughtUp()
	var want []string
	for _, i := range m.present {
		database, table, _ := strings.Cut(m.name(i), ".")
		place := table
		if m.tenants {
			place = database
		}
		want = append(want, m.rows(fmt.Sprintf("SELECT '%s', id, status FROM %s", place, m.name(i)))...)
	}
	slices.Sort(want)
	got := m.rows("SELECT place, id, status FROM shown")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		m.t.Errorf("%s:\n got %q\nwant %q", step, got, want)
	}
	list := "SELECT status, id FROM by_status ORDER BY 1, 2"
	m.expect(list, m.rows(strings.ReplaceAll(list, "by_status", "shown"))...)
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// steps are changes to the matching tables, in this order.
var steps = []struct {
	name string
	do   func(m *many)
}{
	{"two tables", func(m *many) {
		for i := range 2 {
			m.create(i, ordersColumns)
			m.put(i, 10+i, "first")
			m.put(i, 20+i, "second")
		}
	}},
	{"a table is created", func(m *many) {
		m.create(2, ordersColumns)
		m.put(2, 12, "new")
		m.put(2, 22, "gone")
		m.put(2, 22, "changed")
		m.exec("DELETE FROM " + m.name(2) + " WHERE id = 12")
	}},
	{"a row moves", func(m *many) {
		m.session("BEGIN", "INSERT INTO "+m.name(1)+" SELECT id, 'moved' FROM "+m.name(0)+" WHERE id = 10",
			"DELETE FROM "+m.name(0)+" WHERE id = 10", "COMMIT")
	}},
	{"a row moves into a table that is new", func(m *many) {
		m.create(3, " LIKE "+m.name(0))
		m.session("BEGIN", "INSERT INTO "+m.name(3)+" SELECT id, 'moved' FROM "+m.name(0)+" WHERE id = 20",
			"DELETE FROM "+m.name(0)+" WHERE id = 20", "COMMIT")
		m.put(0, 30, "zero")
	}},
	{"a table is dropped", func(m *many) { m.drop(1) }},
	{"a table is made again", func(m *many) {
		m.create(1, ordersColumns)
		m.put(1, 11, "again")
		m.drop(1)
		m.create(1, "(status VARCHAR(20), note INT, id BIGINT PRIMARY KEY)")
		m.put(1, 41, "other columns")
	}},
	{"a table is renamed away", func(m *many) {
		m.exec("RENAME TABLE " + m.name(2) + " TO " + m.database + ".away")
		m.absent(2)
	}},
	{"a table is renamed into the pattern", func(m *many) {
		m.exec("UPDATE "+m.database+".away SET status = 'back' WHERE id = 22",
			"RENAME TABLE "+m.database+".away TO "+m.name(2))
		m.present = append(m.present, 2)
		m.put(2, 52, "behind")
	}},
	{"a table is truncated", func(m *many) {
		m.exec("TRUNCATE TABLE " + m.name(2))
		m.put(2, 62, "behind")
	}},
	{"a table loses a column", func(m *many) {
		m.exec("ALTER TABLE " + m.name(1) + " CHANGE status state VARCHAR(20)")
		m.absent(1)
		m.exec("INSERT INTO " + m.name(1) + " (id, state) VALUES (71, 'left out')")
		m.put(0, 70, "goes on")
	}},
	{"a table gets the column again", func(m *many) {
		m.exec("ALTER TABLE " + m.name(1) + " CHANGE state status VARCHAR(20)")
		m.present = append(m.present, 1)
		m.put(1, 81, "behind")
	}},
	{"a table has another kind of key", func(m *many) {
		m.create(4, "(id VARCHAR(20) PRIMARY KEY, status VARCHAR(20))")
		m.absent(4)
		m.exec("INSERT INTO " + m.name(4) + " VALUES ('text', 'left out')")
	}},
	{"it is made one with the right key", func(m *many) {
		m.drop(4)
		m.create(4, ordersColumns)
		m.put(4, 94, "right")
	}},
}

func TestAllTablesThatMatchAreOneTable(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		for when, tenants := range map[string]bool{
			"while it runs": false, "while it is down": true, "and it is killed then": true,
		} {
			t.Run(fmt.Sprintf("tenants=%t, %s", tenants, when), func(t *testing.T) {
				m := newMany(t, s, tenants)
				steps[0].do(m)
				p := m.running()
				m.agree(steps[0].name)
				for _, step := range steps[1:] {
					if when == "while it is down" {
						p.kill()
					}
					step.do(m)
					if when == "and it is killed then" {
						p.kill()
					}
					if when != "while it runs" {
						p = m.running()
					}
					m.agree(step.name)
				}
				m.must("verify")
				p.stop()
			})
		}
	})
}

// If the key doesn't include the table's name, equal keys in two tables are one cell.
func TestOfEqualKeysInTwoTablesTheHighestVersionIsShown(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		m := newMany(t, s, false)
		m.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink,
			strings.Replace(shardedOrders, `key = "id"`, "key = \"id\"\nversion = \"v\"", 1))
		for i := range 2 {
			m.create(i, "(id BIGINT PRIMARY KEY, status VARCHAR(20), v BIGINT NOT NULL)")
		}
		m.exec("INSERT INTO "+m.name(0)+" VALUES (1, 'high', 7), (2, 'low', 1)",
			"INSERT INTO "+m.name(1)+" VALUES (1, 'low', 3), (2, 'high', 9)")
		p := m.running()
		m.caughtUp()
		shown := "SELECT id, status FROM shown ORDER BY 1"
		m.expect(shown, "1 high", "2 high")
		m.exec("DELETE FROM "+m.name(0)+" WHERE id = 1", "UPDATE "+m.name(1)+" SET v = 0 WHERE id = 2")
		m.caughtUp()
		m.expect(shown, "1 low", "2 low")
		m.exec("UPDATE " + m.name(1) + " SET v = 2, status = 'again' WHERE id = 2")
		m.caughtUp()
		m.expect(shown, "1 low", "2 again")
		m.must("verify")
		p.stop()
		m.must("rebuild", "shown")
		m.expect(shown, "1 low", "2 again")
	})
}

func TestCheckNamesTheTablesOfAPatternThatCannotBeRead(t *testing.T) {
	m := newMany(t, servertest.MySQL(t), false)
	m.create(0, ordersColumns)
	m.create(1, ordersColumns)
	out := m.must("check")
	for _, want := range []string{"2 of the 2 tables that match can be read", "put \"$table\""} {
		if !strings.Contains(out, want) {
			t.Errorf("check doesn't say %q:\n%s", want, out)
		}
	}
	m.create(2, "(id BIGINT PRIMARY KEY)")
	r := m.run("check")
	for _, want := range []string{"2 of the 3 tables that match can be read", m.name(2), "status"} {
		if r.code == 0 || !strings.Contains(r.out, want) {
			t.Errorf("check doesn't fail with %q:\n%s", want, r.out)
		}
	}
	m.put(0, 1, "new")
	m.must("run", "--until-caught-up")
	if out := m.must("explain", "shown", "1"); !strings.Contains(out, "new") {
		t.Errorf("explain doesn't show the row:\n%s", out)
	}
}
