package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// fakeServer is one of several servers with the same log. If a server gets another server's position, it reads on from
// there in the next epoch, and has the cells of changes from the earlier epoch re-read.
type fakeServer struct {
	*fakeSource
	name string
}

// at returns the server's position in an epoch, at an order of the source.
func (s fakeServer) at(epoch int, order int64) replicator.Position {
	return replicator.Position{Order: inEpoch(epoch, order), Token: fmt.Sprint(s.name, " ", order)}
}

func inEpoch(epoch int, order int64) int64 { return int64(epoch)<<replicator.EpochShift + order }

// epoch returns the epoch that this server uses after the known positions.
func (s fakeServer) epoch(known []replicator.Position) int {
	var last replicator.Position
	for _, p := range known {
		if p.Order >= last.Order {
			last = p
		}
	}
	if last.IsZero() || strings.HasPrefix(last.Token, s.name+" ") {
		return last.Epoch()
	}
	return last.Epoch() + 1
}

func (s fakeServer) Latest(_ context.Context, known []replicator.Position) (replicator.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(s.epoch(known), int64(len(s.log))*1000), nil
}

func (s fakeServer) Open(ctx context.Context, known []replicator.Position, tables ...string) (replicator.Reader, error) {
	epoch, again := 0, int64(0)
	lowest := int64(math.MaxInt64)
	for i := range known { // like a source, which proves each position
		epoch = max(epoch, s.epoch(known[i:i+1]))
	}
	for _, p := range known {
		_, text, _ := strings.Cut(p.Token, " ")
		order, _ := strconv.ParseInt(text, 10, 64)
		lowest = min(lowest, order)
		if p.Epoch() != epoch {
			s.mu.Lock()
			again = int64(len(s.log)) * 1000
			s.mu.Unlock()
		}
	}
	r, err := s.fakeSource.Open(ctx, []replicator.Position{fakePosition(int(lowest / 1000))}, tables...)
	if err != nil {
		return nil, err
	}
	return &serverReader{r.(*fakeReader), s, epoch, again}, nil
}

func (s fakeServer) Includes(p, q replicator.Position) bool {
	return p.Order-inEpoch(p.Epoch(), 0) >= q.Order-inEpoch(q.Epoch(), 0)
}

// serverReader reads the log with Orders of an epoch.
type serverReader struct {
	*fakeReader
	server fakeServer
	epoch  int
	again  int64 // others may have read the log up to there in an earlier epoch
}

func (r *serverReader) Start() replicator.Position {
	return r.server.at(r.epoch, r.fakeReader.start.Order)
}

func (r *serverReader) Position(order int64) replicator.Position {
	return r.server.at(r.epoch, order-inEpoch(r.epoch, 0))
}

func (r *serverReader) Latest(context.Context) (replicator.Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.at(r.epoch, int64(len(r.log))*1000), nil
}

func (r *serverReader) Read(ctx context.Context, h replicator.Handler) error {
	return r.fakeReader.Read(ctx, epochHandler{h, r})
}

func (r *serverReader) Includes(ctx context.Context, p replicator.Position, fence string) (bool, error) {
	p.Order -= inEpoch(p.Epoch(), 0)
	return r.fakeReader.Includes(ctx, p, fence)
}

// moved changes a row's Order and Version to the reader's epoch.
func (r *serverReader) moved(row *replicator.Row) {
	if row != nil {
		row.Order = inEpoch(r.epoch, row.Order)
		row.Version = row.Order
	}
}

func (r *serverReader) Newest(ctx context.Context, cells []replicator.Cell, bytes int64) (
	[]*replicator.Row, int64, error) {
	rows, asOf, err := r.fakeReader.Newest(ctx, cells, bytes)
	for _, row := range rows {
		r.moved(row)
	}
	return rows, inEpoch(r.epoch, asOf), err
}

func (r *serverReader) Scan(ctx context.Context, table string, columns []string, after string,
	limit replicator.ScanLimit) (replicator.Chunk, error) {
	chunk, err := r.fakeReader.Scan(ctx, table, columns, after, limit)
	for _, row := range chunk.Rows {
		r.moved(row)
	}
	chunk.Low, chunk.High = inEpoch(r.epoch, chunk.Low), inEpoch(r.epoch, chunk.High)
	return chunk, err
}

type epochHandler struct {
	replicator.Handler
	r *serverReader
}

func (h epochHandler) Change(ctx context.Context, c *replicator.Change) error {
	again := c.Order < h.r.again
	c.Order = inEpoch(h.r.epoch, c.Order)
	c.Version = c.Order
	h.r.moved(c.Row)
	if again {
		c.Kind, c.Row, c.Version, c.Last = replicator.Delete, nil, math.MaxInt64, false
	}
	return h.Handler.Change(ctx, c)
}

