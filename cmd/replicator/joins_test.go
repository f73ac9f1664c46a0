package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/service"
)

// joinsLab has tables of orders, customers and items. Some of its views join them, and one doesn't.
type joinsLab struct{ *lab }

const orderTables = `
[tables.orders]
key = "id"
[tables.customers]
key = "id"
[tables.items]
key = ["order_id", "line"]
`

const plainOrders = `
[views.plain]
from = "orders"
sink = "main"
kind = "row"
create = true
fields = ["status"]
types = { status = "VARCHAR(20)" }
`

// joinedOrders is a view with three joins. Two of them join the same table under different names.
const joinedOrders = `
[views.joined]
from = "orders"
sink = "main"
kind = "row"
create = true
types = { status = "VARCHAR(20)", customer = "VARCHAR(20)", payer = "VARCHAR(20)", items = "INT", cost = "INT" }
[views.joined.fields]
status = "status"
customer = "customer.name"
payer = "payer.name"
items = "=len(items)"
cost = "=sum(items, .price)"
[views.joined.join.customer]
table = "customers"
on = { id = "customer_id" }
[views.joined.join.payer]
table = "customers"
on = { id = "payer_id" }
[views.joined.join.items]
table = "items"
on = { order_id = "id" }
many = true
fields = ["price"]
`

const (
	ordersTable = `CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT, payer_id INT, status VARCHAR(20) NOT NULL,
		KEY (customer_id), KEY (payer_id))`
	customersTable = "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20), city VARCHAR(20))"
	itemsTable     = "CREATE TABLE items (order_id INT, line INT, price INT NOT NULL, PRIMARY KEY (order_id, line))"

	shownJoins = "SELECT id, status, customer, payer, items, cost FROM joined ORDER BY id"
	sqlJoins   = `SELECT o.id, o.status, c.name, p.name, (SELECT COUNT(*) FROM items i WHERE i.order_id = o.id),
		(SELECT COALESCE(SUM(price), 0) FROM items i WHERE i.order_id = o.id) FROM orders o
		LEFT JOIN customers c ON c.id = o.customer_id LEFT JOIN customers p ON p.id = o.payer_id ORDER BY o.id`
)

// firstRows are a few rows. One order has no customer, one has another payer, and one has no items.
var firstRows = []string{
	"INSERT INTO customers (id, name) VALUES (1, 'ada'), (2, 'bob'), (3, 'eve')",
	"INSERT INTO orders VALUES (10, 1, 1, 'open'), (11, 2, 1, 'open'), (12, NULL, 3, 'paid'), (13, 1, NULL, 'paid')",
	"INSERT INTO items VALUES (10, 1, 5), (10, 2, 6), (11, 1, 7), (12, 1, 8)",
}

// newJoinsLab returns a lab with the firstRows.
func newJoinsLab(t *testing.T, s *servers.Server) *joinsLab {
	l := &joinsLab{newBareLab(t, s)}
	l.exec(ordersTable, customersTable, itemsTable)
	l.exec(firstRows...)
	l.configure(source, strings.Split(program, "[tables.cell]")[0], orderTables, mainSink, plainOrders, joinedOrders)
	return l
}

// equal waits until the views include everything that was committed. It then compares them with joins in SQL.
func (l *joinsLab) equal() {
	l.t.Helper()
	l.caughtUp()
	l.expectLike(shownJoins, sqlJoins)
	l.expectLike("SELECT id, status FROM plain ORDER BY id", "SELECT id, status FROM orders ORDER BY id")
}

// explain shows the joined rows and the conditions that found them. verify finds manual changes of a view, and a repair
// reverts them.
func TestAJoinedViewIsExplainedVerifiedAndRepaired(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newJoinsLab(t, s)
		p := l.running()
		l.equal()
		l.must("verify")
		text := l.must("explain", "joined", "10")
		for _, want := range []string{"join      customer: customers.id = orders.customer_id = 1\n",
			"customers 1, newest version ",
			`"name":"ada"`, "join      items: items.order_id = orders.id = 10\n", "items 10:2, newest version ", `"price":6`,
			"join      payer: customers.id = orders.payer_id = 1\n", "because   the view is right"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		text = l.must("explain", "joined", "12")
		if !strings.Contains(text, "customers.id = orders.customer_id = NULL\n          no row") {
			t.Error(text)
		}
		all := jsonLines[service.Explanation](t, l.must("explain", "--json", "joined", "10"))
		if len(all) != 1 || len(all[0].Joins) != 3 {
			t.Fatalf("%+v", all)
		}
		for _, j := range all[0].Joins {
			want := map[string]string{"customer": `customers 1 {"name":"ada"}`, "payer": `customers 1 {"name":"ada"}`,
				"items": `items 10:1 {"price":5}`}[j.Join]
			if r := j.Rows[0]; r.Table+" "+r.Key+" "+string(r.Row) != want || j.Found != len(j.Rows) {
				t.Errorf("%+v", j)
			}
		}
		if text := l.must("explain", "plain", "10"); strings.Contains(text, "join ") {
			t.Error(text)
		}

		l.exec("UPDATE joined SET customer = 'eve' WHERE id = 10", "UPDATE joined SET items = 9 WHERE id = 12")
		if text := l.must("explain", "joined", "10"); !strings.Contains(text, "sink      stale") ||
			!strings.Contains(text, `"customer":"eve"`) {
			t.Error(text)
		}
		if r := l.run("verify", "joined"); r.code != exitDiffer || strings.Count(r.out, "stale") != 2 {
			t.Errorf("%+v", r)
		}
		l.must("verify", "--repair", "joined")
		l.equal()
		l.must("verify")
		l.exec("UPDATE customers SET name = 'una' WHERE id = 1")
		l.equal()
		p.stop()
	})
}

