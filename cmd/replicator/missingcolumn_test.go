package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// pairViews are two views of one table: a row view of three columns, and an index of one of them.
const pairViews = `
[tables.pair]
key = "id"

[views.pair_row]
from = "pair"
sink = "main"
kind = "row"
fields = ["x", "y"]

[views.pair_x]
from = "pair"
sink = "main"
kind = "index"
fields = ["x"]
`

const (
	pairRowTable = "CREATE TABLE pair_row (id INT PRIMARY KEY, x INT, y INT)"
	pairXTable   = "CREATE TABLE pair_x (x INT NOT NULL, id INT NOT NULL, PRIMARY KEY (x, id), KEY (id))"
)

// A view names a column that its table lacks. Only this view fails, and the error names it. The other views of the
// table are filled.
func TestAViewOfAColumnThatIsNotThereFailsAlone(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		l.exec("CREATE TABLE pair (id INT PRIMARY KEY, x INT)", "INSERT INTO pair VALUES (1, 10), (2, 20)",
			pairRowTable, pairXTable)
		l.configure(source, program, mainSink, pairViews)

		checked := l.run("check")
		for _, want := range []string{"column y", "pair_row"} {
			if !strings.Contains(checked.out, want) {
				t.Errorf("check doesn't say %q:\n%s", want, checked.out)
			}
		}
		p := l.running()
		l.failsWith("pair_row", "no column y")
		l.caughtUp("pair_x")
		l.expect("SELECT x, id FROM pair_x ORDER BY 1", "10 1", "20 2")
		l.expect("SELECT id FROM pair_row")
		p.stop()

		// Once the column exists, the view is filled from where it would have started.
		l.exec("ALTER TABLE pair ADD COLUMN y INT DEFAULT 5", "INSERT INTO pair VALUES (3, 30, 31)")
		p = l.running()
		l.caughtUp()
		l.expect("SELECT x, id FROM pair_x ORDER BY 1", "10 1", "20 2", "30 3")
		l.expect("SELECT id, x, y FROM pair_row ORDER BY 1", "1 10 5", "2 20 5", "3 30 31")
		p.stop()
	})
}

// A dropped column stops the views that need it, and no other views. The stopped views keep their entries.
func TestAColumnThatIsDroppedStopsTheViewsThatNeedIt(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE pair (id INT PRIMARY KEY, x INT, y INT)", "INSERT INTO pair VALUES (1, 10, 11)",
		pairRowTable, pairXTable)
	l.configure(source, program, mainSink, pairViews)
	p := l.running()
	l.caughtUp()
	l.exec("ALTER TABLE pair DROP COLUMN y", "INSERT INTO pair VALUES (2, 20)", "DELETE FROM pair WHERE id = 1")
	l.failsWith("pair_row", "no column y")
	l.caughtUp("pair_x")
	l.expect("SELECT x, id FROM pair_x ORDER BY 1", "20 2")
	l.expect("SELECT id, x, y FROM pair_row", "1 10 11")
	if one := l.status("pair_x"); one.State != "running" {
		t.Errorf("the view that does not need it: %+v", one)
	}

	// After a rebuild, the view runs together with the other one again.
	l.exec("ALTER TABLE pair ADD COLUMN y INT DEFAULT 5")
	l.must("rebuild", "pair_row")
	l.caughtUp()
	l.expect("SELECT id, x, y FROM pair_row", "2 20 5")
	eventually(t, func() error { return as(strings.Contains(p.Log(), "views now run together"), "the views join") })
	l.exec("INSERT INTO pair VALUES (3, 30, 31)")
	l.caughtUp()
	l.expect("SELECT x, id FROM pair_x ORDER BY 1", "20 2", "30 3")
	l.expect("SELECT id, x, y FROM pair_row ORDER BY 1", "2 20 5", "3 30 31")
	p.stop()
}