func (h epochHandler) Commit(order int64, at time.Time) {
	h.Handler.Commit(inEpoch(h.r.epoch, order), at)
}

// rivals are two replicators of one view, each with its own server and store.
type rivals struct {
	t      *testing.T
	source *fakeSource
	sink   *sinktest.Reference
	stores [2]*memoryStore
	value  int
}

func newRivals(t *testing.T) *rivals {
	s := newFakeSource()
	s.single = true
	return &rivals{t: t, source: s, sink: sinktest.NewReference(), stores: [2]*memoryStore{newMemoryStore(), newMemoryStore()}}
}

// pipeline returns the pipeline of the i-th replicator, reading from a server.
func (r *rivals) pipeline(i int, server string, views ...string) *pipeline.Pipeline {
	return newPipeline(fakeServer{r.source, server}, r.sink, r.stores[i], views...)
}

func (r *rivals) start(i int, server string) *started { return start(r.pipeline(i, server, "a")) }

// update changes every row.
func (r *rivals) update() {
	r.value++
	for key := range int64(5) {
		r.source.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: fmt.Sprint(r.value)}})
	}
}

// isIn waits until the view is in a state. It fails the test if that takes too long.
func (r *rivals) isIn(s *started, state string, within time.Duration) replicator.ViewStatus {
	r.t.Helper()
	began := time.Now()
	for {
		st := s.Status(nil)[0]
		if st.State == state {
			return st
		}
		if time.Since(began) > within {
			r.t.Fatalf("after %s the view is %s (%s), not %s", within, st.State, st.Error, state)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *rivals) epoch() int {
	marks, _ := r.sink.Marks(context.Background(), "")
	return marks[0].Position.Epoch()
}

// A second replicator runs on another server for a while. From then on, the first one's puts are stale, and its status
// must say so, even if it has nothing to write. While both run, they must not take the view from each other. Once the
// second one has ended, the first one continues automatically, and writes what was stale.
func TestAReplicatorThatWasOvertakenSaysSoAndGoesOnOnceTheOtherHasEnded(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprint("idle: ", idle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRivals(t)
				r.update()
				first := r.start(0, "A")
				first.caughtUp(t, r.source)
				second := r.start(1, "B")
				second.caughtUp(t, r.source)
				if !idle {
					r.update()
				}
				st := r.isIn(first, replicator.StateFailed, 10*time.Second)
				if !strings.Contains(st.Error, "another replicator") {
					t.Errorf("it failed with %s", st.Error)
				}
				for range 60 {
					if !idle {
						r.update()
					}
					time.Sleep(time.Minute)
				}
				r.isIn(first, replicator.StateFailed, 0)
				r.isIn(second, replicator.StateRunning, 0)
				if got := r.epoch(); got != 1 {
					t.Errorf("after an hour the view is in epoch %d", got)
				}
				holds(t, r.source, r.sink, "a")

				second.stopped(t)
				if idle {
					time.Sleep(time.Hour)
					r.isIn(first, replicator.StateFailed, 0) // nothing new to write yet
				}
				r.update()
				r.isIn(first, replicator.StateRunning, 2*time.Minute)
				first.caughtUp(t, r.source)
				holds(t, r.source, r.sink, "a")
				first.stopped(t)
			})
		})
	}
}

// A replicator that starts takes a view over at once, with a new state directory or an older one.
func TestAStartTakesAViewOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t)
		r.update()
		first := r.start(0, "A")
		first.caughtUp(t, r.source)
		first.stopped(t)
		for i, server := range []string{"B", "A"} {
			r.update()
			moved := r.start(1, server)
			moved.caughtUp(t, r.source)
			moved.stopped(t)
			if got := r.epoch(); got != i+1 {
				t.Errorf("on server %s it is epoch %d", server, got)
			}
		}
		again := r.start(0, "A") // its store has a position of server A, and none of server B
		r.update()
		again.caughtUp(t, r.source)
		holds(t, r.source, r.sink, "a")
		if got := r.epoch(); got != 2 {
			t.Errorf("on the server that it was on last it is epoch %d", got)
		}
		again.stopped(t)
	})
}

