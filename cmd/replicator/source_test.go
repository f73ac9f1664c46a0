package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// With on_unlogged = "stop", views stop at a change whose rows are not in the binlog. The error names the table, the
// log position and a fix, and the fix works.
func TestWhatTheBinlogDoesNotTellStopsTheViewsAndTheWayOutWorks(t *testing.T) {
	t.Parallel()
	const insert = "INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (REPEAT('z', 16), 'users', 1, '{\"email\": \"z@x.org\"}')"
	cases := []struct {
		name    string
		session []string
		says    string
		after   []string // the emails that the application has then
		mend    []string
	}{
		{"TRUNCATE", []string{"TRUNCATE cell"}, "truncated", nil, nil},
		{"DROP TABLE", []string{"DROP TABLE cell"}, "dropped", nil, []string{cellTable}},
		{"RENAME TABLE", []string{"RENAME TABLE cell TO moved"}, "renamed", []string{"a@x.org a"},
			[]string{"RENAME TABLE moved TO cell"}},
		{"STATEMENT format", []string{"SET SESSION binlog_format = 'STATEMENT'", insert}, "binlog_format",
			[]string{"a@x.org a", "z@x.org z"}, nil},
		{"MINIMAL image", []string{"SET SESSION binlog_row_image = 'MINIMAL'",
			"DELETE FROM cell"}, "binlog_row_image", nil, nil},
	}
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				l := newLab(t, s)
				l.configure(source, "on_unlogged = \"stop\"\n", program, mainSink, emailView, usersView, phoneView)
				l.put("a", 1, `{"email": "a@x.org"}`)
				p := l.running()
				l.caughtUp()
				l.session(c.session...)
				st := l.failsWith("users", "cell", c.says, "binlog.0", "replicator rebuild", "-c "+l.file())
				if strings.Contains(st.Error, "z@x.org") || strings.Contains(st.Error, "INSERT INTO") {
					t.Errorf("the error shows what was written: %s", st.Error)
				}
				if r := l.run("wait", "--pos", l.position()); r.code != 1 || !strings.Contains(r.errors, "failed") {
					t.Errorf("a wait for a failed view: %+v", r)
				}
				l.expect(emails, "a@x.org a") // the view did not change
				p.stop()
				l.exec(c.mend...)

				// Setting the position past the change makes the views continue without that change.
				l.must("checkpoint", "set", "--pos", l.position(), "--yes")
				l.put("b", 1, `{"email": "b@x.org"}`)
				l.must("run", "--until-caught-up")
				l.expect(emails, "a@x.org a", "b@x.org b")

				// After a reset, the views are filled from the table.
				l.must("checkpoint", "reset", "--yes")
				l.must("run", "--until-caught-up")
				want := append(append([]string{}, c.after...), "b@x.org b")
				if len(c.after) == 2 {
					want = []string{c.after[0], "b@x.org b", c.after[1]}
				} else if len(c.after) == 1 && c.after[0] > "b" {
					want = []string{"b@x.org b", c.after[0]}
				}
				l.expect(emails, want...)
			})
		}
	})
}

// A dump or a migration begins with DROP TABLE IF EXISTS. Views that start at the beginning of the log are still empty
// there, so they lose nothing. After their first row, such a statement makes the program compare them with the source.
func TestALogThatBeginsWithADropIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	servertest.FirstKind(t, func(t *testing.T, kind servers.Kind) {
		l := newBareLab(t, servertest.Own(t, kind))
		l.exec("DROP TABLE IF EXISTS cell", cellTable, "TRUNCATE TABLE cell", usersTable, emailTable, phoneTable)
		l.configure(source, "start = \"earliest\"\n", program, mainSink, emailView, usersView, phoneView)
		l.put("a", 1, `{"email": "a@x.org"}`)
		l.must("run", "--until-caught-up")
		l.expect(emails, "a@x.org a")

		l.exec("TRUNCATE TABLE cell")
		l.put("b", 1, `{"email": "b@x.org"}`)
		l.must("run", "--until-caught-up")
		l.expect(emails, "b@x.org b")
	})
}

