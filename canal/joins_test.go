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

// ordersDDL creates orders, which are joined with their customers and lines. Customers are joined with their companies.
var ordersDDL = []string{
	"CREATE TABLE companies (id INT PRIMARY KEY, name VARCHAR(40))",
	"CREATE TABLE customers (id INT PRIMARY KEY, company_id INT, name VARCHAR(40), KEY (company_id))",
	"CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT, status VARCHAR(40), KEY (customer_id))",
	"CREATE TABLE order_lines (order_id INT, line INT, sku VARCHAR(40), PRIMARY KEY (order_id, line))",
	"INSERT INTO companies VALUES (1, 'Ott'), (2, 'Uhl')",
	"INSERT INTO customers VALUES (5, 1, 'ann'), (6, 2, 'bob'), (7, NULL, 'cid')",
	"INSERT INTO orders VALUES (10, 5, 'new'), (11, 6, 'new'), (12, 7, 'paid'), (13, NULL, 'new'), (14, 99, 'new'), (15, 5, 'old')",
	"INSERT INTO order_lines VALUES (10, 2, 'b'), (10, 1, 'a'), (10, 3, 'c'), (11, 1, 'd')",
}

// orderView returns a view with these joins. orderTables returns the tables that a source reads for the view.
func orderView() *replicator.View {
	on := func(column, from, path string) []replicator.JoinOn {
		return []replicator.JoinOn{{Column: column, From: from, Path: path}}
	}
	return &replicator.View{Name: "v", From: []replicator.Feed{{Table: "orders"}}, Joins: []replicator.Join{
		{Name: "company", Table: "companies", On: on("id", "customer", "company_id")},
		{Name: "customer", Table: "customers", On: on("id", "", "customer_id")},
		{Name: "lines", Table: "order_lines", On: on("order_id", "", "id"), Many: true, Order: []string{"line"}},
		{Name: "two", Table: "order_lines", On: on("order_id", "", "id"), Many: true, Limit: 2},
	}}
}

func orderTables() []replicator.Table {
	lookups, _ := orderView().Lookups()
	return []replicator.Table{
		{Name: "orders", Key: []string{"id"}, Columns: []string{"customer_id", "status"}, Lookups: lookups},
		{Name: "customers", Key: []string{"id"}, Columns: []string{"name", "company_id"}},
		{Name: "companies", Key: []string{"id"}, Columns: []string{"name"}},
		{Name: "order_lines", Key: []string{"order_id", "line"}, Columns: []string{"sku", "line"}},
	}
}

// joinedText lists a row's joined rows by join, each with its first column.
func joinedText(row *replicator.Row) string {
	lookups, names := orderView().Lookups()
	var text []string
	for i, l := range lookups {
		var shown []string
		for _, j := range row.Joined[l.ID] {
			shown = append(shown, fmt.Sprint(j.Columns[0]))
		}
		text = append(text, names[i]+"="+strings.Join(shown, ","))
	}
	slices.Sort(text)
	return row.Cell.Key.String() + " " + strings.Join(text, " ")
}

var joinedTexts = []string{
	"10 company=Ott customer=ann lines=a,b,c two=a,b",
	"11 company=Uhl customer=bob lines=d two=d",
	"12 company= customer=cid lines= two=",
	"13 company= customer= lines= two=",
	"14 company= customer= lines= two=",
	"15 company=Ott customer=ann lines= two=",
}

func TestRowsThatAreReadCarryTheRowsTheyAreJoinedWith(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(ordersDDL...)
		src := b.source(orderTables()...)
		r := b.open(src, b.latest(src))
		var cells []replicator.Cell
		var scanned []string
		for after, done := "", false; !done; {
			chunk, err := r.Scan(testContext(t), "orders", nil, after, replicator.ScanLimit{Rows: 4, Bytes: 20_000})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range chunk.Rows {
				cells, scanned = append(cells, row.Cell), append(scanned, joinedText(row))
			}
			after, done = chunk.Next, chunk.Done
		}
		if !slices.Equal(scanned, joinedTexts) {
			t.Errorf("a scan reads\n%s", strings.Join(scanned, "\n"))
		}
		var looked []string
		for len(looked) < len(cells) {
			rows, _, err := r.Newest(testContext(t), cells[len(looked):], 20_000)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				looked = append(looked, joinedText(row))
			}
		}
		if !slices.Equal(looked, joinedTexts) {
			t.Errorf("looks read\n%s", strings.Join(looked, "\n"))
		}
	})
}

