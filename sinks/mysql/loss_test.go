package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// lossScene is a view whose table loses rows while the view changes. Each change has the next order.
type lossScene struct {
	t      *testing.T
	view   *replicator.View
	sink   replicator.Sink
	target replicator.Target
	order  int64
}

func newLossScene(t *testing.T, sink replicator.Sink, v *replicator.View) *lossScene {
	s := &lossScene{t: t, view: v, sink: sink}
	t.Cleanup(func() { sink.Close() })
	mysql.LookAtEachOpening(sink)
	s.open()
	return s
}

// open opens a target that has not checked its tables yet.
func (s *lossScene) open() {
	s.t.Helper()
	target, err := s.sink.Open(s.t.Context(), "", []*replicator.View{s.view})
	if err != nil {
		s.t.Fatal(err)
	}
	s.target = target
}

// put writes the cells with numbers from ≤ n < to.
func (s *lossScene) put(from, to int) {
	s.t.Helper()
	var ops []replicator.Op
	for n := from; n < to; n++ {
		s.order++
		op := userOp(n, s.order, 1, fmt.Sprint("value ", s.order))
		if s.view.Kind == "counter" {
			op = amountOp(n, s.order, fmt.Sprint("city ", n%20), int64(1+n%3))
		}
		ops = append(ops, op)
	}
	applyAll(s.t, s.target, ops...)
}

// look checks the tables, with everything applied up to the scene's order.
func (s *lossScene) look() error {
	s.t.Helper()
	return s.lookAt(s.order)
}

// lookAt checks the tables by marking the views at an order.
func (s *lossScene) lookAt(order int64) error {
	s.t.Helper()
	s.open()
	return s.target.Mark(s.t.Context(), replicator.Standing{Position: replicator.Position{Order: order, Token: "x"}})
}

func (s *lossScene) holds() {
	s.t.Helper()
	if err := s.look(); err != nil {
		s.t.Errorf("after order %d: %v", s.order, err)
	}
}

func (s *lossScene) lost() {
	s.t.Helper()
	if err := s.look(); !errors.Is(err, replicator.ErrSinkLost) || !replicator.IsOfViews(err) ||
		!strings.Contains(err.Error(), "was emptied") {
		s.t.Errorf("after order %d: %v", s.order, err)
	}
}

// losses are views of each kind, with their tables.
var losses = map[string]struct {
	ddl  string
	view func() *replicator.View
}{
	"row": {"CREATE TABLE v (id BINARY(16) PRIMARY KEY, email VARCHAR(50))",
		func() *replicator.View { return view("row", "v", "email") }},
	"merged row": {"CREATE TABLE v (id BINARY(16) PRIMARY KEY, email VARCHAR(50))", func() *replicator.View {
		v := view("row", "v", "email")
		v.From = from("cell.users", "cell.profile")
		return v
	}},
	"index": {"CREATE TABLE v (email VARCHAR(50), id BINARY(16), PRIMARY KEY (email, id), KEY (id))",
		func() *replicator.View { return view("index", "v", "email") }},
	"counter": {"CREATE TABLE v (city VARCHAR(50) PRIMARY KEY, amount BIGINT NOT NULL)",
		func() *replicator.View { return counter("v") }},
}

func eachLoss(t *testing.T, test func(t *testing.T, s *servers.Server, ddl string, view func() *replicator.View)) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for name, l := range losses {
			t.Run(name, func(t *testing.T) { test(t, s, l.ddl, l.view) })
		}
	})
}

// If a table is emptied while it is written to, new rows come in at once. So no check sees it empty, but the loss is
// found.
func TestATableThatIsEmptiedUnderWritesIsALoss(t *testing.T) {
	eachLoss(t, func(t *testing.T, server *servers.Server, ddl string, view func() *replicator.View) {
		for _, emptied := range []string{"TRUNCATE v", "DELETE FROM v"} {
			db, dsn := database(t, server, ddl)
			s := newLossScene(t, newSink(t, dsn), view())
			s.put(0, 900)
			s.holds()
			s.put(100, 300)
			exec(t, db, emptied)
			s.put(0, 400)
			s.put(900, 1000)
			s.lost()

			s.open() // the view is filled again
			s.put(0, 1000)
			s.holds()
			s.holds()
		}
	})
}

