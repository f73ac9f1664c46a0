package canal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// replicaOf makes b a replica of another server. It does not wait for the replication.
func (b *bench) replicaOf(primary *bench) {
	b.t.Helper()
	if b.isMaria() {
		b.exec(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', "+
			"MASTER_USE_GTID=slave_pos, MASTER_SSL=0", primary.server.Port), "START SLAVE")
		return
	}
	b.exec(fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', SOURCE_AUTO_POSITION=1, "+
		"GET_SOURCE_PUBLIC_KEY=1", primary.server.Port), "START REPLICA")
}

// follow waits until a replica has everything that the primary has, and then ends the replication.
func (b *bench) follow(primary *bench) {
	b.t.Helper()
	b.has(primary)
	if b.isMaria() {
		b.exec("STOP SLAVE", "RESET SLAVE ALL")
	} else {
		b.exec("STOP REPLICA", "RESET REPLICA ALL")
	}
}

// has waits until a replica has everything that the primary has.
func (b *bench) has(primary *bench) {
	b.t.Helper()
	all, wait := "SELECT @@GLOBAL.gtid_executed", "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 30)"
	if b.isMaria() {
		all, wait = "SELECT @@gtid_binlog_pos", "SELECT MASTER_GTID_WAIT(?, 30)"
	}
	var set string
	b.scan(primary.db.QueryRow(all), &set)
	var n int
	b.scan(b.db.QueryRow(wait, set), &n)
	if n != 0 {
		b.t.Fatal("the replica did not follow")
	}
}

func (b *bench) scan(row interface{ Scan(...any) error }, into ...any) {
	b.t.Helper()
	if err := row.Scan(into...); err != nil {
		b.t.Fatal(err)
	}
}

// pair starts a primary and its replica, both with database app.
func pair(t *testing.T, kind servers.Kind) (primary, replica *bench) {
	return pairOf(t, kind, "--loose-log-slave-updates") // MySQL's default from 8.0 on
}

func pairOf(t *testing.T, kind servers.Kind, args ...string) (primary, replica *bench) {
	primary, replica = newBench(t, servertest.Own(t, kind, args...)), newBench(t, servertest.Own(t, kind, args...))
	for _, b := range []*bench{primary, replica} {
		// The servers' own databases were created with transactions. Clear the logs, so that both begin without any.
		if b.isMaria() {
			b.exec("RESET MASTER")
		} else {
			b.exec("RESET BINARY LOGS AND GTIDS")
		}
	}
	replica.replicaOf(primary)
	primary.exec("CREATE DATABASE app")
	return primary, replica
}

const appCell = "INSERT INTO app.cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', %d, '%[1]d')"

func appTable() replicator.Table {
	t := cellTable()
	t.Database = "app"
	return t
}

func bodies(changes []replicator.Change) string {
	var out []string
	for _, c := range changes {
		if c.Row == nil { // the cell must be re-read
			out = append(out, "?")
			continue
		}
		out = append(out, string(c.Row.Body))
	}
	return strings.Join(out, " ")
}

