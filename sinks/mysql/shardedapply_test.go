package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// movingDDL creates an index's table whose entries move between shards, and a row view's table whose rows don't.
var movingDDL = []string{
	"CREATE TABLE i (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (email, id))",
	"CREATE TABLE r (id BINARY(16) PRIMARY KEY, email VARCHAR(50))",
}

// movingViews returns the views of movingDDL's tables. The index is sharded on its property, the row view on its key.
func movingViews() []*replicator.View {
	i, r := view("index", "i", "email"), view("row", "r", "email")
	shardBy(i, "email")
	shardBy(r, "id")
	return []*replicator.View{i, r}
}

// everywhere returns a FROM that reads a table of all shards at one moment. All shards are on one server.
func (m *shards) everywhere(t testing.TB, table string) string {
	var parts []string
	for i, dsn := range m.dsns {
		parts = append(parts, fmt.Sprintf("SELECT %d AS shard, x.* FROM %s.%s x", i, schemaOf(t, dsn), table))
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ") u"
}

// Two replicators move entities from shard to shard with each version, while a third replays the past.
func TestAMovingEntityIsNeverNowhereAndNeverStepsBack(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		m := makeShards(t, s, 3, movingDDL...)
		const entities, versions = 8, 60
		round := func(version int64) []replicator.Op {
			var ops []replicator.Op
			for n := range entities {
				ops = append(ops, userOp(n, version, 2, fmt.Sprintf("%06d of %d", version, n)))
			}
			return ops
		}
		apply := func(target replicator.Target, version int64) {
			if _, err := target.Apply(context.WithoutCancel(t.Context()), round(version)); err != nil {
				t.Errorf("version %d: %v", version, err)
			}
		}
		targets := []replicator.Target{m.open(t, movingViews()...), m.open(t, movingViews()...), m.open(t, movingViews()...)}
		apply(targets[0], 1)

		var writers, replay sync.WaitGroup
		written := make(chan struct{})
		for _, target := range targets[:2] {
			writers.Go(func() {
				for version := int64(2); version <= versions; version++ {
					apply(target, version)
				}
			})
		}
		replay.Go(func() {
			for version := int64(1); ; version = version%versions + 1 {
				select {
				case <-written:
					return
				default:
					apply(targets[2], version)
				}
			}
		})
		go func() {
			writers.Wait()
			close(written)
		}()

		newest := map[string]string{}
		looks, twice := 0, 0
		for done := false; !done; looks++ {
			select {
			case <-written:
				done = true // one more look
			default:
			}
			rows, err := m.dbs[0].Query("SELECT HEX(id), MAX(email), COUNT(*) FROM " + m.everywhere(t, "i") + " GROUP BY id")
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for rows.Next() {
				var id, email string
				var n int
				if err := rows.Scan(&id, &email, &n); err != nil {
					t.Fatal(err)
				}
				if found++; n > 1 {
					twice++
				}
				if email < newest[id] {
					t.Errorf("%s steps back from %q to %q", id, newest[id], email)
				}
				newest[id] = email
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				t.Fatal(err)
			}
			if found != entities {
				t.Fatalf("%d of %d entities are somewhere", found, entities)
			}
		}
		replay.Wait()
		t.Logf("looked %d times; entities stood in two places %d times", looks, twice)
		for id, email := range newest {
			if !strings.HasPrefix(email, fmt.Sprintf("%06d", versions)) {
				t.Errorf("%s is %q in the end", id, email)
			}
		}
		for _, v := range movingViews() {
			if held := m.read(t, v); len(held) != entities {
				t.Errorf("view %s holds %v", v.Name, held)
			}
		}
	})
}

// cutConn is a connection that is cut now and then, before or after something was sent.
type cutConn struct {
	net.Conn
	cuts *atomic.Int64
}

func (c cutConn) Write(b []byte) (int, error) {
	if rand.IntN(150) > 0 {
		return c.Conn.Write(b)
	}
	c.cuts.Add(1)
	if rand.IntN(2) == 0 {
		_, _ = c.Conn.Write(b)
	}
	return 0, errors.Join(net.ErrClosed, c.Conn.Close())
}

// patient repeats failed calls, except those of Apply.
type patient struct{ replicator.Sink }

type patientTarget struct{ replicator.Target }

// temporary reports whether an error may come from a connection that was cut.
func temporary(err error) bool {
	return !replicator.IsFatal(err) && !errors.Is(err, replicator.ErrSinkLost)
}

func again[T any](do func() (T, error)) (T, error) {
	for {
		v, err := do()
		if err == nil || !temporary(err) {
			return v, err
		}
	}
}

func (p patient) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := again(func() (replicator.Target, error) { return p.Sink.Open(ctx, source, views) })
	return patientTarget{target}, err
}

func (p patient) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	return again(func() ([]replicator.Mark, error) { return p.Sink.Marks(ctx, source) })
}

// Close ignores a cut, because closing a connection sends a last message.
func (p patient) Close() error {
	if err := p.Sink.Close(); err != nil && !temporary(err) {
		return err
	}
	return nil
}

func (p patientTarget) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	return again(func() ([]replicator.Span, error) { return p.Target.Versions(ctx, cells) })
}

func (p patientTarget) Mark(ctx context.Context, at replicator.Standing) error {
	_, err := again(func() (struct{}, error) { return struct{}{}, p.Target.Mark(ctx, at) })
	return err
}

