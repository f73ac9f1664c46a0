package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// cutOver replaces the table by a copy with another column, as gh-ost and pt-online-schema-change do. This copy is
// wrong: it lacks cell a, has a different cell b, and has a cell that was never in the table.
var cutOver = []string{
	"CREATE TABLE `_cell_gho` LIKE cell", "ALTER TABLE `_cell_gho` ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT '' FIRST",
	"INSERT INTO `_cell_gho` (added_at, row_key, column_name, ref_key, body) SELECT added_at, row_key, column_name, ref_key, body FROM cell",
	"DELETE FROM `_cell_gho` WHERE row_key = CONCAT(REPEAT(CHAR(0), 15), 'a')",
	`UPDATE _cell_gho SET body = '{"email": "b2@x.org"}' WHERE row_key = CONCAT(REPEAT(CHAR(0), 15), 'b')`,
	`INSERT INTO _cell_gho (row_key, column_name, ref_key, body) VALUES (CONCAT(REPEAT(CHAR(0), 15), 'n'), 'users', 1, '{"email": "n@x.org"}')`,
	"rename /* gh-ost */ table `cell` to `_cell_del`, `_cell_gho` to `cell`",
}

// compared is the log message for each view of cellViews that was compared.
const compared = "a view was compared with its source"

func TestATableThatTakesAWatchedOnesPlaceIsFollowedAndTheViewsAreCompared(t *testing.T) {
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newLab(t, s)
		l.put("a", 1, `{"email": "a@x.org"}`)
		l.put("b", 1, `{"email": "b@x.org"}`)
		l.put("c", 1, `{"email": "c@x.org"}`)
		p := l.running()
		l.caughtUp()
		l.exec(cutOver...)
		l.put("d", 1, `{"email": "d@x.org"}`)
		l.put("c", 2, `{"email": "c2@x.org"}`)
		l.caughtUp()
		eventually(t, func() error {
			return as(strings.Count(p.Log(), compared) >= 3, "every view is compared")
		})
		l.expect(emails, "b2@x.org b", "c2@x.org c", "d@x.org d", "n@x.org n")
		l.expect("SELECT email FROM users ORDER BY 1", "b2@x.org", "c2@x.org", "d@x.org", "n@x.org")
		if l.status("users").State != "running" {
			t.Errorf("status: %+v", l.status("users"))
		}
		if !strings.Contains(p.Log(), "was replaced by another table") {
			t.Errorf("the log says nothing of the swap:\n%s", p.Log())
		}
		// The tables are swapped back while nothing else is written. Then the program restarts.
		before := strings.Count(p.Log(), compared)
		l.exec("RENAME TABLE cell TO away, `_cell_del` TO cell")
		eventually(t, func() error {
			return as(strings.Count(p.Log(), compared) >= before+3, "every view is compared once more")
		})
		l.caughtUp() // this also waits for pending comparisons
		l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c")
		p.stop()
		p = l.running()
		l.caughtUp()
		p.stop()
		if strings.Contains(p.Log(), compared) {
			t.Errorf("after a restart it is compared again:\n%s", p.Log())
		}
	})
}

// A pending comparison survives a crash. It is recorded in the marks and the checkpoint before any later change is
// applied. If the crash loses the state directory, the marks still have it.
func TestAComparisonWithATableThatTookAnothersPlaceGoesOnAfterACrash(t *testing.T) {
	for name, crash := range map[string]func(t *testing.T, l *lab){
		"that leaves the state directory": func(*testing.T, *lab) {},
		"that takes the state directory along": func(t *testing.T, l *lab) {
			if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { comparisonAfterACrash(t, crash) })
	}
}

func comparisonAfterACrash(t *testing.T, crash func(t *testing.T, l *lab)) {
	l := newLab(t, servertest.MySQL(t))
	for key := 'a'; key < 'm'; key++ {
		l.put(string(key), 1, fmt.Sprintf(`{"email": "%c@x.org"}`, key))
	}
	l.must("run", "--until-caught-up")
	l.configure(cellViews, "[rebuild]\nrate = 1\n") // at this rate, a comparison takes long
	p := l.running()
	l.caughtUp()
	l.exec(cutOver...)
	l.put("z", 1, `{"email": "z@x.org"}`)
	at := l.position()           // don't wait for this fence, because that would wait for the comparison
	eventually(t, func() error { // until the checkpoints are past the swap
		for _, c := range jsonLines[struct{ Position string }](t, l.must("checkpoint", "show", "--json")) {
			if isBefore(t, c.Position, at) {
				return as(false, fmt.Sprintf("the checkpoint at %s reaches %s", c.Position, at))
			}
		}
		return nil
	})
	p.kill()
	if strings.Contains(p.Log(), compared) {
		t.Fatal("the comparison was over before the crash")
	}
	crash(t, l)
	l.configure(cellViews)
	l.must("run", "--until-caught-up")
	want := []string{"b2@x.org b"}
	for key := 'c'; key < 'm'; key++ {
		want = append(want, fmt.Sprintf("%c@x.org %c", key, key))
	}
	l.expect(emails, append(want, "n@x.org n", "z@x.org z")...)
}

// isBefore reports whether a binlog position is before another. Both have the form FILE:POS.
func isBefore(t *testing.T, a, b string) bool {
	t.Helper()
	inA, atA, _ := strings.Cut(a, ":")
	inB, atB, _ := strings.Cut(b, ":")
	posA, err := strconv.Atoi(atA)
	posB, err2 := strconv.Atoi(atB)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return cmp.Or(cmp.Compare(inA, inB), cmp.Compare(posA, posB)) < 0
}

func TestOnUnloggedSaysWhatBecomesOfTheViews(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		for _, c := range []struct {
			onUnlogged, onLost string
			stops              bool
		}{{"stop", "rebuild", true}, {"rebuild", "stop", false}} {
			t.Run(c.onUnlogged, func(t *testing.T) {
				l := newLab(t, s)
				l.configure(strings.Replace(cellViews, "[source]",
					"[source]\non_unlogged = \""+c.onUnlogged+"\"\non_lost = \""+c.onLost+"\"", 1))
				l.put("a", 1, `{"email": "a@x.org"}`)
				l.put("b", 1, `{"email": "b@x.org"}`)
				p := l.running()
				l.caughtUp()
				l.exec(cutOver...)
				if c.stops {
					l.failsWith("users", "cell", "renamed to its name", "binlog.0")
					l.expect(emails, "a@x.org a", "b@x.org b")
					p.stop()
					return
				}
				eventually(t, func() error {
					return as(len(l.rows("SELECT email FROM index_users_email WHERE email = 'n@x.org'")) == 1,
						"the views are filled again")
				})
				l.caughtUp()
				l.expect(emails, "b2@x.org b", "n@x.org n")
				p.stop()
			})
		}
	})
}

// Views of a table that lacks a role's column stop.
func TestATableThatLacksARoleStopsTheViews(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org"}`)
	p := l.running()
	l.caughtUp()
	l.exec("CREATE TABLE next LIKE cell", "ALTER TABLE next RENAME COLUMN body TO document",
		"RENAME TABLE cell TO old, next TO cell",
		`INSERT INTO cell (row_key, column_name, ref_key, document) VALUES (REPEAT('k', 16), 'users', 1, '{"email": "k@x.org"}')`)
	l.failsWith("users", "cell", "body")
	l.expect(emails, "a@x.org a")
	p.stop()
}
