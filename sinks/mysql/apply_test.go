package mysql_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// userOp returns an op that puts a users cell into the given number of views. Each value becomes an entry with one
// field.
func userOp(n int, version int64, views int, values ...any) replicator.Op {
	id := []byte(fmt.Sprintf("user %-11d", n))
	key, _ := replicator.MakeKey(id)
	op := replicator.Op{Cell: replicator.Cell{Table: "cell", Column: "users", Key: key}, Version: version, Order: version}
	for i := range views {
		v := replicator.Value{View: i}
		for _, value := range values {
			v.Entries = append(v.Entries, replicator.Entry{Fields: []any{value}})
		}
		op.Values = append(op.Values, v)
	}
	return op
}

func view(kind, table, field string) *replicator.View {
	return &replicator.View{Name: table, Kind: kind, From: from("cell.users"), Fields: fields(field),
		Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: table}, Fingerprint: "1"}
}

func openTarget(t testing.TB, sink *mysql.Sink, views ...*replicator.View) replicator.Target {
	t.Helper()
	target, err := sink.Open(context.WithoutCancel(t.Context()), "", views)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// A value that only the server can judge is rejected alone, by splitting the batch. The cell's other views and the
// batch's other cells are written.
func TestServerRefusalsAreRejectedAlone(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		enforcesChecks(t, s)
		db, dsn := database(t, s,
			"CREATE TABLE checked (id BINARY(16) PRIMARY KEY, email VARCHAR(50), CHECK (email <> 'no'))",
			"CREATE TABLE plain (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (email, id))")
		sink := newSink(t, dsn)
		target := openTarget(t, sink, view("row", "checked", "email"), view("index", "plain", "email"))
		var ops []replicator.Op
		want := map[int]bool{}
		for i := range 200 {
			value := fmt.Sprintf("user%d", i)
			if i%37 == 5 {
				value, want[i] = "no", true
			}
			ops = append(ops, userOp(i, 1, 2, value))
		}
		for range 2 { // the second time, only the rejected ops are tried again
			applied, err := target.Apply(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int]bool{}
			for _, r := range applied.Rejected {
				got[r.Op] = true
				if r.View != 0 || !strings.Contains(r.Err.Error(), "CHECK") {
					t.Errorf("rejected: %+v", r)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("rejected were %v, and not %v", got, want)
			}
			dead := map[int]bool{}
			differences, err := target.Compare(t.Context(), ops)
			for _, d := range differences {
				dead[d.Op] = d.Kind == replicator.Dead && d.View == 0
			}
			if err != nil || !maps.Equal(dead, want) {
				t.Errorf("dead are %v, and not %v: %+v, %v", dead, want, differences, err)
			}
			if n := count(t, db, "checked"); n != 200-len(want) {
				t.Errorf("checked has %d rows", n)
			}
			if n := count(t, db, "plain"); n != 200 {
				t.Errorf("plain has %d rows", n)
			}
		}
	})
}

func count(t testing.TB, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Changes by hand don't make a batch fail, and an op that re-reads the cell repairs them.
func TestChangesByHandAreMended(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s,
			"CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50), mine INT DEFAULT 7)",
			"CREATE TABLE i (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (email, id), KEY (id))",
			"INSERT INTO i VALUES ('from before', 'user 1          ')")
		sink := newSink(t, dsn)
		target := openTarget(t, sink, view("row", "r", "email"), view("index", "i", "email"))
		op := userOp(1, 1, 2, "right")
		apply := func() {
			t.Helper()
			if a, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil || len(a.Stale) > 0 {
				t.Fatal(a, err)
			}
		}
		apply()
		if n := count(t, db, "i"); n != 1 {
			t.Errorf("%d entries after the first op of a key that had some", n)
		}
		exec(t, db, "UPDATE r SET email = 'wrong', mine = 8")
		exec(t, db, "INSERT INTO i SELECT 'wrong', id FROM i")
		op.AsOf = 10
		apply()
		var email string
		var mine int
		if err := db.QueryRow("SELECT email, mine FROM r").Scan(&email, &mine); err != nil || email != "right" || mine != 8 {
			t.Errorf("the row has %q, %d (%v)", email, mine, err)
		}
		if n := count(t, db, "i"); n != 1 {
			t.Errorf("%d entries after a repair", n)
		}
		exec(t, db, "DELETE FROM r")
		op.Version, op.AsOf, op.Values = replicator.NoVersion, 20, []replicator.Value{{View: 0}, {View: 1}}
		apply()
		if n := count(t, db, "r") + count(t, db, "i"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

func TestALostTableOfStatesLosesTheMarks(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50))")
		sink := newSink(t, dsn)
		v := view("row", "r", "email")
		target := openTarget(t, sink, v)
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5,
			Token: "p"}}); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "DROP TABLE replicator_state")
		if _, err := target.Apply(t.Context(), []replicator.Op{userOp(1, 1, 1, "x")}); !errors.Is(err,
			replicator.ErrSinkLost) {
			t.Errorf("Apply without the table of states says %v", err)
		}
		openTarget(t, sink, v)
		marks, err := sink.Marks(t.Context(), "")
		if err != nil || len(marks) != 1 || !marks[0].Position.IsZero() {
			t.Errorf("marks are %+v (%v)", marks, err)
		}
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 6,
			Token: "q"}}); !errors.Is(err, replicator.ErrSinkLost) {
			t.Errorf("Mark says %v", err)
		}
	})
}

