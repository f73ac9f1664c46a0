package canal

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// scanned is the result of a whole scan.
type scanned struct {
	rows   map[replicator.Cell][]int64 // versions; -1: an invalid version
	count  int
	passed int
	chunks int
	walked bool
}

func (b *bench) wholeScan(r *Reader, table string, columns []string, limit replicator.ScanLimit) scanned {
	b.t.Helper()
	s := scanned{rows: map[replicator.Cell][]int64{}}
	for after, done := "", false; !done; s.chunks++ {
		chunk, err := r.Scan(testContext(b.t), table, columns, after, limit)
		if err != nil {
			b.t.Fatal(err)
		}
		if chunk.Passed == 0 && !chunk.Done || chunk.Passed > limit.Rows || s.chunks > 10_000 || chunk.Low > chunk.High {
			b.t.Fatalf("chunk %d: passes %d rows of at most %d, from %d to %d", s.chunks, chunk.Passed, limit.Rows, chunk.Low,
				chunk.High)
		}
		for _, row := range chunk.Rows {
			v := row.Version
			if row.Err != nil {
				v = -1
			}
			s.rows[row.Cell] = append(s.rows[row.Cell], v)
			s.count++
		}
		s.passed += chunk.Passed
		s.walked = s.walked || strings.HasPrefix(chunk.Next, walkPlace)
		after, done = chunk.Next, chunk.Done
	}
	return s
}

// newest returns the highest version of each cell.
func (s scanned) newest() map[replicator.Cell]int64 {
	out := map[replicator.Cell]int64{}
	for cell, versions := range s.rows {
		out[cell] = slices.Max(versions)
	}
	return out
}

func TestScanLeavesOutWhatIsNotTheNewest(t *testing.T) {
	cases := []struct {
		name, ddl string
		table     replicator.Table
		insert    string // %[1]d: the row's number, %[2]d: the entity's number, %[3]d: the version
		walks     bool
	}{
		{"seed", cellDDL, cellTable(), "(NULL, SHA2(%[2]d, 0) + '' , 'users', %[3]d, 'x', NULL)", true},
		{"without a column", "CREATE TABLE x (id INT PRIMARY KEY, k BIGINT NOT NULL, v INT UNSIGNED NOT NULL, UNIQUE(k, v))",
			replicator.Table{Key: []string{"k"}, Version: "v"}, "(%[1]d, %[2]d, %[3]d)", true},
		{"key and column the other way round",
			"CREATE TABLE x (id INT PRIMARY KEY, k BINARY(4) NOT NULL, c VARCHAR(9) NOT NULL, v INT NOT NULL, UNIQUE(c, k, v))",
			replicator.Table{Key: []string{"k"}, Column: "c", Version: "v"}, "(%[1]d, %[2]d, 'c', %[3]d)", true},
		{"two key columns, the primary key last",
			"CREATE TABLE x (a CHAR(9) CHARACTER SET latin1 NOT NULL, b DECIMAL(9,2) NOT NULL, v BIGINT NOT NULL, PRIMARY KEY(v, b, a), KEY(a, b))",
			replicator.Table{Key: []string{"b", "a"}, Version: "v"}, "(CONCAT('é', %[2]d), %[2]d.5, %[3]d)", true},
		{"the primary key", "CREATE TABLE x (k VARCHAR(20) NOT NULL, v TIMESTAMP(3) NOT NULL, PRIMARY KEY(k, v))",
			replicator.Table{Key: []string{"k"}, Version: "v"}, "('k%[2]d', FROM_UNIXTIME(1700000000 + %[3]d))", true},
		{"a prefix only", "CREATE TABLE x (id INT PRIMARY KEY, k VARCHAR(20) NOT NULL, v INT NOT NULL, UNIQUE(k(3), v), UNIQUE(v, k))",
			replicator.Table{Key: []string{"k"}, Version: "v"}, "(%[1]d, %[2]d, %[3]d)", false},
		{"equal versions", "CREATE TABLE x (id INT PRIMARY KEY, k INT NOT NULL, v INT NOT NULL, KEY(k, v))",
			replicator.Table{Key: []string{"k"}, Version: "v"}, "(%[1]d, %[2]d, %[3]d)", false},
		{"an ENUM", "CREATE TABLE x (id INT PRIMARY KEY, k INT NOT NULL, c ENUM('z', 'a') NOT NULL, v INT NOT NULL, UNIQUE(k, c, v))",
			replicator.Table{Key: []string{"k"}, Column: "c", Version: "v"}, "(%[1]d, %[2]d, 1 + MOD(%[2]d, 2), %[3]d)", false},
	}
	const entities, versions = 23, 6
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b := &bench{t: t, server: b.server, database: b.database, db: b.db}
				if c.table.Name == "" {
					c.table.Name = "x"
				}
				c.insert = strings.Replace(c.insert, "SHA2(%[2]d, 0) + ''", "LEFT(SHA2(%[2]d, 256), 16)", 1)
				b.exec("DROP TABLE IF EXISTS "+c.table.Name, c.ddl)
				var values []string
				for i := range entities * versions {
					values = append(values, fmt.Sprintf(c.insert, i, i*7%entities, i))
				}
				b.exec("INSERT INTO " + c.table.Name + " VALUES " + strings.Join(values, ","))
				src := b.source(c.table)
				r := b.open(src, b.latest(src))
				got := b.wholeScan(r, c.table.Name, nil, replicator.ScanLimit{Rows: 20})
				if got.walked != c.walks || len(got.newest()) != entities {
					t.Fatalf("walked: %v; %d cells", got.walked, len(got.newest()))
				}
				if c.walks && got.count > entities+got.chunks || !c.walks && got.count != entities*versions ||
					got.passed != entities*versions {
					t.Errorf("%d rows of %d cells in %d chunks, %d passed", got.count, entities, got.chunks, got.passed)
				}
				for cell, v := range got.newest() {
					rows, _, err := r.Newest(testContext(t), []replicator.Cell{cell}, 0)
					if err != nil || rows[0] == nil || rows[0].Version != v {
						t.Fatalf("%s: version %d; a look says %+v, %v", cell, v, rows, err)
					}
				}
			})
		}
	})
}

