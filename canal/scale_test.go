package canal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Whatever the compression ratio, rows of compressed data get distinct, rising addresses, as long as there are at most
// half as many rows as bytes. With more rows, addresses still never fall or leave the event, and row reports a shared
// address.
func TestRowsOfCompressedDataHaveRisingPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		bytes, base := 1+rng.Int64N(400), rng.Int64N(1<<33)
		offsets := []int64{0}
		for range rng.IntN(600) {
			size := 1 + rng.Int64N(9)
			if rng.IntN(10) == 0 {
				size += rng.Int64N(1 << 30)
			}
			offsets = append(offsets, offsets[len(offsets)-1]+size)
		}
		data := offsets[len(offsets)-1] + 1 + rng.Int64N(100)
		places := func() (at []int64, own []bool) {
			s := compressed(base, bytes, data)
			for _, off := range offsets {
				inner := s
				inner.offset = off / 2 // as for inner events
				a, o := inner.row(int(off - off/2))
				at, own = append(at, a), append(own, o)
			}
			return at, own
		}
		at, own := places()
		again, _ := places()
		if !slices.Equal(at, again) {
			t.Fatal("the same data has other places in a replay")
		}
		if at[0] < base || at[len(at)-1] >= base+bytes || !slices.IsSorted(at) {
			t.Fatalf("places %v of data at %d, %d bytes", at, base, bytes)
		}
		for i := range at {
			alone := (i == 0 || at[i-1] != at[i]) && (i == len(at)-1 || at[i+1] != at[i])
			if own[i] && !alone {
				t.Fatalf("row %d of %d shares place %d, and does not say so", i, len(at), at[i])
			}
			if !own[i] && int64(len(offsets)) < bytes/2 {
				t.Fatalf("%d rows in %d bytes share places", len(offsets), bytes)
			}
		}
	}
}

func TestOrdersRiseInCompressedTransactions(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		var args []string
		if kind.IsMariaDB() {
			args = []string{"--log-bin-compress=ON", "--log-bin-compress-min-len=10"}
		}
		b := newBench(t, servertest.Own(t, kind, args...))
		b.exec("CREATE TABLE note (id INT PRIMARY KEY, text LONGTEXT)", "INSERT INTO note VALUES (1, 'a'), (2, ''), (3, '')")
		src := b.source(replicator.Table{Name: "note", Key: []string{"id"}, Offset: []string{"id"}})
		on := "SELECT 1"
		compresses(t, b)
		if !kind.IsMariaDB() {
			on = "SET SESSION binlog_transaction_compression = ON"
		}
		transaction := func(statements ...string) []replicator.Change {
			t.Helper()
			from := b.latest(src)
			b.session(slices.Concat([]string{on, "BEGIN"}, statements, []string{"COMMIT"})...)
			got := b.changes(src, from)
			again := b.changes(src, from)
			end := b.latest(src).Order
			for i := range got {
				if got[i].Order >= end || again[i].Order != got[i].Order {
					t.Errorf("change %d is at %d, in a replay at %d, its transaction ends at %d", i, got[i].Order, again[i].Order, end)
				}
			}
			return got
		}

		// A key is deleted and inserted again next to data that compresses well. If the DELETE and the INSERT had the
		// same Order, the row would be gone.
		got := transaction("UPDATE note SET text = REPEAT('a', 4000000) WHERE id = 2", "DELETE FROM note WHERE id = 1",
			"INSERT INTO note VALUES (1, 'b')", "UPDATE note SET id = id + 10 ORDER BY id DESC",
			"UPDATE note SET id = 12 - id ORDER BY id")
		for i := 1; i < len(got); i++ {
			if got[i].Order <= got[i-1].Order {
				t.Errorf("change %d (%s) is at %d, the one before at %d", i, got[i].Kind, got[i].Order, got[i-1].Order)
			}
		}

		// With more rows than bytes, rows share Orders. Re-reads then find what Orders can't tell.
		var many []string
		for range 1500 {
			many = append(many, "DELETE FROM note WHERE id = 99", "INSERT INTO note VALUES (99, '')")
		}
		got = transaction(slices.Concat([]string{"INSERT INTO note VALUES (99, '')"}, many,
			[]string{"DELETE FROM note WHERE id = 99"})...)
		if len(got) != 2+len(many) {
			t.Fatalf("%d changes", len(got))
		}
		looks := 0
		for i := 1; i < len(got); i++ {
			if got[i].Order < got[i-1].Order || got[i].Last && got[i].Order == got[i-1].Order {
				t.Fatalf("change %d (%s, last: %t) is at %d, the one before at %d", i, got[i].Kind, got[i].Last,
					got[i].Order, got[i-1].Order)
			}
			if got[i].Kind == replicator.Delete && !got[i].Last {
				looks++
			}
		}
		t.Log(strings.TrimSpace(fmt.Sprintf("%d of %d deletes are looked at", looks, len(got)/2)))
	})
}