func TestReadingMovesToAReplica(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		primary, replica := pair(t, kind)
		primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		src := primary.source(appTable())
		oldest, err := src.Oldest(testContext(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := primary.read(primary.open(src, oldest))
		version := 0
		write := func(n int) {
			for range n {
				version++
				q := fmt.Sprintf(appCell, version)
				switch {
				case version%3 == 0 && kind.IsMariaDB():
					primary.session("SET SESSION gtid_domain_id = 7", q)
				case version%3 == 0 && !kind.IsOldMySQL():
					primary.session("SET SESSION gtid_next = 'AUTOMATIC:mytag'", q)
				default:
					primary.exec(q)
				}
			}
		}
		write(7)
		primary.exec("FLUSH BINARY LOGS")
		first := x.upTo(primary.latest(src))
		checkpoint := x.reader.Position(x.last())
		write(4)
		x.upTo(primary.latest(src))
		x.end()
		ahead := x.reader.Position(x.last())
		replica.follow(primary)
		replica.exec("FLUSH BINARY LOGS")
		replica.exec(fmt.Sprintf(appCell, 100))

		// The replica becomes the source while the program runs. So the program knows everything that it has read.
		moved := replica.source(appTable())
		moved.run = src.run
		r := replica.open(moved, checkpoint)
		start := r.Start()
		if start.Token == checkpoint.Token || start.Order <= ahead.Order {
			t.Errorf("start %+v is not above all orders of the old server: %+v", start, ahead)
		}
		y := replica.read(r)
		got := y.upTo(replica.latest(moved))
		if s := bodies(got); s != "8 9 10 11 100" {
			t.Errorf("read %q, after %q", s, bodies(first))
		}
		if got[0].Order <= start.Order {
			t.Errorf("order %d is not after the start %d", got[0].Order, start.Order)
		}
		y.end()
		end := r.Position(y.last())
		if !moved.Includes(end, ahead) || moved.Includes(ahead, end) {
			t.Errorf("which of two servers' positions includes the other is not known: %+v, %+v", ahead, end)
		}
		// A saved start position without progress, and the end, work like any other position.
		if s := bodies(replica.changes(moved, start)); s != "8 9 10 11 100" {
			t.Errorf("from the saved start: %q", s)
		}
		if s := bodies(replica.changes(moved, end)); s != "" {
			t.Errorf("from the end: %q", s)
		}
		if s := bodies(replica.changes(moved, end, checkpoint)); s != "? ? ? ? ?" {
			t.Errorf("from the earliest of two: %q", s)
		}
		if got := replica.open(moved, ahead, checkpoint).Start(); got.Epoch() != 1 {
			t.Errorf("epoch of %+v, want 1", got)
		}

		// Now back to the old primary. It lacks the replica's transactions, so it must be refused.
		if _, err := src.Open(testContext(t), []replicator.Position{end}); !replicator.IsFatal(err) {
			t.Errorf("a server without what was applied: %v, want a fatal error", err)
		}
		// On MariaDB, the primary's next transaction has the same number as the replica's.
		primary.exec(fmt.Sprintf(appCell, 200))
		if kind.IsMariaDB() {
			z, err := src.Open(testContext(t), []replicator.Position{end})
			if err == nil {
				err = primary.read(z.(*Reader)).failure()
			}
			if !replicator.IsFatal(err) {
				t.Errorf("another history: %v, want a fatal error", err)
			}
		}
	})
}

func TestOnlyTheSameBinlogIsReadOn(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, other := newBench(t, servertest.Own(t, kind)), newBench(t, servertest.Own(t, kind))
		for _, x := range []*bench{b, other} {
			x.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		}
		src := b.source(appTable())
		x := b.read(b.open(src, b.latest(src)))
		b.exec(fmt.Sprintf(appCell, 1))
		x.upTo(b.latest(src))
		x.end()
		at := x.reader.Position(x.last())

		elsewhere := other.source(appTable())
		_, err := elsewhere.Open(testContext(t), []replicator.Position{at})
		if !replicator.IsFatal(err) {
			t.Errorf("on another server: %v, want a fatal error", err)
		}
		tok, _ := parseToken(at.Token)
		tok.GTID = ""
		bare, _ := tok.position()
		if _, err = elsewhere.Open(testContext(t), []replicator.Position{bare}); !replicator.IsFatal(err) ||
			!strings.Contains(err.Error(), tok.Server) {
			t.Errorf("on another server without GTIDs: %v, want a fatal error that names both", err)
		}
		tok, _ = parseToken(at.Token)
		tok.Pos += 1 << 20
		tok.GTID = ""
		beyond, _ := tok.position()
		if _, err = src.Open(testContext(t), []replicator.Position{beyond}); !replicator.IsFatal(err) {
			t.Errorf("beyond the file's end: %v, want a fatal error", err)
		}

		// After a RESET, there is another file with the same name.
		if kind.IsMariaDB() {
			b.exec("RESET MASTER")
		} else {
			b.exec("RESET BINARY LOGS AND GTIDS")
		}
		if _, err = src.Open(testContext(t), []replicator.Position{at}); !replicator.IsFatal(err) &&
			!errors.Is(err, replicator.ErrLost) {
			t.Errorf("after a RESET: %v, want a fatal error", err)
		}
		if anew, err := src.Latest(testContext(t), []replicator.Position{at}); err != nil || anew.Order <= at.Order {
			t.Errorf("after a RESET the binlog's end is at order %d, %v: a rebuild in place would take it for older than what was applied at %d",
				anew.Order, err, at.Order)
		}
		for n := range 20 {
			b.exec(fmt.Sprintf(appCell, 10+n))
		}
		r, err := src.Open(testContext(t), []replicator.Position{bare})
		if err == nil {
			err = b.read(r.(*Reader)).failure()
		}
		if !replicator.IsFatal(err) {
			t.Errorf("after a RESET, with a file grown past the position and no GTIDs: %v, want a fatal error", err)
		}
	})
}

