package canal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const uuidA, uuidB = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"

func TestHistoryKeepsTransactionsTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	h := newHistory(gtid.MySQL, end{order: 0}, gtid.New(gtid.MySQL))
	ids := []int32{h.id(sid{name: uuidA}), h.id(sid{name: uuidB}), h.id(sid{name: uuidA + ":tag"})}
	next := []int64{1, 1, 1}
	at := map[int64]string{0: ""}
	model := gtid.New(gtid.MySQL)
	asked := int64(0)
	for order := int64(1); order <= 30000; order++ {
		e := end{order: order, pos: order}
		if i := rng.IntN(4); i < 3 {
			e.last = gtidRun{ids[i], next[i], next[i]}
			model.Add(h.names[ids[i]].name, gtid.Run{First: next[i], Last: next[i]})
			next[i] += 1 + rng.Int64N(2)/1*rng.Int64N(2)
		}
		h.add(e)
		h.add(e) // a heartbeat at the same log position
		if order%97 == 0 || order == 30000 {
			at[order] = model.String()
		}
		if rng.IntN(6000) == 0 || order == 30000 {
			got, set := h.upTo(order)
			if got.order != order || set.String() != model.String() {
				t.Fatalf("at %d: order %d, %d bytes of set, want %d", order, got.order, len(set.String()), len(model.String()))
			}
			asked = order
		}
		if len(h.ends) > maxHistory {
			t.Fatalf("%d ends are kept", len(h.ends))
		}
	}
	if asked != 30000 {
		t.Fatal("the end was not asked for")
	}
}

// Without gtid_strict_mode, the numbers in a MariaDB domain may fall. The domain's position is still the last
// number in the binlog, as on the server.
func TestADomainsPlaceIsItsLastTransaction(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	h := newHistory(gtid.MariaDB, end{}, gtid.New(gtid.MariaDB))
	model := gtid.New(gtid.MariaDB)
	for order := int64(1); order <= 20000; order++ {
		s, seq := sid{fmt.Sprint(rng.IntN(3)), fmt.Sprint(rng.IntN(2))}, 1+rng.Int64N(1000)
		model.AddMaria(s.name, s.server, seq)
		h.add(end{order: order, last: gtidRun{h.id(s), seq, seq}})
		if rng.IntN(5000) == 0 || order == 20000 {
			if _, set := h.upTo(order); set.String() != model.String() {
				t.Fatalf("at %d: %s, want %s", order, set, model)
			}
		}
	}
}

// After a failover, another server writes the next transactions of a domain, which is not a fork. A fork is a
// transaction whose number is not above that of an earlier transaction by another server. It is noticed even if the end
// of one of the two transactions was merged with other ends.
func TestAForkIsToldFromAChangeOfAuthor(t *testing.T) {
	type written struct {
		server string
		seq    int64
	}
	for _, c := range []struct {
		name   string
		runs   []written
		forked bool
	}{
		{name: "one author", runs: []written{{"1", 6}, {"1", 7}}},
		{name: "there and back", runs: []written{{"2", 6}, {"2", 7}, {"1", 8}, {"2", 9}}},
		{name: "an author's number falls", runs: []written{{"1", 6}, {"1", 3}, {"2", 7}}},
		{name: "the base's number", runs: []written{{"2", 5}}, forked: true},
		{name: "a number that was read", runs: []written{{"1", 6}, {"1", 7}, {"2", 7}}, forked: true},
		{name: "below one that was read", runs: []written{{"1", 6}, {"1", 3}, {"2", 4}}, forked: true},
	} {
		for merged := range 4 { // how many of the merged ends precede the runs
			base, err := gtid.Parse(gtid.MariaDB, "0-1-5,3-1-1")
			if err != nil {
				t.Fatal(err)
			}
			h := newHistory(gtid.MariaDB, end{}, base)
			order := int64(0)
			add := func(run gtidRun) {
				order++
				h.add(end{order: order, last: run})
			}
			for range merged {
				add(gtidRun{})
			}
			for _, r := range c.runs {
				add(gtidRun{h.id(sid{"0", r.server}), r.seq, r.seq})
			}
			for order < 2*maxHistory {
				add(gtidRun{h.id(sid{"3", "1"}), order, order})
			}
			_, set := h.upTo(order)
			last := c.runs[len(c.runs)-1]
			if got := fmt.Sprintf("0-%s-%d,3-1-%d", last.server, last.seq, order-1); set.String() != got {
				t.Errorf("%s, %d before: %s, want %s", c.name, merged, set, got)
			}
			if h.forked.Load() != c.forked {
				t.Errorf("%s, %d before: forked is %t", c.name, merged, h.forked.Load())
			}
		}
	}
}

