package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestNewestReadsTheHighestVersionOfEachCell(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL, "CREATE TABLE fav (user VARCHAR(20) COLLATE utf8mb4_bin, object VARCHAR(20) CHARACTER SET latin1, cnt INT, PRIMARY KEY(user, object))",
			"CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT, k DECIMAL(10,2), v DATETIME(6), state JSON)",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('a','x',1,'1'),('a','x',3,'3'),('a','x',2,'2'),('a','y',9,'9'),('b','x',5,NULL)",
			"INSERT INTO fav VALUES ('u', 'é', 1), ('U', 'e', 2), ('v', 'o', 3)",
			"INSERT INTO log(k, v, state) VALUES (1.50, '2024-01-02 03:04:05.678901', '{\"a\": 1}'), (1.50, '2024-01-02 03:04:05.678901', '{\"a\": 2}'), (1.5, '2023-01-01', '3'), (2, NULL, '4')")
		src := b.source(cellTable(), replicator.Table{Name: "fav", Key: []string{"user"}, Column: "object",
			Columns: []string{"cnt"}},
			replicator.Table{Name: "log", Key: []string{"k"}, Version: "v", Body: "state"})
		r := b.open(src, b.latest(src))
		cell := func(table, column string, key ...any) replicator.Cell {
			k, err := replicator.MakeKey(key...)
			if err != nil {
				t.Fatal(err)
			}
			return replicator.Cell{Table: table, Key: k, Column: column}
		}
		pad := func(s string) []byte { return binlog.Padded([]byte(s), 16) }
		cells := []replicator.Cell{cell("cell", "x", pad("a")), cell("fav", "é", "u"), cell("cell", "none", pad("a")),
			cell("cell", "y", pad("a")),
			cell("cell", "x", pad("b")), cell("fav", "e", "u"), cell("fav", "e", "U"),
			cell("log", "", replicator.Number("1.50")), cell("log", "", "2.00"), cell("fav", "E", "U")}
		rows, asOf, err := r.Newest(testContext(t), cells, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"v3 3", "none", "none", "v9 9", "v5 <nil>", "single 1", "single 2",
			"v1704164645678901 {\"a\": 2}", "error", "none"}
		for i, row := range rows {
			var got string
			switch {
			case row == nil:
				got = "none"
			case row.Cell != cells[i]:
				got = "of another cell: " + row.Cell.String()
			case row.Err != nil:
				got = "error"
			case row.Cell.Table == "fav":
				got = fmt.Sprintf("single %v", row.Columns[0])
				if row.Version != asOf || row.Order != asOf {
					t.Errorf("%s: version %d and order %d, want %d", row.Cell, row.Version, row.Order, asOf)
				}
			case row.Body == nil:
				got = fmt.Sprintf("v%d <nil>", row.Version)
			default:
				got = fmt.Sprintf("v%d %s", row.Version, row.Body)
			}
			if got != want[i] {
				t.Errorf("%s: %s, want %s", cells[i], got, want[i])
			}
		}
		if p := b.latest(src); asOf > p.Order {
			t.Errorf("as of %d, the end is %d", asOf, p.Order)
		}
	})
}

// An event may arrive before its row is visible to SELECT. A look that starts immediately must include the row anyway.
func TestNewestIncludesWhatTheBinlogHas(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE c (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v INT NOT NULL, KEY(k, v))")
		src := b.source(replicator.Table{Name: "c", Key: []string{"k"}, Version: "v", Offset: []string{"id"}})
		r := b.open(src, b.latest(src))
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		looks := &looker{t: t, reader: r, recorder: newRecorder(), plain: b.db, wanted: 300, turn: make(chan struct{}, 4)}
		for range cap(looks.turn) {
			looks.turn <- struct{}{}
		}
		stop := b.load(ctx, cap(looks.turn), func(ctx context.Context, db *sql.DB, worker, n int) error {
			select {
			case <-looks.turn:
			case <-ctx.Done():
				return ctx.Err()
			}
			_, err := db.ExecContext(ctx, "INSERT INTO c(k, v) VALUES (?, ?)", worker, n)
			return err
		})
		if err := r.Read(ctx, looks); !errors.Is(err, errLooked) {
			t.Errorf("after %d looks: %v", looks.looked, err)
		}
		cancel()
		stop()
		t.Logf("%d looks, a plain SELECT would have been wrong %d times", looks.looked, looks.early)
	})
}

