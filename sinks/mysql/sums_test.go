package mysql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// The sums of a counter are compared span by span, in bounded memory. Groups that the table treats as equal are still
// added up together.
func TestSumsAreComparedAFewGroupsAtATime(t *testing.T) {
	const groups, most = 150, 40
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) COLLATE utf8mb4_general_ci PRIMARY KEY, amount BIGINT NOT NULL)")
		sink, err := mysql.New(mysql.Config{Name: "main", DSN: dsn, Tables: tables, SumBytes: most * 400})
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Close()
		target := openTarget(t, sink, counter("c"))
		var ops []replicator.Op
		want := map[string]string{}
		for i := range groups {
			city := fmt.Sprintf("city %d", i)
			ops = append(ops, amountOp(2*i, 1, city, int64(i+1)), amountOp(2*i+1, 1, strings.ToUpper(city), int64(1)))
			want[city] = fmt.Sprint(i + 2)
		}
		for some := range slices.Chunk(ops, 500) {
			applyAll(t, target, some...)
		}
		for city, amount := range sumsIn(t, db, "c") { // either variant may have made the row
			if lower := strings.ToLower(city); lower != city {
				delete(want, lower)
			}
			want[city] = amount
		}
		tidier := target.(replicator.Tidier)
		pages := func(mend bool) (found []string) {
			for after, next := "", "more"; next != ""; after = next {
				var strays []replicator.Stray
				if strays, next, err = tidier.Strays(t.Context(), 0, after, 500); err != nil {
					t.Fatal(err)
				}
				if len(strays) > most {
					t.Errorf("%d groups on a page, where there is room for %d", len(strays), most)
				}
				for _, s := range strays {
					found = append(found, strings.ToLower(s.Name)+" "+string(s.Kind))
				}
				if mend {
					if n, err := tidier.Tidy(t.Context(), 0, strays); err != nil || n != len(strays) {
						t.Errorf("of %d groups %d were mended: %v", len(strays), n, err)
					}
				}
			}
			slices.Sort(found)
			return found
		}
		if found := pages(false); len(found) > 0 {
			t.Errorf("nothing is wrong, but %v", found)
		}
		spoil := []string{"UPDATE c SET amount = amount + 1 WHERE city = 'CITY 7'", "DELETE FROM c WHERE city = 'city 100'", "INSERT INTO c VALUES ('nowhere', 5)"}
		for _, change := range spoil {
			exec(t, db, change)
		}
		// If a group's row is gone, only the cells' variants of the group are left.
		if found := pages(true); !slices.Equal(found, []string{"city 100 missing", "city 100 missing", "city 7 stale", "nowhere extra"}) &&
			!slices.Equal(found, []string{"city 100 missing", "city 7 stale", "nowhere extra"}) {
			t.Errorf("found %v", found)
		}
		expectLower(t, sumsIn(t, db, "c"), want)
		for _, change := range append(spoil, "DELETE FROM c WHERE amount % 2 = 0") {
			exec(t, db, change)
		}
		if _, _, err := target.(replicator.Tidier).Unclaimed(t.Context(), 0, "", 500); err != nil {
			t.Fatal(err)
		}
		expectLower(t, sumsIn(t, db, "c"), want)
		if found := pages(false); len(found) > 0 {
			t.Errorf("all was mended, but %v", found)
		}
	})
}

// expectLower compares sums, whatever the case of their groups.
func expectLower(t *testing.T, got, want map[string]string) {
	t.Helper()
	lower := map[string]string{}
	for city, amount := range got {
		lower[strings.ToLower(city)] = amount
	}
	for city, amount := range want {
		if lower[strings.ToLower(city)] != amount {
			t.Errorf("%s: %q, and not %s", city, lower[strings.ToLower(city)], amount)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d groups, and not %d", len(got), len(want))
	}
}
