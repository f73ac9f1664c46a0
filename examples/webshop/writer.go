package webshop

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// Writer makes the changes that a shop makes. Orders come, change and go, customers move to other cities and companies,
// items move between orders, and companies are renamed and closed.
type Writer struct {
	db   *sql.DB
	rand *rand.Rand

	written atomic.Int64
}

// The approximate number of rows in each table.
const (
	companies = 6
	customers = 25
	products  = 12
	orders    = 60
	staff     = 15
)

// Hot is the id of one order, of its customer, and of the customer's company. These three rows change often, but the
// order never gets a different customer or company.
const Hot = 1

// NewWriter returns a writer. Two writers of one database need different seeds.
func NewWriter(db *sql.DB, seed uint64) *Writer {
	return &Writer{db: db, rand: rand.New(rand.NewPCG(seed, 0))}
}

// Begin inserts the first rows into the tables.
func Begin(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{
		"INSERT INTO companies (id, name) VALUES (1, 'company 1')",
		"INSERT INTO customers (id, company_id, name, city) VALUES (1, 1, 'customer 1', 'Graz')",
		"INSERT INTO orders (id, customer_id, status) VALUES (1, 1, 'open')",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Written returns how many statements were committed. It may be called while the writer works.
func (w *Writer) Written() int64 { return w.written.Load() }

// Step commits one transaction. After an error, the transaction is either complete or not in the database at all.
func (w *Writer) Step(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	n := 1 + w.rand.IntN(4)
	for range n {
		if _, err := tx.ExecContext(ctx, w.change()); err != nil {
			return err
		}
	}
	if w.rand.IntN(40) == 0 {
		return nil // the shop changes its mind: roll back
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.written.Add(int64(n))
	return nil
}

// some returns a random id for a table of n rows. It never returns 1, the id of the rows that change most often.
func (w *Writer) some(n int) int { return 2 + w.rand.IntN(n) }

// maybe returns a random id for a table of n rows, the id of a row that does not exist, or NULL.
func (w *Writer) maybe(n int) string {
	if w.rand.IntN(8) == 0 {
		return "NULL"
	}
	return fmt.Sprint(w.some(n + 2))
}

var (
	statuses = []string{"open", "paid", "sent"}
	cities   = []string{"'Graz'", "'Linz'", "'Wels'", "NULL"}
)

func (w *Writer) change() string {
	order, customer, company, product := w.some(orders), w.some(customers), w.some(companies), w.some(products)
	status, city := statuses[w.rand.IntN(len(statuses))], cities[w.rand.IntN(len(cities))]
	switch w.rand.IntN(21) {
	case 0:
		return fmt.Sprintf("INSERT INTO orders (id, customer_id, status) VALUES (%d, %s, '%s') ON DUPLICATE KEY UPDATE "+
			"customer_id = VALUES(customer_id), rev = rev + 1", order, w.maybe(customers), status)
	case 1:
		return fmt.Sprintf("UPDATE orders SET status = '%s', rev = rev + 1 WHERE id = %d", status, order)
	case 2:
		return fmt.Sprintf("UPDATE orders SET rev = rev + 1 WHERE id = %d", Hot)
	case 3:
		return fmt.Sprintf("UPDATE customers SET rev = rev + 1 WHERE id = %d", Hot)
	case 4:
		return fmt.Sprintf("UPDATE companies SET rev = rev + 1 WHERE id = %d", Hot)
	case 5:
		return fmt.Sprintf("DELETE FROM orders WHERE id = %d", order)
	case 6:
		return fmt.Sprintf("INSERT INTO customers (id, company_id, name, city) VALUES (%d, %s, 'customer %d', %s) "+
			"ON DUPLICATE KEY UPDATE company_id = VALUES(company_id), rev = rev + 1", customer, w.maybe(companies), customer, city)
	case 7:
		return fmt.Sprintf("UPDATE customers SET name = 'name %d', city = %s, rev = rev + 1 WHERE id = %d", w.rand.IntN(1000),
			city, customer)
	case 8:
		return fmt.Sprintf("DELETE FROM customers WHERE id = %d", customer)
	case 9:
		return fmt.Sprintf("REPLACE INTO companies (id, name) VALUES (%d, 'company %d')", company, w.rand.IntN(1000))
	case 10:
		return fmt.Sprintf("UPDATE companies SET name = 'company %d', rev = rev + 1 WHERE id = %d", w.rand.IntN(1000), company)
	case 11:
		return fmt.Sprintf("DELETE FROM companies WHERE id = %d", company)
	case 12, 13:
		return fmt.Sprintf("REPLACE INTO order_items VALUES (%d, %d, %d, 'sku%d', %d, %d.%02d)", order, 1+w.rand.IntN(5), product,
			product, w.rand.IntN(4), w.rand.IntN(100), w.rand.IntN(100))
	case 14:
		return fmt.Sprintf("UPDATE IGNORE order_items SET order_id = %d WHERE order_id = %d AND line_no = %d", w.some(orders),
			order, 1+w.rand.IntN(5))
	case 15:
		return fmt.Sprintf("DELETE FROM order_items WHERE order_id = %d", order)
	case 18:
		return fmt.Sprintf("UPDATE IGNORE orders SET id = %d WHERE id = %d", w.some(orders), order)
	case 19:
		return fmt.Sprintf("UPDATE IGNORE customers SET id = %d WHERE id = %d", w.some(customers), customer)
	case 16:
		return fmt.Sprintf("UPDATE order_items SET price = price + 1 WHERE product_id = %d", product)
	case 17:
		return fmt.Sprintf("REPLACE INTO products VALUES (%d, 'sku%d', 'title %d')", product, product, w.rand.IntN(1000))
	default:
		return fmt.Sprintf("REPLACE INTO staff VALUES (%d, %s, 'name %d')", w.some(staff), w.maybe(staff), w.rand.IntN(1000))
	}
}
