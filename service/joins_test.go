package service

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/sinks"
)

// joinedConfig has three views of orders. Two join the same customers, one of these also joins items, and one has no
// join.
const joinedConfig = `
[source]
dsn = "u:p@tcp(127.0.0.1:3306)/app"
[tables.orders]
key = "id"
[tables.customers]
key = "id"
[tables.items]
key = "id"
[tables.others]
key = "id"
[sinks.cache]
type = "redis"
url = "redis://127.0.0.1:6379/0"
[views.a]
from = "orders"
sink = "cache"
kind = "hash"
key = "a:{id}"
fields = { name = "customer.name", items = "items" }
[views.a.join.items]
table = "items"
on = { order_id = "id" }
many = true
fields = ["sku"]
order = ["line"]
[views.a.join.customer]
table = "customers"
on = { id = "customer_id" }
[views.b]
from = "orders"
sink = "cache"
kind = "hash"
key = "b:{id}"
fields = { city = "buyer.city" }
[views.b.join.buyer]
table = "customers"
on = { id = "customer_id" }
[views.c]
from = "orders"
sink = "cache"
kind = "hash"
key = "c:{id}"
fields = ["status"]
`

func loadJoined(t *testing.T) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "replicator.toml")
	if err := os.WriteFile(file, []byte(joinedConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, os.LookupEnv, sinks.Types())
	if err != nil {
		t.Fatal(err)
	}
	if err := Define(cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTablesOfJoinsAreReadWithWhatJoinsNeed(t *testing.T) {
	cfg := loadJoined(t)
	tables, err := tablesOf(cfg, cfg.Source.Shards[0], cfg.Views)
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 3 {
		t.Fatalf("%d tables are read", len(tables))
	}
	for i, want := range [][]string{{"customer_id", "status"}, {"city", "name"}, {"line", "order_id", "sku"}} {
		if !slices.Equal(tables[i].Columns, want) {
			t.Errorf("of %s %v is read, not %v", tables[i].Name, tables[i].Columns, want)
		}
	}
	if readers := tables[1].Readers; !slices.Equal(readers["name"], []string{"a"}) || !slices.Equal(readers["city"], []string{"b"}) {
		t.Errorf("the columns of customers are for %v", readers)
	}
	if readers := tables[0].Readers["customer_id"]; !slices.Equal(readers, []string{"a", "b"}) {
		t.Errorf("the orders' customers are for %v", readers)
	}
	var found []string
	for _, l := range tables[0].Lookups {
		if joiners := tables[0].Joiners[l.ID]; l.Table == "customers" && !slices.Equal(joiners, []string{"a", "b"}) {
			t.Errorf("the orders' customers are joined by %v", joiners)
		}
		found = append(found, l.Table)
	}
	if !slices.Equal(found, []string{"items", "customers"}) || tables[1].Lookups != nil || tables[2].Lookups != nil {
		t.Errorf("orders carry rows of %v", found)
	}
	if err := readBy(&tables[0], tables, []*replicator.View{cfg.View("c")}); err != nil || tables[0].Lookups != nil ||
		!slices.Equal(tables[0].Columns, []string{"status"}) {
		t.Errorf("a view without joins reads %v, with the lookups %v, %v", tables[0].Columns, tables[0].Lookups, err)
	}
}
