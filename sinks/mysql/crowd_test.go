package mysql_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
	"replicator/sinks/sinktest"
)

// crowdView is an index that every column of a key feeds.
func crowdView(table, version string) *replicator.View {
	return &replicator.View{Name: table, Kind: "index", From: from("cell"), Fields: fields("email"),
		Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: table, VersionColumn: version}, Fingerprint: "1"}
}

// crowdDDL creates two tables whose primary key allows a value of a key once, and one that allows it several times.
var crowdDDL = []string{
	"CREATE TABLE once (email VARCHAR(254) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (email, id), KEY (id)) " +
		"ENGINE=InnoDB",
	"CREATE TABLE versions (id BINARY(16) NOT NULL, email VARCHAR(254) NOT NULL, version BIGINT, " +
		"PRIMARY KEY (id, email)) ENGINE=InnoDB",
	"CREATE TABLE plain (id BINARY(16) NOT NULL, email VARCHAR(254) NOT NULL, KEY (id)) ENGINE=InnoDB",
}

func crowdViews() []*replicator.View {
	return []*replicator.View{crowdView("once", ""), crowdView("versions", "version"), crowdView("plain", "")}
}

// crowdOp returns an op that puts an email into a cell, for n views. If the email is "", the cell has none.
func crowdOp(column int, version int64, email string, n int) replicator.Op {
	key, err := replicator.MakeKey([]byte("0123456789abcdef"))
	if err != nil {
		panic(err)
	}
	cell := replicator.Cell{Table: "cell", Key: key, Column: fmt.Sprintf("c%06d", column)}
	op := replicator.Op{Cell: cell, Version: version, Order: version}
	for view := range n {
		v := replicator.Value{View: view}
		if email != "" {
			v.Entries = []replicator.Entry{{Fields: []any{email}}}
		}
		op.Values = append(op.Values, v)
	}
	return op
}

func apply(t testing.TB, target replicator.Target, ops ...replicator.Op) {
	t.Helper()
	applied, err := target.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	if len(applied.Rejected) > 0 {
		t.Fatalf("rejected: %v", applied.Rejected)
	}
}

// The cost of a changed cell does not grow with the number of its key's cells. That goes for the rows written and, if
// the cell removes nothing, for the rows read.
func TestACellOfACrowdIsWrittenAlone(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			s := servertest.Own(t, kind)
			const batch = 20
			cost := func(cells int) (added, moved work) {
				db, dsn := database(t, s, crowdDDL...)
				sink := newSink(t, dsn)
				target := openTarget(t, sink, crowdViews()[:2]...)
				version := int64(0)
				change := func(first, n int, email string) {
					version++
					var ops []replicator.Op
					for i := first; i < first+n; i++ {
						ops = append(ops, crowdOp(i, version, email+strconv.Itoa(i), 2))
					}
					apply(t, target, ops...)
				}
				for i := 0; i < cells; i += 100 {
					change(i, 100, "first")
				}
				before := workOf(t, db)
				change(cells, batch, "more")
				between := workOf(t, db)
				change(50, batch, "moved")
				return between.since(before), workOf(t, db).since(between)
			}
			fewAdded, fewMoved := cost(200)
			manyAdded, manyMoved := cost(3000)
			const statements = 30 // allowed for the server's temporary tables, and for reads that begin a range
			if d := manyAdded.written - fewAdded.written; d > statements {
				t.Errorf("%d rows were written for %d new cells of 3,000, %d of 200", manyAdded.written, batch, fewAdded.written)
			}
			if d := manyAdded.read - fewAdded.read; d > statements {
				t.Errorf("%d rows were read for %d new cells of 3,000, %d of 200", manyAdded.read, batch, fewAdded.read)
			}
			if d := manyMoved.written - fewMoved.written; d > statements {
				t.Errorf("%d rows were written for %d moved cells of 3,000, %d of 200", manyMoved.written, batch, fewMoved.written)
			}
			t.Logf("added %+v and %+v, moved %+v and %+v", fewAdded, manyAdded, fewMoved, manyMoved)
		})
	}
}

// work is how many rows a server wrote and read.
type work struct{ written, read int }

