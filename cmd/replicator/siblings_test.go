package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/pause"
	"replicator/internal/servers/servertest"
)

const siblingViews = `
[tables.people]
key = "id"
[views.person]
from = "people"
sink = "main"
kind = "row"
fields = ["name"]
create = true
[views.by_name]
from = "people"
sink = "main"
kind = "index"
fields = ["name"]
create = true
`

// disagreements counts, in one snapshot, rows without their entry and entries without their row.
const disagreements = `SELECT
	(SELECT COUNT(*) FROM person p WHERE NOT EXISTS (SELECT 1 FROM by_name b WHERE b.id = p.id AND b.name = p.name)),
	(SELECT COUNT(*) FROM by_name b WHERE NOT EXISTS (SELECT 1 FROM person p WHERE p.id = b.id AND p.name = b.name))`

// A change that is missing from the log makes both an index and its row view wrong. One repair must correct both.
func TestARepairKeepsAnIndexAndItsRowTogether(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, siblingViews)
	const many = 1500
	l.session("SET SESSION cte_max_recursion_depth = 10000", fmt.Sprintf("INSERT INTO people WITH RECURSIVE n (id) AS "+
		"(SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < %d) SELECT id, CONCAT('a ', id) FROM n", many))
	l.must("run", "--until-caught-up")
	p := l.running()
	rename := func(how, name string) {
		t.Helper()
		l.session(how, "UPDATE people SET name = CONCAT('"+name+" ', id)")
	}
	named := func(view, name string) string {
		return l.rows("SELECT COUNT(*) FROM " + view + " WHERE name LIKE '" + name + " %'")[0]
	}
	all := fmt.Sprint(many)

	ctx, stop := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	looks := 0
	reader.Go(func() {
		for ctx.Err() == nil {
			got, err := tryRows(ctx, l.db, disagreements)
			if err == nil && got[0] != "0 0" {
				t.Errorf("rows without their entry, and entries without their row: %s", got[0])
				return
			}
			looks++
			if pause.For(ctx, 10*time.Millisecond) != nil { // so that the loop doesn't use the whole server
				return
			}
		}
	})
	for _, name := range []string{"b", "c"} {
		rename("SET SESSION binlog_format = 'STATEMENT'", name)
		eventually(t, func() error {
			rows, entries := named("person", name), named("by_name", name)
			return as(rows == all && entries == all, fmt.Sprintf("%s rows and %s entries of %s", rows, entries, name))
		})
	}
	l.caughtUp() // verify waits only for a short time until a running comparison is done
	rename("SET SESSION sql_log_bin = 0", "d")
	l.must("verify", "by_name", "--repair")
	if rows, entries := named("person", "d"), named("by_name", "d"); rows != all || entries != all {
		t.Errorf("after the repair of the index there are %s rows and %s entries", rows, entries)
	}
	l.must("verify")
	stop()
	reader.Wait()
	t.Logf("%d looks", looks)

	// A repair doesn't write to a paused view.
	l.must("pause", "person")
	l.reaches("person", "paused")
	rename("SET SESSION sql_log_bin = 0", "e")
	if out := l.must("verify", "by_name", "--repair", "--json"); !strings.Contains(out, fmt.Sprintf(`"repaired":%d`, many)) {
		t.Errorf("the repair of the index says %.300s", out)
	}
	if rows, entries := named("person", "d"), named("by_name", "e"); rows != all || entries != all {
		t.Errorf("while the row view is paused, it has %s old rows, and there are %s entries", rows, entries)
	}
	l.must("resume", "person")
	l.reaches("person", "running")
	l.must("verify", "--repair")
	p.stop()

	// Without a process both are repaired, too, because they stopped at the same position.
	rename("SET SESSION sql_log_bin = 0", "f")
	if out := l.must("verify", "person", "--repair", "--json"); !strings.Contains(out, fmt.Sprintf(`"repaired":%d`, many)) {
		t.Errorf("the repair of the row view says %.300s", out)
	}
	l.must("verify")
}