func TestShardedHistoriesOverLinksThatAreCutBetweenAnyTwoStatements(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		var cuts atomic.Int64
		network := fmt.Sprintf("cut%d", rand.Int64())
		driver.RegisterDialContext(network, func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return cutConn{conn, &cuts}, err
		})
		defer driver.DeregisterDialContext(network)
		m := makeShards(t, s, 3, suiteDDL...)
		for i, dsn := range m.dsns {
			m.dsns[i] = strings.Replace(dsn, "@tcp(", "@"+network+"(", 1)
		}
		views := sharded(suiteViews...)
		subject := m.subject(views)
		subject.Histories, subject.Interrupted = 5, temporary
		subject.New = func(t testing.TB) replicator.Sink { return patient{m.sink(t, views...)} }
		sinktest.RunHistories(t, subject)
		if cuts.Load() == 0 {
			t.Error("no connection was cut")
		}
		t.Logf("%d connections were cut", cuts.Load())
	})
}

func TestShardsAreWaitedForWhenOneFails(t *testing.T) {
	servertest.EachKindInTurn(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Shared(t, kind)
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"),
			goleak.IgnoreAnyFunction("github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1"))
		m := makeShards(t, s, 3, movingDDL...)
		sink := m.sink(t, movingViews()...)
		defer sink.Close()
		target, err := sink.Open(t.Context(), "", movingViews())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, m.dbs[1], "DROP TABLE i")
		var ops []replicator.Op
		for n := range 20 {
			ops = append(ops, userOp(n, 1, 2, fmt.Sprint("user", n)))
		}
		if _, err = target.Apply(t.Context(), ops); !replicator.IsFatal(err) || !strings.Contains(err.Error(), "shard s1") {
			t.Errorf("Apply says %v", err)
		}
		exec(t, m.dbs[1], movingDDL[0])
		if _, err = target.Apply(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		for _, v := range movingViews() {
			if held := m.read(t, v); len(held) != len(ops) {
				t.Errorf("view %s holds %d entries", v.Name, len(held))
			}
		}
	})
}

func TestAValueThatOneShardRejectsContributesNothingAnywhere(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		enforcesChecks(t, s)
		m := makeShards(t, s, 3,
			"CREATE TABLE tags (tag VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (id, tag), CHECK (tag <> 'no'))",
			movingDDL[1])
		tags, row := view("index", "tags", "tag"), view("row", "r", "email")
		tags.Fields[0].Path = "tags[]"
		shardBy(tags, "tag")
		target := m.open(t, tags, row)
		op := func(version int64, values ...any) replicator.Op {
			op := userOp(1, version, 2, values...)
			op.Values[1].Entries = op.Values[1].Entries[:1]
			return op
		}
		other := userOp(2, 1, 1, "b", "c", "d")
		for _, step := range []struct {
			op       replicator.Op
			rejected bool
			held     int
		}{
			{op(1, "a", "b", "c", "d"), false, 4},
			{op(2, "a", "b", "c", "d", "no"), true, 0},                     // refused by a server
			{op(2, "a", "b", "c", "d", "no"), true, 0},                     // and again, after a crash
			{op(3, "a", "b", "c", "d", "e"), false, 5},                     //
			{op(4, "a", "b", "c", strings.Repeat("long", 50)), true, 0},    // too long for every shard's column
			{op(5, "x", "y", "z"), false, 3},                               //
			{op(4, "a", "b", "c", strings.Repeat("long", 50)), false, 3},   // stale
			{op(6, "no"), true, 0},                                         //
			{op(7, "a", "b", "c", "d", "e", "f", "g", "h", "i"), false, 9}, //
		} {
			applied, err := target.Apply(t.Context(), []replicator.Op{other, step.op})
			if err != nil {
				t.Fatal(err)
			}
			if len(applied.Rejected) > 1 || len(applied.Rejected) == 1 != step.rejected || step.rejected &&
				(applied.Rejected[0].Op != 1 || applied.Rejected[0].View != 0) {
				t.Errorf("version %d: rejected were %+v", step.op.Version, applied.Rejected)
			}
			held := 0
			for _, db := range m.dbs {
				held += count(t, db, "tags")
			}
			if held != step.held+3 {
				t.Errorf("version %d: %d tags are held, and not %d", step.op.Version, held, step.held+3)
			}
			if len(applied.Stale) > 0 {
				continue
			}
			d, err := target.Compare(t.Context(), []replicator.Op{other, step.op})
			if err != nil || step.rejected != (len(d) == 1 && d[0].Kind == replicator.Dead && d[0].Op == 1) ||
				!step.rejected && len(d) > 0 {
				t.Errorf("version %d: differences %+v, %v", step.op.Version, d, err)
			}
		}
	})
}

func TestARowWithoutAShardIsRejected(t *testing.T) {
	eachSharded(t, func(t *testing.T, s *servers.Server) {
		m := makeShards(t, s, 3, movingDDL[1])
		v := view("row", "r", "email")
		shardBy(v, "email")
		target := m.open(t, v)
		for version, email := range []any{"a", "b", nil, "c", "d", "e", nil} {
			applied, err := target.Apply(t.Context(), []replicator.Op{userOp(1, int64(version+1), 1, email)})
			if err != nil || (len(applied.Rejected) == 1) != (email == nil) {
				t.Errorf("%v: %+v, %v", email, applied, err)
			}
			if email == nil && !strings.Contains(fmt.Sprint(applied.Rejected[0].Err), "email decides the shard") {
				t.Errorf("rejected because %v", applied.Rejected[0].Err)
			}
			var held []string
			for _, db := range m.dbs {
				for _, text := range read(t, db, v) {
					held = append(held, text)
				}
			}
			if len(held) > 1 || len(held) == 1 && held[0] != fmt.Sprint("email=", email) || len(held) == 0 && email != nil {
				t.Errorf("%v: it holds %v", email, held)
			}
		}
	})
}
