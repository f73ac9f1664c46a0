package main

import (
	"bytes"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// On a terminal init asks where views shall be kept, and of which tables; what is not understood is asked again.
func TestInitAsksForWhatIsNotSaid(t *testing.T) {
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(64), status ENUM('new', 'paid') NOT NULL)",
		"CREATE TABLE other (id INT PRIMARY KEY, name VARCHAR(9))",
		"INSERT INTO orders VALUES (1, 'ada', 'new')", "INSERT INTO other VALUES (1, 'x')")
	for _, c := range []struct {
		name, answers string
		sinks         []string
		has, lacks    string
	}{
		{"all by default", "\n\n", nil, "[views.index_orders_customer]", "[sinks.cache]"},
		{"nobody answers", "", nil, "[tables.other]", "[sinks.cache]"},
		{"a Redis and one table", "redis://127.0.0.1:6379/0\norders\n", nil,
			"\n[views.orders_count_by_status]", "[tables.other]"},
		{"mistakes", "nowhere\n\nredis://127.0.0.1:6379/0\nordres\n\norders\n", nil,
			"\n[views.orders_hash]", "[tables.other]"},
		{"what was said is not asked", "orders\n", []string{"http://127.0.0.1:9200"},
			"\n[views.orders_search]", "[tables.other]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, terminal bytes.Buffer
			i := initialization{source: l.dsn(l.server.Addr(), l.database), sinks: c.sinks,
				ask: asking(strings.NewReader(c.answers), &terminal)}
			if err := i.run(t.Context(), &out, &terminal); err != nil {
				t.Fatalf("%v\n%s", err, terminal.String())
			}
			if text := out.String(); !strings.Contains(text, c.has) || strings.Contains(text, "\n"+c.lacks) {
				t.Errorf("no %q, or %q:\n%s", c.has, c.lacks, text)
			}
			if c.name == "mistakes" && (!strings.Contains(terminal.String(), "it is a Redis URL") ||
				!strings.Contains(terminal.String(), "no table ordres")) {
				t.Errorf("it says nothing of mistakes:\n%s", terminal.String())
			}
		})
	}
}