// A paused view doesn't change. After a resume, and after both kinds of rebuild while rows of every table change, the
// view is equal to the source.
func TestAJoinedViewIsPausedAndRebuiltUnderWriters(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newJoinsLab(t, s)
		p := l.running()
		l.equal()
		l.must("pause", "joined")
		l.reaches("joined", "paused")
		l.exec("UPDATE customers SET name = 'una' WHERE id = 1", "DELETE FROM items WHERE order_id = 10")
		l.caughtUp("plain")
		l.expect("SELECT customer, items FROM joined WHERE id = 10", "ada 2")
		l.must("resume", "joined")
		l.equal()

		stop := l.writes()
		for _, args := range [][]string{{"joined"}, {"--in-place", "joined"}, {"joined", "plain"}} {
			l.must(append([]string{"rebuild"}, args...)...)
		}
		stop()
		l.equal()
		if letters := l.letters(); len(letters) > 0 {
			t.Errorf("%+v", letters)
		}
		p.stop()
		l.must("verify")
	})
}

// writes starts a writer that changes rows of every table until the returned function is called.
func (l *joinsLab) writes() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			began := time.Now()
			for _, statement := range []string{
				"UPDATE customers SET name = 'n%d' WHERE id = 1 + %[1]d %% 3",
				"REPLACE INTO items VALUES (10 + %d %% 5, %[1]d %% 7, %[1]d)",
				"DELETE FROM items WHERE order_id = 10 + %d %% 4 AND line = %[1]d %% 5",
				"UPDATE orders SET customer_id = 1 + %d %% 4, payer_id = %[1]d %% 3 WHERE id = 10 + %[1]d %% 4",
				"REPLACE INTO orders VALUES (14, %d %% 4, 1, 'new')",
				"DELETE FROM orders WHERE id = 14 AND %d %% 2 = 0",
			} {
				if _, err := l.db.ExecContext(ctx, fmt.Sprintf(statement, n)); err != nil && ctx.Err() == nil {
					l.t.Error(err)
				}
			}
			ease(ctx, 6*n, time.Since(began))
		}
	})
	return func() {
		cancel()
		writer.Wait()
	}
}

// While the entries that use a joined row are re-read, status shows how many were re-read.
func TestStatusShowsAFanOut(t *testing.T) {
	t.Parallel()
	l := newJoinsLab(t, servertest.MySQL(t))
	const orders = 4000
	values := make([]string, 0, orders)
	for n := range orders {
		values = append(values, fmt.Sprintf("(%d, 1, 2, 'many')", 100+n))
	}
	l.exec("INSERT INTO orders VALUES " + strings.Join(values, ","))
	p := l.running()
	l.caughtUp()
	held, err := l.connect(l.server, l.database).Begin() // a transaction in the sink locks an entry of the third page
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec("SELECT id FROM joined WHERE id = 2500 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	l.exec("UPDATE customers SET name = 'new' WHERE id = 1")
	eventually(t, func() error {
		n := l.status("joined").FanOut
		return as(n > 1000, fmt.Sprintf("status says that %d entries were read", n))
	})
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	l.equal()
	if n := l.status("joined").FanOut; n != 0 {
		t.Errorf("status says that %d entries were read, and nothing is under way", n)
	}
	p.stop()
}

// One joined row changes, and thousands of entries use it. The source goes down while they are re-read. Afterwards, the
// re-read continues where it must.
func TestAFanOutSurvivesTheSourceBeingDown(t *testing.T) {
	t.Parallel()
	servertest.FirstKind(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Own(t, kind)
		l := newJoinsLab(t, s)
		sink := servertest.MySQL(t)
		l.sinkOn2(sink, "")
		l.configure(source, strings.Split(program, "[tables.cell]")[0], orderTables,
			strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), plainOrders, joinedOrders)
		const orders = 4000
		values := make([]string, 0, orders)
		for n := range orders {
			values = append(values, fmt.Sprintf("(%d, 1, 2, 'many')", 100+n))
		}
		l.exec("INSERT INTO orders VALUES " + strings.Join(values, ","))
		p := l.running()
		l.caughtUp()
		db := l.connect(sink, l.database+"_s")
		count := func(customer string) (n int) {
			t.Helper()
			if err := db.QueryRow("SELECT COUNT(*) FROM joined WHERE customer = ?", customer).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		l.exec("UPDATE customers SET name = 'new' WHERE id = 1")
		eventually(t, func() error { return as(count("new") > 0, "some orders show the change") })
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		shown := count("new")
		if shown >= orders {
			t.Errorf("the source went down after the fan-out: %d", shown)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.caughtUp()
		if n := count("new"); n != orders+2 || count("ada") != 0 {
			t.Errorf("%d orders show the customer's new name, %d the old one; %d did when the source went down", n,
				count("ada"), shown)
		}
		p.stop()
		l.must("verify")
	})
}
