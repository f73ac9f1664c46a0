package changelog

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

func TestATableKnowsTheNewestRecordOfEveryCell(t *testing.T) {
	dir := t.TempDir()
	table := NewTable(dir)
	cell := func(n int64) replicator.Cell { return replicator.Cell{Table: "t", Key: key(t, n)} }
	record := func(offset, n int64, r Record) *kgo.Record {
		r.Cell = cell(n)
		out := Encode(&r)
		out.Partition, out.Offset = 3, offset
		return out
	}
	mark := EncodeMark(&Mark{View: "v"})
	mark.Partition, mark.Offset = 3, 9
	err := table.Add("", []*kgo.Record{
		record(1, 1, Record{State: replicator.State{Version: 1, Order: 1}, Row: &replicator.Row{}}),
		record(2, 2, Record{State: replicator.State{Version: 2, Order: 2}, Dead: "too long"}),
		record(3, 1, Record{State: replicator.State{Version: -1, Order: 5, AsOf: 5}}), mark,
	})
	if err != nil {
		t.Fatal(err)
	}
	if table.Next(3) != 10 || table.Next(0) != 0 {
		t.Errorf("reading goes on at %d and %d", table.Next(3), table.Next(0))
	}
	var got []Entry
	keys := [][]byte{AppendKey(nil, cell(1)), AppendKey(nil, cell(2)), AppendKey(nil, cell(7))}
	if err := table.Get(keys, func(_ int, e Entry, _ bool) { e.Value = nil; got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{State: replicator.State{Version: -1, Order: 5, AsOf: 5}, Partition: 3, Offset: 3},
		{State: replicator.State{Version: 2, Order: 2}, Dead: true, Partition: 3, Offset: 2}, {State: replicator.Unseen},
	}
	if len(got) != 3 || got[0].State != want[0].State || !got[1].Dead || got[1].Offset != 2 ||
		got[2].State != want[2].State {
		t.Errorf("got %+v, want %+v", got, want)
	}
	list := func(after []byte) (found []string) {
		if err := table.Walk(after, func(key []byte, _ Entry) bool {
			found = append(found, string(key))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := list(nil); !slices.Equal(found, []string{string(keys[0]), string(keys[1])}) {
		t.Errorf("it has %q", found)
	}
	if found := list(keys[0]); !slices.Equal(found, []string{string(keys[1])}) {
		t.Errorf("after the first it has %q", found)
	}
	if err := table.Add("", []*kgo.Record{{Key: []byte("x")}}); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a record of another form: %v", err)
	}
	// A program that is killed leaves nothing behind: a table may be as large as its topic.
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("while it is in use there are %v, %v", left, err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
}
