package survey_test

import (
	"fmt"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/survey"
)

func TestJoinsAreProposedFromForeignKeys(t *testing.T) {
	companies := table("companies", "id", "id int AUTO", "name varchar(64)")
	orders := table("orders", "id", "id int AUTO", "customer_id int", "company int", "status varchar(20)", "password varchar(20)")
	items := table("order items", "order_id,line", "order_id int", "line int", "sku varchar(20)", "qty int")
	empty := table("empty", "id", "id int", "order_id int", "x int")
	customers := table("customers", "id", "id int AUTO", "email varchar(64)", "referrer_id int NULL", "token varchar(9)")
	orders.Foreign = []survey.ForeignKey{{Columns: []string{"customer_id"}, Table: "customers", Refers: []string{"id"}},
		{Columns: []string{"company"}, Table: "companies", Refers: []string{"id"}},
		{Columns: []string{"status"}, Table: "gone", Refers: []string{"id"}}}
	customers.Foreign = []survey.ForeignKey{{Columns: []string{"referrer_id"}, Table: "customers", Refers: []string{"id"}}}
	items.Foreign = []survey.ForeignKey{{Columns: []string{"order_id"}, Table: "orders", Refers: []string{"id"}}}
	empty.Foreign = items.Foreign
	for _, t := range []*survey.Table{&companies, &orders, &items, &customers} {
		add(t, t.Columns[0].Name, []string{"1"})
	}
	text := written(t, companies, orders, items, empty, customers)
	for _, want := range []string{`
#[views.orders_joined]
#from = "orders"
#sink = "search"
#kind = "document"
#index = "orders_joined"
#fields = { customer_id = "customer_id", company = "company", status = "status", customer_email = "customer.email", ` +
		`company__name = "company_.name", order_items = "order_items" }

#[views.orders_joined.join.customer]
#table = "customers"
#on = { id = "customer_id" }

#[views.orders_joined.join.company_]
#table = "companies"
#on = { id = "company" }

#[views.orders_joined.join.order_items]
#table = "order_items"
#on = { order_id = "id" }
#many = true
#fields = ["sku", "qty"]
`, `
#fields = { email = "email", referrer_id = "referrer_id", referrer_email = "referrer.email", orders = "orders" }

#[views.customers_joined.join.referrer]
#table = "customers"
#on = { id = "referrer_id" }
`} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	if strings.Contains(text, "companies_joined") || t.Failed() {
		t.Errorf("it is\n%s", text)
	}
}

func TestForeignKeysAreReadAsTheServerHasThem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		s := newSource(t, server)
		s.exec("CREATE TABLE a (x INT NOT NULL, y INT NOT NULL, PRIMARY KEY (x, y))",
			"CREATE TABLE b (id INT PRIMARY KEY, `a y` INT, ax INT, other INT, FOREIGN KEY (ax, `a y`) REFERENCES a (x, y), "+
				"FOREIGN KEY (other) REFERENCES b (id))",
			"INSERT INTO a VALUES (1, 2)", "INSERT INTO b VALUES (1, 2, 1, 1)")
		tables := s.read().Tables
		if got := fmt.Sprintf("%q %q", tables[0].Foreign, tables[1].Foreign); got !=
			`[] [{["ax" "a y"] "a" ["x" "y"]} {["other"] "b" ["id"]}]` {
			t.Errorf("foreign keys: %s", got)
		}
	})
}