func TestAPersonNamesAPosition(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		src := b.source(appTable())
		b.exec(fmt.Sprintf(appCell, 1))
		x := b.read(b.open(src, b.latest(src)))
		b.exec(fmt.Sprintf(appCell, 2))
		x.upTo(b.latest(src))
		x.end()
		after2 := x.reader.Position(x.last())
		if ok, err := x.reader.Includes(testContext(t), x.reader.Start(),
			strings.SplitN(Describe(after2.Token), " ", 2)[1]); ok || err != nil {
			t.Errorf("the start includes what came after it: %t, %v", ok, err)
		}
		b.exec(fmt.Sprintf(appCell, 3))
		filePos, gtid, _ := strings.Cut(Describe(after2.Token), " ")
		for _, name := range []string{filePos, gtid} {
			at, err := src.At(testContext(t), name, []replicator.Position{after2})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if s := bodies(b.changes(src, at)); s != "3" {
				t.Errorf("from %s: %q, want 3", name, s)
			}
			r := b.open(src, after2)
			if ok, err := r.Includes(testContext(t), after2, name); !ok || err != nil {
				t.Errorf("includes %s: %t, %v", name, ok, err)
			}
			if ok, err := r.Includes(testContext(t), replicator.Position{Token: strings.Replace(at.Token, gtid, "", 1)},
				name); name == gtid && ok {
				t.Errorf("a place without GTIDs includes %s: %t, %v", name, ok, err)
			}
		}
		// On an idle source, the start position is what was applied, and it includes everything.
		idle := b.read(b.open(src, b.latest(src)))
		<-idle.news
		b.scan(b.db.QueryRow(map[bool]string{true: "SELECT @@gtid_binlog_pos",
			false: "SELECT @@GLOBAL.gtid_executed"}[kind.IsMariaDB()]), &gtid)
		if ok, err := idle.reader.Includes(testContext(t), idle.reader.Start(), gtid); !ok || err != nil {
			t.Errorf("the start of an idle source includes %s: %t, %v", gtid, ok, err)
		}
		idle.end()

		// Reading can't begin in the middle of a transaction.
		tok, _ := parseToken(after2.Token)
		for _, name := range []string{fmt.Sprintf("%s:%d", tok.File, tok.Pos-31), fmt.Sprintf("%s:%d", tok.File, tok.Pos-1)} {
			at, err := src.At(testContext(t), name, nil)
			if err == nil {
				var r replicator.Reader
				if r, err = src.Open(testContext(t), []replicator.Position{at}); err == nil {
					err = b.read(r.(*Reader)).failure()
				}
			}
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for _, name := range []string{"", "nonsense", "binlog.000001", "binlog.000099:4", "x.000001:4"} {
			if _, err := src.At(testContext(t), name, nil); err == nil {
				t.Errorf("%q: no error", name)
			}
		}
	})
}

// If the replica never got transactions that were read from the primary, and that a sink may have, it is refused. That
// is so even if reading would continue at an earlier position that the replica has.
func TestAReplicaWithoutWhatWasReadIsRefused(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		primary, replica := pair(t, kind)
		primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		src := primary.source(appTable())
		x := primary.read(primary.open(src, primary.latest(src)))
		write := func(n int) {
			for i := range n {
				primary.exec(fmt.Sprintf(appCell, i+1000*len(x.all())))
			}
			x.upTo(primary.latest(src))
		}
		write(3)
		early := x.last()
		follow := x.reader.Position(early)
		write(3)
		replica.follow(primary) // the replica gets nothing more from here on
		within := x.reader.Position(early)
		queried := func() replicator.Position { // by a reader that has not read that part of the log
			t.Helper()
			r := primary.open(src, follow)
			if _, err := r.Scan(testContext(t), "cell", nil, "", replicator.ScanLimit{Rows: 1}); err != nil {
				t.Fatal(err)
			}
			return r.Position(early)
		}
		queriedWithin := queried()
		write(2)
		queriedBeyond := queried()
		beyond := x.reader.Position(early)
		x.end()
		// This reader is cut off within a transaction, after it delivered the first row.
		cut := primary.open(src, beyond)
		rows := &inTransaction{recorder: newRecorder()}
		primary.exec("INSERT INTO app.cell(row_key, column_name, ref_key) VALUES ('k', 'd', 1), ('k', 'd', 2)")
		if err := cut.Read(testContext(t), rows); !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		partly := cut.Position(cut.Start().Order)
		if follow.Order != within.Order || within.Order != beyond.Order || beyond.Order != partly.Order {
			t.Fatalf("positions %d, %d, %d, %d: not one place", follow.Order, within.Order, beyond.Order, partly.Order)
		}

		moved := replica.source(appTable())
		for name, p := range map[string]replicator.Position{"follow": follow, "within": within,
			"queried": queriedWithin} {
			if s := len(replica.changes(moved, p)); s != 3 {
				t.Errorf("%s: read %d rows, want the 3 behind the position", name, s)
			}
		}
		// Sinks have what was read before, with Orders of the old server. These are below all Orders of the new server,
		// so an old image of a row would count as newer than what sinks already show. So the cells are re-read,
		// wherever reading continues.
		y := replica.read(replica.open(moved, within))
		again := y.upTo(replica.latest(moved))
		y.end()
		between := y.reader.Position(again[1].Order) // after the first transaction
		for name, changes := range map[string][]replicator.Change{"at first": again,
			"queried":      replica.changes(moved, queriedWithin),
			"from between": append(replica.changes(moved, between), again[0])} {
			for _, c := range changes {
				if c.Row != nil || c.Kind != replicator.Delete || c.Last || c.Version != replicator.AnyVersion {
					t.Errorf("%s: %s, want that the cell is looked at", name, showChange(c))
				}
			}
			if len(changes) != 3 {
				t.Errorf("%s: %d changes, want 3", name, len(changes))
			}
		}
		refused := func(when string) {
			t.Helper()
			for name, p := range map[string]replicator.Position{"beyond": beyond, "partly": partly, "one of two": beyond,
				"queried": queriedBeyond} {
				at := []replicator.Position{p}
				if name == "one of two" {
					at = []replicator.Position{follow, p}
				}
				r, err := moved.Open(testContext(t), at)
				if err == nil {
					err = replica.read(r.(*Reader)).failure()
				}
				if !errors.Is(err, replicator.ErrLost) || !replicator.IsFatal(err) {
					t.Errorf("%s, %s: %v, want that it is lost", when, name, err)
				}
			}
		}
		refused("at first")
		for n := range 4 { // on MariaDB, these are as many as were lost, with the same numbers
			replica.exec(fmt.Sprintf(appCell, 50000+n))
			refused(fmt.Sprintf("after %d transactions of its own", n+1))
		}
		if anew, err := moved.Latest(testContext(t), []replicator.Position{beyond}); err != nil ||
			anew.Order <= beyond.Order {
			t.Errorf("a fill would begin at %d, %v: not above %d", anew.Order, err, beyond.Order)
		}
	})
}

