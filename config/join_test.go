package config_test

import (
	"os"
	"strings"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/sinks"
)

const shop = `
[source]
dsn = "u:p@tcp(127.0.0.1:3306)/app"
[tables.orders]
key = "id"
[tables.customers]
key = "id"
body = "body"
[tables.companies]
key = "id"
[tables.items]
key = ["order_id", "line"]
[tables.cells]
key = "id"
column = "kind"
version = "v"
body = "body"
[sinks.cache]
type = "redis"
url = "redis://127.0.0.1:6379/0"
[views.search]
from = "orders"
sink = "cache"
kind = "hash"
key = "order:{id}"
fields = { status = "status", customer = "customer.name", items = "items" }
[views.search.join.company]
table = "companies"
on = { id = "customer.$company_id" }
[views.search.join.customer]
table = "customers"
on = { id = "customer_id" }
[views.search.join.items]
table = "items"
on = { order_id = "$id", "odd.name" = '"a.b"' }
many = true
fields = ["sku", "qty"]
where = "qty > 0"
order = ["line"]
limit = 100
`

func TestJoinsAreRead(t *testing.T) {
	c := mustRead(t, shop, nil, nil)
	equal(t, "the joins", c.Views[0].Joins, []replicator.Join{
		{Name: "company", Table: "companies", On: []replicator.JoinOn{{Column: "id", From: "customer", Path: "company_id"}}},
		{Name: "customer", Table: "customers", On: []replicator.JoinOn{{Column: "id", Path: "customer_id"}}},
		{Name: "items", Table: "items", On: []replicator.JoinOn{{Column: "order_id", Path: "id"},
			{Column: "odd.name", Path: "a.b"}}, Many: true, Fields: []replicator.Field{{Name: "sku", Path: "sku"},
			{Name: "qty", Path: "qty"}}, Where: "qty > 0", Order: []string{"line"}, Limit: 100},
	})
	c = mustRead(t, strings.Replace(shop, `fields = { status = "status", customer = "customer.name", items = "items" }`,
		`fields = ["status", "customer.$since", "items[].sku", "items"]`, 1), nil, nil)
	equal(t, "fields without names", c.Views[0].Fields, []replicator.Field{{Name: "status", Path: "status"},
		{Name: "since", Path: "customer.$since"}, {Name: "sku", Path: "items[].sku"}, {Name: "items", Path: "items"}})
	equal(t, "the line of a key", c.Line("search", "join.items.where"), strings.Count(shop[:strings.Index(shop, "where =")], "\n")+1)
	equal(t, "the line of a section", c.Line("search", "join.items.nothing"),
		strings.Count(shop[:strings.Index(shop, "[views.search.join.items]")], "\n")+1)
}