// The server treats all of these keys as equal, and all of these columns. For the program, the columns are one column,
// too. Of a key, the scan returns the newest row of each spelling. The pipeline then decides which of these rows
// counts.
func TestScanTellsKeysApartThatAreSpeltInTwoWays(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, k VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, " +
			"c VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, v INT NOT NULL, UNIQUE(k, c, v))")
		want := map[string]int64{}
		v := int64(0)
		for range 5 {
			for _, cell := range []string{"a.u", "A.u", "a .u", "á.u", "a.U", "a.u ", "A.U", "b.u"} {
				v++
				k, c, _ := strings.Cut(cell, ".")
				b.exec(fmt.Sprintf("INSERT INTO x(k, c, v) VALUES ('%s', '%s', %d)", k, c, v))
				want[k+"."+strings.TrimSpace(strings.ToLower(c))] = v
			}
		}
		src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Column: "c", Version: "v"})
		for _, rows := range []int{16, 20, 1000} {
			got := b.wholeScan(b.open(src, b.latest(src)), "x", nil, replicator.ScanLimit{Rows: rows})
			newest := map[string]int64{}
			for cell, v := range got.newest() {
				newest[cell.Key.String()+"."+cell.Column] = v
			}
			if !got.walked || !maps.Equal(newest, want) {
				t.Errorf("by %d: walked %v, %v, want %v", rows, got.walked, newest, want)
			}
		}
		got := b.wholeScan(b.open(src, b.latest(src)), "x", []string{"u"}, replicator.ScanLimit{Rows: 20})
		if len(got.rows) != 5 {
			t.Errorf("of column u: %v", got.newest())
		}
	})
}

