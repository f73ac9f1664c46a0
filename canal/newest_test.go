package canal

import (
	"fmt"
	"testing"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestNewestKeepsToBytes(t *testing.T) {
	const cells, body = 150, 20_000
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		other := cellTable()
		other.Name, other.Table = "other", "other"
		b.exec(cellDDL, "CREATE TABLE other LIKE cell")
		var asked []replicator.Cell
		for i := range cells {
			table, size := "cell", body
			switch {
			case i%3 == 0:
				table = "other"
			case i < 40:
				size = 1 // after small rows, a query asks for many cells, and then meets large rows
			}
			name := fmt.Sprintf("k%03d", i)
			if i%7 != 0 {
				b.exec(fmt.Sprintf("INSERT INTO %s(row_key, column_name, ref_key, body) VALUES ('%s', 'x', 1, REPEAT('y', %d))",
					table, name, size))
			}
			key, err := replicator.MakeKey(binlog.Padded([]byte(name), 16))
			if err != nil {
				t.Fatal(err)
			}
			asked = append(asked, replicator.Cell{Table: table, Key: key, Column: "x"})
		}
		src := b.source(cellTable(), other)
		r := b.open(src, b.latest(src))
		for _, bytes := range []int64{1, body, 10 * body, cells * body * 2, 0} {
			var rows []*replicator.Row
			reads := 0
			for ; len(rows) < cells; reads++ {
				some, _, err := r.Newest(testContext(t), asked[len(rows):], bytes)
				if err != nil || len(some) == 0 {
					t.Fatalf("%d rows for %d bytes: %v", len(some), bytes, err)
				}
				var size, largest int64
				for _, row := range some {
					if row != nil {
						size, largest = size+row.Size(), max(largest, row.Size())
					}
				}
				if bytes > 0 && size-largest >= bytes {
					t.Errorf("%d rows of %d bytes were read where %d bytes are enough", len(some), size, bytes)
				}
				rows = append(rows, some...)
			}
			for i, row := range rows {
				if there := i%7 != 0; there != (row != nil) || there && row.Cell != asked[i] {
					t.Fatalf("%d bytes: of cell %d, %s, it says %+v", bytes, i, asked[i], row)
				}
			}
			if bytes == 0 && reads != 1 || bytes == 10*body && reads < cells/2/11 {
				t.Errorf("%d reads for %d cells, %d bytes at a time", reads, cells, bytes)
			}
		}
		if _, _, err := r.Newest(testContext(t), []replicator.Cell{{Table: "nowhere"}}, 1); !replicator.IsFatal(err) {
			t.Errorf("a table that isn't configured: %v", err)
		}
	})
}
