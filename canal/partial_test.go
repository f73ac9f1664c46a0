package canal

import (
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A generated column that the server leaves out of the binlog stops the views that need it, and no others of its table;
// and check says so before, of just the servers that do.
func TestAGeneratedColumnThatIsLeftOutConcernsTheViewsThatNeedIt(t *testing.T) {
	var views []*replicator.View
	for _, name := range []string{"a", "b", "c"} {
		views = append(views, &replicator.View{Name: name, From: []replicator.Feed{{Table: "g"}}})
	}
	views = append(views, &replicator.View{Name: "other", From: []replicator.Feed{{Table: "other"}}})
	id := []string{"id"}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range []struct {
			name      string
			table     replicator.Table
			concerned []string
			warned    []string
		}{
			{"nobody needs one", replicator.Table{Key: id, Columns: []string{"v"},
				Readers: map[string][]string{"v": {"a"}}},
				nil, nil},
			{"some do", replicator.Table{Key: id, Columns: []string{"v", "Twice"},
				Readers: map[string][]string{"v": {"a", "b"}, "Twice": {"b", "c"}}},
				[]string{"b", "c"}, []string{"twice, needed by b, c"}},
			{"one takes what is there", replicator.Table{Key: id, Columns: []string{"v"}, Optional: []string{"twice"},
				Readers: map[string][]string{"v": {"a", "b"}, "twice": {"b"}}}, []string{"b"},
				[]string{"twice, needed by b"}},
			{"one needs all", replicator.Table{Key: id, Columns: []string{"*"},
				Readers: map[string][]string{"*": {"a"}, "v": {"b"}}}, []string{"a"},
				[]string{"twice, needed by a", "thrice, needed by a"}},
			{"it has a role", replicator.Table{Key: id, Version: "thrice", Columns: []string{"v"},
				Readers: map[string][]string{"v": {"a"}}}, []string{"a", "b", "c"},
				[]string{"thrice, which has a role"}},
		} {
			b := newBench(t, s)
			b.exec("CREATE TABLE g (twice INT AS (v * 2) VIRTUAL, id INT PRIMARY KEY, thrice INT AS (v * 3) STORED, "+
				"v INT)",
				"INSERT INTO g (id, v) VALUES (1, 1)")
			c.table.Name = "g"
			src := b.source(c.table)
			r := b.open(src, b.latest(src))
			b.exec("UPDATE g SET v = 2", "DELETE FROM g", "INSERT INTO g (id, v) VALUES (2, 2)")
			var concerned, warned []string
			if s.Kind == servers.MariaDB118 && c.concerned != nil {
				err := r.Read(testContext(t), newRecorder())
				groups, _ := replicator.Troubled(views, err)
				for _, v := range slices.Concat(groups...) {
					concerned = append(concerned, v.Name)
				}
				if !replicator.IsFatal(err) || !slices.Equal(concerned, c.concerned) {
					t.Errorf("%s: %v concerns %v, not %v", c.name, err, concerned, c.concerned)
				}
			} else {
				b.read(r).upTo(b.latest(src))
			}
			for _, f := range src.Check(testContext(t)) {
				if f.Level == replicator.Warn && strings.Contains(f.Detail, "generated") {
					warned = append(warned, f.Detail)
				}
			}
			want := c.warned
			if s.Kind != servers.MariaDB118 {
				want = nil
			}
			if !slices.EqualFunc(warned, want, strings.Contains) {
				t.Errorf("%s: check warns of %q, not %q", c.name, warned, want)
			}
		}
	})
}
