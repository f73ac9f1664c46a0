package mysql_test

import (
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// counter is a view of sums by city.
func counter(table string) *replicator.View {
	return &replicator.View{Name: table, Kind: "counter", From: from("cell.users"), Fields: fields("city", "amount"),
		Sum: "amount", Settings: mysql.Settings{Table: table}, Fingerprint: "1"}
}

// amountOp makes a cell contribute an amount to a city. If the city is "", the cell contributes nothing.
func amountOp(n int, version int64, city string, amount any) replicator.Op {
	op := userOp(n, version, 1)
	if city != "" {
		op.Values[0].Entries = []replicator.Entry{{Fields: []any{city, amount}}}
	}
	return op
}

func sumsIn(t testing.TB, db *sql.DB, table string) map[string]string {
	t.Helper()
	rows, err := db.Query("SELECT city, amount FROM " + table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	sums := map[string]string{}
	for rows.Next() {
		var city, amount string
		if err := rows.Scan(&city, &amount); err != nil {
			t.Fatal(err)
		}
		sums[city] = amount
	}
	return sums
}

func expectSums(t testing.TB, db *sql.DB, table string, want map[string]string) {
	t.Helper()
	if got := sumsIn(t, db, table); !maps.Equal(got, want) {
		t.Fatalf("%s holds %v, and not %v", table, got, want)
	}
}

// wrongGroups checks which groups of a counter have a wrong sum, each as GROUP KIND.
func wrongGroups(t testing.TB, target replicator.Target, want ...string) []replicator.Stray {
	t.Helper()
	strays, next, err := target.(replicator.Tidier).Strays(t.Context(), 0, "", 100)
	if err != nil || next != "" {
		t.Fatal(next, err)
	}
	var got []string
	for _, s := range strays {
		got = append(got, s.Name+" "+string(s.Kind))
	}
	if !slices.Equal(got, want) {
		t.Errorf("wrong groups: %v, and not %v", got, want)
	}
	return strays
}

func applyAll(t testing.TB, target replicator.Target, ops ...replicator.Op) replicator.Applied {
	t.Helper()
	a, err := target.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCounterSumsAreExactInTheColumnsType(t *testing.T) {
	for _, c := range []struct {
		name, typ string
		ops       [][]replicator.Op // batches
		want      map[string]string
		rejected  int // the number of ops, over all batches
	}{
		{"an unsigned column gives back what it took", "BIGINT UNSIGNED NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(5)), amountOp(2, 1, "Kyiv", int64(2)), amountOp(3, 1, "Lviv", int64(1))},
			{amountOp(1, 2, "Kyiv", int64(1)), amountOp(3, 2, "", nil)},
		}, map[string]string{"Kyiv": "3"}, 0},
		{"an amount that moves takes its group along", "INT UNSIGNED NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(5))}, {amountOp(1, 2, "Lviv", int64(5))},
		}, map[string]string{"Lviv": "5"}, 0},
		{"a step larger than the type", "TINYINT NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(-100))}, {amountOp(1, 2, "Kyiv", int64(100))},
		}, map[string]string{"Kyiv": "100"}, 0},
		{"amounts that cancel out leave no row", "INT NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(7)), amountOp(2, 1, "Kyiv", int64(-7))},
			{amountOp(3, 1, "Lviv", int64(7))}, {amountOp(4, 1, "Lviv", int64(-7))}, {amountOp(3, 2, "Lviv", int64(8))},
		}, map[string]string{"Lviv": "1"}, 0},
		{"decimals", "DECIMAL(40,2) NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", replicator.Number("0.10")), amountOp(2, 1, "Kyiv", replicator.Number("0.20")),
				amountOp(3, 1, "Lviv", replicator.Number("12345678901234567890123456789.01"))},
			{amountOp(4, 1, "Lviv", replicator.Number("-0.02")), amountOp(5, 1, "Kyiv", replicator.Number("0.001"))},
		}, map[string]string{"Kyiv": "0.30", "Lviv": "12345678901234567890123456788.99"}, 1},
		{"above the largest signed integer", "BIGINT UNSIGNED NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", uint64(1<<64-2))}, {amountOp(2, 1, "Kyiv", int64(1))}, {amountOp(3, 1, "Kyiv", int64(1))},
			{amountOp(4, 1, "Lviv", uint64(1<<64-1))}, {amountOp(4, 2, "Lviv", int64(3))},
		}, map[string]string{"Kyiv": "18446744073709551615", "Lviv": "3"}, 1},
		{"what a sum has no place for is rejected, and its old amount goes", "TINYINT NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(100)), amountOp(2, 1, "Kyiv", int64(20))}, {amountOp(2, 2, "Kyiv", int64(30)),
				amountOp(3, 1, "Lviv", int64(1))},
		}, map[string]string{"Kyiv": "100", "Lviv": "1"}, 1},
		{"less than nothing has no place in an unsigned column", "INT UNSIGNED NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(-1)), amountOp(2, 1, "Kyiv", int64(5))},
		}, map[string]string{"Kyiv": "5"}, 1},
		{"cities that the table takes for one", "INT NOT NULL", [][]replicator.Op{
			{amountOp(1, 1, "Kyiv", int64(1)), amountOp(2, 1, "KYIV", int64(2))}, {amountOp(1, 2, "", nil)},
		}, map[string]string{"KYIV": "2"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Server) {
				db, dsn := database(t, s,
					"CREATE TABLE c (city VARCHAR(50) COLLATE utf8mb4_general_ci PRIMARY KEY, amount "+c.typ+")")
				sink := newSink(t, dsn)
				target := openTarget(t, sink, counter("c"))
				rejected := 0
				for _, ops := range c.ops {
					rejected += len(applyAll(t, target, ops...).Rejected)
					for _, op := range ops { // a replay adds nothing
						op.Rewrite = true
						applyAll(t, target, op)
					}
				}
				if rejected != c.rejected {
					t.Errorf("%d values were rejected, and not %d", rejected, c.rejected)
				}
				got := sumsIn(t, db, "c")
				if !maps.Equal(got, c.want) {
					t.Errorf("it holds %v, and not %v", got, c.want)
				}
				wrongGroups(t, target)
			})
		})
	}
}

