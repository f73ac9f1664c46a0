package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// TestRowsOfTablesThatReferToEachOtherComeInAnyOrder: a child may come before its parent, and a parent may go before
// its child.
func TestRowsOfTablesThatReferToEachOtherComeInAnyOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s,
			"CREATE TABLE parent (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (id))",
			"CREATE TABLE child (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (id))",
			"CREATE TABLE theirs (id INT PRIMARY KEY)",
			"CREATE TABLE lone (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES theirs (id))")
		var views []*replicator.View
		var c mysql.Config
		for _, name := range []string{"child", "parent", "lone"} {
			views = append(views, &replicator.View{Name: name, Kind: "row", From: from(name), Fields: fields("up"),
				Fingerprint: "1", Settings: mysql.Settings{Table: name, KeyFrom: []replicator.Field{{Name: "id", Path: "$id"}}}})
			c.Tables = append(c.Tables, replicator.Table{Name: name, Table: name, Key: []string{"id"}})
		}
		c.Name, c.DSN = "main", dsn
		sink, err := mysql.New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Close()
		target := openTarget(t, sink, views...)
		version := int64(0)
		op := func(view int, id int64, up any) replicator.Op {
			version++
			o := itemOp(t, id, version, up)
			o.Cell.Table, o.Values[0].View = views[view].Name, view
			return o
		}
		gone := func(view int, id int64) replicator.Op {
			o := op(view, id, nil)
			o.Version, o.AsOf, o.Values[0].Entries = replicator.NoVersion, version, nil
			return o
		}
		apply := func(what string, ops ...replicator.Op) []replicator.Rejected {
			t.Helper()
			out, err := target.Apply(t.Context(), ops)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return out.Rejected
		}
		holds := func(want string) {
			t.Helper()
			got := append(column(t, db, "SELECT CONCAT_WS(' ', 'parent', id, up) FROM parent ORDER BY id"),
				column(t, db, "SELECT CONCAT_WS(' ', 'child', id, up) FROM child ORDER BY id")...)
			if fmt.Sprint(got) != want {
				t.Errorf("the tables hold %v, want %s", got, want)
			}
		}
		for what, ops := range map[string][]replicator.Op{
			"a child in a batch before": {op(0, 1, int64(2))},
			"its parent, and a tree":    {op(1, 1, int64(2)), op(1, 2, int64(3)), op(1, 3, nil)},
		} {
			if rejected := apply(what, ops...); len(rejected) > 0 {
				t.Errorf("%s: %v", what, rejected[0].Err)
			}
		}
		holds("[parent 1 2 parent 2 3 parent 3 child 1 2]")
		apply("parents that go", gone(1, 3), gone(1, 2))
		apply("and the others", gone(1, 1), gone(0, 1))
		holds("[]")
		rejected := apply("a key to somebody else's table", op(2, 1, int64(5)))
		if len(rejected) != 1 || !strings.Contains(rejected[0].Err.Error(), "foreign key") {
			t.Errorf("what refers to a table of somebody else's is rejected as %v", rejected)
		}
		target = openTarget(t, sink, views...)
		apply("a row that somebody else's table needs", op(1, 7, nil))
		exec(t, db, "CREATE TABLE app (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (id))")
		exec(t, db, "INSERT INTO app VALUES (1, 7)")
		target = openTarget(t, sink, views...)
		_, err = target.Apply(t.Context(), []replicator.Op{gone(1, 7)})
		if err == nil || !strings.Contains(err.Error(), "1451") {
			t.Errorf("a row that somebody else's table refers to goes: %v", err)
		}
	})
}
