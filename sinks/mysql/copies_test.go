package mysql_test

import (
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestACopyOfTheSourcesTableIsTaken: a view can use a copy of the source's table. Its AUTO_INCREMENT column keeps a
// row's number, even 0.
func TestACopyOfTheSourcesTableIsTaken(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE v (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), n INT, "+
			"data VARBINARY(10), price DECIMAL(5,2))")
		w := newWidening(t, dsn, false)
		if f := finding(t, w.sink, w.view); f.Level != replicator.OK {
			t.Fatalf("check says %+v", f)
		}
		for _, id := range []int64{0, 7, -3} {
			if err := w.applied(t, itemOp(t, id, 1, "a", id, nil, nil)); err != nil {
				t.Errorf("row %d: %v", id, err)
			}
		}
		w.applied(t, itemOp(t, 0, 2, "b", int64(0), nil, nil))
		if got := column(t, db, "SELECT CONCAT_WS(' ', id, name, n) FROM v ORDER BY id"); len(got) != 3 ||
			got[0] != "-3 a -3" || got[1] != "0 b 0" || got[2] != "7 a 7" {
			t.Errorf("the table holds %q", got)
		}
	})
}

// TestATableOfALongKeyIsCreated: an index holds at most 3,072 bytes, so a long key or value is indexed in part.
func TestATableOfALongKeyIsCreated(t *testing.T) {
	for name, types := range map[string]map[string]string{
		"a key that fills an index":          {"id": "VARCHAR(768)", "x": "VARCHAR(100)", "y": "INT"},
		"a key that leaves little room":      {"id": "VARCHAR(600)", "x": "VARCHAR(200)", "y": "INT"},
		"a long key and a long value":        {"id": "VARCHAR(700)", "x": "LONGTEXT", "y": "VARCHAR(700)"},
		"long values":                        {"id": "VARCHAR(50)", "x": "VARCHAR(700)", "y": "LONGTEXT"},
		"a key that has the number's name":   {"replicator_id": "VARCHAR(50)", "x": "LONGTEXT", "y": "INT"},
		"a value that has the number's name": {"id": "VARCHAR(50)", "x": "LONGTEXT", "replicator_id": "INT"},
	} {
		servertest.Each(t, func(t *testing.T, s *servers.Server) {
			t.Run(name, func(t *testing.T) {
				_, dsn := database(t, s)
				sink := newSink(t, dsn)
				key, second := rowKey("id"), "y"
				if types["id"] == "" {
					key = rowKey("replicator_id")
				} else if types["y"] == "" {
					second = "replicator_id"
				}
				v := creating("index", "1", key, types, "x", second)
				if f := finding(t, sink, v); f.Level != replicator.OK {
					t.Errorf("check says %+v", f)
				}
				applyAll(t, openTarget(t, sink, v), cellOf(1, "text", int64(1)))
				if f := finding(t, sink, v); f.Level != replicator.OK {
					t.Errorf("once it is created, check says %+v", f)
				}
			})
		})
	}
}
