package canal

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A missing column concerns the views that need it. If the column has a role, it concerns all views of the table. That
// holds when a reader is opened, when a row lacks the column, and when rows are looked up.
func TestAColumnThatIsMissingConcernsTheViewsThatNeedIt(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		var views []*replicator.View
		for _, name := range []string{"a", "b", "c"} {
			views = append(views, &replicator.View{Name: name, From: []replicator.Feed{{Table: "pair"}}})
		}
		views = append(views, &replicator.View{Name: "other", From: []replicator.Feed{{Table: "other"}}})
		for dropped, concerned := range map[string]int{"y": 2, "version": 3} {
			b := newBench(t, s)
			b.exec("CREATE TABLE pair (id INT PRIMARY KEY, version INT, x INT, y INT)")
			src := b.source(replicator.Table{Name: "pair", Key: []string{"id"}, Version: "version",
				Columns: []string{"x", "y"}, Readers: map[string][]string{"x": {"a", "b", "c"}, "y": {"a", "b"}}})
			from := b.latest(src)
			r := b.open(src, from)
			b.exec("ALTER TABLE pair DROP COLUMN "+dropped, "INSERT INTO pair (id, x) VALUES (1, 2)")
			_, opening := src.Open(testContext(t), []replicator.Position{from})
			reading := r.Read(testContext(t), newRecorder())
			_ = r.reread(testContext(t), "pair") // as if the error had been skipped
			_, _, looking := r.Newest(testContext(t), []replicator.Cell{{Table: "pair", Key: "1"}}, 0)
			for where, err := range map[string]error{"opening": opening, "reading": reading, "looking": looking} {
				groups, others := replicator.Troubled(views, err)
				stops := replicator.IsFatal(err) || errors.Is(err, replicator.ErrUnlogged)
				if !stops || len(groups) != 1 || len(groups[0]) != concerned {
					t.Errorf("%s without %s: %v, which concerns %d groups, and not %d views",
						where, dropped, err, len(groups), len(others))
				}
				if dropped == "y" && !strings.Contains(err.Error(), "needed by a, b") {
					t.Errorf("%s says not who needs it: %v", where, err)
				}
			}
		}
	})
}