// A replicator that moves to a server continues, together with another one that already reads from that server.
func TestAReplicatorFollowsAnotherToItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t)
		r.update()
		first := start(r.pipeline(0, "A", "a"))
		first.caughtUp(t, r.source)
		address := &fakeServer{r.source, "A"}
		both := start(newPipeline(movingServer{address}, r.sink, r.stores[1], "a"))
		both.caughtUp(t, r.source)
		first.stopped(t)
		third := r.start(0, "B")
		third.caughtUp(t, r.source)
		address.name = "B"
		r.update()
		time.Sleep(10 * time.Second) // long enough for a refused mark, shorter than standstill
		r.isIn(both, replicator.StateRunning, 0)
		both.caughtUp(t, r.source)
		third.caughtUp(t, r.source)
		r.isIn(third, replicator.StateRunning, 0)
		if got := r.epoch(); got != 1 {
			t.Errorf("it is epoch %d", got)
		}
		holds(t, r.source, r.sink, "a")
		both.stopped(t)
		third.stopped(t)
	})
}

// movingServer is an address that may lead to another server later.
type movingServer struct{ *fakeServer }

// If another replicator takes over one view, the sink's other views continue. A rebuild takes the view back at once, by
// swap or in place.
func TestARebuildTakesOverAViewThatAnotherReplicatorHad(t *testing.T) {
	for _, mode := range []pipeline.RebuildMode{pipeline.BySwap, pipeline.InPlace} {
		for _, lives := range []bool{false, true} {
			t.Run(fmt.Sprint("mode ", mode, ", the other one lives: ", lives), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newRivals(t).rebuild(mode, lives) })
			})
		}
	}
}

func (r *rivals) rebuild(mode pipeline.RebuildMode, lives bool) {
	t := r.t
	r.update()
	first := start(r.pipeline(0, "A", "a", "b"))
	first.caughtUp(t, r.source)
	second := r.start(1, "B")
	second.caughtUp(t, r.source)
	r.update()
	r.isIn(first, replicator.StateFailed, 10*time.Second)
	if !lives {
		second.stopped(t)
	}
	r.update()
	time.Sleep(time.Second)
	if st := first.Status(nil)[1]; st.State != replicator.StateRunning {
		t.Errorf("the other view is %s (%s)", st.State, st.Error)
	}
	holds(t, r.source, r.sink, "b")
	first.rebuild(t, mode, "a")
	r.isIn(first, replicator.StateRunning, 20*time.Second)
	if lives {
		r.isIn(second, replicator.StateFailed, 10*time.Second)
	}
	for range 10 {
		r.update()
		time.Sleep(time.Minute)
	}
	r.isIn(first, replicator.StateRunning, 0)
	first.caughtUp(t, r.source)
	holds(t, r.source, r.sink, "a")
	holds(t, r.source, r.sink, "b")
	if got := r.epoch(); got != 2 {
		t.Errorf("it is epoch %d", got)
	}
	first.stopped(t)
	if lives {
		second.stopped(t)
	}
}

// The tail of a rebuild in place begins at the view's position, and the scan at the log's present end. The epoch of
// that end also depends on other views' positions. The tail must begin in that epoch, or it would never reach the end.
func TestARebuildInPlaceBeginsInTheEpochOfOtherViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t)
		r.update()
		p := start(r.pipeline(0, "A", "a"))
		p.caughtUp(t, r.source)
		r.stores[0].checkpoints["elsewhere"] = replicator.Checkpoint{View: "elsewhere", Fingerprint: "1",
			Standing: replicator.Standing{Position: fakeServer{r.source, "A"}.at(2, 1000)}}
		p.rebuild(t, pipeline.InPlace, "a")
		r.isIn(p, replicator.StateRunning, 10*time.Second)
		p.stopped(t)
		holds(t, r.source, r.sink, "a")
	})
}

// halfMarked is a sink of two parts. Another replicator marked only one of them before it was killed.
type halfMarked struct {
	*sinktest.Reference
	by replicator.Position
}

type halfMarkedTarget struct {
	replicator.Target
	by replicator.Position
}

func (s halfMarked) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.Reference.Open(ctx, source, views)
	return halfMarkedTarget{t, s.by}, err
}

func (t halfMarkedTarget) Mark(ctx context.Context, at replicator.Standing) error {
	if at.Position.Epoch() < t.by.Epoch() {
		return &replicator.Overtaken{View: "a", By: t.by}
	}
	return t.Target.Mark(ctx, at)
}

// A sink with parts reports the lowest mark of its parts. So the mark may hide a higher epoch that one part has.
func TestAnEpochThatAPartOfTheSinkHasIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t)
		r.update()
		half := halfMarked{r.sink, fakeServer{r.source, "B"}.at(1, 1000)}
		p := start(newPipeline(fakeServer{r.source, "A"}, half, r.stores[0], "a"))
		r.isIn(p, replicator.StateRunning, 10*time.Second)
		p.caughtUp(t, r.source)
		holds(t, r.source, r.sink, "a")
		if got := r.epoch(); got != 2 {
			t.Errorf("it is epoch %d", got)
		}
		p.stopped(t)
	})
}