func TestChangesOfJoinedRowsReferToTheRowsThatCarryThem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(ordersDDL[:4]...)
		src := b.source(orderTables()...)
		for _, c := range []struct{ change, want string }{
			{"UPDATE customers SET name = 'eve' WHERE id = 5", "10 15"},
			{"UPDATE companies SET name = 'Ott & Co' WHERE id = 1", "10 15"},
			{"UPDATE order_lines SET sku = 'z' WHERE order_id = 11", "11"},
			{"UPDATE order_lines SET order_id = 12 WHERE order_id = 11", "11 12"},
			{"DELETE FROM order_lines WHERE order_id = 10 AND line = 3", "10"},
			{"INSERT INTO order_lines VALUES (13, 1, 'n')", "13"},
			{"INSERT INTO customers VALUES (99, NULL, 'new')", "14"},
			{"UPDATE customers SET company_id = 2 WHERE id = 5", "10 15"},
			{"INSERT INTO customers VALUES (100, 1, 'nobody')", ""},
		} {
			b.exec("DELETE FROM companies", "DELETE FROM customers", "DELETE FROM orders", "DELETE FROM order_lines")
			b.exec(ordersDDL[4:]...)
			x := b.read(b.open(src, b.latest(src)))
			b.exec(c.change)
			x.upTo(b.latest(src))
			var found []string
			for i := range x.references {
				for after, more := "", true; more; more = after != "" {
					cells, next, err := x.reader.Referring(testContext(t), x.references[i:i+1], after, 1)
					if err != nil {
						t.Fatal(err)
					}
					for _, cell := range cells {
						found = append(found, cell.Key.String())
					}
					after = next
				}
			}
			x.end()
			slices.Sort(found)
			if got := strings.Join(slices.Compact(found), " "); got != c.want {
				t.Errorf("%s refers to the orders %q, want %q: %+v", c.change, got, c.want, x.references)
			}
		}
	})
}

func TestCheckDemandsWhatJoinsNeed(t *testing.T) {
	const drop = "ALTER TABLE customers DROP KEY company_id"
	for _, c := range []struct{ name, alter, want, fix string }{
		{"all is there", "DO 0", "", ""},
		{"the way back", "ALTER TABLE orders DROP KEY customer_id", "no index begins with customer_id", "ALTER TABLE %s.`orders` ADD KEY (`customer_id`)"},
		{"the way back of a chain", drop, "no index begins with company_id", "ALTER TABLE %s.`customers` ADD KEY (`company_id`)"},
		{"the way there", "ALTER TABLE companies DROP PRIMARY KEY, ADD KEY (name)", "no index begins with id",
			"ALTER TABLE %s.`companies` ADD KEY (`id`)"},
		{"types", "ALTER TABLE orders MODIFY customer_id VARCHAR(20)",
			"rows of customers are joined by customers.id, which is int, and orders.customer_id, which is varchar(20)", ""},
		{"a float", "ALTER TABLE orders MODIFY customer_id DOUBLE", "these values can't be looked up exactly", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, servertest.Shared(t, servers.MySQL))
			b.exec(ordersDDL...)
			b.exec(c.alter)
			var found []string
			for _, f := range b.source(orderTables()...).Check(testContext(t)) {
				if f.Level == replicator.Fail {
					found = append(found, f.Detail+" → "+f.Fix)
				}
			}
			got := strings.Join(found, "\n")
			if fix := strings.ReplaceAll(c.fix, "%s", "`"+b.database+"`"); c.want == "" && got != "" ||
				!strings.Contains(got, c.want) || !strings.Contains(got, fix) {
				t.Errorf("got %s\nwant %s → %s", got, c.want, fix)
			}
		})
	}
}

// An XA transaction's changes to joined rows are reported only once the transaction is committed.
func TestWhatRefersToRowsOfAnXATransactionIsToldWhenItIsCommitted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := &xaBench{bench: newBench(t, s)}
		b.exec(ordersDDL...)
		src := b.source(orderTables()...)
		var err error
		if b.conn, err = b.db.Conn(testContext(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.conn.Close() })
		x := b.read(b.open(src, b.latest(src)))
		b.prepare(1, "UPDATE customers SET name = 'eve' WHERE id IN (5, 6)")
		x.upTo(b.latest(src))
		if len(x.references) > 0 {
			t.Errorf("told before the commit: %+v", x.references)
		}
		b.end("COMMIT", 1)
		x.upTo(b.latest(src))
		x.end()
		if len(x.references) != 2 {
			t.Errorf("told after the commit: %+v", x.references)
		}
	})
}

// If the two columns of a join can no longer be compared, only the views with that join are affected. Other views read
// the same columns.
func TestColumnsThatDoNotCompareAreOfTheViewsThatJoinByThem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(ordersDDL...)
		tables := orderTables()
		tables[0].Readers = map[string][]string{"customer_id": {"v", "plain"}, "status": {"v", "plain"}}
		tables[0].Joiners = map[string][]string{}
		for _, l := range tables[0].Lookups {
			tables[0].Joiners[l.ID] = []string{"v"}
		}
		src := b.source(tables...)
		x := b.readOn(b.open(src, b.latest(src)))
		b.exec("ALTER TABLE orders MODIFY customer_id VARCHAR(20) CHARACTER SET latin1", "DELETE FROM orders WHERE id = 10")
		views := []*replicator.View{{Name: "plain", From: []replicator.Feed{{Table: "orders"}}}, orderView()}
		ofJoiner := func(when string, err error, fatal bool) {
			t.Helper()
			groups, others := replicator.Troubled(views, err)
			if len(groups) != 1 || groups[0][0].Name != "v" || len(others) != 1 || replicator.IsFatal(err) != fatal {
				t.Errorf("%s: %v is of %v and not of %v", when, err, groups, others)
			}
		}
		ofJoiner("while reading", x.failure(), false)
		_, err := src.Open(testContext(t), []replicator.Position{b.latest(src)})
		ofJoiner("when opened", err, true)
	})
}
