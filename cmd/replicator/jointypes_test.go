package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const joinedViews = `
[source]
dsn = "${DSN}"
[tables.orders]
key = "id"
[tables.customers]
key = "id"
body = "body"
[tables.items]
key = ["order_id", "line"]
` + mainSink + `
[views.found]
from = "orders"
sink = "main"
kind = "row"
fields = { status = "status", rank = "customer.$rank", name = "customer.name", skus = "items[].sku", items = "items", first = "items[0].qty", total = "=sum(items, .qty)" }
[views.found.join.customer]
table = "customers"
on = { id = "customer_id" }
[views.found.join.items]
table = "items"
on = { order_id = "id" }
many = true
fields = { sku = "sku", qty = "n" }
[views.sold]
from = "orders"
sink = "main"
kind = "index"
fields = { sku = "items[].sku", name = "customer.name" }
[views.sold.join.customer]
table = "customers"
on = { id = "customer_id" }
[views.sold.join.items]
table = "items"
on = { order_id = "id" }
many = true
`

// The types of joined values come from the joined tables: from their columns, and from samples of their bodies.
func TestTypesOfJoinedValues(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		l.exec("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id INT, status VARCHAR(20), KEY (customer_id))",
			"CREATE TABLE customers (id INT PRIMARY KEY, `rank` SMALLINT, body JSON)",
			"CREATE TABLE items (order_id BIGINT, line INT, sku VARCHAR(33) NOT NULL, n MEDIUMINT, PRIMARY KEY (order_id, line))")
		l.configure(joinedViews)
		if r := l.run("check"); strings.Contains(r.out, "sampled rows") {
			t.Errorf("without any rows check says\n%s%s", r.out, r.errors)
		}
		l.exec("INSERT INTO orders VALUES (7, 3, 'paid')", `INSERT INTO customers VALUES (9, 1, '{"name": "ada"}')`,
			"INSERT INTO items VALUES (5, 1, 'a', 2), (6, 1, 'b', 3)")
		if r := l.run("check"); strings.Contains(r.out, "sampled rows") {
			t.Errorf("with rows check says\n%s%s", r.out, r.errors)
		}
		text := l.must("schema")
		for _, want := range []string{
			"`status` varchar(20) NULL", "`rank` smallint", "`name` VARCHAR(64) NULL", "`skus` JSON NULL", "`items` JSON NULL",
			"`first` mediumint", "`total` BIGINT NULL", "`sku` varchar(33) NOT NULL", "`name` VARCHAR(64) NOT NULL",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("schema lacks %s:\n%s", want, text)
			}
		}
		l.configure(strings.Replace(joinedViews, "customer.name", "customer.nmae", 1))
		if r := l.run("check"); !strings.Contains(r.out, "1 sampled rows has customer.nmae, which field name reads") {
			t.Errorf("of a property that is misspelt check says\n%s%s", r.out, r.errors)
		}
	})
}
