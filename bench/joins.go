package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// shop has the data of the joins stage: customers, their orders, and the orders' items. A view shows each order with
// its customer and the sums of its items. One customer has many orders.
type shop struct {
	*lab
	orders    int
	many      int // how many orders customer 1 has; these orders have the highest ids
	customers int // the number of other customers, each with customerOrders orders
	database  string
	dir       string
}

const (
	customerOrders = 10
	orderItems     = 3
	manyShare      = 3 // one in this many orders is of customer 1
	shopColumns    = 9 // how many columns the view has; none contains NULL
)

// shopDDL creates the source's tables. Writers write growing numbers to the columns n and m, which the view shows.
var shopDDL = []string{
	"CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, n INT NOT NULL DEFAULT -1)",
	"CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT NOT NULL, status VARCHAR(20) NOT NULL, " +
		"n INT NOT NULL DEFAULT -1, m INT NOT NULL DEFAULT -1, KEY (customer_id))",
	"CREATE TABLE items (order_id INT, line INT, sku VARCHAR(20) NOT NULL, qty INT NOT NULL, " +
		"n INT NOT NULL DEFAULT -1, PRIMARY KEY (order_id, line))",
}

// shopView creates a table with the view's columns: one that the program fills, and one that the method `naive` fills
// without the program. Readers poll the last four columns.
const shopView = "CREATE TABLE %s (id INT PRIMARY KEY, status VARCHAR(20), customer VARCHAR(40), lines_ INT, " +
	"qty INT, order_n INT, order_m INT, customer_n INT, item_n INT, KEY (order_n), KEY (order_m), KEY (customer_n), KEY (item_n))"

const shopTargets = `
[tables.orders]
key = "id"
[tables.customers]
key = "id"
[tables.items]
key = ["order_id", "line"]

[views.shown]
from = "orders"
sink = "main"
kind = "row"
[views.shown.fields]
status = "status"
customer = "customer.name"
lines_ = "=len(items)"
qty = "=sum(items, .qty)"
order_n = "n"
order_m = "m"
customer_n = "customer.n"
item_n = "first.n"

[views.shown.join.customer]
table = "customers"
on = { id = "customer_id" }
[views.shown.join.items]
table = "items"
on = { order_id = "id" }
many = true
fields = ["qty"]
[views.shown.join.first]
table = "items"
on = { order_id = "id" }
`

// shopJoin is the view's content as an SQL query.
const shopJoin = `SELECT o.id, o.status, c.name, (SELECT COUNT(*) FROM items i WHERE i.order_id = o.id),
	(SELECT SUM(qty) FROM items i WHERE i.order_id = o.id), o.n, o.m, c.n,
	(SELECT n FROM items i WHERE i.order_id = o.id ORDER BY line LIMIT 1)
	FROM orders o LEFT JOIN customers c ON c.id = o.customer_id `

// joins measures a view with joins: filling it, the latency of a change in each table, and a change that affects a
// third of the orders while other orders change. Then it measures how long a simple program takes to update the same
// third.
func (l *lab) joins(ctx context.Context) error {
	s, err := l.newShop(ctx)
	if err != nil {
		return err
	}
	took, err := l.caughtUp(ctx, s.dir, "filling a view with joins")
	if err != nil {
		return err
	}
	l.add(result{Stage: "joins-fill", Cells: s.orders, What: fmt.Sprintf("the program: %d orders with %d items each and "+
		"their customers", s.orders, orderItems)}, took)
	single := s.orders - s.many
	for _, c := range []struct {
		table, set, column string
		period             int
	}{
		{"orders", "UPDATE orders SET n = %d WHERE id = 1 + %d", "order_n", single},
		{"items", "UPDATE items SET n = %d WHERE order_id = 1 + %d AND line = 1", "item_n", single},
		{"customers", "UPDATE customers SET n = %d WHERE id = 2 + %d", "customer_n", s.customers},
	} {
		what := fmt.Sprintf("a change in %s to visible, %d transactions a second", c.table, l.rate)
		if err := s.latency(ctx, "joins-"+c.table, what, s.live(c.set, c.column, c.period), nil); err != nil {
			return err
		}
	}
	if err := s.fanOut(ctx); err != nil {
		return err
	}
	if err := s.naive(ctx); err != nil {
		return err
	}
	return s.check(ctx)
}

