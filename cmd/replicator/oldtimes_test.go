package main

import (
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Rows of a table that had times in MariaDB's format of 5.3 when they were written, and was rebuilt since, can't be
// read. Its views stop, with what mends them.
func TestATableThatLosesTheFormatOfMariaDB53(t *testing.T) {
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
				l.expectLike("SELECT id, name, amt FROM v_"+table+" ORDER BY 1",
					"SELECT id, name, amt FROM "+table+" ORDER BY 1")
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
		l.exec("ALTER TABLE item FORCE") // a running program has read all before it
		write()
		same("item", "versioned", "other")
		for _, mend := range [][]string{{"rebuild", "v_item"}, {"checkpoint", "reset", "--yes", "v_item"}} {
			l.exec("SET GLOBAL mysql56_temporal_format = OFF", "ALTER TABLE item FORCE")
			write()
			same("item", "versioned", "other")
			p.stop()
			write()
			l.exec("SET GLOBAL mysql56_temporal_format = ON", "ALTER TABLE item FORCE")
			write()
			p = l.running()
			l.failsWith("v_item", "table item", "column at", "5.3", "checkpoint reset")
			same("versioned", "other")
			if mend[0] == "checkpoint" {
				p.stop()
				l.must(mend...)
				p = l.running()
			} else {
				l.must(mend...)
			}
			write()
			same("item", "versioned", "other")
			l.must("verify")
		}
		p.stop()
	})
}