func TestWhatIsWrongWithAJoinIsSaid(t *testing.T) {
	for _, test := range []struct{ name, before, after, want string }{
		{"an unknown key", `many = true`, `mnay = true`, `views.search.join.items.mnay: unknown key; did you mean "many"?`},
		{"an unknown table", `table = "items"`, `table = "itmes"`, `there is no [tables.itmes]; did you mean "items"?`},
		{"no table", "table = \"items\"\n", "", `table is missing; say for example table = "customers"`},
		{"no condition", "on = { order_id = \"$id\", \"odd.name\" = '\"a.b\"' }\n", "", `on is missing; say for example on = {`},
		{"an empty condition", `on = { id = "customer_id" }`, `on = {}`, `views.search.join.customer.on: is empty`},
		{"a table with a column", `table = "items"`, `table = "cells"`, `the table cells has a column role (kind)`},
		{"several tables", `from = "orders"`, `from = ["orders", "companies"]`,
			`views.search.from: names several tables. A view with joins can name only one`},
		{"an unknown join", `"customer.$company_id"`, `"customre.$company_id"`,
			`the view has no join "customre"; did you mean "customer"?`},
		{"a property", `"customer.$company_id"`, `"customer.company_id"`,
			`"customer.company_id" is a property in the bodies of the table customers. Joins find rows only by ` +
				`columns of the source. Add a generated column for the property, and refer to it as ` +
				`"customer.$company_id"`},
		{"what is inside a column", `"customer_id"`, `"$meta.customer_id"`, `"$meta.customer_id" is not a column`},
		{"what is inside a joined column", `"customer.$company_id"`, `"customer.$meta.company_id"`, `is not a column`},
		{"an expression", `"customer_id"`, `"=customer_id"`, `is not a column`},
		{"a body", `{ id = "customer_id" }`, `{ body = "customer_id" }`, `"body" is not a column`},
		{"a circle", `"customer_id"`, `"company.id"`, `the joins refer to each other in a circle`},
		{"itself", `"customer_id"`, `"customer.id"`, `the joins refer to each other in a circle`},
		{"fields of one row", "many = true\n", "", `views.search.join.items.fields: belongs to a join with many = true`},
		{"the order of one row", "many = true\n", "", `views.search.join.items.order: belongs to a join with many = true`},
		{"the number of one row", "many = true\n", "", `views.search.join.items.limit: belongs to a join with many = true`},
		{"no rows", `limit = 100`, `limit = -1`, `expected an integer from 1 to 10000, and found -1`},
		{"fields of one name", `["sku", "qty"]`, `["sku", "$sku"]`, `name "sku" occurs twice`},
		{"no name", `join.items]`, `join."a b"]`, `names are made of letters, digits, _ and -`},
		{"Kafka", `dsn = "u:p@tcp(127.0.0.1:3306)/app"`,
			"type = \"kafka\"\nbrokers = [\"127.0.0.1:9092\"]\ntopics = [\"cells\"]\ngroup = \"views\"",
			`Views that are fed from Kafka have no joins`},
	} {
		text := strings.Replace(shop, test.before, test.after, 1)
		if text == shop {
			t.Fatalf("%s changes nothing", test.name)
		}
		_, _, err := config.Read("f.toml", t.TempDir(), text, someServers, sinks.Types(), os.ReadFile)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

func TestWhatAPathOfAJoinedViewLeadsInto(t *testing.T) {
	v := mustRead(t, shop, nil, nil).Views[0]
	v.Joins[2].Fields[0].Path = "article.sku"
	for path, want := range map[string]config.Origin{
		"status":           {Table: "orders", Path: "status"},
		"$customer":        {Table: "orders", Path: "$customer"},
		"=customer.name":   {Table: "orders", Path: "=customer.name"},
		"customer":         {Table: "customers", Join: &v.Joins[1]},
		"customer.a.b":     {Table: "customers", Path: "a.b", Join: &v.Joins[1]},
		"customer.$a":      {Table: "customers", Path: "$a", Join: &v.Joins[1]},
		"items":            {Table: "items", List: true, Join: &v.Joins[2]},
		"items[]":          {Table: "items", List: true, Join: &v.Joins[2]},
		"items[1]":         {Table: "items", Join: &v.Joins[2]},
		"items[].qty":      {Table: "items", Path: "qty", List: true, Join: &v.Joins[2]},
		"items[0].qty":     {Table: "items", Path: "qty", Join: &v.Joins[2]},
		"items[0].sku.x[]": {Table: "items", Path: "article.sku.x[]", Join: &v.Joins[2]},
	} {
		if got := config.OriginsOf(v, path); len(got) != 1 || got[0] != want {
			t.Errorf("%s leads into %+v, not %+v", path, got, want)
		}
	}
}

func TestTheExampleOfThePageOnJoinsIsRead(t *testing.T) {
	page, err := os.ReadFile("../docs/joins.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```toml\n")
	example, _, _ = strings.Cut(example, "```")
	c := mustRead(t, `
[source]
dsn = "u:p@tcp(127.0.0.1:3306)/app"
[tables.orders]
key = "id"
[tables.customers]
key = "id"
[tables.companies]
key = "id"
[tables.order_items]
key = ["order_id", "line_no"]
[sinks.search]
type = "elastic"
addresses = ["http://127.0.0.1:9200"]
`+example, nil, nil)
	if joins := c.Views[0].Joins; len(joins) != 3 {
		t.Errorf("the joins are %+v", joins)
	}
}
