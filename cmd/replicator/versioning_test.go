package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// viewsOfTables returns the configuration of a view of each named table, with the columns name and amt.
func viewsOfTables(tables ...string) string {
	var all strings.Builder
	for _, table := range tables {
		all.WriteString("[tables." + table + "]\nkey = \"id\"\n[views.v_" + table + "]\nfrom = \"" + table +
			"\"\nsink = \"main\"\nkind = \"row\"\nkey = { id = \"$id\" }\nfields = [\"name\", \"amt\"]\ncreate = true\n")
	}
	return all.String()
}

// A view of a system-versioned table has the rows that a SELECT returns. It must not have historical rows, which are
// also in the binlog.
func TestViewsOfSystemVersionedTablesHaveNoHistory(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		if !kind.IsMariaDB() {
			return
		}
		for _, metadata := range []string{"FULL", "MINIMAL"} {
			t.Run(metadata, func(t *testing.T) {
				l := newBareLab(t, servertest.Own(t, kind, "--binlog-row-metadata="+metadata))
				const columns = "(id BIGINT PRIMARY KEY, name VARCHAR(20), amt INT"
				l.exec("CREATE TABLE implied "+columns+") WITH SYSTEM VERSIONING",
					"CREATE TABLE declared "+columns+", s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "+
						"e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
					"CREATE TABLE was "+columns+") WITH SYSTEM VERSIONING")
				tables := []string{"implied", "declared"}
				if metadata == "FULL" {
					tables = append(tables, "was")
				}
				l.configure(source, program, mainSink, viewsOfTables(tables...))
				each := func(statements ...string) {
					for _, table := range tables {
						for _, s := range statements {
							l.exec(strings.ReplaceAll(s, "{t}", table))
						}
					}
				}
				each("INSERT INTO {t} (id, name, amt) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)", "DELETE FROM {t} WHERE id = 4")
				p := l.running()
				l.caughtUp()
				same := func() {
					t.Helper()
					l.caughtUp()
					for _, table := range tables {
						l.expectLike("SELECT id, name, amt FROM v_"+table+" ORDER BY 1", "SELECT id, name, amt FROM "+table+" ORDER BY 1")
					}
				}
				same()
				each("UPDATE {t} SET amt = 20 WHERE id = 2", "DELETE FROM {t} WHERE id = 3")
				same()
				each("REPLACE INTO {t} (id, name, amt) VALUES (1, 'z', 100)",
					"INSERT INTO {t} (id, name, amt) VALUES (2, 'y', 5) ON DUPLICATE KEY UPDATE amt = amt + 1",
					"INSERT INTO {t} (id, name, amt) VALUES (3, 'again', 1)")
				same()
				each("DELETE HISTORY FROM {t}", "UPDATE {t} SET id = 9 WHERE id = 1")
				same()
				l.must("verify")
				p.stop()
				each("UPDATE {t} SET amt = amt + 1", "DELETE FROM {t} WHERE id = 2")
				if metadata == "FULL" { // this removes the historical rows and logs their deletes
					l.exec("ALTER TABLE was DROP SYSTEM VERSIONING")
				}
				l.must("run", "--until-caught-up")
				for _, table := range tables {
					l.expectLike("SELECT id, name, amt FROM v_"+table+" ORDER BY 1", "SELECT id, name, amt FROM "+table+" ORDER BY 1")
				}
			})
		}
	})
}

// MariaDB 11.8 omits generated columns from the images of updated and deleted rows. If a view needs such a column,
// check says so, and the program reads the rows from the source.
func TestGeneratedColumnsMayBeMissingFromTheBinlog(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		l.exec("CREATE TABLE item (id BIGINT PRIMARY KEY, twice INT AS (amt * 2) VIRTUAL, name VARCHAR(20), "+
			"thrice INT AS (amt * 3) STORED, amt INT, last INT)", "INSERT INTO item (id, name, amt) VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
		views := viewsOfTables("item")
		l.configure(source, program, mainSink, views)
		p := l.running()
		l.caughtUp()
		l.exec("UPDATE item SET amt = 20 WHERE id = 2", "DELETE FROM item WHERE id = 3", "UPDATE item SET id = 7, name = NULL WHERE id = 1",
			"INSERT INTO item (id, name, amt) VALUES (9, 'n', 9)")
		l.caughtUp()
		l.expectLike("SELECT id, name, amt FROM v_item ORDER BY 1", "SELECT id, name, amt FROM item ORDER BY 1")
		l.must("verify")
		p.stop()

		l.configure(source, program, mainSink, views+"[views.needs]\nfrom = \"item\"\nsink = \"main\"\nkind = \"row\"\n"+
			"key = { id = \"$id\" }\nfields = [\"twice\"]\ncreate = true\n")
		leaves := s.Kind == servers.MariaDB118
		if out := l.must("check"); leaves != strings.Contains(out, "generated column twice, needed by needs") {
			t.Errorf("check says, where generated columns are left out (%t):\n%s", leaves, out)
		}
		p = l.running()
		l.caughtUp()
		l.exec("UPDATE item SET amt = 21 WHERE id = 2")
		l.caughtUp()
		l.expect("SELECT twice FROM needs WHERE id = 2", "42")
		p.stop()
	})
}
