package webshop

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"replicator/internal/lab"
)

// Sinks are the servers that contain the views.
type Sinks struct {
	MySQL   lab.MySQL // contains the shop's own tables, too
	Redis   lab.Redis
	Elastic lab.Elastic
	Index   string // the index of the orders in Elasticsearch
}

// Verify compares every view with SQL joins of the shop's tables, using the servers' own clients. No other client may
// write while Verify runs.
func Verify(ctx context.Context, s Sinks) (held int, differences []string, err error) {
	want, err := expected(ctx, s.MySQL)
	if err != nil {
		return 0, nil, err
	}
	got, err := s.stored(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, view := range []string{"order_overview", "orders_by_city", "orders_by_sku", "order_cache", "product", "customer",
		"open_orders", "staff", "order_search"} {
		held += len(got[view])
		differences = append(differences, lab.Differences(view, want[view], got[view])...)
	}
	return held, differences, nil
}

// joins is the FROM clause of a query that selects orders with their joined rows.
const joins = " FROM orders o LEFT JOIN customers c ON c.id = o.customer_id LEFT JOIN companies m ON m.id = c.company_id"

// queries select the expected entries of the views. A row is one entry: a key and, unless the view is an index, pairs
// of names and values.
var queries = map[string]string{
	"order_overview": "SELECT o.id, 'status', o.status, 'customer', c.name, 'company', m.name, 'items', COUNT(i.line_no), " +
		"'total', COALESCE(SUM(i.qty * i.price), 0)" + joins + " LEFT JOIN order_items i ON i.order_id = o.id " +
		"GROUP BY o.id, o.status, c.name, m.name",
	"orders_by_city": "SELECT DISTINCT CONCAT(c.city, ' ', o.id)" + joins + " WHERE c.city IS NOT NULL",
	"orders_by_sku":  "SELECT DISTINCT CONCAT(i.sku, ' ', o.id) FROM orders o JOIN order_items i ON i.order_id = o.id",
	"order_cache": "SELECT CONCAT('shop:order:', o.id), 'status', o.status, 'rev', o.rev, 'customer', c.name, " +
		"'customer_rev', c.rev, 'company_rev', m.rev" + joins,
	"product": "SELECT CONCAT('shop:product:', p.id), 'title', p.title, 'sold', COUNT(i.line_no), " +
		"'revenue', COALESCE(SUM(i.qty * i.price), 0) FROM products p LEFT JOIN order_items i ON i.product_id = p.id AND " +
		"i.qty > 0 GROUP BY p.id, p.title",
	"open_orders": "SELECT CONCAT('shop:open:', m.id), 'n', COUNT(*)" + joins + " WHERE o.status = 'open' AND m.id IS NOT NULL " +
		"GROUP BY m.id",
	"staff": "SELECT CONCAT('shop:staff:', s.id), 'name', s.name, 'manager', b.name FROM staff s " +
		"LEFT JOIN staff b ON b.id = s.manager_id",
}

func expected(ctx context.Context, db lab.MySQL) (map[string]lab.Held, error) {
	want := map[string]lab.Held{}
	for view, query := range queries {
		rows, err := db.Rows(ctx, query)
		if err != nil {
			return nil, err
		}
		want[view] = lab.Held{}
		for _, r := range rows {
			if len(r) == 1 {
				want[view][r[0]] = ""
			}
			for i := 1; i < len(r); i += 2 {
				if r[i+1] != "NULL" {
					want[view][r[0]+" "+r[i]] = number(r[i+1])
				}
			}
		}
	}
	items, err := db.Rows(ctx, "SELECT order_id, sku, qty, price FROM order_items ORDER BY order_id, line_no")
	if err != nil {
		return nil, err
	}
	orders, err := db.Rows(ctx, "SELECT o.id, o.status, c.name, m.name, o.customer_id"+joins+" ORDER BY o.id DESC")
	if err != nil {
		return nil, err
	}
	want["order_search"] = documents(orders, items)
	customers, err := db.Rows(ctx, "SELECT id, name FROM customers")
	if err != nil {
		return nil, err
	}
	want["customer"] = lab.Held{}
	for _, c := range customers {
		latest := []any{}
		for _, o := range orders {
			if o[4] == c[0] && len(latest) < 3 {
				latest = append(latest, map[string]any{"id": json.Number(o[0]), "status": o[1]})
			}
		}
		want["customer"]["shop:customer:"+c[0]] = encode(map[string]any{"name": c[1], "latest": latest})
	}
	return want, nil
}

// documents returns the search document that each order should have, by the order's id.
func documents(orders, items [][]string) lab.Held {
	held := lab.Held{}
	for _, o := range orders {
		list, skus := []any{}, []any{}
		for _, i := range items {
			if i[0] == o[0] {
				list = append(list, map[string]any{"sku": i[1], "qty": number(i[2]), "price": number(i[3])})
				skus = append(skus, i[1])
			}
		}
		d := map[string]any{"status": o[1], "items": list, "skus": skus}
		for i, name := range []string{"customer", "company"} {
			if o[2+i] != "NULL" {
				d[name] = o[2+i]
			}
		}
		held[o[0]] = encode(d)
	}
	return held
}

// number formats a number in the same way for all servers. It returns other texts unchanged.
func number(text string) string {
	if n, ok := new(big.Rat).SetString(text); ok {
		return n.RatString()
	}
	return text
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s Sinks) stored(ctx context.Context) (map[string]lab.Held, error) {
	got := map[string]lab.Held{}
	for view, query := range map[string]string{
		"order_overview": "SELECT id, 'status', status, 'customer', customer, 'company', company, 'items', items, 'total', total " +
			"FROM order_overview",
		"orders_by_city": "SELECT CONCAT(city, ' ', order_id) FROM orders_by_city",
		"orders_by_sku":  "SELECT CONCAT(sku, ' ', order_id) FROM orders_by_sku",
	} {
		rows, err := s.MySQL.Rows(ctx, query)
		if err != nil {
			return nil, err
		}
		got[view] = lab.Held{}
		for _, r := range rows {
			if len(r) == 1 {
				got[view][r[0]] = ""
			}
			for i := 1; i < len(r); i += 2 {
				if r[i+1] != "NULL" {
					got[view][r[0]+" "+r[i]] = number(r[i+1])
				}
			}
		}
	}
	if err := s.fromRedis(ctx, got); err != nil {
		return nil, err
	}
	found, err := s.Elastic.Documents(ctx, s.Index)
	if err != nil {
		return nil, err
	}
	got["order_search"] = lab.Held{}
	for id, d := range found {
		items, _ := d["items"].([]any)
		for _, i := range items {
			item, _ := i.(map[string]any)
			item["qty"], item["price"] = number(fmt.Sprint(item["qty"])), number(fmt.Sprint(item["price"]))
		}
		got["order_search"][id] = encode(d)
	}
	return got, nil
}

func (s Sinks) fromRedis(ctx context.Context, got map[string]lab.Held) error {
	for view, pattern := range map[string]string{
		"order_cache": "shop:order:*", "product": "shop:product:*", "staff": "shop:staff:*",
	} {
		hashes, err := s.Redis.Hashes(ctx, pattern)
		if err != nil {
			return err
		}
		got[view] = lab.Held{}
		for at, v := range hashes {
			got[view][at] = number(v)
		}
	}
	counts, err := s.Redis.Strings(ctx, "shop:open:*")
	if err != nil {
		return err
	}
	got["open_orders"] = lab.Held{}
	for key, n := range counts {
		got["open_orders"][key+" n"] = n
	}
	customers, err := s.Redis.Strings(ctx, "shop:customer:*")
	got["customer"] = lab.Held{}
	for key, text := range customers {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var v any
		if err := decoder.Decode(&v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		got["customer"][key] = encode(v)
	}
	return err
}
