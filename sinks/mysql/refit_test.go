package mysql_test

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// creating returns a view of users cells whose table the program creates.
func creating(kind, definition string, key []replicator.Field, types map[string]string, paths ...string) *replicator.View {
	return &replicator.View{Name: "v", Kind: kind, From: from("cell.users"), Fields: fields(paths...), Fingerprint: definition,
		Settings: mysql.Settings{Table: "v", KeyFrom: key, Create: true, Types: types}}
}

// cellOf returns an op of one users cell. The values are its entry's fields.
func cellOf(version int64, values ...any) replicator.Op {
	op := userOp(1, version, 1, nil)
	op.Values[0].Entries = []replicator.Entry{{Fields: values}}
	return op
}

// columnsAndKeys returns the columns and the indexes of a table.
func columnsAndKeys(t *testing.T, db *sql.DB, table string) string {
	t.Helper()
	all := column(t, db, "SELECT CONCAT(COLUMN_NAME, ' ', IS_NULLABLE) FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+table+"' ORDER BY COLUMN_NAME")
	keys := column(t, db, "SELECT CONCAT(INDEX_NAME, NON_UNIQUE, '(', GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX), ')') "+
		"FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+table+"' "+
		"GROUP BY INDEX_NAME, NON_UNIQUE ORDER BY INDEX_NAME")
	return strings.Join(slices.Concat(all, keys), ", ")
}

func column(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// A table that was created for a view's earlier definition is rebuilt as one that holds the new one. Parts that were
// added by hand are still there afterwards.
func TestARebuildGivesACreatedTableTheColumnsOfANewDefinition(t *testing.T) {
	id := rowKey("id")
	types := map[string]string{"id": "BINARY(16)", "x": "INT", "y": "VARCHAR(20)", "amount": "BIGINT", "long": "VARCHAR(900)"}
	for _, c := range []struct {
		name          string
		before, after *replicator.View
		old, now      replicator.Op
		added         string // the rest of an ALTER TABLE by hand
		want, holds   string
	}{
		{"a row's further field", creating("row", "1", id, types, "x"), creating("row", "2", id, types, "x", "y"),
			cellOf(1, int64(1)), cellOf(1, int64(1), "a"), "ADD KEY by_x (x)",
			"id NO, x YES, y YES, by_x1(x), PRIMARY0(id)", "1 a"},
		{"a row's key column", creating("row", "1", id, types, "x"), creating("row", "2", rowKey("entity"), types, "x"),
			cellOf(1, int64(1)), cellOf(1, int64(1)), "ADD KEY by_x (x)",
			"entity NO, x YES, by_x1(x), PRIMARY0(entity)", "1"},
		{"an index's other field", creating("index", "1", id, types, "x"), creating("index", "2", id, types, "y"),
			cellOf(1, int64(1)), cellOf(1, "a"), "ADD COLUMN seen TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP, ADD KEY seen (seen)",
			"id NO, seen YES, y NO, id1(id), PRIMARY0(y,id), seen1(seen)", "a"},
		{"an index's further field", creating("index", "1", id, types, "x"), creating("index", "2", id, types, "x", "y"),
			cellOf(1, int64(1)), cellOf(1, int64(1), "a"), "ADD UNIQUE KEY pair (x, id)",
			"id NO, x NO, y NO, id1(id), pair0(x,id), PRIMARY0(x,y,id)", "1 a"},
		{"an index's long field", creating("index", "1", id, types, "x"), creating("index", "2", id, types, "long"),
			cellOf(1, int64(1)), cellOf(1, "a"), "COMMENT = 'ours'",
			"id NO, long NO, replicator_id NO, id1(id), long1(long,id), PRIMARY0(replicator_id)", "a"},
		{"a counter that gets a sum", creating("counter", "1", nil, types, "x", "cnt"), creating("counter", "2", nil, types, "x", "amount"),
			cellOf(1, int64(1), int64(1)), cellOf(1, int64(1), int64(5)), "ADD KEY by_count (cnt)",
			"amount NO, x NO, PRIMARY0(x)", "1 5"},
		{"a counter's further group", creating("counter", "1", nil, types, "x", "cnt"), creating("counter", "2", nil, types, "x", "y", "cnt"),
			cellOf(1, int64(1), int64(1)), cellOf(1, int64(1), "a", int64(1)), "ADD KEY by_count (cnt)",
			"cnt NO, x NO, y NO, by_count1(cnt), PRIMARY0(x,y)", "1 a 1"},
		{"an index that becomes a row", creating("index", "1", id, types, "x"), creating("row", "2", id, types, "x"),
			cellOf(1, int64(1)), cellOf(1, nil), "COMMENT = 'ours'", "id NO, x YES, id1(id), PRIMARY0(id)", ""},
	} {
		if c.after.Fields[len(c.after.Fields)-1].Name == "amount" {
			c.after.Sum = "amount"
		}
		servertest.Each(t, func(t *testing.T, s *servers.Server) {
			t.Run(c.name, func(t *testing.T) {
				db, dsn := database(t, s)
				sink := newSink(t, dsn)
				applyAll(t, openTarget(t, sink, c.before), c.old)
				exec(t, db, "ALTER TABLE v "+c.added)
				if f := finding(t, sink, c.after); f.Level != replicator.OK || strings.Contains(f.Detail, "DEFAULT CHARACTER") ||
					!strings.Contains(f.Detail, "a rebuild alters it: ALTER") {
					t.Errorf("check says %+v", f)
				}
				exec(t, db, "CREATE TABLE v__rebuild LIKE v") // left by a process that ended before the ALTER
				rebuilt(t, sink, c.after, c.now)
				if got := columnsAndKeys(t, db, "v"); got != c.want {
					t.Errorf("the table has\n%s\nwant\n%s", got, c.want)
				}
				holds(t, db, c.after, c.holds)
			})
		})
	}
}

// columnTypes returns the columns of a table with their types, in one form for MySQL and MariaDB.
func columnTypes(t *testing.T, db *sql.DB, table string) string {
	t.Helper()
	types := strings.Join(column(t, db, "SELECT CONCAT(COLUMN_NAME, ' ', COLUMN_TYPE) FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+table+"' ORDER BY COLUMN_NAME"), ", ")
	return regexp.MustCompile(`int\([0-9]+\)`).ReplaceAllString(types, "int")
}

// rebuilt rebuilds a view beside its table, from one op. Meanwhile it opens the shadow again, as after a restart.
func rebuilt(t *testing.T, sink *mysql.Sink, v *replicator.View, op replicator.Op) {
	t.Helper()
	if foreign, err := sink.Foreign(t.Context(), v); foreign != "" || err != nil {
		t.Fatalf("it can't be swapped: %s, %v", foreign, err)
	}
	shadow := openTarget(t, sink, sink.Shadow(v))
	applyAll(t, shadow, op)
	shadow = openTarget(t, sink, sink.Shadow(v))
	if err := shadow.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5, Token: "5"}}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Swap(t.Context(), "", []*replicator.View{v}); err != nil {
		t.Fatal(err)
	}
	openTarget(t, sink, v)
}

// holds checks the only row of a view's table.
func holds(t *testing.T, db *sql.DB, v *replicator.View, want string) {
	t.Helper()
	var names []string
	for _, f := range v.Fields {
		names = append(names, "`"+f.Name+"`")
	}
	held := column(t, db, "SELECT CONCAT_WS(' ', "+strings.Join(names, ", ")+") FROM v")
	if len(held) != 1 || held[0] != want {
		t.Errorf("it holds %q", held)
	}
}

// A rebuild recreates a column that keeps its name but has another path, or another type in the configuration. It drops
// a column that the view no longer has.
func TestARebuildMakesColumnsAnewThatWereMadeForSomethingElse(t *testing.T) {
	id := rowKey("id")
	of := func(paths ...string) (all []replicator.Field) {
		for i := 0; i < len(paths); i += 2 {
			all = append(all, replicator.Field{Name: paths[i], Path: paths[i+1]})
		}
		return all
	}
	view := func(kind, definition string, sum string, types map[string]string, fields []replicator.Field) *replicator.View {
		v := creating(kind, definition, id, types)
		if kind == "counter" {
			v = creating(kind, definition, nil, types)
		}
		v.Fields, v.Sum = fields, sum
		return v
	}
	type types = map[string]string
	for _, c := range []struct {
		name          string
		before, after *replicator.View
		old, now      replicator.Op
		byHand        string
		want, holds   string
	}{
		{"a row's field of another path", view("row", "1", "", types{"x": "INT"}, of("x", "a")),
			view("row", "2", "", types{"x": "VARCHAR(20)"}, of("x", "b")),
			cellOf(1, int64(1)), cellOf(1, "text"), "ADD KEY by_id (id)", "id varbinary(255), x varchar(20)", "text"},
		{"another type by the configuration", view("row", "1", "", types{"x": "VARCHAR(3)"}, of("x", "a")),
			view("row", "2", "", types{"x": "VARCHAR(30)"}, of("x", "a")),
			cellOf(1, "abc"), cellOf(1, "longer"), "ADD KEY by_x (x)", "id varbinary(255), x varchar(30)", "longer"},
		{"an index's field of another path", view("index", "1", "", types{"x": "VARCHAR(900)", "y": "INT"}, of("x", "a", "y", "c")),
			view("index", "2", "", types{"x": "BIGINT", "y": "INT"}, of("x", "b", "y", "c")),
			cellOf(1, "text", int64(1)), cellOf(1, int64(1<<40), int64(1)), "ADD UNIQUE KEY pair (x(10), y, id)",
			"id varbinary(255), replicator_id bigint unsigned, x bigint, y int", "1099511627776 1"},
		{"a group that is the sum", view("counter", "1", "", types{"x": "INT", "y": "VARCHAR(20)", "cnt": "INT"}, of("x", "a", "y", "b", "cnt", "")),
			view("counter", "2", "c", types{"x": "INT", "y": "DECIMAL(9,2)"}, of("x", "a", "y", "c")),
			cellOf(1, int64(1), "text", int64(1)), cellOf(1, int64(1), replicator.Number("1.50")), "ADD KEY by_y (y)",
			"x int, y decimal(9,2)", "1 1.50"},
		{"a row's field that is gone", view("row", "1", "", types{"x": "INT", "y": "INT"}, of("x", "a", "y", "b")),
			view("row", "2", "", types{"x": "INT"}, of("x", "a")),
			cellOf(1, int64(1), int64(2)), cellOf(1, int64(3)), "ADD KEY by_x (x)", "id varbinary(255), x int", "3"},
		{"one that somebody altered", view("row", "1", "", types{"x": "INT"}, of("x", "a")),
			view("row", "2", "", types{"x": "INT", "y": "INT"}, of("x", "b", "y", "c")),
			cellOf(1, int64(1)), cellOf(1, "text", int64(2)), "MODIFY COLUMN x VARCHAR(44) COMMENT 'of ours'",
			"id varbinary(255), x varchar(44), y int", "text 2"},
		{"one that somebody widened", view("row", "1", "", nil, of("x", "a")),
			view("row", "2", "", types{"y": "INT"}, of("x", "a", "y", "c")),
			cellOf(1, "text"), cellOf(1, "other", int64(2)), "MODIFY COLUMN x VARCHAR(44)",
			"id varbinary(255), x varchar(44), y int", "other 2"},
	} {
		servertest.Each(t, func(t *testing.T, s *servers.Server) {
			t.Run(c.name, func(t *testing.T) {
				db, dsn := database(t, s)
				sink := newSink(t, dsn)
				applyAll(t, openTarget(t, sink, c.before), c.old)
				exec(t, db, "ALTER TABLE v "+c.byHand)
				rebuilt(t, sink, c.after, c.now)
				if got := columnTypes(t, db, "v"); got != c.want {
					t.Errorf("the table has\n%s\nwant\n%s", got, c.want)
				}
				holds(t, db, c.after, c.holds)
			})
		})
	}
}

// finding returns the finding of Check for a view.
func finding(t *testing.T, sink *mysql.Sink, v *replicator.View) replicator.Finding {
	t.Helper()
	all := sink.Check(t.Context(), []*replicator.View{v})
	return all[len(all)-1]
}

// A table with parts that don't belong to the view is filled in place. It gets columns for new fields, and keeps
// everything that it has.
func TestARebuildInPlaceAddsColumnsToACreatedTable(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s)
		sink := newSink(t, dsn)
		types := map[string]string{"x": "INT", "y": "VARCHAR(20)"}
		applyAll(t, openTarget(t, sink, creating("row", "1", rowKey("id"), types, "x")), cellOf(1, int64(1)))
		exec(t, db, "ALTER TABLE v ADD COLUMN note VARCHAR(20), CONVERT TO CHARACTER SET latin1")
		exec(t, db, "UPDATE v SET note = 'mine'")
		after := creating("row", "2", rowKey("id"), types, "x", "y")
		if foreign, err := sink.Foreign(t.Context(), after); !strings.Contains(foreign, "column note") || err != nil {
			t.Fatalf("a swap would lose %q, %v", foreign, err)
		}
		if f := finding(t, sink, after); f.Level != replicator.OK || !strings.Contains(f.Detail, "ADD COLUMN `y` VARCHAR(20) NULL") {
			t.Errorf("check says %+v", f)
		}
		for range 2 { // the second time as after a restart
			applyAll(t, openTarget(t, sink, after), cellOf(1, int64(1), "ї"))
		}
		if held := column(t, db, "SELECT CONCAT_WS(' ', x, y, note) FROM v"); len(held) != 1 || held[0] != "1 ї mine" {
			t.Errorf("it holds %q", held)
		}

		exec(t, db, "ALTER TABLE v DROP COLUMN y")
		_, err := sink.Open(t.Context(), "", []*replicator.View{after})
		if err == nil || !strings.Contains(err.Error(), "it has no column y; a rebuild beside the table would make it fit") ||
			!strings.Contains(err.Error(), "column note: ALTER TABLE") {
			t.Errorf("a column that was dropped by hand: %v", err)
		}

		// A change of rows that readers see is refused, and the statement in the error is enough.
		counter := creating("counter", "2", nil, map[string]string{"x": "INT", "total": "BIGINT"}, "x", "total")
		counter.Name, counter.Sum = "c", "total"
		set(counter, func(s *mysql.Settings) { s.Table = "c" })
		counted := *counter
		counted.Fields, counted.Fingerprint, counted.Sum = fields("x", "cnt"), "1", ""
		openTarget(t, sink, &counted)
		_, err = sink.Open(t.Context(), "", []*replicator.View{counter})
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "DROP COLUMN `cnt`, ADD COLUMN `total`") {
			t.Fatalf("a counter in place: %v", err)
		}
		_, statement, _ := strings.Cut(err.Error(), "ALTER TABLE")
		exec(t, db, "ALTER TABLE"+statement)
		openTarget(t, sink, counter)

		index := creating("index", "2", rowKey("id"), types, "x", "y")
		index.Name = "w"
		set(index, func(s *mysql.Settings) { s.Table = "w" })
		before := *index
		before.Fields, before.Fingerprint = fields("x"), "1"
		openTarget(t, sink, &before)
		_, err = sink.Open(t.Context(), "", []*replicator.View{index})
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "ADD COLUMN `y` VARCHAR(20) NOT NULL") {
			t.Errorf("an index in place: %v", err)
		}
	})
}