// Two replicators, each with several lanes, move the same cells between few groups.
func TestCounterIsExactUnderConcurrentReplays(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT UNSIGNED NOT NULL)")
		const cells, versions, lanes = 40, 12, 3
		history := make([][]replicator.Op, versions)
		want := map[string]string{}
		for v := range history {
			total := map[string]int64{}
			for n := range cells {
				city, amount := fmt.Sprint("city", rand.IntN(5)), int64(rand.IntN(4))
				history[v] = append(history[v], amountOp(n, int64(v+1), city, amount))
				total[city] += amount
			}
			clear(want)
			for city, n := range total {
				if n != 0 {
					want[city] = fmt.Sprint(n)
				}
			}
		}
		var wg sync.WaitGroup
		for range 2 {
			sink := newSink(t, dsn)
			target := openTarget(t, sink, counter("c"))
			for lane := range lanes {
				wg.Go(func() {
					for _, ops := range history {
						var mine []replicator.Op
						for n, op := range ops {
							if n%lanes == lane {
								mine = append(mine, op)
							}
						}
						for {
							_, err := target.Apply(t.Context(), mine)
							if err == nil {
								break
							}
							if replicator.IsFatal(err) || t.Context().Err() != nil {
								t.Error(err)
								return
							}
							t.Log(err) // a batch whose session failed is applied again
						}
					}
				})
			}
		}
		wg.Wait()
		expectSums(t, db, "c", want)
	})
}

func TestCounterBeginsWithAnEmptyTable(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)",
			"INSERT INTO c VALUES ('Rome', 9)")
		sink := newSink(t, dsn)
		first := openTarget(t, sink, counter("c"))
		expectSums(t, db, "c", map[string]string{})
		applyAll(t, first, amountOp(1, 1, "Kyiv", int64(5)))
		again := openTarget(t, sink, counter("c"))
		applyAll(t, again, amountOp(2, 1, "Kyiv", int64(5)))
		expectSums(t, db, "c", map[string]string{"Kyiv": "10"})

		// Another source's cells add to the same table.
		other, err := sink.Open(t.Context(), "other", []*replicator.View{counter("c")})
		if err != nil {
			t.Fatal(err)
		}
		applyAll(t, other, amountOp(1, 1, "Kyiv", int64(1)))
		expectSums(t, db, "c", map[string]string{"Kyiv": "11"})

		if err := sink.Forget(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		anew := openTarget(t, sink, counter("c"))
		for _, old := range []replicator.Target{first, again, other} {
			if _, err := old.Apply(t.Context(), []replicator.Op{amountOp(3, 1, "Kyiv", int64(100))}); err == nil ||
				replicator.IsFatal(err) {
				t.Errorf("a target of a registration that was forgotten applies: %v", err)
			}
		}
		applyAll(t, anew, amountOp(1, 1, "Kyiv", int64(5)))
		other, err = sink.Open(t.Context(), "other", []*replicator.View{counter("c")})
		if err != nil {
			t.Fatal(err)
		}
		applyAll(t, other, amountOp(1, 1, "Kyiv", int64(1)))
		applyAll(t, anew, amountOp(2, 1, "Kyiv", int64(5)))
		expectSums(t, db, "c", map[string]string{"Kyiv": "11"})

		exec(t, db, "DROP TABLE replicator_state")
		anew = openTarget(t, sink, counter("c"))
		expectSums(t, db, "c", map[string]string{})
		applyAll(t, anew, amountOp(1, 1, "Kyiv", int64(5)))
		expectSums(t, db, "c", map[string]string{"Kyiv": "5"})
	})
}

