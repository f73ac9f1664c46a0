package canal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Values that the collation of the column role treats as equal are one cell, in the tail, in scans and in looks. The
// cell has the name that a view gives it, or the plainest spelling.
func TestWhatTheSourceTakesForOneColumnIsOneCell(t *testing.T) {
	spellings := []struct{ as, name string }{
		{"pii", "PII"}, {"PII", "PII"}, {"Pii ", "PII"}, {"píí", "PII"},
		{"Base", "base"}, {"BASE", "base"}, {"base ", "base"}, {"bäse", "base"},
		{"other", "other"}, {"", ""}, {" ", ""},
	}
	for _, single := range []bool{false, true} {
		servertest.Each(t, func(t *testing.T, s *servers.Server) {
			b := newBench(t, s)
			unique := "UNIQUE(k, c, v)"
			if single {
				unique = "UNIQUE(k, c)"
			}
			b.exec("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, c VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_general_ci NOT NULL, v INT NOT NULL, "+unique+")",
				"ALTER TABLE x MODIFY c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL")
			src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Column: "c", Version: "v", Values: []string{"PII"}})
			from := b.latest(src)
			want := map[string]int64{}
			for i, sp := range spellings {
				key := 1
				if single {
					key = i
				}
				b.exec(fmt.Sprintf("INSERT INTO x(k, c, v) VALUES (%d, '%s', %d)", key, sp.as, i))
				want[fmt.Sprintf("x.%s %d", sp.name, key)] = int64(i)
			}
			r := b.open(src, from)
			changes := b.read(r).upTo(b.latest(src))
			for i, c := range changes {
				as := c.Row.ColumnAs
				if as == "" {
					as = c.Cell.Column
				}
				if sp := spellings[i]; c.Cell.Column != sp.name || as != sp.as {
					t.Errorf("the tail has %q as %q, spelt %q", sp.as, c.Cell.Column, as)
				}
			}
			got := map[string]int64{}
			var cells []replicator.Cell
			scanned := b.wholeScan(r, "x", nil, replicator.ScanLimit{Rows: 4})
			for cell, v := range scanned.newest() {
				cells = append(cells, cell)
				if !single {
					got[strings.Replace(cell.String(), "x 1", "x. 1", 1)] = v
				}
			}
			if !single && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("scanned %v, want %v", got, want)
			}
			rows, _, err := r.Newest(testContext(t), cells, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, cell := range cells {
				name := strings.Replace(cell.String(), "x ", "x. ", 1)
				if rows[i] == nil || rows[i].Cell != cell || !single && rows[i].Version != want[name] {
					t.Errorf("the newest of %q is %+v", cell, rows[i])
				}
			}
			listed, _, err := r.Cells(testContext(t), "x", []string{"PII"}, "", 100)
			if err != nil || len(listed) == 0 || slices.ContainsFunc(listed,
				func(c replicator.Cell) bool { return c.Column != "PII" }) {
				t.Errorf("cells of PII: %v, %v", listed, err)
			}
		})
	}
}

func TestTwoSpellingsOfOneColumnInViewsAreRefused(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (k INT PRIMARY KEY, c VARCHAR(20) COLLATE utf8mb4_general_ci, d VARCHAR(20) COLLATE utf8mb4_bin)")
		for column, refused := range map[string]bool{"c": true, "d": false} {
			src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Column: column, Values: []string{"a", "pii", "PII"}})
			_, err := src.Open(testContext(t), []replicator.Position{b.latest(src)})
			if (err != nil && strings.Contains(err.Error(), `"x.pii" and "x.PII"`) && replicator.IsFatal(err)) != refused {
				t.Errorf("column %s: %v", column, err)
			}
			failed := slices.ContainsFunc(src.Check(testContext(t)), func(f replicator.Finding) bool {
				return f.Level == replicator.Fail && strings.Contains(f.Detail, `"x.pii" and "x.PII"`)
			})
			if failed != refused {
				t.Errorf("column %s: check refuses it: %t", column, failed)
			}
		}
	})
}