// A rebuild doesn't drop another program's NOT NULL column, although no row can be inserted without it. The view is
// refused, as before the rebuild.
func TestARebuildDropsNoColumnOfSomebodyElse(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s)
		sink := newSink(t, dsn)
		types := map[string]string{"x": "INT", "y": "VARCHAR(20)"}
		applyAll(t, openTarget(t, sink, creating("row", "1", rowKey("id"), types, "x")), cellOf(1, int64(1)))
		exec(t, db, "ALTER TABLE v ADD COLUMN note VARCHAR(20) NOT NULL")
		exec(t, db, "UPDATE v SET note = 'mine'")
		for _, v := range []*replicator.View{creating("row", "1", rowKey("id"), types, "x"),
			creating("row", "2", rowKey("id"), types, "x", "y")} {
			if foreign, err := sink.Foreign(t.Context(), v); !strings.Contains(foreign, "column note") || err != nil {
				t.Errorf("a swap would lose %q, %v", foreign, err)
			}
			if f := finding(t, sink, v); f.Level != replicator.Fail || !strings.Contains(f.Detail, "column note") {
				t.Errorf("check says %+v", f)
			}
		}
	})
}

// If a view can only be rebuilt in place, check says so, and names the columns that stay as they were.
func TestCheckKnowsWhatARebuildInPlaceLeaves(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		_, dsn := database(t, s)
		sink := newSinkOf(t, mysql.Config{DSN: dsn, Tables: tables, InPlace: true})
		openTarget(t, sink, creating("row", "1", rowKey("id"), map[string]string{"x": "INT"}, "x"))
		after := creating("row", "2", rowKey("id"), map[string]string{"x": "VARCHAR(20)"}, "x")
		f := finding(t, sink, after)
		if f.Level != replicator.OK || strings.Contains(f.Detail, "ALTER") || !strings.Contains(f.Detail, "several sources") ||
			!strings.HasSuffix(f.Detail, ": x") {
			t.Errorf("check says %+v", f)
		}
	})
}