func (w work) since(before work) work { return work{w.written - before.written, w.read - before.read} }

func workOf(t testing.TB, db *sql.DB) (w work) {
	t.Helper()
	for name, n := range handlers(t, db) {
		switch {
		case name == "Handler_write" || name == "Handler_update" || name == "Handler_delete":
			w.written += n
		case strings.HasPrefix(name, "Handler_read_"):
			w.read += n
		}
	}
	return w
}

// However a crowd's cells change, the tables hold the same as those of a sink that always writes all of a key again.
// Several cells may claim a value, the collation may treat values as equal, and another program may write rows.
func TestACrowdIsWhatItsCellsClaim(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		open := func(few int) (*sql.DB, replicator.Target) {
			db, dsn := database(t, s, crowdDDL...)
			sink := newSink(t, dsn)
			t.Cleanup(func() { sink.Close() })
			sink.SetFewCells(few)
			return db, openTarget(t, sink, crowdViews()...)
		}
		db, target := open(3)
		_, whole := open(1000)
		rnd := rand.New(rand.NewPCG(7, 7))
		emails := []string{"", "a", "A", "á", "b", "B", "b ", "c", "d"}
		now := map[int]string{}
		for version := int64(1); version <= 150; version++ {
			var ops []replicator.Op
			for _, column := range rnd.Perm(12)[:1+rnd.IntN(4)] {
				now[column] = emails[rnd.IntN(len(emails))]
				op := crowdOp(column, version, now[column], 3)
				switch rnd.IntN(6) {
				case 0:
					op.Rewrite = true
				case 1:
					op.Order, op.AsOf, op.Version = 0, version, version-1
				}
				ops = append(ops, op)
			}
			switch {
			case version%20 == 0: // another program changes the tables, and a cell is repaired
				exec(t, db, "INSERT INTO plain VALUES ('0123456789abcdef', 'else'), ('0123456789abcdef', 'a')")
				exec(t, db, "DELETE FROM once WHERE id = '0123456789abcdef' LIMIT 2")
				exec(t, db, "UPDATE versions SET version = 9999, email = CONCAT(email, 'x') WHERE id = '0123456789abcdef' LIMIT 1")
				ops[0].Rewrite = true
			}
			apply(t, target, ops...)
			apply(t, whole, ops...)
			var all []replicator.Op
			for column := range 12 {
				all = append(all, crowdOp(column, version, now[column], 3))
			}
			for name, target := range map[string]replicator.Target{"the crowd": target, "all written again": whole} {
				differences, err := target.Compare(t.Context(), all)
				if err != nil || len(differences) > 0 {
					t.Fatalf("after batch %d (%v), %s: %v %v", version, ops, name, differences, err)
				}
			}
			if version%20 == 0 {
				checkPlain(t, db, now)
			}
		}
	})
}

// checkPlain checks that the table without a unique key holds each value that cells claim once.
func checkPlain(t *testing.T, db *sql.DB, now map[int]string) {
	t.Helper()
	held, want := column(t, db, "SELECT email FROM plain ORDER BY CAST(email AS BINARY)"), []string(nil)
	for _, email := range now {
		if email != "" {
			want = append(want, email)
		}
	}
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(held, want) {
		t.Fatalf("the table holds %q, not %q", held, want)
	}
}

// The suite also passes if every key with a cell is a crowd: with views that need all cells, and with indexes only.
func TestCrowdsPassTheSuite(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for name, views := range map[string][]*replicator.View{"all": suiteViews, "indexes": {suiteViews[1], suiteViews[2]}} {
			t.Run(name, func(t *testing.T) {
				db, dsn := database(t, s, suiteDDL...)
				sinktest.Run(t, sinktest.Subject{
					Tables: tables, Views: views, Histories: 5,
					New: func(t testing.TB) replicator.Sink {
						sink := newSink(t, dsn)
						sink.SetFewCells(0)
						return sink
					},
					Read: func(t testing.TB, v *replicator.View) map[string]string { return read(t, db, v) },
					Bad:  map[string]any{"email": strings.Repeat("é", 300), "amount": replicator.Number("0.5")},
				})
			})
		}
	})
}
