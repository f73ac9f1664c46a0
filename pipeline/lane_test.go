package pipeline

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
)

// laneOf is a running lane. Each of its batches waits until the test sends on pass.
type laneOf struct {
	*lane
	batches chan []int64 // the keys of a batch, as it begins
	pass    chan struct{}
}

func startLane(t *testing.T) *laneOf {
	l := &laneOf{batches: make(chan []int64, 100), pass: make(chan struct{})}
	l.lane = newLane(newBudget(1<<30, 1), &reach{}, func(_ context.Context, batch []pending) error {
		var keys []int64
		for i := range batch {
			values, err := batch[i].cell.Key.Values()
			if err != nil {
				return err
			}
			keys = append(keys, values[0].(int64))
		}
		l.batches <- keys
		<-l.pass
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.run(ctx, nil) }()
	t.Cleanup(func() { stop(); close(l.pass); <-ended })
	return l
}

// put adds changes of one transaction, and commits it.
func (l *laneOf) put(t *testing.T, order int64, keys ...int64) {
	t.Helper()
	for _, k := range keys {
		key, err := replicator.MakeKey(k)
		if err != nil {
			t.Fatal(err)
		}
		cell := replicator.Cell{Table: "t", Key: key}
		row := &replicator.Row{Cell: cell, Version: order, Order: order}
		at := time.Unix(order, 0)
		l.add(&replicator.Change{Kind: replicator.Insert, Cell: cell, Version: order, Order: order, Time: at, Row: row}, 1)
	}
	l.reach.commit(order, time.Time{})
}

func between(first, last int64) (keys []int64) {
	for k := first; k <= last; k++ {
		keys = append(keys, k)
	}
	return keys
}

// The changes that have waited longest are applied first, so the position advances with each batch of a backlog.
func TestALaneAppliesInTheOrderOfFirstChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLane(t)
		l.put(t, 1, 0)
		synctest.Wait() // the batch is in flight, so later changes wait
		l.put(t, 2, between(1, maxBatch)...)
		l.put(t, 3, between(maxBatch+1, 2*maxBatch)...)
		l.put(t, 4, 1, 2*maxBatch+1) // cell 1 is waiting, so its change merges with that one
		all := l.applied()
		for i, want := range []struct {
			keys []int64
			low  int64 // while the batch is in flight
		}{
			{[]int64{0}, 0},
			{between(1, maxBatch), 1},
			{between(maxBatch+1, 2*maxBatch), 2},
			{[]int64{2*maxBatch + 1}, 3},
		} {
			synctest.Wait()
			if keys := <-l.batches; !slices.Equal(keys, want.keys) {
				t.Fatalf("batch %d: %d cells from %d on, not %d from %d on", i, len(keys), keys[0],
					len(want.keys), want.keys[0])
			}
			if low := l.low(l.reach.committed.Load()); low != want.low {
				t.Errorf("batch %d: everything up to %d has been applied, not up to %d", i, low, want.low)
			}
			if since := l.since(); since.Unix() != want.low+1 {
				t.Errorf("batch %d: the oldest change is of %d", i, since.Unix())
			}
			select {
			case <-all:
				t.Fatalf("batch %d: all is said to be applied", i)
			default:
			}
			l.pass <- struct{}{}
		}
		synctest.Wait()
		<-all
		if low := l.low(4); low != 4 || l.applied() != nil || !l.since().IsZero() {
			t.Errorf("in the end the low water is %d", low)
		}
	})
}

// The memory of a batch is reused, but not while any of its changes is pending or in flight.
func TestAHotCellIsOneWriteABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLane(t)
		order := int64(0)
		for range 5 {
			for range 1000 {
				order++
				l.put(t, order, 7, order%3+100)
			}
			synctest.Wait()
			keys := <-l.batches
			if slices.Sort(keys); len(keys) > 4 || len(slices.Compact(keys)) != len(keys) {
				t.Errorf("a batch of the cells %d", keys)
			}
			l.pass <- struct{}{}
			synctest.Wait()
		}
		if n := cap(l.waiting.spare) * maxBatch; n > (spareBatches+1)*maxBatch {
			t.Errorf("room for %d changes is kept", n)
		}
	})
}