// The program doesn't alter a table that another program created. The error names the table and the ALTER TABLE.
func TestARebuildIntoATableOfSomebodyElseSaysWhatToAlter(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE v (id BINARY(16) PRIMARY KEY, x INT)")
		sink := newSink(t, dsn)
		view := func(definition string, paths ...string) *replicator.View {
			v := creating("row", definition, rowKey("id"), nil, paths...)
			set(v, func(s *mysql.Settings) { s.Create = false })
			return v
		}
		openTarget(t, sink, view("1", "x"))
		shadow := sink.Shadow(view("2", "x", "y"))
		_, err := sink.Open(t.Context(), "", []*replicator.View{shadow})
		live := "`" + schemaOf(t, dsn) + "`.`v`"
		if !replicator.IsFatal(err) || strings.Contains(err.Error(), "rebuild") ||
			!strings.Contains(err.Error(), "view v: table "+schemaOf(t, dsn)+".v can't hold the view: it has no column y: "+
				"ALTER TABLE "+live+" ADD COLUMN `y` LONGTEXT") {
			t.Fatalf("the refusal is %v", err)
		}
		_, statement, _ := strings.Cut(err.Error(), "ALTER TABLE")
		exec(t, db, "ALTER TABLE"+statement)
		openTarget(t, sink, shadow)
	})
}

// TestCheckTellsATableThatWasDroppedFromOneThatIsNotThereYet: both tables get created, but the contents of the dropped
// one are lost.
func TestCheckTellsATableThatWasDroppedFromOneThatIsNotThereYet(t *testing.T) {
	db, dsn := database(t, servertest.Shared(t, servers.MySQL))
	sink := newSink(t, dsn)
	v := creating("row", "1", rowKey("id"), map[string]string{"x": "INT"}, "x")
	found := func(when string, level replicator.Level, says string) {
		t.Helper()
		if f := finding(t, sink, v); f.Level != level || !strings.Contains(f.Detail, says) {
			t.Errorf("%s: check says %+v", when, f)
		}
	}
	found("before the first start", replicator.OK, "table v is not there yet; the first start creates it")
	at := replicator.Standing{Position: replicator.Position{Order: 5, Token: "x"}}
	if err := openTarget(t, sink, v).Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	found("kept", replicator.OK, "table v")
	exec(t, db, "DROP TABLE v")
	found("dropped", replicator.Warn, "table v was dropped, with the contents of the view")
}
