package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"replicator"
)

func TestAWindowHoldsTheChunksCellsAlone(t *testing.T) {
	cell := func(n int64) replicator.Cell {
		key, err := replicator.MakeKey(n)
		if err != nil {
			t.Fatal(err)
		}
		return replicator.Cell{Table: "t", Key: key}
	}
	synctest.Test(t, func(t *testing.T) {
		var w window
		var committed atomic.Int64
		w.open()
		w.touch(&replicator.Change{Cell: cell(1), Order: 10}) // before the chunk's Low: the scan read this
		w.touch(&replicator.Change{Cell: cell(2), Order: 110})
		chunk := map[replicator.Cell]bool{cell(1): true, cell(2): true, cell(3): true}
		got := make(chan map[replicator.Cell]bool)
		go func() {
			touched, err := w.wait(context.Background(), 100, 1000, chunk, &committed)
			if err != nil {
				t.Error(err)
			}
			got <- touched
		}()
		synctest.Wait()
		for n := range int64(500) { // a backlog of the tail: changes of other cells, and old changes
			w.touch(&replicator.Change{Cell: cell(100 + n), Order: 200 + n})
			w.touch(&replicator.Change{Cell: cell(1), Order: 50})
		}
		w.touch(&replicator.Change{Cell: cell(3), Order: 900})
		if n := len(w.touched); n != 2 {
			t.Errorf("the window holds %d cells", n)
		}
		w.reached(1000)
		if touched := <-got; len(touched) != 2 || !touched[cell(2)] || !touched[cell(3)] {
			t.Errorf("touched: %v", touched)
		}
		w.close()
	})
}