// A transaction that was read only in part counts, too, because a sink may have some of its rows.
func TestATransactionThatWasReadInPartMayBeAFork(t *testing.T) {
	base, err := gtid.Parse(gtid.MariaDB, "0-1-5")
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory(gtid.MariaDB, end{}, base)
	h.add(end{order: 1, last: gtidRun{h.id(sid{"0", "1"}), 6, 6}})
	h.handOut(end{order: 2, last: gtidRun{h.id(sid{"0", "2"}), 6, 6}})
	if _, further, _ := h.reached(); further.String() != "0-2-6" || !h.forked.Load() {
		t.Errorf("read %s, forked: %t", further, h.forked.Load())
	}
}

// synth builds the events of a binlog by hand.
type synth struct{ bytes []byte }

func (s *synth) event(kind replication.EventType, body []byte, logPos uint32) {
	var h [binlog.HeaderSize]byte
	binary.LittleEndian.PutUint32(h[0:], 1700000000)
	h[4] = byte(kind)
	binary.LittleEndian.PutUint32(h[9:], uint32(binlog.HeaderSize+len(body)))
	binary.LittleEndian.PutUint32(h[13:], logPos)
	s.bytes = append(append(s.bytes, h[:]...), body...)
}

func queryBody(text string) []byte {
	return append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, text...)
}

func gtidBody(gno int64) []byte {
	b := make([]byte, 25)
	binary.LittleEndian.PutUint64(b[17:], uint64(gno))
	return b
}

// transaction adds a transaction that ends at a position that may exceed 32 bits.
func (s *synth) transaction(gno, begin, end int64) {
	s.event(replication.GTID_EVENT, gtidBody(gno), uint32(begin))
	s.event(replication.QUERY_EVENT, queryBody("BEGIN"), 0)
	s.event(replication.XID_EVENT, make([]byte, 8), uint32(end))
}

func TestPlacesBeyond4GiBAreExact(t *testing.T) {
	var b synth
	b.transaction(1, 200, 1<<31-1000)
	b.transaction(2, 1<<31, 1<<32-50)
	b.transaction(3, 1<<32+100, 1<<32+5000)
	b.transaction(4, 1<<32+6000, 1<<32+1<<30+7000)
	h := newRecorder()
	s := newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, h)
	if err := feedAll(s, b.bytes); err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, c := range h.commits {
		_, _, at := splitOrder(c)
		got = append(got, at)
	}
	if want := []int64{1<<31 - 1000, 1<<32 - 50, 1<<32 + 5000, 1<<32 + 1<<30 + 7000}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("transactions end at %d, want %d", got, want)
	}

	// The protocol can't start beyond 4 GiB. So the file is read from its beginning without delivering anything, and
	// the transactions are counted.
	h = newRecorder()
	s = newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, h)
	s.history.gtids = false
	s.until, s.untilGTID = 1<<32+5000, gtid.New(gtid.MySQL)
	if err := feedAll(s, b.bytes); err != nil {
		t.Fatal(err)
	}
	_, set := s.history.upTo(1<<63 - 1)
	if len(h.commits) != 2 || set.String() != "00000000-0000-0000-0000-000000000000:1-4" {
		t.Errorf("%d commits, %s", len(h.commits), set)
	}

	// Reading can't begin in the middle of a transaction.
	s = newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, newRecorder())
	s.until = 1<<32 + 4000
	if err := feedAll(s, b.bytes); !replicator.IsFatal(err) {
		t.Errorf("a start in the middle of a transaction: %v", err)
	}
}