// A session that begins a moment after the last check of its tables doesn't check them again at once.
func TestATableIsNotLookedAtAgainAtOnce(t *testing.T) {
	db, dsn := database(t, servertest.MySQL(t), losses["row"].ddl)
	sink := newSink(t, dsn)
	t.Cleanup(func() { sink.Close() })
	s := &lossScene{t: t, view: losses["row"].view(), sink: sink}
	s.open()
	s.put(0, 900)
	s.holds()
	exec(t, db, "TRUNCATE v")
	s.holds()
	mysql.LookAtEachOpening(sink)
	s.lost()
}

// Changes are applied ahead of the mark. The rows that a check saw are witnesses even if they are newer than its mark.
func TestATableThatIsEmptiedIsALossThoughItsRowsAreNewerThanTheMark(t *testing.T) {
	eachLoss(t, func(t *testing.T, server *servers.Server, ddl string, view func() *replicator.View) {
		db, dsn := database(t, server, ddl)
		s := newLossScene(t, newSink(t, dsn), view())
		s.put(0, 900)
		if err := s.lookAt(10); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "TRUNCATE v")
		s.put(0, 100)
		s.lost()
	})
}

func TestATableThatIsEmptiedBeforeAStartIsALoss(t *testing.T) {
	eachLoss(t, func(t *testing.T, server *servers.Server, ddl string, view func() *replicator.View) {
		db, dsn := database(t, server, ddl)
		s := newLossScene(t, newSink(t, dsn), view())
		s.put(0, 900)
		s.holds()
		exec(t, db, "TRUNCATE v")
		restarted := newLossScene(t, newSink(t, dsn), s.view)
		restarted.order = s.order
		if s.view.Kind == "counter" { // its first check only sees that the table is empty
			restarted.lost()
			return
		}
		again := restarted.target
		restarted.put(800, 1000)
		at := replicator.Position{Order: restarted.order, Token: "x"}
		err := again.Mark(t.Context(), replicator.Standing{Position: at})
		if !errors.Is(err, replicator.ErrSinkLost) {
			t.Errorf("Mark says %v", err)
		}
	})
}

func TestAShardThatIsEmptiedUnderWritesIsALoss(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		for _, column := range []string{"id", "email"} {
			m := makeShards(t, server, 2, losses["index"].ddl)
			v := losses["index"].view()
			shardBy(v, column)
			s := newLossScene(t, m.sink(t, v), v)
			s.put(0, 900)
			s.holds()
			exec(t, m.dbs[0], "TRUNCATE v")
			s.put(0, 200)
			s.lost()
		}
	})
}

// If a person deletes rows, some are left, so that is not a loss. Nor is it a loss if the source deletes rows.
func TestRowsThatAreDeletedByHandAreNoLoss(t *testing.T) {
	eachLoss(t, func(t *testing.T, server *servers.Server, ddl string, view func() *replicator.View) {
		for _, deleted := range []string{
			"DELETE FROM v WHERE id < 'user 800'", "DELETE FROM v WHERE id > 'user 200'",
			"DELETE FROM v ORDER BY RAND() LIMIT 700",
		} {
			if view().Kind == "counter" {
				deleted = "DELETE FROM v LIMIT 15"
			}
			db, dsn := database(t, server, ddl)
			s := newLossScene(t, newSink(t, dsn), view())
			s.put(0, 900)
			s.holds()
			exec(t, db, deleted)
			s.holds()
			s.put(0, 700)
			s.holds()
			s.put(900, 1000)
			s.holds()
		}
	})
}

func TestWhatTheSourceTakesAwayIsNoLoss(t *testing.T) {
	eachLoss(t, func(t *testing.T, server *servers.Server, ddl string, view func() *replicator.View) {
		_, dsn := database(t, server, ddl)
		s := newLossScene(t, newSink(t, dsn), view())
		s.put(0, 900)
		s.holds()
		for n := range 890 {
			s.order++
			op := userOp(n, s.order, 1)
			op.Version, op.Order, op.AsOf = replicator.NoVersion, 0, s.order
			applyAll(t, s.target, op)
		}
		s.holds()
		s.put(1000, 1300)
		s.holds()
	})
}