// A scan and the tail treat an invalid version alike.
func TestScanIsNotMisledByVersionsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		kind   string
		values []string
		want   int64
	}{
		{"INT", []string{"-5", "-3", "-4"}, -1},
		{"INT", []string{"-5", "0", "-3"}, 0},
		{"BIGINT UNSIGNED", []string{"5", "18446744073709551615", "7"}, -1},
		{"DATETIME", []string{"'1970-01-01 00:00:07'", "'0000-00-00'", "'1960-01-01'"}, 7_000_000},
		{"DATETIME", []string{"'1970-01-01 00:00:07'", "'2024-00-10'", "'1970-01-01 00:00:05'"}, 7_000_000},
	} {
		t.Run(c.kind+" "+strings.Join(c.values, " "), func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Server) {
				b := newBench(t, s)
				b.exec("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v " + c.kind +
					" NOT NULL, UNIQUE(k, v))")
				for k := range 3 {
					for _, v := range c.values {
						b.session("SET sql_mode = ''", fmt.Sprintf("INSERT INTO x(k, v) VALUES (%d, %s)", k, v))
					}
				}
				src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Version: "v"})
				got := b.wholeScan(b.open(src, b.latest(src)), "x", nil, replicator.ScanLimit{Rows: 100})
				if !got.walked || got.count != 3 || len(got.rows) != 3 {
					t.Fatalf("walked %v, %v", got.walked, got.rows)
				}
				for cell, v := range got.newest() {
					if v != c.want {
						t.Errorf("%s: %d, want %d", cell, v, c.want)
					}
				}
			})
		})
	}
}

func TestScanKeepsToBytesWhereItLeavesRowsOut(t *testing.T) {
	s := servertest.MySQL(t)
	b := newBench(t, s)
	b.exec(cellDDL)
	for i := range 120 {
		b.exec(fmt.Sprintf("INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k%d', 'users', %d, REPEAT('x', 1000))", i%40, i))
	}
	src := b.source(cellTable())
	r := b.open(src, b.latest(src))
	seen := map[replicator.Cell]bool{}
	for after, done := "", false; !done; {
		chunk, err := r.Scan(testContext(t), "cell", nil, after, replicator.ScanLimit{Rows: 100, Bytes: 9000})
		if err != nil {
			t.Fatal(err)
		}
		if seen[firstCell(chunk)] || after != "" && len(chunk.Rows) > 8 {
			t.Errorf("%d rows of 1,000 bytes in a chunk of 9,000", len(chunk.Rows))
		}
		for _, row := range chunk.Rows {
			seen[row.Cell] = true
		}
		after, done = chunk.Next, chunk.Done
	}
	if len(seen) != 40 {
		t.Errorf("%d cells, want 40", len(seen))
	}
}

func firstCell(c replicator.Chunk) (cell replicator.Cell) {
	if len(c.Rows) > 0 {
		cell = c.Rows[0].Cell
	}
	return cell
}

func TestScanGoesOnWithoutTheIndexThatItBeganWith(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v INT NOT NULL, CONSTRAINT versions UNIQUE(k, v))")
		for i := range 60 {
			b.exec(fmt.Sprintf("INSERT INTO x(k, v) VALUES (%d, %d)", i%6, i))
		}
		src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Version: "v"})
		r := b.open(src, b.latest(src))
		limit := replicator.ScanLimit{Rows: 20}
		chunk, err := r.Scan(testContext(t), "x", nil, "", limit)
		if err != nil || !strings.HasPrefix(chunk.Next, walkPlace) {
			t.Fatalf("%+v, %v", chunk, err)
		}
		b.exec("ALTER TABLE x DROP INDEX versions")
		cells := map[replicator.Cell]int64{}
		for !chunk.Done {
			if chunk, err = r.Scan(testContext(t), "x", nil, chunk.Next, limit); err != nil {
				t.Fatal(err)
			}
			for _, row := range chunk.Rows {
				cells[row.Cell] = max(cells[row.Cell], row.Version)
			}
		}
		for cell, v := range cells {
			if len(cells) != 6 || v < 54 {
				t.Errorf("%s: version %d", cell, v)
			}
		}
	})
}