// newShop creates and fills the source's tables, and creates the view's table.
func (l *lab) newShop(ctx context.Context) (*shop, error) {
	defer l.show.begin("writing orders")()
	l.runs++
	s := &shop{lab: l, orders: l.entities, many: l.entities / manyShare, database: fmt.Sprintf("shop%d", l.runs),
		dir: filepath.Join(l.dir, fmt.Sprint(l.runs))}
	s.customers = (s.orders - s.many + customerOrders - 1) / customerOrders
	if err := create(ctx, l.sourceDB, s.database, shopDDL...); err != nil {
		return nil, err
	}
	views := []string{fmt.Sprintf(shopView, "shown"), fmt.Sprintf(shopView, "naive")}
	if err := create(ctx, l.sinkDB, s.database, views...); err != nil {
		return nil, err
	}
	insert := func(table string, n int, row func(i int) string) error {
		return l.insert(ctx, s.database+"."+table, n, row)
	}
	err := errors.Join(
		insert("customers (id, name)", 1+s.customers, func(i int) string {
			return fmt.Sprintf("(%d, 'customer %[1]d')", 1+i)
		}),
		insert("orders (id, customer_id, status)", s.orders, func(i int) string {
			customer := 2 + i/customerOrders
			if i >= s.orders-s.many {
				customer = 1
			}
			return fmt.Sprintf("(%d, %d, 'open')", 1+i, customer)
		}),
		insert("items (order_id, line, sku, qty)", orderItems*s.orders, func(i int) string {
			return fmt.Sprintf("(%d, %d, 'sku %d', %d)", 1+i/orderItems, 1+i%orderItems, i%997, 1+i%5)
		}),
		l.configure(s.dir, s.database, "snapshot", tableSink(l.sink, s.database)+shopTargets))
	return s, err
}

// live returns a writer that writes growing numbers, and a reader of a column of the view. The writer changes one row
// after another. After as many rows as `period` says, it begins again with the first row.
func (s *shop) live(set, column string, period int) *live {
	n := s.rate + s.rate*s.options.seconds
	v := &live{cells: &workload{entities: period}, database: s.database, rate: s.rate, warm: s.rate,
		commits: make([]time.Duration, n)}
	set = strings.Replace(set, "UPDATE ", "UPDATE "+s.database+".", 1)
	v.put = func(ctx context.Context, conn *sql.Conn, n int) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(set, n, n%period))
		return err
	}
	query := fmt.Sprintf("SELECT LPAD(%s, 10, '0') FROM %s.shown WHERE %[1]s >= ? ORDER BY %[1]s", column, s.database)
	v.addReader("mysql", s.polled(v, pollEvery, query))
	return v
}

// latency measures how soon a writer's changes are visible in the view. If `over` is not nil, the program runs on until
// `over` returns.
func (s *shop) latency(ctx context.Context, stage, what string, v *live, over func(ctx context.Context) error) error {
	done := s.show.begin(what)
	took, err := s.measureProgram(ctx, s.dir, []string{"run"}, func(p *program) error {
		if err := v.run(ctx, s.sourceDB, p); err != nil {
			return err
		}
		if over != nil {
			if err := over(ctx); err != nil {
				return err
			}
		}
		return p.Stop()
	})
	done()
	if err != nil {
		return err
	}
	s.add(result{Stage: stage, What: "the program: " + what, Cells: v.total(), Latency: v.latency(v.sights[0])}, took)
	return nil
}