// A lane waits only for a session that has locked one of the lane's partitions.
func TestLanesOfOtherPartitionsDoNotWait(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50))")
		sink := newSink(t, dsn)
		target := openTarget(t, sink, view("row", "r", "email"))
		held := userOp(0, 1, 1, "held")
		var others []replicator.Op
		for n := range 500 {
			if op := userOp(n, 1, 1, "free"); op.Cell.Key.Partition() != held.Cell.Key.Partition() {
				others = append(others, op)
			}
		}
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE replicator_locks SET id = id WHERE id = ?", held.Cell.Key.Partition()); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("SELECT id FROM replicator_locks WHERE id = ? FOR UPDATE",
			held.Cell.Key.Partition()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if _, err := target.Apply(ctx, others); err != nil {
			t.Errorf("Apply waits for a partition that it doesn't need: %v", err)
		}
		short, cancelShort := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancelShort()
		if _, err := target.Apply(short, []replicator.Op{held}); err == nil {
			t.Error("Apply doesn't wait for the partition of its key")
		}
	})
}

// A state drops its parts for views that were forgotten, so it doesn't grow.
func TestStatesForgetViewsThatAreNoMore(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50))")
		sink := newSink(t, dsn)
		v := view("row", "r", "email")
		var first, size int
		for i := range 5 {
			if _, err := openTarget(t, sink, v).Apply(t.Context(),
				[]replicator.Op{userOp(1, 1, 1, fmt.Sprint("round ", i))}); err != nil {
				t.Fatal(err)
			}
			if err := sink.Forget(t.Context(), v.Name); err != nil {
				t.Fatal(err)
			}
			if err := db.QueryRow("SELECT LENGTH(state) FROM replicator_state").Scan(&size); err != nil {
				t.Fatal(err)
			}
			if first = cmp.Or(first, size); size > first+1 {
				t.Errorf("the state grew from %d to %d bytes", first, size)
			}
		}
	})
}

// MariaDB finds nothing by (a, b) IN ((x, y), …) if a text column has another character set than the connection.
func TestKeysOfSeveralColumnsAreFoundInAnyCharacterSet(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s,
			"CREATE TABLE fav (o BIGINT, u VARCHAR(20) CHARACTER SET latin1, email VARCHAR(20), PRIMARY KEY (u, o))",
			"CREATE TABLE by_email (o BIGINT, u VARCHAR(20) CHARACTER SET latin1, email VARCHAR(20), KEY (u, o))",
			"CREATE TABLE total (email VARCHAR(20) CHARACTER SET latin1, city VARCHAR(20), n BIGINT, UNIQUE (email, city))")
		keys := []replicator.Field{{Name: "o", Path: "$object_id"}, {Name: "u", Path: "$user_id"}}
		views := []*replicator.View{
			{Name: "row", Kind: "row", From: from("fav"), Fields: fields("email"),
				Settings: mysql.Settings{Table: "fav", KeyFrom: keys}, Fingerprint: "1"},
			{Name: "index", Kind: "index", From: from("fav"), Fields: fields("email"),
				Settings: mysql.Settings{Table: "by_email", KeyFrom: keys}, Fingerprint: "1"},
			{Name: "count", Kind: "counter", From: from("fav"), Settings: mysql.Settings{Table: "total"},
				Fingerprint: "1", Sum: "n",
				Fields: []replicator.Field{{Name: "email", Path: "email"}, {Name: "city", Path: "city"}, {Name: "n", Path: "n"}}},
		}
		sink := newSink(t, dsn)
		target := openTarget(t, sink, views...)
		batch := func(version int64, email string) (ops []replicator.Op) {
			for i := range int64(3) {
				key, err := replicator.MakeKey(i, "Zoë")
				if err != nil {
					t.Fatal(err)
				}
				op := replicator.Op{Cell: replicator.Cell{Table: "fav", Key: key}, Version: version, Order: version,
					Values: []replicator.Value{{}, {View: 1}, {View: 2}}}
				if email != "" {
					op.Values[0].Entries = []replicator.Entry{{Fields: []any{email}}}
					op.Values[1].Entries = op.Values[0].Entries
					op.Values[2].Entries = []replicator.Entry{{Fields: []any{email, "Malmö", int64(2)}}}
				}
				ops = append(ops, op)
			}
			return ops
		}
		for version, email := range []string{"é", "è", "é", ""} {
			ops := batch(int64(version+1), email)
			if applied, err := target.Apply(t.Context(), ops); err != nil || len(applied.Rejected) > 0 {
				t.Fatalf("%q: %+v, %v", email, applied, err)
			}
			if differences, err := target.Compare(t.Context(), ops); err != nil || len(differences) > 0 {
				t.Errorf("%q: %+v, %v", email, differences, err)
			}
			want := [3]int{3, 3, 1}
			if email == "" {
				want = [3]int{}
			}
			for i, table := range []string{"fav", "by_email", "total"} {
				var n int
				if err := db.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n); err != nil || n != want[i] {
					t.Errorf("%q: table %s has %d rows, %v", email, table, n, err)
				}
			}
		}
	})
}