// A rebuild in place also gets past changes whose rows are not in the binlog, in the running process and without one.
// It removes the rows that the table no longer has.
func TestARebuildInPlacePassesWhatTheBinlogDoesNotTell(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newLab(t, s)
		l.configure(source, "on_unlogged = \"stop\"\n", program, mainSink, emailView, usersView, phoneView)
		l.put("a", 1, `{"email": "a@x.org"}`)
		p := l.running()
		l.caughtUp()
		rebuild := []string{"rebuild", "--in-place", "index_users_email", "users", "index_users_phone"}

		l.exec("TRUNCATE cell")
		l.put("b", 1, `{"email": "b@x.org"}`)
		l.failsWith("users", "truncated")
		l.must(rebuild...)
		l.put("c", 1, `{"email": "c@x.org"}`)
		l.caughtUp()
		l.expect(emails, "b@x.org b", "c@x.org c")

		l.exec("TRUNCATE cell")
		l.put("d", 1, `{"email": "d@x.org"}`)
		l.failsWith("users", "truncated")
		p.stop()
		l.must(rebuild...)
		l.must("run", "--until-caught-up")
		l.expect(emails, "d@x.org d")
		l.must("verify")
	})
}

// Changes of columns that no view uses don't affect the views.
func TestAlteringOtherColumnsIsReadOver(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newLab(t, s)
		p := l.running()
		l.caughtUp() // the tail runs, so it reads each of these statements
		for i, ddl := range []string{
			"ALTER TABLE cell ADD COLUMN extra INT FIRST", "ALTER TABLE cell RENAME COLUMN extra TO other",
			"ALTER TABLE cell MODIFY other VARCHAR(20)", "ALTER TABLE cell DROP COLUMN other",
			"ALTER TABLE cell MODIFY body LONGTEXT", "ALTER TABLE cell MODIFY column_name VARCHAR(200) NOT NULL",
			"CREATE INDEX i ON cell (ref_key)", "CREATE TABLE copy AS SELECT * FROM cell", "DROP TABLE copy",
		} {
			l.exec(ddl)
			l.put(string(rune('a'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org"}`, i))
		}
		l.caughtUp()
		l.expect("SELECT COUNT(*) FROM index_users_email", "9")
		if n := len(l.letters()); n != 0 {
			t.Errorf("%d dead letters", n)
		}
		p.stop()
		if !strings.Contains(p.Log(), "a watched table was altered") || strings.Contains(p.Log(), compared) {
			t.Errorf("no ALTER was noticed, or a view was compared\n%s", p.Log())
		}
	})
}

// By default, servers don't write column names to the binlog.
func TestAlteringWithoutColumnNamesIsFollowed(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		metadata := "MINIMAL"
		if kind.IsMariaDB() {
			metadata = "NO_LOG"
		}
		l := newLab(t, servertest.Own(t, kind, "--binlog-row-metadata="+metadata))
		l.put("a", 1, `{"email": "a@x.org"}`)
		p := l.running()
		l.caughtUp()
		key := 'b'
		alter := func() {
			t.Helper()
			for _, change := range []string{"ADD INDEX (ref_key)", "ADD COLUMN extra INT FIRST",
				"MODIFY extra BIGINT AFTER ref_key", "CHANGE extra other VARCHAR(20)", "RENAME COLUMN other TO third",
				"MODIFY body LONGTEXT FIRST", "MODIFY body LONGBLOB AFTER third", "DROP INDEX ref_key, DROP third, COMMENT 'x'"} {
				l.exec("ALTER TABLE cell " + change)
				l.put(string(key), 1, fmt.Sprintf(`{"email": "%c@x.org"}`, key))
				key++
			}
		}
		alter()
		l.caughtUp()
		p.stop()
		alter() // while the program is stopped
		again := l.running()
		l.caughtUp()
		again.stop()
		if strings.Contains(p.Log()+again.Log(), compared) {
			t.Errorf("a view was compared: the columns were not known somewhere\n%s%s", p.Log(), again.Log())
		}
		var want []string
		for k := 'a'; k < key; k++ {
			want = append(want, fmt.Sprintf("%c@x.org %c", k, k))
		}
		l.expect(emails, want...)
	})
}

