package mysql_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
	"replicator/sinks/sinktest"
)

// filledShadows makes counters' shadows that are filled up to order 5.
func filledShadows(t *testing.T, sink *mysql.Sink, views []*replicator.View) {
	t.Helper()
	for _, v := range views {
		shadow := openTarget(t, sink, sink.Shadow(v))
		applyAll(t, shadow, amountOp(1, 1, "Kyiv", int64(5)))
		if err := shadow.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5, Token: "5"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// reading leaves a transaction open that has read a table: a RENAME waits for its end.
func reading(t *testing.T, db *sql.DB, table string) (end func()) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRow("SELECT COUNT(*) FROM " + table).Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// marked returns the log positions of the views' marks.
func marked(t *testing.T, sink *mysql.Sink) map[string]int64 {
	t.Helper()
	marks, err := sink.Marks(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	orders := map[string]int64{}
	for _, m := range marks {
		orders[m.View] = m.Position.Order
	}
	return orders
}

// If a view can't be swapped in, the error names it, and the other views can be swapped in without it.
func TestASwapNamesTheViewThatItFailsFor(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range []struct {
			name   string
			breaks func(t *testing.T, db *sql.DB) (mend func())
			fatal  bool
		}{
			{"its shadow's table was dropped", func(t *testing.T, db *sql.DB) func() { exec(t, db, "DROP TABLE d__rebuild"); return func() {} }, true},
			{"its shadow was forgotten", func(t *testing.T, db *sql.DB) func() {
				exec(t, db, "UPDATE replicator_views SET name = NULL WHERE name = 'd@rebuild'")
				return func() {}
			}, true},
			{"a transaction holds its table", func(t *testing.T, db *sql.DB) func() { return reading(t, db, "d") }, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)", "CREATE TABLE d LIKE c")
				sink := newSink(t, dsn)
				views := []*replicator.View{counter("c"), counter("d")}
				filledShadows(t, sink, views)
				mend := c.breaks(t, db)
				defer mend()
				err := sink.Swap(t.Context(), "", views)
				sinktest.Refuses(t, err, views, "d")
				if replicator.IsFatal(err) != c.fatal || !strings.Contains(err.Error(), "view d") {
					t.Errorf("the swap says %v", err)
				}
				if at := marked(t, sink); at["c@rebuild"] != 5 || len(read(t, db, counter("c"))) != 0 {
					t.Errorf("the other view was swapped: %v", at)
				}
				if err := sink.Swap(t.Context(), "", views[:1]); err != nil {
					t.Fatal(err)
				}
				if at, held := marked(t, sink), read(t, db, counter("c")); at["c"] != 5 || len(held) != 1 {
					t.Errorf("after it was swapped in, c stands at %v and holds %v", at, held)
				}
				if mend(); c.fatal { // a shadow that lost its table is empty, and is not swapped in
					openTarget(t, sink, sink.Shadow(counter("d")))
					if at := marked(t, sink)["d@rebuild"]; at != 0 {
						t.Errorf("the shadow that is gone stands at %d", at)
					}
				} else if err := sink.Swap(t.Context(), "", views[1:]); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// A swap that the server refuses after it has begun is undone. Otherwise no process could open the sink's views.
func TestASwapThatIsRefusedIsTakenBack(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)", "CREATE TABLE d LIKE c")
		sink := newSinkOf(t, mysql.Config{Name: "main", DSN: dsn, Tables: tables, Timeout: 3 * time.Second})
		view := []*replicator.View{counter("c")}
		filledShadows(t, sink, view)
		end := reading(t, db, "c")
		defer end()
		if err := sink.Swap(t.Context(), "", view); err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "1205") {
			t.Errorf("the swap says %v", err)
		}
		if at := marked(t, sink); at["c@rebuild"] != 5 {
			t.Errorf("the marks are %v", at)
		}
		openTarget(t, sink, counter("d"))
		end()
		if err := sink.Swap(t.Context(), "", view); err != nil {
			t.Fatal(err)
		}
		seconds, err := sink.Patience(t.Context())
		if err != nil || slices.ContainsFunc(seconds, func(s int) bool { return s != 2 }) { // two thirds of the timeout
			t.Errorf("then idle connections wait for tables for %d s: %v", seconds, err)
		}
		if at, held := marked(t, sink), read(t, db, counter("c")); at["c"] != 5 || len(held) != 1 {
			t.Errorf("in the end c stands at %v and holds %v", at, held)
		}
	})
}

// A process that ends between a swap and the removal of the view's old table leaves that table behind. The next process
// that opens a view of the sink drops it.
func TestWhatASwapReplacedIsDroppedByTheNextProcess(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)", "CREATE TABLE d LIKE c",
			"CREATE TABLE mine__replaced (id INT PRIMARY KEY)")
		sink := newSink(t, dsn)
		view := []*replicator.View{counter("c")}
		openTarget(t, sink, counter("c"), counter("d"))
		filledShadows(t, sink, view)
		if err := sink.Swap(t.Context(), "", view); err != nil {
			t.Fatal(err)
		}
		left := func() string {
			t.Helper()
			var names string
			err := db.QueryRow("SELECT GROUP_CONCAT(TABLE_NAME ORDER BY TABLE_NAME) FROM information_schema.TABLES " +
				"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE '%replaced'").Scan(&names)
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		openTarget(t, sink, counter("c"), counter("d"))
		if names := left(); names != "c__replaced,mine__replaced" {
			t.Errorf("the process that swapped leaves the removal to Discard, and there is %s", names)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		next := newSink(t, dsn)
		openTarget(t, next, counter("d"))
		if names := left(); names != "mine__replaced" {
			t.Errorf("the next process leaves %s", names)
		}
		if at, held := marked(t, next), read(t, db, counter("c")); at["c"] != 5 || len(held) != 1 {
			t.Errorf("c stands at %v and holds %v", at, held)
		}
	})
}
