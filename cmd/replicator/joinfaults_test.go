package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// If a joined table is missing, the views that join it fail, and their errors name the table. Other views of the same
// main table continue. Once the table exists, all views become right.
func TestOnlyJoinedViewsNeedTheJoinedTable(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newJoinsLab(t, s)
		l.exec("DROP TABLE customers")
		p := l.running()
		l.failsWith("joined", "customers")
		l.caughtUp("plain")
		l.exec("UPDATE orders SET status = 'sent' WHERE id = 10")
		l.caughtUp("plain")
		l.expect("SELECT status FROM plain WHERE id = 10", "sent")
		if one := l.status("plain"); one.State != "running" {
			t.Errorf("the view without joins: %+v", one)
		}
		l.exec(customersTable, "INSERT INTO customers VALUES (1, 'ann', 'x')")
		l.reaches("joined", "running")
		l.equal()
		l.exec("UPDATE customers SET name = 'una'")
		l.equal()
		p.stop()
	})
}

// DDL and other operations on the joined tables end in equal views, without an operator.
func TestViewsStayEqualWhateverIsDoneToJoinedTables(t *testing.T) {
	t.Parallel()
	swap := func(table string) []string {
		return []string{"CREATE TABLE _new LIKE " + table, "INSERT INTO _new SELECT * FROM " + table,
			"RENAME TABLE " + table + " TO _old, _new TO " + table, "DROP TABLE _old"}
	}
	minimal := []string{"SET SESSION binlog_row_image = MINIMAL"}
	cases := []struct {
		name       string
		statements []string
	}{
		{"a joined table is truncated", []string{"TRUNCATE customers"}},
		{"the table of a list is truncated", []string{"TRUNCATE items"}},
		{"a joined table is swapped as by gh-ost", swap("customers")},
		{"the table of a list is swapped", swap("items")},
		{"the views' own table is swapped", swap("orders")},
		{"a joined table is dropped and made again", []string{"DROP TABLE customers", customersTable}},
		{"a joined table's columns change places", []string{
			"ALTER TABLE customers MODIFY name VARCHAR(20) AFTER city, ADD extra INT FIRST"}},
		{"a column that nobody reads is dropped", []string{"ALTER TABLE customers DROP COLUMN city"}},
		{"a key of a joined row changes", []string{
			"UPDATE customers SET id = 9 WHERE id = 1", "UPDATE customers SET id = 1 WHERE id = 2"}},
		{"rows move from one list to another", []string{
			"UPDATE items SET order_id = 13 WHERE order_id = 10", "DELETE FROM items WHERE order_id = 12"}},
		{"an update whose image is minimal", append(minimal, "UPDATE customers SET name = 'min' WHERE id = 1")},
		{"a minimal image without the joined columns", append(minimal, "UPDATE items SET price = price + 1")},
		{"a move whose image is minimal", append(minimal, "UPDATE orders SET customer_id = 3 WHERE id = 10")},
		{"deletes whose images are minimal", append(minimal,
			"DELETE FROM customers WHERE id = 1", "DELETE FROM items WHERE order_id = 10")},
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newJoinsLab(t, s)
		p := l.running()
		l.equal()
		for _, c := range cases {
			t.Log(c.name)
			l.session(c.statements...)
			l.equal()
			l.exec("INSERT INTO customers (id, name) VALUES (1, 'new') ON DUPLICATE KEY UPDATE name = 'newer'",
				"REPLACE INTO items VALUES (10, 1, 50), (10, 3, 60)", "UPDATE orders SET payer_id = 1")
			l.equal()
			l.must("verify")
			l.refill()
			l.equal()
		}
		p.stop()
	})
}

// refill restores the first rows. The columns may be in another order by then.
func (l *joinsLab) refill() {
	l.t.Helper()
	l.exec("DELETE FROM items", "DELETE FROM orders", "DELETE FROM customers")
	l.exec(firstRows...)
}

// A list is joined by a column that isn't part of the primary key, so a minimal row image lacks the column.
func TestAMinimalImageWithoutTheJoinedColumnEndsInEqualViews(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newJoinsLab(t, s)
		l.exec("DROP TABLE items",
			"CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, order_id INT, price INT NOT NULL, KEY (order_id))",
			"INSERT INTO items (order_id, price) VALUES (10, 5), (10, 6), (11, 7)")
		l.configure(source, strings.Split(program, "[tables.cell]")[0],
			strings.Replace(orderTables, `["order_id", "line"]`, `"id"`, 1), mainSink, plainOrders, joinedOrders)
		p := l.running()
		l.equal()
		for _, statement := range []string{"UPDATE items SET price = price + 1 WHERE order_id = 10",
			"UPDATE items SET order_id = 12 WHERE order_id = 11", "DELETE FROM items WHERE order_id = 10"} {
			l.session("SET SESSION binlog_row_image = MINIMAL", statement)
			l.equal()
		}
		p.stop()
	})
}

// Dropping a column of a joined table stops the views that read it. Once the column is back, they are filled or
// continue.
func TestAColumnOfAJoinedTableIsDroppedAndPutBack(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"name VARCHAR(20) DEFAULT 'back'", "id INT"} {
		name, _, _ := strings.Cut(column, " ")
		t.Run(name, func(t *testing.T) {
			l := newJoinsLab(t, servertest.MySQL(t))
			l.exec("ALTER TABLE customers DROP PRIMARY KEY, ADD n INT AUTO_INCREMENT PRIMARY KEY, ADD UNIQUE KEY (id)")
			p := l.running()
			l.equal()
			l.exec("ALTER TABLE customers DROP COLUMN "+name, "UPDATE customers SET city = 'z'",
				"UPDATE orders SET status = 'late'")
			l.failsWith("joined", "no column "+name)
			l.caughtUp("plain")
			l.expect("SELECT DISTINCT status FROM plain", "late")
			l.exec("ALTER TABLE customers ADD COLUMN " + column)
			if name == "id" {
				l.exec("UPDATE customers SET id = n", "ALTER TABLE customers ADD UNIQUE KEY (id)")
			}
			l.must("rebuild", "joined")
			l.equal()
			p.stop()
		})
	}
}
