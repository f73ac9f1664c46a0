package main

import (
	"fmt"
	"slices"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Columns may have times in MariaDB's 5.3 format, and the binlog doesn't tell their precision. A table is rebuilt in
// the other format while the program runs and while it is stopped. The views must follow without an operator.
func TestATableThatChangesTheFormatOfItsTimesIsFollowed(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		if !kind.IsMariaDB() {
			return
		}
		l := newBareLab(t, servertest.Own(t, kind))
		const columns = " (id BIGINT PRIMARY KEY, at DATETIME(6), name VARCHAR(20), amt INT)"
		l.exec("SET GLOBAL mysql56_temporal_format = OFF", "CREATE TABLE item"+columns,
			"CREATE TABLE versioned"+columns+" WITH SYSTEM VERSIONING", "SET GLOBAL mysql56_temporal_format = ON",
			"CREATE TABLE other"+columns)
		l.configure(source, program, mainSink, viewsOfTables("item", "versioned", "other"))
		same := func(tables ...string) {
			t.Helper()
			for _, table := range tables {
				l.caughtUp("v_" + table)
				eventually(t, func() error { // skipped rows are compared later
					got, want := l.rows("SELECT id, name, amt FROM v_"+table+" ORDER BY 1"),
						l.rows("SELECT id, name, amt FROM "+table+" ORDER BY 1")
					return as(slices.Equal(got, want), fmt.Sprintf("%s: %q, want %q", table, got, want))
				})
			}
		}
		write := func() {
			t.Helper()
			for _, table := range []string{"item", "versioned", "other"} {
				l.exec("INSERT INTO "+table+" SELECT COUNT(*), '2024-05-06 07:08:09.5', 'new', 1 FROM "+table,
					"UPDATE "+table+" SET amt = amt + 1, at = at + INTERVAL 1 MICROSECOND")
			}
		}
		p := l.running()
		l.caughtUp()
		write()
		write()
		same("item", "versioned", "other")
		l.exec("ALTER TABLE item FORCE") // the running program has already read all earlier changes
		write()
		same("item", "versioned", "other")
		for range 2 {
			l.exec("SET GLOBAL mysql56_temporal_format = OFF", "ALTER TABLE item FORCE")
			write()
			same("item", "versioned", "other")
			p.stop()
			write()
			l.exec("SET GLOBAL mysql56_temporal_format = ON", "ALTER TABLE item FORCE")
			write()
			p = l.running()
			same("item", "versioned", "other")
			write()
			same("item", "versioned", "other")
			l.must("verify")
		}
		p.stop()
	})
}