// However large a cell is, a chunk costs the same wherever it begins. So the server must not read a cell's versions
// again for each chunk.
func TestScanNeverWalksPastWhatItHasPassed(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec(cellDDL)
		const rows = 6000
		var values []string
		for i := range rows {
			values = append(values, fmt.Sprintf("('hot', 'users', %d)", i))
		}
		b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES " + strings.Join(values, ","))
		src := b.source(cellTable())
		r := b.open(src, b.latest(src))
		before := b.rowsRead()
		got := b.wholeScan(r, "cell", []string{"users"}, replicator.ScanLimit{Rows: 100})
		if read := b.rowsRead() - before; read > 2*rows {
			t.Errorf("the server read %d rows for %d", read, rows)
		}
		if got.passed != rows || len(got.rows) != 1 {
			t.Errorf("%d rows passed, %d cells", got.passed, len(got.rows))
		}
	})
}

// rowsRead returns how many rows the server has read from its tables.
func (b *bench) rowsRead() (n int64) {
	b.t.Helper()
	rows, err := b.db.Query("SHOW GLOBAL STATUS LIKE 'Innodb_rows_read'")
	if err != nil {
		b.t.Fatal(err)
	}
	var name string
	if err := eachRow(rows, func() error { return rows.Scan(&name, &n) }); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// follower computes the newest version of every cell by State.Next, from a tail and a scan at once, as a pipeline does.
type follower struct {
	*recorder
	reader *Reader
	mu     sync.Mutex
	states map[replicator.Cell]replicator.State
}

func (f *follower) apply(cell replicator.Cell, op replicator.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, ok := f.states[cell]
	if !ok {
		state = replicator.Unseen
	}
	f.states[cell], _ = state.Next(op)
}

func (f *follower) Change(ctx context.Context, c *replicator.Change) error {
	if c.Row != nil {
		f.apply(c.Cell, replicator.Op{Version: c.Version, Order: c.Order})
		return nil
	}
	f.mu.Lock()
	state, ok := f.states[c.Cell]
	f.mu.Unlock()
	if ok && c.Version < state.Version {
		return nil
	}
	rows, asOf, err := f.reader.Newest(ctx, []replicator.Cell{c.Cell}, 0)
	if err != nil {
		return err
	}
	op := replicator.Op{Version: replicator.NoVersion, AsOf: asOf}
	if rows[0] != nil {
		op.Version = rows[0].Version
	}
	f.apply(c.Cell, op)
	return nil
}

func (f *follower) newest() map[replicator.Cell]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[replicator.Cell]int64{}
	for cell, state := range f.states {
		if state.Version != replicator.NoVersion {
			out[cell] = state.Version
		}
	}
	return out
}