// A counter's sums don't show which source they come from. So a source whose table changed makes the counter start over
// for all sources. A source that has not contributed yet joins, whatever its table.
func TestASourceWhoseTableChangedBeginsACounterAnewForAll(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT NOT NULL)")
		sink := newSink(t, dsn)
		open := func(source, tables string) replicator.Target {
			t.Helper()
			v := counter("c")
			v.Fingerprint += tables
			target, err := sink.Open(t.Context(), source, []*replicator.View{v})
			if err != nil {
				t.Fatal(err)
			}
			return target
		}
		applyAll(t, open("a", ".x"), amountOp(1, 1, "Kyiv", int64(5)))
		b := open("b", ".y")
		applyAll(t, b, amountOp(1, 1, "Kyiv", int64(1)))
		applyAll(t, open("a", ".x"), amountOp(2, 1, "Oslo", int64(3)))
		expectSums(t, db, "c", map[string]string{"Kyiv": "6", "Oslo": "3"})

		a := open("a", ".z")
		expectSums(t, db, "c", map[string]string{})
		if _, err := b.Apply(t.Context(), []replicator.Op{amountOp(3, 1, "Kyiv", int64(100))}); err == nil ||
			replicator.IsFatal(err) {
			t.Errorf("the other source goes on applying: %v", err)
		}
		applyAll(t, open("b", ".y"), amountOp(1, 1, "Kyiv", int64(1)))
		applyAll(t, a, amountOp(1, 1, "Kyiv", int64(5)))
		expectSums(t, db, "c", map[string]string{"Kyiv": "6"})
	})
}

func TestCounterThatWasChangedByHandIsFound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) PRIMARY KEY, amount INT UNSIGNED NOT NULL)")
		sink := newSink(t, dsn)
		target := openTarget(t, sink, counter("c"))
		ops := []replicator.Op{amountOp(1, 1, "Kyiv", int64(5)), amountOp(2, 1, "Lviv", int64(3)), amountOp(3, 1, "", nil)}
		applyAll(t, target, ops...)
		if d, err := target.Compare(t.Context(), ops); err != nil || len(d) > 0 {
			t.Fatal(d, err)
		}
		cells, next, err := target.Held(t.Context(), 0, "", 100)
		if err != nil || len(cells) != 2 || next != "" {
			t.Fatal(cells, next, err)
		}
		d, err := target.Compare(t.Context(), []replicator.Op{amountOp(1, 2, "Kyiv", int64(6)), amountOp(2, 1, "", nil),
			amountOp(3, 2, "Kyiv", int64(1))})
		if err != nil || len(d) != 3 || d[0].Kind != replicator.Stale || d[1].Kind != replicator.Extra ||
			d[2].Kind != replicator.Missing {
			t.Fatal(d, err)
		}
		wrongGroups(t, target)
		for _, change := range []string{"UPDATE c SET amount = 2 WHERE city = 'Kyiv'", "DELETE FROM c WHERE city = 'Lviv'",
			"INSERT INTO c VALUES ('Rome', 1)", "INSERT INTO c VALUES ('Oslo', 0)"} {
			exec(t, db, change)
		}
		strays := wrongGroups(t, target, "Kyiv stale", "Lviv missing", "Oslo extra", "Rome extra")
		if n, err := target.(replicator.Tidier).Tidy(t.Context(), 0, strays[1:2]); err != nil || n != 1 {
			t.Errorf("one was mended: %d, %v", n, err)
		}
		strays = wrongGroups(t, target, "Kyiv stale", "Oslo extra", "Rome extra")
		if n, err := target.(replicator.Tidier).Tidy(t.Context(), 0, strays); err != nil || n != 3 {
			t.Errorf("three were mended: %d, %v", n, err)
		}
		wrongGroups(t, target)
		expectSums(t, db, "c", map[string]string{"Kyiv": "5", "Lviv": "3"})
		if n, err := target.(replicator.Tidier).Tidy(t.Context(), 0, strays); err != nil || n != 0 {
			t.Errorf("nothing was to be mended: %d, %v", n, err)
		}
		exec(t, db, "UPDATE c SET amount = 2 WHERE city = 'Kyiv'")
		_, err = target.Apply(t.Context(), []replicator.Op{amountOp(1, 2, "", nil)}) // it subtracts 5 from 2
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "rebuild") {
			t.Errorf("taking back more than there is: %v", err)
		}
	})
}