// fanOut renames the customer of many orders while other orders change, and measures both.
func (s *shop) fanOut(ctx context.Context) error {
	v := s.live("UPDATE orders SET m = %d WHERE id = 1 + %d", "order_m", s.orders-s.many)
	began := make(chan time.Time, 1)
	v.ready = func(ctx context.Context) error {
		_, err := s.sourceDB.ExecContext(ctx, "UPDATE "+s.database+".customers SET name = 'renamed' WHERE id = 1")
		began <- time.Now()
		return err
	}
	shown := make(chan usage, 1)
	var watching sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case at := <-began:
			if s.untilRenamed(ctx) == nil {
				shown <- usage{wall: time.Since(at)}
			}
		case <-ctx.Done():
		}
	})
	what := fmt.Sprintf("a change of an order to visible while a customer of %d others was renamed, %d transactions a "+
		"second", s.many, s.rate)
	var took usage
	err := s.latency(ctx, "joins-beside", what, v, func(ctx context.Context) error {
		select {
		case took = <-shown:
			return nil
		case <-time.After(10 * time.Minute):
			return errors.New("not every order shows the customer's new name after 10 minutes")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return err
	}
	s.add(result{Stage: "joins-fan-out", What: fmt.Sprintf("the program: one customer of %d orders was renamed", s.many),
		Cells: s.many}, took)
	return nil
}

// untilRenamed waits until all orders of customer 1 show the new name.
func (s *shop) untilRenamed(ctx context.Context) error {
	for {
		var n int
		err := s.sinkDB.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+s.database+".shown WHERE id > ? AND "+
			"customer = 'renamed'", s.orders-s.many).Scan(&n)
		if err != nil || n == s.many {
			return err
		}
		if err := sleepUntil(ctx, time.Now().Add(20*time.Millisecond)); err != nil {
			return err
		}
	}
}

// naive updates all orders of one customer as a simple program would: with a join query and a write for each order. It
// uses as many connections as the program has writers.
func (s *shop) naive(ctx context.Context) error {
	defer s.show.begin("a join query for each order")()
	took, err := s.measure(func() error {
		errs := make([]error, lanes)
		var wg sync.WaitGroup
		for worker := range lanes {
			wg.Go(func() {
				errs[worker] = ranges(worker, lanes, s.many, 1, func(from, _ int) error {
					return s.copy(ctx, s.orders-s.many+1+from)
				})
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	s.add(result{Stage: "joins-naive", What: fmt.Sprintf("a join query and a REPLACE for each of %d orders", s.many),
		Cells: s.many}, took)
	return nil
}

// copy writes an order's row from the result of one join query.
func (s *shop) copy(ctx context.Context, id int) error {
	row, into, args := make([]string, shopColumns), make([]any, shopColumns), make([]any, shopColumns)
	for i := range row {
		into[i] = &row[i]
	}
	if err := s.sourceDB.QueryRowContext(ctx, s.join()+"WHERE o.id = ?", id).Scan(into...); err != nil {
		return err
	}
	for i := range row {
		args[i] = row[i]
	}
	_, err := s.sinkDB.ExecContext(ctx, "REPLACE INTO "+s.database+".naive VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", args...)
	return err
}

func (s *shop) join() string {
	text := shopJoin
	for _, table := range []string{"items", "orders", "customers"} {
		for _, word := range []string{"FROM ", "JOIN "} {
			text = strings.ReplaceAll(text, word+table, word+s.database+"."+table)
		}
	}
	return text
}

// check compares every row of the view with the result of shopJoin.
func (s *shop) check(ctx context.Context) error {
	defer s.show.begin("checking every row")()
	checked, err := s.sameRows(ctx, shopColumns, s.join()+"ORDER BY o.id",
		"SELECT * FROM "+s.database+".shown ORDER BY id")
	for i := range s.results {
		if strings.HasPrefix(s.results[i].Stage, "joins-") {
			s.results[i].Checked = checked
		}
	}
	return err
}