func TestSettingsOfTheSourceThatAreNotAsNeeded(t *testing.T) {
	t.Parallel()
	servertest.FirstKind(t, func(t *testing.T, kind servers.Kind) {
		l := newLab(t, servertest.Own(t, kind, "--binlog-format=STATEMENT", "--binlog-row-image=MINIMAL"))
		r := l.run("check")
		if r.code != 1 || !strings.Contains(r.out, "fail  binlog_format: STATEMENT") ||
			!strings.Contains(r.out, "warn  binlog_row_image: MINIMAL") ||
			!strings.Contains(r.out, "SET GLOBAL binlog_format = ROW") {
			t.Errorf("check: exit status %d\n%s%s", r.code, r.out, r.errors)
		}
		l.put("a", 1, `{"email": "a@x.org"}`)
		p := l.running() // the server's settings prevent even the sink's writes
		l.failsWith("users", "sink main", "BINLOG_FORMAT = STATEMENT")
		p.stop()
		sink := servertest.Shared(t, kind)
		l.sinkOn(sink)
		p = l.running()
		l.caughtUp()
		l.put("a", 2, `{"email": "b@x.org"}`)
		eventually(t, func() error { // the program reads the statement's effects from the source
			return as(slices.Equal(rowsOf(t, l.connect(sink, l.database), emails), []string{"b@x.org a"}), "the view follows")
		})
		p.stop()
		if !strings.Contains(p.Log(), "binlog_format") {
			t.Errorf("the log doesn't name the setting:\n%s", p.Log())
		}
	})
}

func TestAMissingTableIsNamedAndFoundOnceItIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.exec("DROP TABLE cell")
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, "fail  table cell") {
		t.Errorf("check: %+v", r)
	}
	if r := l.run("run", "--until-caught-up"); r.code != 1 || !strings.Contains(r.errors, "cell") {
		t.Errorf("run --until-caught-up: exit status %d\n%s", r.code, r.errors)
	}
	p := l.running()
	l.failsWith("users", "cell", l.database)
	l.exec(cellTable)
	l.put("a", 1, `{"email": "a@x.org"}`)
	p.stop()
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a")
}

// If a right in the source is missing, check and run name it, and nothing is done without it.
func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range []struct{ name, right, check string }{
			{"REPLICATION SLAVE", "SELECT, REPLICATION CLIENT ON *.*", "REPLICATION SLAVE"},
			{"REPLICATION CLIENT", "SELECT, REPLICATION SLAVE ON *.*", "REPLICATION CLIENT"},
			{"SELECT", "REPLICATION SLAVE, REPLICATION CLIENT ON *.*", "SELECT"},
		} {
			t.Run(c.name, func(t *testing.T) {
				l := newLab(t, s)
				reader := l.database + "_r"
				l.account(s, reader, c.right)
				l.env["SINK"] = l.env["DSN"]
				l.env["DSN"] = strings.Replace(l.env["DSN"], l.user+":", reader+":", 1)
				l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView, usersView, phoneView)
				if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, c.check) {
					t.Errorf("check: exit status %d\n%s", r.code, r.out)
				}
				l.put("a", 1, `{"email": "a@x.org"}`)
				p := l.running()
				st := l.reaches("users", "failed")
				if !strings.Contains(st.Error, c.check) && !strings.Contains(strings.ToUpper(st.Error), "DENIED") {
					t.Errorf("run says %s", st.Error)
				}
				p.stop()
				execAll(t, l.connect(s, ""), "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "+reader+"@'%'")
				l.must("check")
				l.must("run", "--until-caught-up")
				l.expect(emails, "a@x.org a")
			})
		}
	})
}