// A position in a store says what had been read when it was made. The run that made it may have read more, and been
// killed before it saved the next position. So the store does not tell what sinks have.
func TestWhatAnEarlierRunMayHaveReadIsLookedAtOnAnotherServer(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		primary, replica := pair(t, kind)
		primary.exec(strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		src := primary.source(appTable())
		saved := primary.latest(src)
		const killed = 4 // rows that the killed run had read
		for n := range killed {
			primary.exec(fmt.Sprintf(appCell, n))
		}
		replica.follow(primary)
		next := primary.source(appTable()) // first opens on the old server, and is then killed, too
		taken := primary.read(primary.open(next, saved))
		first := taken.upTo(primary.latest(next))[0]
		taken.end()
		if first.Row == nil {
			t.Errorf("on the same server, where a row has the Order that it had: %s, want the row", showChange(first))
		}

		moved := replica.source(appTable())
		reader := replica.read(replica.open(moved, saved))
		reader.upTo(replica.latest(moved))
		replica.exec(fmt.Sprintf(appCell, 1000)) // no run can have read this before
		last := reader.upTo(replica.latest(moved))
		reader.end()
		further := reader.reader.Position(last[1].Order) // after the first transaction
		for name, c := range map[string]struct {
			changes []replicator.Change
			looks   int
		}{
			"at first":                    {last, killed},
			"by the same run, further on": {replica.changes(moved, further), killed - 1},
			"by another run, further on":  {replica.changes(replica.source(appTable()), further), killed - 1},
			"behind what may have been":   {replica.changes(moved, reader.reader.Position(last[killed].Order)), 0},
		} {
			looks := 0
			for _, change := range c.changes {
				if change.Row == nil {
					looks++
				}
			}
			if looks != c.looks || len(c.changes) != c.looks+1 || c.changes[c.looks].Row == nil {
				t.Errorf("%s: %d of %d changes are looks, want the first %d and the row behind them", name, looks, len(c.changes),
					c.looks)
			}
		}
		// The second run had not read as far as the first one.
		of := replica.changes(replica.source(appTable()), taken.reader.Position(first.Order))
		if s := bodies(of); s != "? ? ? ? ?" {
			t.Errorf("where the run that ended was: %s, want a look at each row that there is", s)
		}
	})
}

// inTransaction is a handler that fails at the second row of a transaction.
type inTransaction struct {
	*recorder
	rows int
}

func (h *inTransaction) Change(ctx context.Context, c *replicator.Change) error {
	if c.Cell.Column == "d" {
		if h.rows++; h.rows == 2 {
			return errEnough
		}
	}
	return nil
}