// Another table may replace a watched table after a look took its fence and before it reads rows. The look must find
// the rows that were copied into the new table.
func TestALookFindsWhatWasCopiedIntoATableThatTookAnothersPlace(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		src := b.source(replicator.Table{Name: "t", Key: []string{"id"}})
		r := b.open(src, b.latest(src))
		conn, err := r.connect(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		f, err := r.present(testContext(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		b.exec("CREATE TABLE copy LIKE t", "INSERT INTO copy SELECT * FROM t", "RENAME TABLE t TO gone, copy TO t")
		key, _ := replicator.MakeKey(int64(1))
		l := &look{fence: f, cells: []replicator.Cell{{Table: "t", Key: key}}, rows: make([]*replicator.Row, 1)}
		if err := r.lookAt(testContext(t), conn, l, 1); err != nil || l.rows[0] == nil {
			t.Errorf("%v, %v", l.rows[0], err)
		}
	})
}

// load runs statements from several connections until ctx is done.
func (b *bench) load(ctx context.Context, workers int, f func(ctx context.Context, db *sql.DB, worker,
	n int) error) (stop func()) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; ctx.Err() == nil; n++ {
				if err := f(ctx, b.db, w, n); err != nil && ctx.Err() == nil {
					b.t.Errorf("load: %v", err)
					return
				}
			}
		}()
	}
	return wg.Wait
}

// looker is a handler that reads each inserted cell with Newest immediately, in the reader's goroutine. It ends reading
// after the wanted number of looks.
type looker struct {
	t      *testing.T
	reader *Reader
	*recorder
	plain                 *sql.DB
	looked, early, wanted int
	// each element allows one insert; inserts don't run ahead, so every look is at the binlog's end
	turn chan struct{}
}

// errLooked ends a looker's reading.
var errLooked = errors.New("looked often enough")

func (l *looker) Change(ctx context.Context, c *replicator.Change) error {
	if c.Kind != replicator.Insert {
		return nil
	}
	var id sql.NullInt64
	key, _ := c.Cell.Key.Values()
	if err := l.plain.QueryRowContext(ctx, "SELECT MAX(v) FROM c WHERE k = ?",
		key[0]).Scan(&id); err == nil && id.Int64 < c.Version {
		l.early++
	}
	rows, asOf, err := l.reader.Newest(ctx, []replicator.Cell{c.Cell}, 0)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.looked++
	switch {
	case err != nil:
		l.t.Errorf("look: %v", err)
	case asOf < c.Order:
		l.t.Errorf("a look after the change at %d is as of %d", c.Order, asOf)
	case rows[0] == nil:
		l.t.Errorf("%s: nothing is there", c.Cell)
	case rows[0].Version < c.Version: // a later version may be there already
		l.t.Errorf("%s: the look shows version %d, the change before it was %d", c.Cell, rows[0].Version, c.Version)
	}
	if l.t.Failed() || l.looked == l.wanted {
		return errLooked
	}
	l.turn <- struct{}{}
	return nil
}

func TestScanFiltersColumnsAndKeepsToBytes(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL)
		for i := range 30 {
			b.exec(fmt.Sprintf("INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k%d', '%s', 1, REPEAT('x', 1000))", i, []string{"users", "Users", "c"}[i%3]))
		}
		src := b.source(cellTable())
		r := b.open(src, b.latest(src))
		var got []string
		for after, done, chunks := "", false, 0; !done; chunks++ {
			chunk, err := r.Scan(testContext(t), "cell", []string{"users", "c"}, after,
				replicator.ScanLimit{Rows: 20, Bytes: 5000})
			if err != nil {
				t.Fatal(err)
			}
			if len(chunk.Rows) > 5 {
				t.Errorf("%d rows of 1,000 bytes in a chunk of 5,000", len(chunk.Rows))
			}
			for _, row := range chunk.Rows {
				got = append(got, row.Cell.Column)
			}
			after, done = chunk.Next, chunk.Done
		}
		slices.Sort(got)
		if len(got) != 30 || got[0] != "c" || got[9] != "c" || got[10] != "users" { // 'Users' equals 'users'

			t.Errorf("columns %q", got)
		}
	})
}