// A rebuild in place ends with a sweep, which corrects sums that were changed by hand. Writers go on meanwhile.
func TestASweepPutsASumRightThatWasChangedByHand(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, typ := range []string{"INT UNSIGNED NOT NULL", "BIGINT", "DECIMAL(20,2) NOT NULL"} {
			db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) COLLATE utf8mb4_general_ci PRIMARY KEY, amount "+typ+")")
			sink := newSink(t, dsn)
			target := openTarget(t, sink, counter("c"))
			applyAll(t, target, amountOp(1, 1, "Kyiv", int64(5)), amountOp(2, 1, "Lviv", int64(3)),
				amountOp(3, 1, "Odesa", int64(1)), amountOp(4, 1, "Rome", int64(2)))
			sweep := func() {
				t.Helper()
				if cells, next, err := target.(replicator.Tidier).Unclaimed(t.Context(), 0, "", 100); err != nil ||
					len(cells) > 0 || next != "" {
					t.Fatal(cells, next, err)
				}
			}
			done := make(chan struct{})
			var writer sync.WaitGroup
			writer.Go(func() {
				for version := int64(2); ; version++ {
					select {
					case <-done:
						return
					default: // cell 9 contributes nothing in the end, and never to the groups that are changed by hand
						if _, err := target.Apply(t.Context(), []replicator.Op{amountOp(9, version, fmt.Sprint("city", version%3),
							version%4)}); err != nil {
							t.Errorf("version %d: %v", version, err)
							return
						}
					}
				}
			})
			for range 5 {
				for _, change := range []string{"UPDATE c SET amount = 70 WHERE city = 'Kyiv'", "DELETE FROM c WHERE city = 'Lviv'",
					"INSERT INTO c VALUES ('Paris', 9)",
					"DELETE FROM c WHERE city = 'Rome'", "INSERT INTO c VALUES ('ROME', 1)"} {
					exec(t, db, change)
				}
				sweep()
				wrongGroups(t, target)
			}
			close(done)
			writer.Wait()
			applyAll(t, target, amountOp(9, 1<<40, "", nil))
			zeros := ""
			if strings.HasPrefix(typ, "DECIMAL") {
				zeros = ".00"
			}
			expectSums(t, db, "c", map[string]string{"Kyiv": "5" + zeros, "Lviv": "3" + zeros,
				"Odesa": "1" + zeros, "ROME": "2" + zeros})
		}
	})
}

// To the server, 0.1 differs from the FLOAT 0.1, and it shows the FLOAT 0.33333334 as 0.333333. The sink must find such
// groups again.
func TestGroupsOfFloatsAreFoundAgain(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE sums (city FLOAT NOT NULL PRIMARY KEY, amount INT NOT NULL)")
		sink := newSink(t, dsn)
		target := openTarget(t, sink, counter("sums"))
		op := func(n int, version int64, group any, amount int64) replicator.Op {
			op := amountOp(n, version, "x", amount)
			op.Values[0].Entries[0].Fields[0] = group
			return op
		}
		applyAll(t, target, op(1, 1, 0.1, 2), op(2, 1, 0.33333334, 5), op(3, 1, 3.4028235e38, 1))
		wrongGroups(t, target)
		applyAll(t, target, op(1, 2, 0.5, 2), op(2, 2, 0.33333334, 6), op(3, 2, 3.4028235e38, 0))
		wrongGroups(t, target)
		expectSums(t, db, "sums", map[string]string{"0.5": "2", "0.333333": "6"})
		exec(t, db, "UPDATE sums SET amount = 0")
		wrongGroups(t, target, "0.33333334 stale", "0.5 stale")
	})
}