func TestABinlogThatGoesBackIsAnError(t *testing.T) {
	var b synth
	b.transaction(1, 200, 1000)
	b.transaction(2, 500, 2000)
	s := newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, newRecorder())
	if err := feedAll(s, b.bytes); err == nil {
		t.Error("no error")
	}
}

func TestUnknownEventsAreFatalUnlessIgnorable(t *testing.T) {
	for kind, want := range map[replication.EventType]bool{replication.INCIDENT_EVENT: true, 200: true,
		replication.STOP_EVENT: false, replication.VIEW_CHANGE_EVENT: false} {
		var b synth
		b.event(kind, nil, 0)
		s := newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, newRecorder())
		if err := feedAll(s, b.bytes); replicator.IsFatal(err) != want {
			t.Errorf("event type %d: %v", kind, err)
		}
	}
	var b synth
	b.event(200, nil, 0)
	binary.LittleEndian.PutUint16(b.bytes[17:], binlog.IgnorableFlag)
	s := newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, newRecorder())
	if err := s.event(context.Background(), b.bytes); err != nil {
		t.Errorf("an ignorable event: %v", err)
	}
}

func TestARollbackAfterRowsLeavesTheirTableUnlogged(t *testing.T) {
	for _, text := range []string{"ROLLBACK", "ROLLBACK TO `s`"} {
		s := newTestStream(gtid.MySQL, binlog.Charsets{}, tables{fold: strings.ToLower}, newRecorder())
		s.tx = transaction{open: true, explicit: true}
		s.handsOn(&watched{Table: replicator.Table{Name: "cell"}})
		if _, err := s.statement(context.Background(), binlog.Header{}, nil, []byte(text),
			nil); !errors.Is(err, replicator.ErrUnlogged) || !replicator.IsOfViews(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPositionsShowTheirPlace(t *testing.T) {
	p, err := token{Server: "s", placed: placed{File: "binlog.000003", Pos: 4711}, GTID: "0-1-2", Epoch: 3}.position()
	if err != nil {
		t.Fatal(err)
	}
	if got := Describe(p.Token); got != "binlog.000003:4711 0-1-2" {
		t.Errorf("described as %q", got)
	}
	if epoch, file, at := splitOrder(p.Order); epoch != 3 || file != 3 || at != 4711 {
		t.Errorf("order %d is epoch %d, file %d, address %d", p.Order, epoch, file, at)
	}
	if orderOf(maxEpoch, maxFile, maxAddress) != 1<<63-1 {
		t.Error("the parts of an order don't fill it")
	}
	for _, name := range []string{"binlog", "binlog.x", ".000001", "binlog.9999999"} {
		if _, err := parseFileName(name); err == nil {
			t.Errorf("%s is a file name", name)
		}
	}
}

// If the transactions before a start position are not known yet, a position there keeps the GTIDs of the start
// position. They are enough to find it on another server, which may be the only one left.
func TestAPositionKeepsItsTransactionsUntilReadingFindsThemOut(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL, "INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, 'a')")
		src := b.source(cellTable())
		from := b.latest(src)
		r := b.open(src, from)
		unread := r.Position(r.Start().Order)
		was, _ := parseToken(from.Token)
		if is, _ := parseToken(unread.Token); is.GTID != was.GTID || is.GTID == "" || is.Loose != was.Loose {
			t.Errorf("%s became %s", from.Token, unread.Token)
		}
		if got := b.changes(src, unread, from); len(got) != 0 {
			t.Errorf("read %v", shown(got))
		}
	})
}