// While a scan leaves rows out, rows are inserted, moved and deleted. The scan and the tail together still give what
// the source has.
func TestScanAndTailConvergeWhileRowsAreLeftOut(t *testing.T) {
	const rounds, keys, preloaded = 4, 15, 300
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, k VARCHAR(9) COLLATE utf8mb4_bin NOT NULL, v INT NOT NULL, UNIQUE(k, v))")
		src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Version: "v", Offset: []string{"id"}})
		key := func() string { return []string{"k", "K"}[rand.IntN(2)] + fmt.Sprint(rand.IntN(keys)) }
		write := func(ctx context.Context, db *sql.DB, _, _ int) error {
			q := "INSERT IGNORE INTO x(k, v) VALUES (?, ?)"
			args := []any{key(), rand.IntN(1000)}
			switch rand.IntN(8) {
			case 0, 1:
				q, args = "DELETE FROM x WHERE BINARY k = ? ORDER BY v DESC LIMIT 1", args[:1]
			case 2:
				q, args = "DELETE FROM x WHERE BINARY k = ? ORDER BY v LIMIT 1", args[:1]
			case 3:
				q, args = "UPDATE IGNORE x SET v = ? WHERE BINARY k = ? ORDER BY v DESC LIMIT 1", []any{args[1], args[0]}
			case 4:
				q, args = "UPDATE IGNORE x SET k = ? WHERE BINARY k = ? ORDER BY v DESC LIMIT 1", []any{key(), args[0]}
			}
			// Without WithoutCancel, a cancelled statement might still be executed later.
			_, err := db.ExecContext(context.WithoutCancel(ctx), q, args...)
			return err
		}
		for round := range rounds {
			for range preloaded {
				b.exec(fmt.Sprintf("INSERT IGNORE INTO x(k, v) VALUES ('%s', %d)", key(), rand.IntN(1000)))
			}
			r := b.open(src, b.latest(src))
			f := &follower{recorder: newRecorder(), reader: r, states: map[replicator.Cell]replicator.State{}}
			ctx, cancel := context.WithCancel(testContext(t))
			writing, endWriting := context.WithTimeout(ctx, 300*time.Millisecond)
			stop := b.load(writing, 3, write)
			tail := make(chan struct{})
			go func() {
				defer close(tail)
				_ = r.Read(ctx, f)
			}()
			walked := false
			for after, done := "", false; !done; {
				chunk, err := r.Scan(ctx, "x", nil, after, replicator.ScanLimit{Rows: 40})
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range chunk.Rows {
					f.apply(row.Cell, replicator.Op{Version: row.Version, Order: row.Order})
				}
				walked = walked || strings.HasPrefix(chunk.Next, walkPlace)
				after, done = chunk.Next, chunk.Done
			}
			endWriting()
			stop()
			end := b.latest(src)
			for deadline := time.After(patience); f.last() < end.Order; {
				select {
				case <-f.news:
				case <-deadline:
					t.Fatal("the tail does not reach the end")
				}
			}
			cancel()
			<-tail
			want := map[replicator.Cell]int64{}
			rows, err := b.db.Query("SELECT CAST(k AS BINARY), MAX(v) FROM x GROUP BY CAST(k AS BINARY)")
			if err != nil {
				t.Fatal(err)
			}
			var k string
			var v int64
			if err := eachRow(rows, func() error {
				err := rows.Scan(&k, &v)
				key, _ := replicator.MakeKey(k)
				want[replicator.Cell{Table: "x", Key: key}] = v
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got := f.newest(); !walked || len(want) == 0 || !maps.Equal(got, want) {
				t.Fatalf("round %d: walked %v\n%v\nwant\n%v", round, walked, got, want)
			}
		}
	})
}

// MariaDB accepts the first second of 1970 as a TIMESTAMP, except for 00:00:00.0, which is the zero date.
func TestTheFirstSecondOf1970IsAVersionInTailAndScan(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		if !kind.IsMariaDB() {
			return
		}
		b := newBench(t, servertest.Shared(t, kind))
		b.exec("CREATE TABLE x (id INT PRIMARY KEY, k INT NOT NULL, v TIMESTAMP(3) NULL)")
		table := replicator.Table{Name: "x", Key: []string{"k"}, Version: "v", Columns: []string{"*"}}
		src := b.source(table)
		from := b.latest(src)
		for id, v := range []string{"1970-01-01 00:00:00.5", "1970-01-01 00:00:01", "0000-00-00 00:00:00"} {
			b.session("SET sql_mode = 'STRICT_ALL_TABLES'", "SET time_zone = '+00:00'",
				fmt.Sprintf("INSERT INTO x VALUES (%d, %d, '%s')", id, id, v))
		}
		b.sameInTailAndScan(src, from, []replicator.Table{table})
		for i, c := range b.changes(src, from) {
			if want := []int64{500_000, 1_000_000, 0}[i]; c.Row.Version != want || (c.Row.Err != nil) != (want == 0) {
				t.Errorf("row %d has the version %d (%v), want %d", i, c.Row.Version, c.Row.Err, want)
			}
		}
	})
}
