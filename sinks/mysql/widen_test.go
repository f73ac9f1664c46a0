package mysql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// widening is a sink with a view of a source's table. Tests change the columns of that table.
type widening struct {
	sink    *mysql.Sink
	view    *replicator.View
	columns []mysql.SourceColumn
}

func newWidening(t *testing.T, dsn string, create bool) *widening {
	w := &widening{columns: []mysql.SourceColumn{
		{Name: "id", Type: "int"}, {Name: "name", Type: "varchar(10)", Charset: "latin1", Collation: "latin1_swedish_ci"},
		{Name: "n", Type: "int"}, {Name: "data", Type: "varbinary(10)"}, {Name: "price", Type: "decimal(5,2)"},
	}}
	w.view = &replicator.View{Name: "v", Kind: "row", From: from("item"), Fields: fields("name", "n", "data", "price"),
		Fingerprint: "1",
		Settings:    mysql.Settings{Table: "v", Create: create, KeyFrom: []replicator.Field{{Name: "id", Path: "$id"}}}}
	sink, err := mysql.New(mysql.Config{Name: "main", DSN: dsn,
		Tables: []replicator.Table{{Name: "item", Table: "item", Key: []string{"id"}}},
		Columns: func(context.Context, string, string) ([]mysql.SourceColumn, error) {
			return append([]mysql.SourceColumn(nil), w.columns...), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.sink = sink
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// set gives columns of the source other types.
func (w *widening) set(types map[string]string) {
	for i := range w.columns {
		if typ := types[w.columns[i].Name]; typ != "" {
			w.columns[i].Type = typ
		}
	}
}

// itemOp returns an op that puts a row of the source's table.
func itemOp(t *testing.T, id int64, version int64, values ...any) replicator.Op {
	key, err := replicator.MakeKey(id)
	if err != nil {
		t.Fatal(err)
	}
	return replicator.Op{Cell: replicator.Cell{Table: "item", Key: key}, Version: version, Order: version,
		Values: []replicator.Value{{Entries: []replicator.Entry{{Fields: values}}}}}
}

// applied applies an op as a pipeline does, which opens a view again if its table was altered. It returns the reason if
// the op was rejected.
func (w *widening) applied(t *testing.T, op replicator.Op) error {
	t.Helper()
	for range 10 {
		out, err := openTarget(t, w.sink, w.view).Apply(t.Context(), []replicator.Op{op})
		switch {
		case err != nil && strings.Contains(err.Error(), "altered"):
		case err != nil:
			t.Fatal(err)
		case len(out.Rejected) > 0:
			return out.Rejected[0].Err
		default:
			return nil
		}
	}
	t.Fatal("the view is opened again and again")
	return nil
}

var wide = map[string]string{"name": "varchar(100)", "n": "bigint", "data": "varbinary(300)", "price": "decimal(9,3)"}

// wideItem returns an op that needs all of the wider columns.
func wideItem(t *testing.T, version int64) replicator.Op {
	return itemOp(t, 1, version, strings.Repeat("ä", 60), int64(1<<40), []byte(strings.Repeat("x", 200)),
		replicator.Number("12345.678"))
}

func TestAColumnOfACreatedTableIsWidenedWhenTheSourcesIs(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s)
		w := newWidening(t, dsn, true)
		if err := w.applied(t, itemOp(t, 1, 1, "ä", int64(1), []byte("x"), replicator.Number("1.25"))); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "ALTER TABLE v ADD KEY by_name (name)")
		if err := w.applied(t, wideItem(t, 2)); err == nil || strings.Contains(err.Error(), "ALTER") {
			t.Errorf("while the source's columns are no wider, a value that doesn't fit is rejected as %v", err)
		}
		w.set(wide)
		if f := finding(t, w.sink, w.view); f.Level != replicator.Warn || !strings.Contains(f.Fix, "MODIFY `n` bigint") {
			t.Errorf("check says %+v", f)
		}
		other := newWidening(t, dsn, true) // its cache doesn't say that the source's columns are not wider
		other.set(wide)
		if err := other.applied(t, wideItem(t, 3)); err != nil {
			t.Errorf("once they are wider, it is rejected: %v", err)
		}
		if got := column(t, db, "SELECT CONCAT_WS(' ', HEX(name), n, HEX(data), price) FROM v"); fmt.Sprint(got) !=
			"["+strings.Repeat("C3A4", 60)+" 1099511627776 "+strings.Repeat("78", 200)+" 12345.678]" {
			t.Errorf("it holds %v", got)
		}
		want := "data varbinary(300), id int, n bigint, name varchar(100), price decimal(9,3)"
		if got := columnTypes(t, db, "v"); got != want {
			t.Errorf("the table has %s", got)
		}
		if f := finding(t, other.sink, other.view); f.Level != replicator.OK {
			t.Errorf("then check says %+v", f)
		}
	})
}

// A large table is not copied to widen a column. A rebuild creates it with the wider column.
func TestALargeTableIsNotCopiedToWidenAColumn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s)
		w := newWidening(t, dsn, true)
		if err := w.applied(t, itemOp(t, 1, 1, "a", int64(1), []byte("x"), replicator.Number("1.25"))); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "CREATE TABLE digits (n INT)")
		exec(t, db, "INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)")
		exec(t, db, "INSERT INTO v (id, name) SELECT a.n*11*11*11 + b.n*11*11 + c.n*11 + d.n + 2, 'a' "+
			"FROM digits a, digits b, digits c, digits d")
		w.set(wide)
		err := w.applied(t, itemOp(t, 1, 2, "a", int64(1<<40), []byte("x"), replicator.Number("1.25")))
		if err == nil || !strings.Contains(err.Error(), "MODIFY `n` bigint") {
			t.Errorf("what needs a copy of a large table is rejected as %v", err)
		}
		shadow := openTarget(t, w.sink, w.sink.Shadow(w.view))
		applyAll(t, shadow, wideItem(t, 4))
		if got := column(t, db, "SELECT n FROM v__rebuild"); fmt.Sprint(got) != "[1099511627776]" {
			t.Errorf("the rebuilt table holds %v", got)
		}
	})
}

// A table that another program created is left alone. The rejection and check name the ALTER TABLE, which is enough.
func TestTheAlterTableForATableOfOthersIsNamed(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE v (id INT PRIMARY KEY, "+
			"name VARCHAR(10) NOT NULL DEFAULT 'it''s' COMMENT 'a, b', n INT NOT NULL, data VARBINARY(10), price DECIMAL(5,2), KEY (name))")
		w := newWidening(t, dsn, false)
		w.set(wide)
		f := finding(t, w.sink, w.view)
		if f.Level != replicator.Warn || !strings.Contains(f.Fix, "MODIFY `name` varchar(100)") {
			t.Fatalf("check says %+v", f)
		}
		err := w.applied(t, wideItem(t, 1))
		if err == nil || !strings.Contains(err.Error(), "MODIFY `name` varchar(100) NOT NULL DEFAULT") {
			t.Errorf("it is rejected as %v", err)
		}
		for _, statement := range strings.Split(f.Fix, "; ") {
			exec(t, db, statement)
		}
		if err := w.applied(t, wideItem(t, 2)); err != nil {
			t.Errorf("after %s: %v", f.Fix, err)
		}
		got := column(t, db, "SELECT CONCAT(COLUMN_DEFAULT, COLUMN_COMMENT, IS_NULLABLE) FROM information_schema.COLUMNS "+
			"WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = 'name' AND TABLE_NAME = 'v'")
		if !strings.Contains(fmt.Sprint(got), "a, bNO") {
			t.Errorf("the column lost what it had: %v", got)
		}
	})
}
