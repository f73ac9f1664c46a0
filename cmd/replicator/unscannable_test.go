package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// A table that can't be scanned fails only the fill of its own views. This holds both at the first start and in later
// fills, in which all views of the sink are filled together.
func TestATableThatCanNotBeScannedFailsItsViewsAlone(t *testing.T) {
	t.Parallel()
	const why = "has no key by which a scan"
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE good (id INT PRIMARY KEY, name VARCHAR(20), amt INT)",
		"INSERT INTO good VALUES (1, 'a', 1)",
		"CREATE TABLE bad (id INT, name VARCHAR(20), amt INT, UNIQUE (id))", "INSERT INTO bad VALUES (1, 'a', 1)")
	l.configure(source, program, mainSink, viewsOfTables("bad", "good")) // scanned in order of their names
	fails := func(args ...string) {
		t.Helper()
		if r := l.run(args...); r.code != 1 || !strings.Contains(r.errors, why) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	filled := func() {
		t.Helper()
		l.expectLike("SELECT id, name, amt FROM v_good ORDER BY 1", "SELECT id, name, amt FROM good ORDER BY 1")
	}
	fails("run", "--until-caught-up")
	filled()

	p := l.running()
	l.failsWith("v_bad", why)
	l.caughtUp("v_good")
	filled()
	l.exec("INSERT INTO v_good VALUES (7, 'stray', 7)")
	fails("rebuild", "v_good", "v_bad")
	eventually(t, func() error { return as(len(l.rows("SELECT id FROM v_good")) == 1, "v_good is rebuilt") })
	l.exec("INSERT INTO v_good VALUES (8, 'stray', 8)")
	fails("rebuild", "--in-place", "v_good", "v_bad")
	eventually(t, func() error {
		return as(len(l.rows("SELECT id FROM v_good")) == 1, "v_good is rebuilt in place")
	})
	l.exec("INSERT INTO good VALUES (2, 'b', 2)")
	l.caughtUp("v_good")
	filled()
	l.must("verify", "v_good")
	p.stop()

	l.must("checkpoint", "reset", "--yes")
	l.exec("DELETE FROM v_good", "INSERT INTO good VALUES (3, 'c', 3)")
	fails("run", "--until-caught-up")
	filled()

	l.exec("ALTER TABLE bad MODIFY id INT NOT NULL")
	l.must("run", "--until-caught-up")
	filled()
	l.expect("SELECT id FROM v_bad", "1")
}

// A row without a key belongs to no cell and must not block other rows. Once the row is corrected in the source,
// nothing else must be done.
func TestARowWithoutAKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, id INT UNIQUE, name VARCHAR(20), amt INT)",
		"INSERT INTO t (id, name, amt) VALUES (1, 'a', 1), (2, 'b', 2)")
	l.configure(source, program, mainSink, viewsOfTables("t"))
	p := l.running()
	l.caughtUp("v_t")
	l.exec("INSERT INTO t (id, name, amt) VALUES (NULL, 'x', 9)", "UPDATE t SET id = NULL WHERE id = 2",
		"INSERT INTO t (id, name, amt) VALUES (3, 'c', 3)")
	eventually(t, func() error { return as(len(l.rows("SELECT id FROM v_t WHERE id = 3")) == 1, "row 3 is shown") })
	if r := l.run("verify", "v_t"); r.code != 1 ||
		!strings.Contains(r.errors, "key column id is NULL. Correct it at the source") {
		t.Errorf("verify: %+v", r)
	}
	l.exec("DELETE FROM t WHERE id IS NULL")
	l.caughtUp("v_t")
	l.expectLike("SELECT id, name, amt FROM v_t ORDER BY 1", "SELECT id, name, amt FROM t ORDER BY 1")
	l.must("verify", "v_t")
	p.stop()
}
